#include "rowstep.h"

#include "module.h"

namespace enmf {

void bind_rowstep(nb::module_& m) {
    m.def("row_steps", [](Index start, Index stop, const Array& F, const Array& B, const Array& G, double fixed_step,
                          Index max_steps, double epsilon, bool literal) {
        apart({&F}, {&B, &G});
        by_real(F, "F", [&]<class T>(Type<T>) {
            const auto f = F.rows<T>("F");
            const auto b = B.rows<const T>("B"), g = G.rows<const T>("G");
            inside(start, stop, f.width);
            require(b.count == f.count && b.width == f.width, "B has to have the shape of F");
            require(g.count == f.count && g.width == f.count, "G has to be r x r");
            unlocked([&] { row_steps<T>(start, stop, f, b, g, {fixed_step, max_steps, epsilon, literal}); });
        });
    });
}

}  // namespace enmf
