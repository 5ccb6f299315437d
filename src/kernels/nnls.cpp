#include "nnls.h"

#include "module.h"

namespace enmf {

void bind_nnls(nb::module_& m) {
    m.def("nnls", [](Index start, Index stop, const Array& G, const Array& B, const Array& F) {
        apart({&F}, {&G, &B});
        const auto g = G.rows<const double>("G");
        const auto b = B.rows<const double>("B");
        const auto f = F.rows<double>("F");
        inside(start, stop, f.width);
        require(b.count == f.count && b.width == f.width, "B has to have the shape of F");
        require(g.count == f.count && g.width == f.count, "G has to be r x r");
        unlocked([&] { nnls(start, stop, g, b, f); });
    });
}

}  // namespace enmf
