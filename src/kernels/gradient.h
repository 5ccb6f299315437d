// The gradient D = F G - B of one factor, measured without storing it (F: r x n, G: r x r, B: r x n).
//
// With F = Uᵀ, G = VᵀV and B = (X V)ᵀ this is the gradient of 1/2 ||X - U Vᵀ||² with respect to U.
// The projected gradient is D where F > 0 and min(D, 0) where F = 0.
#pragma once

#include <limits>

#include "inner.h"
#include "products.h"

namespace enmf {

// columns of the table of partial results, after the r sums of squares
constexpr Index LARGEST_PRODUCT = 0, SUM_PRODUCT = 1, SMALLEST_GRADIENT = 2;
constexpr Index EXTRAS = 3;

// Sums and extremes of a block in double precision, lane by lane.
class Measures {
  public:
    using Wide = Vector<double>;
    static constexpr Index L = LANES<double>;

    explicit Measures(Index r) : r_(r), squares_(r * L) {}

    void clear() {
        std::fill_n(squares_.get(), r_ * L, 0.0);
        along_ = Wide{};
    }

    // Components panel .. panel + P of a strip of V vectors that begins at `lane`: D and F.
    template <class T, int P, int V>
    void add(const Tile<T, P, V>& D, const T* F, Index panel, Index lane) {
        for (int p = 0; p < P; ++p) {
            Wide squares = load(squares_.get() + (panel + p) * L);
            for (int v = 0; v < V; ++v) {
                const Vector<T> f = load(F + (p * V + v) * LANES<T>);
                add_part<0, T>(D.at[p][v], f, panel + p == 0, lane + v * LANES<T>, squares);
                if constexpr (PARTS<T> > 1) add_part<1, T>(D.at[p][v], f, panel + p == 0, lane + v * LANES<T>, squares);
            }
            store(squares_.get() + (panel + p) * L, squares);
        }
    }

    // What came together in the first `width` lanes; those beyond have D = F = 0.
    void write(Index width, double* out) const {
        for (Index k = 0; k < r_; ++k) out[k] = sum_pack(load(squares_.get() + k * L));
        out += r_;
        out[SUM_PRODUCT] = sum_pack(along_);
        out[LARGEST_PRODUCT] = extreme(largest_, width, -INFINITE, [](auto a, auto b) { return a > b ? a : b; });
        out[SMALLEST_GRADIENT] = extreme(smallest_, width, INFINITE, [](auto a, auto b) { return a < b ? a : b; });
    }

  private:
    static constexpr double INFINITE = std::numeric_limits<double>::infinity();

    template <int PART, class T>
    void add_part(Vector<T> D, Vector<T> F, bool first, Index lane, Wide& squares) {
        const Wide d = widen_part<PART, T>(D), f = widen_part<PART, T>(F), zero{};
        const Wide product = d * f, below = d < zero ? d : zero, projected = f > zero ? d : below;
        along_ += product;
        squares += projected * projected;
        double *most = largest_ + lane + PART * L, *least = smallest_ + lane + PART * L;
        const Wide before = load(most), smallest = load(least);
        store(most, first || product > before ? product : before);
        store(least, first || d < smallest ? d : smallest);
    }

    template <class Better>
    static double extreme(const double* lanes, Index width, double worst, const Better& better) {
        Wide best = all(worst);
        Index i = 0;
        for (; i + L <= width; i += L) best = better(load(lanes + i), best);
        for (Index j = 0; j < L; ++j) worst = better(best[j], worst);
        for (; i < width; ++i) worst = better(lanes[i], worst);
        return worst;
    }

    Index r_;
    Space<double> squares_;  // of every component
    Wide along_{};
    alignas(64) double largest_[BLOCK], smallest_[BLOCK];
};

// Fill partial[b] for each block b of BLOCK columns in start..stop (start is a multiple of BLOCK): r sums of squares of
// the projected gradient (one per component), then max(D*F), sum(D*F) and min(D).
template <class T>
void measure(Index start, Index stop, const Rows<const T>& F, const Rows<const T>& B, const Rows<const T>& G,
             const Rows<double>& partial) {
    const Index r = F.count;
    Block<T> work(r), right(r);
    Measures measures(r);
    for (Index first = start; first < stop; first += BLOCK) {
        const Index width = std::min(BLOCK, stop - first);
        work.load(F, first, width);
        right.load(B, first, width);
        measures.clear();
        each_strip(work, [&](Index s, auto V) {
            constexpr Index lanes = V() * LANES<T>;
            const T *f = work.strip(s), *b = right.strip(s);
            each_panel(r, [&](Index panel, auto P) {
                auto D = Tile<T, P(), V()>::zero();
                D.add(G[panel], G.stride, 1, f, lanes, r);
                D.subtract(b + panel * lanes, lanes);
                measures.add(D, f + panel * lanes, panel, s * STRIP_LANES<T>);
            });
        });
        measures.write(width, partial[first / BLOCK]);
    }
}

}  // namespace enmf
