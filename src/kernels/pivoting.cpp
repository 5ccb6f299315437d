#include "pivoting.h"

#include "module.h"

namespace enmf {

void bind_pivoting(nb::module_& m) {
    m.def("solve_groups", [](Index start, Index stop, const Array& G, const Array& B, const Array& passive,
                             const Array& order, const Array& borders, const Array& F, const Array& D,
                             const Array& failed) {
        apart({&F, &D, &failed}, {&G, &B, &passive, &order, &borders});
        const auto g = G.rows<const double>("G");
        const auto b = B.rows<const double>("B");
        const auto sets = passive.rows<const bool>("passive");
        const auto f = F.rows<double>("F"), d = D.rows<double>("D");
        const auto flags = failed.line<bool>("failed");
        require(g.count == g.width && g.count == b.width, "G has to be r x r");
        const auto fits = [&](const auto& rows) { return rows.count == b.count && rows.width == b.width; };
        require(fits(sets) && fits(f) && fits(d), "passive, F and D have to have the shape of B");
        require(flags.size == b.count, "failed has to have a flag for every row");
        const Offsets begins(borders, "borders");
        inside(start, stop, begins.rows());
        by_index(order, "order", [&]<class I>(Type<I>) {
            const auto rows = order.line<const I>("order");
            require(begins.rise(start, stop, rows.size), "borders has to consist of rising positions in order");
            for (Index p = begins[start]; p < begins[stop]; ++p)
                require(rows[p] >= 0 && rows[p] < b.count, "order has to consist of rows of B");
            unlocked([&] { solve_groups<I>(start, stop, g, b, sets, rows.data, begins, f, d, flags.data); });
        });
    });
}

}  // namespace enmf
