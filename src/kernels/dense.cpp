#include "dense.h"

#include "module.h"

namespace enmf {

void bind_dense(nb::module_& m) {
    m.def("survey", [](Index start, Index stop, const Array& A, const Array& squares, const Array& nonzeros) {
        apart({&squares, &nonzeros}, {&A});
        by_real(A, "A", [&]<class T>(Type<T>) {
            const auto a = A.rows<const T>("A");
            const auto sums = squares.line<double>("squares");
            const auto counts = nonzeros.line<std::int64_t>("nonzeros");
            inside(start, stop, a.count);
            require(sums.size == a.count && counts.size == a.count, "every row has to have its results");
            unlocked([&] { survey<T>(start, stop, a, sums.data, counts.data); });
        });
    });
}

}  // namespace enmf
