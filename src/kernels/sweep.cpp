#include "sweep.h"

#include "module.h"

namespace enmf {

template void sweep_block(const Block<float>&, const Block<float>&, const Components<float>&, const SweepOptions&);
template void sweep_block(const Block<double>&, const Block<double>&, const Components<double>&, const SweepOptions&);

void bind_sweep(nb::module_& m) {
    m.def("sweep", [](Index start, Index stop, const Array& F, const Array& B, const Array& G, double wall, Index sweeps,
                      double progress, const Array& skip) {
        apart({&F}, {&B, &G, &skip});
        by_real(F, "F", [&]<class T>(Type<T>) {
            const auto f = F.rows<T>("F");
            const auto b = B.rows<const T>("B");
            const auto g = G.rows<const T>("G");
            const auto left_out = skip.line<const bool>("skip");
            inside(start, stop, f.width);
            require(b.count == f.count && b.width == f.width, "B has to have the shape of F");
            require(g.count == f.count && g.width == f.count, "G has to be r x r");
            require(left_out.size == f.count, "skip has to have r flags");
            unlocked([&] { sweep<T>(start, stop, f, b, g, {wall, sweeps, progress}, left_out.data); });
        });
    });

    const auto extrapolate = [](Index start, Index stop, const Array& F, const Array& old, double beta, double least) {
        apart({&F, &old});
        by_real(F, "F", [&]<class T>(Type<T>) {
            const auto f = F.rows<T>("F"), before = old.rows<T>("old");
            inside(start, stop, f.width);
            require(before.count == f.count && before.width == f.width, "old has to have the shape of F");
            unlocked([&] { extrapolate_columns<T>(start, stop, f, before, static_cast<T>(beta), static_cast<T>(least)); });
        });
    };
    m.def("extrapolate_columns", extrapolate, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
          nb::arg("least") = 0.0);
}

}  // namespace enmf
