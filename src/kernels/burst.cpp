#include "burst.h"

#include <algorithm>

#include <nanobind/stl/vector.h>

#include "held.h"
#include "module.h"

namespace enmf {
inline namespace ENMF_MODULE {

// A burst as Python sees it: it holds the arrays it works on.
template <class T>
class HeldBurst {
  public:
    HeldBurst(Index n, Index m, Index r) : shape_{n, m}, r_(r) {}

    BurstState& state() { return burst_.state; }

    void factor(int side, nb::handle F, nb::handle product, nb::handle gram, nb::handle plain, nb::handle best,
                Index sweeps, bool knows_product) {
        BurstHalf<T>& half = burst_.halves[known(side)];
        std::vector<Array> arrays(5);
        Rows<T> views[5];
        const nb::handle objects[5] = {F, product, gram, plain, best};
        const char* names[5] = {"F", "product", "gram", "plain", "best"};
        for (std::size_t i = 0; i < 5; ++i) {
            if (!arrays[i].fill(objects[i].ptr())) throw nb::type_error("a factor has to be an array");
            views[i] = arrays[i].rows<T>(names[i]);
            require(views[i].count == r_ && views[i].width == (i == 2 ? r_ : shape_[side]),
                    "a factor has to be r x n, its Gram matrix r x r");
            for (std::size_t j = 0; j < i; ++j)
                require(!arrays[i].touches(arrays[j]), "two arrays of a factor share memory");
        }
        threads_ = 0;
        half.F = views[0], half.product = views[1], half.gram = views[2], half.plain = views[3], half.best = views[4];
        half.sweeps = sweeps;
        half.knows_product = knows_product;
        held_[side].swap(arrays);
    }

    void dense(nb::handle X, nb::handle Xt) {
        for (int side : {0, 1}) {
            const auto lines = matrix_.hold(side == 0 ? Xt : X).template rows<const T>("X");
            require(lines.count == shape_[1 - side] && lines.width == shape_[side], "X has to be n x m, Xt m x n");
            burst_.halves[side].X = std::make_unique<DenseSide<T>>(lines);
        }
    }

    void sparse(int side, nb::handle starts, nb::handle columns, nb::handle values) {
        const Index width = shape_[1 - known(side)];
        const Array &begin = matrix_.hold(starts), &index = matrix_.hold(columns), &data = matrix_.hold(values);
        with_sparse<T>(width, begin, index, data, [&]<class I>(const Starts& where, Index rows, Index blocks,
                                                               const Entries<T, I>& entries) {
            require(rows == shape_[side], "starts has to have one column more than there are rows");
            burst_.halves[side].X = std::make_unique<SparseSide<T, I>>(where, blocks, entries, width, r_);
        });
    }

    void prepare(int threads) {
        for (const BurstHalf<T>& half : burst_.halves)
            require(half.X && half.F.data, "the burst has no matrix or factors");
        require(threads > 0, "a burst needs a thread");
        for (const Array& U : held_[0]) {
            for (const Array& V : held_[1]) require(!U.touches(V), "the two factors share memory");
            for (const auto& part : matrix_) require(!U.touches(*part), "a factor shares memory with the matrix");
        }
        for (const Array& V : held_[1])
            for (const auto& part : matrix_) require(!V.touches(*part), "a factor shares memory with the matrix");
        burst_.prepare(threads);
        threads_ = threads;
    }

    // As a kernel: thread `start` of those that were prepared.
    void work(Index start, Index) {
        require(0 <= start && start < threads_, "the burst was not prepared for this thread");
        unlocked([&] { burst_.work(static_cast<int>(start)); });
    }

    bool knows_product(int side) const { return burst_.halves[known(side)].knows_product; }

  private:
    static int known(int side) {
        require(side == 0 || side == 1, "a side is 0 or 1");
        return side;
    }

    const Index shape_[2], r_;
    int threads_ = 0;  // that were prepared
    Burst<T> burst_;
    std::vector<Array> held_[2];
    HeldArrays matrix_;
};

template <class T>
void bind_class(nb::module_& m, const char* name) {
    using Held = HeldBurst<T>;
    nb::class_<Held>(m, name)
        .def(nb::init<Index, Index, Index>())
        .def_prop_ro("state", &Held::state, nb::rv_policy::reference_internal)
        .def("factor", &Held::factor)
        .def("dense", &Held::dense)
        .def("sparse", &Held::sparse)
        .def("prepare", &Held::prepare)
        .def("work", &Held::work)
        .def("knows_product", &Held::knows_product);
}

}  // namespace ENMF_MODULE

void bind_burst(nb::module_& m) {
    nb::class_<Outlook>(m, "Outlook")
        .def_rw("judges", &Outlook::judges)
        .def_rw("lowest", &Outlook::lowest)
        .def_rw("first", &Outlook::first)
        .def_rw("per_doubling", &Outlook::per_doubling)
        .def_rw("slowest", &Outlook::slowest)
        .def_rw("fastest", &Outlook::fastest)
        .def_rw("comes_back", &Outlook::comes_back)
        .def_rw("settled", &Outlook::settled)
        .def_rw("rival", &Outlook::rival)
        .def("due_at", &Outlook::due_at);
    nb::class_<BurstState> state(m, "State");
    const auto add = [&](auto... fields) { (state.def_rw(fields.first, fields.second), ...); };
    using S = BurstState;
    add(std::pair("progress", &S::progress), std::pair("extrapolates", &S::extrapolates),
        std::pair("growth", &S::growth), std::pair("cap_growth", &S::cap_growth), std::pair("shrink", &S::shrink),
        std::pair("beta", &S::beta), std::pair("last_beta", &S::last_beta), std::pair("cap", &S::cap),
        std::pair("judged", &S::judged), std::pair("begun", &S::begun), std::pair("walls", &S::walls),
        std::pair("clips", &S::clips), std::pair("squared_norm", &S::squared_norm), std::pair("size", &S::size),
        std::pair("iteration", &S::iteration), std::pair("most", &S::most),
        std::pair("seconds", &S::seconds), std::pair("interval", &S::interval), std::pair("keeps_all", &S::keeps_all),
        std::pair("best", &S::best), std::pair("lowest", &S::lowest), std::pair("lowest_at", &S::lowest_at),
        std::pair("precision", &S::precision), std::pair("least_value", &S::least_value), std::pair("tol", &S::tol),
        std::pair("tol_from", &S::tol_from), std::pair("patience", &S::patience), std::pair("evening", &S::evening),
        std::pair("apart", &S::apart), std::pair("outlook", &S::outlook), std::pair("due", &S::due), std::pair("passes", &S::passes),
        std::pair("measuring", &S::measuring),
        std::pair("values", &S::values), std::pair("residuals", &S::residuals), std::pair("times", &S::times),
        std::pair("passed", &S::passed));
    bind_class<double>(m, "Double");
    bind_class<float>(m, "Single");
}

}  // namespace enmf
