#include "masked.h"

#include "module.h"

namespace enmf {

namespace {

// The entries of n rows, of which start..stop are in use.
template <class W, class I>
Entries<W, I> checked_entries(Index start, Index stop, Index n, const Array& indptr, const Array& indices,
                              const Array& weights, const Array& targets, const Array& from_base) {
    const auto columns = indices.line<const I>("indices");
    const auto a = weights.line<const W>("weights"), t = targets.line<const W>("targets");
    const auto based = from_base.line<const bool>("from_base");
    const Offsets offsets(indptr, "indptr");
    inside(start, stop, n);
    require(offsets.rows() == n && based.size == n, "indptr and from_base have to have the length of F");
    require(a.size == columns.size && t.size == columns.size, "weights and targets have to be as many as indices");
    require(offsets.rise(start, stop, columns.size), "indptr has to rise, up to the number of entries");
    return {offsets, columns.data, a.data, t.data, based.data};
}

// body(Type<W>, Type<I>): what weights and indices consist of. Weights have the precision T, or less.
template <class T, class Body>
void by_entries(const Array& weights, const Array& indices, Body&& body) {
    by_index(indices, "indices", [&](auto index) {
        if constexpr (sizeof(T) == 8)
            if (weights.kind() == Kind::float32) return body(Type<float>(), index);
        body(Type<T>(), index);
    });
}

// Call body(problems, F) for the rows start..stop of F.
template <class T, class Body>
void with_problems(Index start, Index stop, const Array& indptr, const Array& indices, const Array& weights,
                   const Array& targets, const Array& from_base, const Array& C, const Array& G0, const Array& B0,
                   const Array& ridge, const Array& F, Body&& body) {
    apart({&F}, {&indptr, &indices, &weights, &targets, &from_base, &C, &G0, &B0, &ridge});
    by_entries<T>(weights, indices, [&]<class W, class I>(Type<W>, Type<I>) {
        const auto f = F.rows<T>("F");
        const auto c = C.rows<const T>("C"), g = G0.rows<const T>("G0"), b = B0.rows<const T>("B0");
        const auto own = ridge.line<const T>("ridge");
        const auto entries =
            checked_entries<W, I>(start, stop, f.width, indptr, indices, weights, targets, from_base);
        require(c.width == f.count, "C has to be m x r");
        require(g.count == f.count && g.width == f.count, "G0 has to be r x r");
        require(b.count == f.count && (b.width == f.width || b.width == 0),
                "B0 has to have the shape of F or no columns");
        require(own.size == f.width, "ridge has to have the length of F");
        for (Index i = start; b.width == 0 && i < stop; ++i) require(!entries.from_base[i], "B0 is missing");
        const RowProblems<T, W, I> problems{entries, c, g, b, own.data};
        unlocked([&] { body(problems, f); });
    });
}

}  // namespace

void bind_masked(nb::module_& m) {
    m.def("sweep", [](Index start, Index stop, const Array& indptr, const Array& indices, const Array& weights,
                      const Array& targets, const Array& from_base, const Array& C, const Array& G0, const Array& B0,
                      const Array& ridge, const Array& F, double wall, Index sweeps, double progress) {
        by_real(F, "F", [&]<class T>(Type<T>) {
            with_problems<T>(start, stop, indptr, indices, weights, targets, from_base, C, G0, B0, ridge, F,
                             [&](const auto& problems, const Rows<T>& f) {
                                 masked_sweep(start, stop, problems, f, {wall, sweeps, progress});
                             });
        });
    });

    m.def("row_steps", [](Index start, Index stop, const Array& indptr, const Array& indices, const Array& weights,
                          const Array& targets, const Array& from_base, const Array& C, const Array& G0,
                          const Array& B0, const Array& ridge, const Array& F, Index steps, double epsilon) {
        by_real(F, "F", [&]<class T>(Type<T>) {
            with_problems<T>(start, stop, indptr, indices, weights, targets, from_base, C, G0, B0, ridge, F,
                             [&](const auto& problems, const Rows<T>& f) {
                                 masked_row_steps(start, stop, problems, f, steps, epsilon);
                             });
        });
    });

    m.def("solve", [](Index start, Index stop, const Array& indptr, const Array& indices, const Array& weights,
                      const Array& targets, const Array& from_base, const Array& C, const Array& G0, const Array& B0,
                      const Array& ridge, const Array& F) {
        with_problems<double>(start, stop, indptr, indices, weights, targets, from_base, C, G0, B0, ridge, F,
                              [&](const auto& problems, const Rows<double>& f) {
                                  masked_solve(start, stop, problems, f);
                              });
    });

    m.def("residual_times", [](Index start, Index stop, const Array& indptr, const Array& indices,
                               const Array& weights, const Array& targets, const Array& from_base, const Array& F,
                               const Array& C, const Array& D, const Array& out, const Array& errors) {
        apart({&out, &errors}, {&indptr, &indices, &weights, &targets, &from_base, &F, &C, &D});
        by_real(F, "F", [&]<class T>(Type<T>) {
            by_entries<T>(weights, indices, [&]<class W, class I>(Type<W>, Type<I>) {
                const auto f = F.rows<const T>("F"), c = C.rows<const T>("C"), d = D.rows<const T>("D");
                const auto product = out.rows<T>("out");
                const auto squares = errors.line<double>("errors");
                const auto entries =
                    checked_entries<W, I>(start, stop, f.count, indptr, indices, weights, targets, from_base);
                require(c.width == f.width && d.width == f.width && d.count == c.count, "C and D have to be m x r");
                require(product.count == f.width && product.width == f.count, "out has to be r x n");
                require(squares.size == f.count, "errors has to have the length of F");
                unlocked([&] { residual_times<T>(start, stop, entries, f, c, d, product, squares.data); });
            });
        });
    });

    m.def("pair_products", [](Index start, Index stop, const Array& rows, const Array& columns, const Array& U,
                              const Array& V, const Array& out) {
        apart({&out}, {&rows, &columns, &U, &V});
        by_real(U, "U", [&]<class T>(Type<T>) {
            by_index(rows, "rows", [&]<class I>(Type<I>) {
                const auto u = U.rows<const T>("U"), v = V.rows<const T>("V");
                const auto i = rows.line<const I>("rows"), j = columns.line<const I>("columns");
                const auto products = out.line<T>("out");
                inside(start, stop, products.size);
                require(i.size == products.size && j.size == products.size,
                        "rows and columns have to be as many as out");
                require(u.width == v.width, "U and V have to have the same number of columns");
                unlocked([&] { pair_products<T>(start, stop, i.data, j.data, u, v, products.data); });
            });
        });
    });
}

}  // namespace enmf
