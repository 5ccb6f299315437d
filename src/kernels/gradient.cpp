#include "gradient.h"

#include "module.h"

namespace enmf {

void bind_gradient(nb::module_& m) {
    m.attr("LARGEST_PRODUCT") = LARGEST_PRODUCT;
    m.attr("SUM_PRODUCT") = SUM_PRODUCT;
    m.attr("SMALLEST_GRADIENT") = SMALLEST_GRADIENT;
    m.attr("EXTRAS") = EXTRAS;

    m.def("measure", [](Index start, Index stop, const Array& F, const Array& B, const Array& G, const Array& partial) {
        apart({&partial}, {&F, &B, &G});
        by_real(F, "F", [&]<class T>(Type<T>) {
            const auto f = F.rows<const T>("F"), b = B.rows<const T>("B"), g = G.rows<const T>("G");
            const auto sums = partial.rows<double>("partial");
            inside(start, stop, f.width);
            require(start % BLOCK == 0, "start has to be a multiple of BLOCK");
            require(b.count == f.count && b.width == f.width, "B has to have the shape of F");
            require(g.count == f.count && g.width == f.count, "G has to be r x r");
            require(sums.count == ceil_div(f.width, BLOCK) && sums.width == f.count + EXTRAS,
                    "partial has to have a row for each block, and r + EXTRAS columns");
            unlocked([&] { measure<T>(start, stop, f, b, g, sums); });
        });
    });
}

}  // namespace enmf
