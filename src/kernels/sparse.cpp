#include "sparse.h"

#include "module.h"

namespace enmf {

// Call body(Starts, blocks) after a look at the positions: n + 1 for each block, none beyond the `entries`.
template <class Body>
static void with_starts(const Array& starts, const char* name, bool by_blocks, Index n, Index entries, Body&& body) {
    by_index(starts, name, [&]<class P>(Type<P>) {
        Rows<const P> view{};
        if (by_blocks) {
            view = starts.rows<const P>(name);
        } else {
            const auto line = starts.line<const P>(name);
            view = {line.data, 1, line.size, line.size};
        }
        require(view.width == n + 1, "there has to be one more start than rows");
        for (Index b = 0; b < view.count; ++b)
            require(0 <= view[b][0] && view[b][n] <= entries, "rows begin or end outside the entries");
        body(Starts(view), view.count);
    });
}

// Call body(Entries) for the precision and the index type of a sparse matrix.
template <class Body>
static void with_entries(const Array& indices, const Array& data, Body&& body) {
    require(indices.extent(0) == data.extent(0), "every entry has to have an index");
    by_real(data, "data", [&]<class D>(Type<D>) {
        by_index(indices, "indices", [&]<class I>(Type<I>) {
            const auto values = data.line<const D>("data");
            body(Entries<D, I>{indices.line<const I>("indices").data, values.data, values.size});
        });
    });
}

void bind_sparse(nb::module_& m) {
    m.def("times", [](Index start, Index stop, const Array& starts, const Array& indices, const Array& data,
                      const Array& columns, const Array& out) {
        apart({&out}, {&starts, &indices, &data, &columns});
        by_real(out, "out", [&]<class T>(Type<T>) {
            const auto C = columns.rows<const T>("columns");
            const auto P = out.rows<T>("out");
            inside(start, stop, P.width);
            require(P.count == C.width, "out has to have r rows");
            with_starts(starts, "starts", true, P.width, data.extent(0), [&](const Starts& begin, Index blocks) {
                with_entries(indices, data, [&](const auto& entries) {
                    unlocked([&] { times<T>(start, stop, begin, blocks, entries, C, P); });
                });
            });
        });
    });

    m.def("transpose", [](Index start, Index stop, const Array& indptr, const Array& indices, const Array& data,
                          Index height, const Array& starts, const Array& rows, const Array& values) {
        apart({&starts, &rows, &values}, {&indptr, &indices, &data});
        by_index(indptr, "indptr", [&]<class P>(Type<P>) {
            const auto begin = indptr.line<const P>("indptr");
            const auto at = starts.rows<P>("starts");
            inside(start, stop, at.count);
            require(begin.size > 0 && height > 0 && at.width > 0, "indptr, height and starts must not be empty");
            with_entries(indices, data, [&]<class D, class I>(const Entries<D, I>& entries) {
                const auto row = rows.line<I>("rows");
                const auto value = values.line<D>("values");
                const Index count = data.extent(0);
                require(row.size == count && value.size == count, "rows and values have to have as many entries as data");
                require(0 <= begin[0] && begin[begin.size - 1] <= count, "rows begin or end outside the entries");
                unlocked([&] {
                    transpose<P, I, D>(start, stop, begin, entries.columns, entries.values, height, at, row.data,
                                       value.data);
                });
            });
        });
    });

    m.def("row_squares", [](Index start, Index stop, const Array& indptr, const Array& data, const Array& out) {
        apart({&out}, {&indptr, &data});
        by_real(data, "data", [&]<class D>(Type<D>) {
            const auto values = data.line<const D>("data");
            const auto squares = out.line<double>("out");
            inside(start, stop, squares.size);
            with_starts(indptr, "indptr", false, squares.size, values.size, [&](const Starts& begin, Index) {
                unlocked([&] { row_squares<D>(start, stop, begin, values.data, squares.data); });
            });
        });
    });

    m.def("residual", [](Index start, Index stop, const Array& indptr, const Array& indices, const Array& data,
                         const Array& U, const Array& V, const Array& partial) {
        apart({&partial}, {&indptr, &indices, &data, &U, &V});
        const auto u = U.rows<const double>("U"), v = V.rows<const double>("V");
        const auto sums = partial.line<double>("partial");
        inside(start, stop, sums.size);
        require(u.count == sums.size, "U has to have as many rows as partial has numbers");
        require(u.width == v.width, "U and V have to have the same number of columns");
        with_starts(indptr, "indptr", false, sums.size, data.extent(0), [&](const Starts& begin, Index) {
            with_entries(indices, data, [&](const auto& entries) {
                unlocked([&] { residual(start, stop, begin, entries, u, v, sums.data); });
            });
        });
    });
}

}  // namespace enmf
