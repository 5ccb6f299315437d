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

    m.def("copy", [](Index start, Index stop, const Array& A, const Array& out) {
        apart({&out}, {&A});
        by_real(A, "A", [&]<class T>(Type<T>) {
            const auto a = A.rows<const T>("A");
            const auto to = out.rows<T>("out");
            inside(start, stop, a.width);
            require(to.count == a.count && to.width == a.width, "out has to have the shape of A");
            unlocked([&] { copy<T>(start, stop, a, to); });
        });
    });

    m.def("transpose", [](Index start, Index stop, const Array& A, const Array& out) {
        apart({&out}, {&A});
        by_real(A, "A", [&]<class T>(Type<T>) {
            const auto a = A.rows<const T>("A");
            const auto to = out.rows<T>("out");
            inside(start, stop, a.width);
            require(to.count == a.width && to.width == a.count, "out has to have the shape of the transposed A");
            unlocked([&] { transpose<T>(start, stop, a, to); });
        });
    });
}

}  // namespace enmf
