#include "admm.h"

#include "lanes.h"
#include "module.h"

namespace enmf {

void bind_admm(nb::module_& m) {
    m.attr("CHUNK") = CHUNK;

    m.def("split", [](Index start, Index stop, const Array& WR, const Array& Y, const Array& Z, const Array& ZY,
                      double threshold) {
        apart({&Z, &ZY}, {&WR, &Y});
        by_real(WR, "WR", [&]<class T>(Type<T>) {
            const auto turned = WR.line<const T>("WR"), dual = Y.line<const T>("Y");
            const auto target = Z.line<T>("Z"), both = ZY.line<T>("ZY");
            inside(start, stop, turned.size);
            require(dual.size == turned.size && target.size == turned.size && both.size == turned.size,
                    "all arrays have to have the same length");
            unlocked([&] {
                split<T>(start, stop, turned.data, dual.data, target.data, both.data, static_cast<T>(threshold));
            });
        });
    });

    m.def("update_dual", [](Index start, Index stop, const Array& WR, const Array& before, const Array& Y,
                            const Array& Z, const Array& partial) {
        apart({&Y, &partial}, {&WR, &before, &Z});
        by_real(WR, "WR", [&]<class T>(Type<T>) {
            const auto turned = WR.line<const T>("WR"), former = before.line<const T>("before");
            const auto dual = Y.line<T>("Y");
            const auto target = Z.line<const T>("Z");
            const auto sums = partial.rows<double>("partial");
            inside(start, stop, turned.size);
            require(start % CHUNK == 0, "start has to be a multiple of CHUNK");
            require(former.size == turned.size && dual.size == turned.size && target.size == turned.size,
                    "all arrays have to have the same length");
            require(sums.count == ceil_div(turned.size, CHUNK) && sums.width == 4,
                    "partial has to have four columns, and a row for each chunk");
            unlocked([&] {
                update_dual<T>(start, stop, turned.data, former.data, dual.data, target.data, sums);
            });
        });
    });
}

}  // namespace enmf
