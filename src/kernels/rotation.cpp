#include "rotation.h"

#include "module.h"

namespace enmf {

void bind_rotation(nb::module_& m) {
    m.def("turn", [](Index start, Index stop, const Array& W, const Array& WR, const Array& Y, const Array& turns,
                     const Array& masses, double rho, const Array& rules) {
        apart({&WR, &Y, &turns, &masses}, {&W, &rules});
        Index ended = start;
        by_real(W, "W", [&]<class T>(Type<T>) {
            const auto w = W.rows<const T>("W");
            const auto turned = WR.rows<T>("WR"), dual = Y.rows<T>("Y");
            const auto matrices = turns.stack<double>("turns");
            const auto history = masses.line<double>("masses");
            const auto numbers = rules.line<const double>("rules");
            const Index r = w.count, n = w.width;
            for (const auto& F : {turned, dual}) {
                require(F.count == r && F.width == n, "WR and Y have to have the shape of W");
                require(r <= 1 || F.stride == n, "WR and Y have to be contiguous");
            }
            require(matrices.count == 3 && matrices.height == r && matrices.width == r, "turns has to be 3 x r x r");
            require(numbers.size == 7, "there are seven rules");
            inside(start, stop, history.size - 1);
            require(rho > 0.0, "rho has to be positive");
            Turning<T> now{w, turned, dual, matrices[0], matrices[1], matrices[2], history, rho};
            const TurningRules how{numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5],
                                   static_cast<Index>(numbers[6])};
            unlocked([&] { ended = turn<T>(start, stop, now, how); });
            rho = now.rho;
        });
        return nb::make_tuple(ended, rho);
    });
}

}  // namespace enmf
