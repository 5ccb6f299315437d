#include "divergence.h"

#include "held.h"
#include "module.h"

namespace enmf {
inline namespace ENMF_MODULE {

// One orientation of a matrix as Python sees it: it holds its arrays.
template <class T>
class HeldSource {
  public:
    explicit HeldSource(double beta) : beta_(beta) {}

    void dense(nb::handle X) {
        const Array& entries = arrays_.hold(X);
        take(std::make_unique<DenseSource<T>>(entries.template rows<const T>("X")));
    }

    // Rows of a sparse matrix with so many columns; no weights: an empty array.
    void sparse(Index width, nb::handle starts, nb::handle columns, nb::handle values, nb::handle weights,
                bool implied) {
        const Array &begin = arrays_.hold(starts), &index = arrays_.hold(columns), &data = arrays_.hold(values);
        const auto w = arrays_.hold(weights).template line<const T>("weights");
        with_sparse<T>(width, begin, index, data, [&]<class I>(const Starts& where, Index rows, Index blocks,
                                                               const Entries<T, I>& entries) {
            require(w.size == 0 || w.size == entries.count, "weights and values have to be equally long");
            take(std::make_unique<SparseSource<T, I>>(where, rows, width, blocks, entries, w.size ? w.data : nullptr,
                                                      implied));
        });
    }

    void newton(Index start, Index stop, const Array& C, const Array& base, double l1, const Array& l2, const Array& F,
                Index steps, double progress, Index sweeps, double accuracy) const {
        apart({&F}, {&C, &base, &l2});
        const auto f = F.rows<T>("F");
        const auto problem = of(C, base, l1, l2, f.count, f.width);
        inside(start, stop, f.width);
        unlocked([&] { enmf::newton(start, stop, problem, f, {steps, progress, sweeps, accuracy}); });
    }

    void entry_steps(Index start, Index stop, const Array& C, const Array& base, double l1, const Array& l2,
                     const Array& F, Index sweeps, bool damped) const {
        apart({&F}, {&C, &base, &l2});
        const auto f = F.rows<T>("F");
        const auto problem = of(C, base, l1, l2, f.count, f.width);
        inside(start, stop, f.width);
        unlocked([&] { enmf::entry_steps(start, stop, problem, f, sweeps, damped); });
    }

    void terms(Index start, Index stop, const Array& C, const Array& base, const Array& F, const Array& values,
               const Array& up, const Array& down) const {
        apart({&values, &up, &down}, {&C, &base, &F});
        const auto f = F.rows<const T>("F");
        const auto v = values.line<double>("values");
        const auto a = up.rows<T>("up"), b = down.rows<T>("down");
        const auto problem = of(C, base, 0.0, base, f.count, f.width);
        inside(start, stop, f.width);
        require(v.size == f.width || v.size == 0, "values has to have the length of F");
        const bool alike = a.width == f.width && a.count == f.count && b.count == f.count;
        require(a.width == b.width && (a.width == 0 || alike),
                "up and down have to have the shape of F, or no columns");
        unlocked([&] { divergence_terms(start, stop, problem, f, v.size ? v.data : nullptr, a, b); });
    }

    void models(Index start, Index stop, const Array& C, const Array& base, const Array& F, const Array& sums) const {
        apart({&sums}, {&C, &base, &F});
        const auto f = F.rows<const T>("F");
        const auto to = sums.rows<double>("sums");
        const auto problem = of(C, base, 0.0, base, f.count, f.width);
        inside(start, stop, f.width);
        require(to.count == f.width && to.width == model_numbers(f.count), "sums has to have a line for each model");
        unlocked([&] { add_models(start, stop, problem, f, to); });
    }

    // l2 has to be zeros: penalties are not in these sums.
    void slopes(Index start, Index stop, const Array& C, const Array& base, const Array& l2, const Array& F,
                const Array& to, const Array& shares, const Array& sums) const {
        apart({&sums}, {&C, &base, &l2, &F, &to, &shares});
        const auto f = F.rows<const T>("F"), goal = to.rows<const T>("to");
        const auto at = shares.line<const double>("shares");
        const auto found = sums.rows<double>("sums");
        const auto problem = of(C, base, 0.0, l2, f.count, f.width);
        inside(start, stop, f.width);
        require(goal.count == f.count && goal.width == f.width, "to has to have the shape of F");
        require(found.count == f.width && found.width == at.size + 1, "sums has to have a column for each share and one");
        unlocked([&] { add_slopes(start, stop, problem, f, goal, at, found); });
    }

  private:
    DivergenceProblem<T> of(const Array& C, const Array& base, double l1, const Array& l2, Index r, Index n) const {
        require(source_ != nullptr && n == source_->rows, "F has to have a column for each row of the matrix");
        const auto c = C.rows<const T>("C");
        const auto s = base.line<const T>("base"), ridge = l2.line<const T>("l2");
        require(c.count == source_->columns && c.width == r && s.size == r, "C has to be m x r, base r");
        require(&l2 == &base || ridge.size == n, "l2 has to have the length of F");
        return {*source_, c, s.data, static_cast<T>(l1), ridge.data, BetaLoss<T>(beta_, source_->largest)};
    }

    void take(std::unique_ptr<RowSource<T>> source) {
        source_ = std::move(source);
        source_->zeros = beta_ != 1.0;
        if (source_->zeros) source_->longest = std::max(source_->longest, source_->columns);
    }

    const double beta_;
    std::unique_ptr<RowSource<T>> source_;
    HeldArrays arrays_;
};

template <class T>
void bind_source(nb::module_& m, const char* name) {
    using Held = HeldSource<T>;
    nb::class_<Held>(m, name)
        .def(nb::init<double>())
        .def("dense", &Held::dense)
        .def("sparse", &Held::sparse)
        .def("newton", &Held::newton)
        .def("entry_steps", &Held::entry_steps)
        .def("models", &Held::models)
        .def("slopes", &Held::slopes)
        .def("terms", &Held::terms);
}

}  // namespace ENMF_MODULE

void bind_divergence(nb::module_& m) {
    bind_source<double>(m, "Double");
    bind_source<float>(m, "Single");
    m.def("sweep_models", [](Index start, Index stop, const Array& models, double l1, double l2, const Array& F,
                             Index sweeps, double accuracy) {
        apart({&F}, {&models});
        by_real(F, "F", [&]<class T>(Type<T>) {
            const auto f = F.rows<T>("F");
            const auto from = models.rows<const double>("models");
            inside(start, stop, f.width);
            require(from.count == f.width && from.width == model_numbers(f.count),
                    "models has to have a line for each column of F");
            unlocked([&] { sweep_models<T>(start, stop, from, l1, l2, f, sweeps, accuracy); });
        });
    });
}

}  // namespace enmf
