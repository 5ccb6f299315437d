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

constexpr double INFINITE = std::numeric_limits<double>::infinity();

// The largest of some numbers by better = greater, or the smallest.
template <class T, class Better>
double extreme(const T* numbers, Index count, double worst, const Better& better) {
    Vector<T> best = all(static_cast<T>(worst));
    Index i = 0;
    for (; i + LANES<T> <= count; i += LANES<T>) best = better(load(numbers + i), best);
    for (Index j = 0; j < LANES<T>; ++j) worst = better(static_cast<double>(best[j]), worst);
    for (; i < count; ++i) worst = better(static_cast<double>(numbers[i]), worst);
    return worst;
}

// Sums and extremes of a block, lane by lane. All are in double precision except the smallest gradient, which is one of
// its numbers.
template <class T>
class Measures {
    using Wide = Vector<double>;
    static constexpr Index L = LANES<double>;

  public:
    explicit Measures(Index r) : r_(r), squares_(r * L) {}

    void clear() {
        std::fill_n(squares_.get(), r_ * L, 0.0);
        along_ = Wide{};
    }

    // What a strip of V vectors adds, in registers.
    template <int V>
    struct Strip {
        Wide largest[V][PARTS<T>], along[PARTS<T>] = {};
        Vector<T> smallest[V];

        Strip() {
            for (int v = 0; v < V; ++v) {
                for (int part = 0; part < PARTS<T>; ++part) largest[v][part] = all(-INFINITE);
                smallest[v] = all(static_cast<T>(INFINITE));
            }
        }
    };

    // The components panel .. panel + P of a strip: D and F.
    template <int P, int V>
    void add(const Tile<T, P, V>& D, const T* F, Index panel, Strip<V>& to) {
        for (int p = 0; p < P; ++p) {
            double* squares = squares_.get() + (panel + p) * L;
            Wide sum = load(squares);
            for (int v = 0; v < V; ++v) {
                const Vector<T> d = D.at[p][v], f = load(F + (p * V + v) * LANES<T>), zero{};
                const Vector<T> below = d < zero ? d : zero, projected = f > zero ? d : below;
                to.smallest[v] = d < to.smallest[v] ? d : to.smallest[v];
                add_part<0>(d, f, projected, to.largest[v], to.along, sum);
                if constexpr (PARTS<T> > 1) add_part<1>(d, f, projected, to.largest[v], to.along, sum);
            }
            store(squares, sum);
        }
    }

    template <int V>
    void add(const Strip<V>& strip, Index lane) {
        for (int v = 0; v < V; ++v) {
            store(smallest_ + lane + v * LANES<T>, strip.smallest[v]);
            for (int part = 0; part < PARTS<T>; ++part)
                store(largest_ + lane + v * LANES<T> + part * L, strip.largest[v][part]);
        }
        for (int part = 0; part < PARTS<T>; ++part) along_ += strip.along[part];
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
    template <int PART>
    static void add_part(Vector<T> d, Vector<T> f, Vector<T> projected, Wide (&largest)[PARTS<T>],
                         Wide (&along)[PARTS<T>], Wide& squares) {
        const Wide product = widen_part<PART, T>(d) * widen_part<PART, T>(f), own = widen_part<PART, T>(projected);
        along[PART] += product;
        largest[PART] = product > largest[PART] ? product : largest[PART];
        squares += own * own;
    }

    Index r_;
    Space<double> squares_;  // of every component
    Wide along_{};
    alignas(64) double largest_[BLOCK];
    alignas(64) T smallest_[BLOCK];
};

// Fill partial[b] for each block b of BLOCK columns in start..stop (start is a multiple of BLOCK): r sums of squares of
// the projected gradient (one per component), then max(D*F), sum(D*F) and min(D).
template <class T>
void measure(Index start, Index stop, const Rows<const T>& F, const Rows<const T>& B, const Rows<const T>& G,
             const Rows<double>& partial) {
    const Index r = F.count;
    Block<T> work(r), right((stop - start) % LANES<T> == 0 ? 0 : r);  // B is copied where it has to be padded
    Measures<T> measures(r);
    for (Index first = start; first < stop; first += BLOCK) {
        const Index width = std::min(BLOCK, stop - first);
        const bool padded = width % LANES<T> != 0;
        work.load(F, first, width);
        if (padded) right.load(B, first, width);
        measures.clear();
        each_strip(work, [&](Index s, auto V) {
            constexpr Index lanes = V() * LANES<T>;
            const Index lane = s * STRIP_LANES<T>, stride = padded ? lanes : B.stride;
            const T *f = work.strip(s), *b = padded ? right.strip(s) : B.data + first + lane;
            typename Measures<T>::template Strip<V()> strip;
            each_panel(r, [&](Index panel, auto P) {
                auto D = Tile<T, P(), V()>::zero();
                D.add(G[panel], G.stride, 1, f, lanes, r);
                D.subtract(b + panel * stride, stride);
                measures.add(D, f + panel * lanes, panel, strip);
            });
            measures.add(strip, lane);
        });
        measures.write(width, partial[first / BLOCK]);
    }
}

}  // namespace enmf
