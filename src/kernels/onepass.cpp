#include "onepass.h"

#include "module.h"

namespace enmf {

template void add_inner<float, true>(const Block<float>&, const Block<float>&, const Rows<float>&);
template void add_inner<double, true>(const Block<double>&, const Block<double>&, const Rows<double>&);

// What both half-steps have in common: their arguments after the matrix.
struct HalfStep {
    Index start, stop, height;
    const Array &F, &G;
    SweepOptions how;
    const Array &skip, &old;
    double beta;
    const Array &cross, &gram;

    template <class T, class Source>
    void run(Source&& X, Index columns) const {
        const auto f = F.rows<T>("F");
        const auto g = G.rows<const T>("G");
        const auto left_out = skip.line<const bool>("skip");
        const auto sums = cross.stack<T>("cross"), squares = gram.stack<T>("gram");
        Extrapolation<T> beyond{{nullptr, 0, 0, 0}, static_cast<T>(beta)};
        if (!old.empty()) beyond.old = old.rows<T>("old");
        const Index r = f.count;
        require(f.width == X.count(), "F has to have as many columns as X has rows");
        require(g.count == r && g.width == r, "G has to be r x r");
        require(left_out.size == r, "skip has to have r flags");
        require(old.empty() || (beyond.old.count == r && beyond.old.width == f.width), "old has to have the shape of F");
        require(height > 0 && height % BLOCK_LANES<T> == 0, "the height of a part has to be a multiple of the lanes");
        inside(start, stop, sums.count);
        require(squares.count == sums.count && sums.count * height >= f.width, "there are too few parts");
        require(sums.height == r && sums.width == columns, "cross has to be parts x r x columns");
        require(squares.height == r && squares.width == r, "gram has to be parts x r x r");
        unlocked([&] { half_step<T>(start, stop, X, height, f, g, how, left_out.data, beyond, sums, squares); });
    }
};

void bind_onepass(nb::module_& m) {
    m.def("half_step", [](Index start, Index stop, const Array& X, Index height, const Array& F, const Array& V,
                          double shift, const Array& G, double wall, Index sweeps, double progress, const Array& skip,
                          const Array& old, double beta, const Array& cross, const Array& gram) {
        apart({&F, &old, &cross, &gram}, {&X, &V, &G, &skip});
        by_real(F, "F", [&]<class T>(Type<T>) {
            const auto x = X.rows<const T>("X"), v = V.rows<const T>("V");
            require(v.count == F.extent(0) && v.width == x.width, "V has to be r x m");
            const HalfStep step{start, stop, height, F, G, {wall, sweeps, progress}, skip, old, beta, cross, gram};
            step.run<T>(DenseRows<T>(x, v, static_cast<T>(shift)), x.width);
        });
    });

    m.def("core_step", [](Index start, Index stop, const Array& At, Index height, const Array& F, const Array& M,
                          const Array& G, double wall, Index sweeps, double progress, const Array& skip,
                          const Array& old, double beta, const Array& cross, const Array& gram) {
        apart({&F, &old, &cross, &gram}, {&At, &M, &G, &skip});
        by_real(F, "F", [&]<class T>(Type<T>) {
            const auto a = At.rows<const T>("At"), c = M.rows<const T>("M");
            require(c.count == F.extent(0) && c.width == a.count, "M has to be r x l");
            const HalfStep step{start, stop, height, F, G, {wall, sweeps, progress}, skip, old, beta, cross, gram};
            step.run<T>(LowRankRows<T>(a, c), a.count);
        });
    });

    m.def("add_parts", [](const Array& cross, const Array& gram) {
        apart({&cross, &gram});
        by_real(cross, "cross", [&]<class T>(Type<T>) {
            const auto sums = cross.stack<T>("cross"), squares = gram.stack<T>("gram");
            require(squares.height == squares.width, "gram has to be parts x r x r");
            unlocked([&] { add_parts<T>(sums, squares); });
        });
    });
}

}  // namespace enmf
