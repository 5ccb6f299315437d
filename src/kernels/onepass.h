// A half-step of HALS (the update of one factor) in one pass over the rows of X, a block at a time while it is in the
// cache:  P = X_b V,  sweeps of U_b for U_b VᵀV - P,  and then its part of Xᵀ U and Uᵀ U. Two passes become one, and P is
// never stored.
//
// X is dense (n x m, n much larger than m), or of low rank, A Bᵀ: then A takes its place, and Bᵀ V that of V.
#pragma once

#include "sweep.h"

namespace enmf {

// Rows of a dense X, in C order.
template <class T>
class DenseRows {
  public:
    DenseRows(const Rows<const T>& X, const Rows<const T>& V, T shift) : X_(X), V_(V), shift_(shift) {}

    Index count() const { return X_.count; }

    void load(Index first, Index width) {
        first_ = first;
        width_ = width;
    }

    // right = V_k . X_c - shift, for components k and rows c; zero in the padding. V is r x m here.
    void multiply(Block<T>& right) const {
        right.resize(width_);
        for (Index s = 0; s < right.strips(); ++s) {
            const Index lanes = right.vectors(s) * LANES<T>, first = s * STRIP_LANES<T>;
            const Index inside = std::min(lanes, width_ - first);
            T* strip = right.strip(s);
            // a few rows of X at a time, which all components visit
            for (Index c = 0; c < inside; c += STRIP)
                with_constant<STRIP>(inside - c, [&](auto Q) {
                    for (Index k = 0; k < V_.count; k += PANEL)
                        with_constant<PANEL>(V_.count - k, [&](auto P) {
                            auto inner = Inner<T, P(), Q()>::zero();
                            inner.add(V_[k], V_.stride, X_[first_ + first + c], X_.stride, X_.width);
                            T total[P()][Q()];
                            inner.totals(total);
                            for (int p = 0; p < P(); ++p)
                                for (int q = 0; q < Q(); ++q) strip[(k + p) * lanes + c + q] = total[p][q] - shift_;
                        });
                });
            for (Index k = 0; k < V_.count; ++k) std::fill(strip + k * lanes + inside, strip + (k + 1) * lanes, T(0));
        }
    }

    // cross[k] += sum over the rows c of U[k, c] X_c
    void add_cross(const Block<T>& U, const Rows<T>& cross) const {
        const Index vectors = ceil_div(X_.width, LANES<T>);
        for (Index v = 0; v < vectors; v += STRIP)
            with_constant<STRIP>(vectors - v, [&](auto V) {
                const Index j = v * LANES<T>, last = std::min(LANES<T>, X_.width - j - (V() - 1) * LANES<T>);
                const Part<T> rest(last);
                for (Index k = 0; k < U.components(); k += PANEL)
                    with_constant<PANEL>(U.components() - k, [&](auto P) {
                        if (last == LANES<T>)
                            add_tile<P(), V(), false>(U, cross, k, j, rest);
                        else
                            add_tile<P(), V(), true>(U, cross, k, j, rest);
                    });
            });
    }

  private:
    template <int P, int V, bool PART>
    void add_tile(const Block<T>& U, const Rows<T>& cross, Index k, Index j, const Part<T>& rest) const {
        auto tile = PART ? Tile<T, P, V>::read_part(cross[k] + j, cross.stride, rest)
                         : Tile<T, P, V>::read(cross[k] + j, cross.stride);
        for (Index s = 0; s < U.strips(); ++s) {
            const Index lanes = U.vectors(s) * LANES<T>, first = s * STRIP_LANES<T>;
            const Index inside = std::min(lanes, width_ - first);
            tile.template add<false, PART>(U.strip(s) + k * lanes, lanes, 1, X_[first_ + first] + j, X_.stride, inside,
                                           rest);
        }
        PART ? tile.write_part(cross[k] + j, cross.stride, rest) : tile.write(cross[k] + j, cross.stride);
    }

    const Rows<const T> X_, V_;
    const T shift_;
    Index first_ = 0, width_ = 0;
};

// Rows of A, where X = A Bᵀ; A is given as Aᵀ (l x n), and M is (Bᵀ V)ᵀ (r x l).
template <class T>
class LowRankRows {
  public:
    LowRankRows(const Rows<const T>& At, const Rows<const T>& M) : At_(At), M_(M), block_(At.count) {}

    Index count() const { return At_.width; }
    void load(Index first, Index width) { block_.load(At_, first, width); }

    // right = M A
    void multiply(Block<T>& right) const {
        right.resize(block_.width());
        for (Index s = 0; s < right.strips(); ++s)
            with_constant<STRIP>(right.vectors(s), [&](auto V) {
                constexpr Index lanes = V() * LANES<T>;
                for (Index k = 0; k < M_.count; k += PANEL)
                    with_constant<PANEL>(M_.count - k, [&](auto P) {
                        auto tile = Tile<T, P(), V()>::zero();
                        tile.add(M_[k], M_.stride, 1, block_.strip(s), lanes, At_.count);
                        tile.write(right.strip(s) + k * lanes, lanes);
                    });
            });
    }

    void add_cross(const Block<T>& U, const Rows<T>& cross) const { add_inner(U, block_, cross); }

  private:
    const Rows<const T> At_, M_;
    Block<T> block_;
};

template <class T>
struct Extrapolation {
    Rows<T> old;  // r x n, or empty: none
    T beta;
};

// Sweep F = Uᵀ (r x n) in place, and fill cross[p] = (Xᵀ U)ᵀ and gram[p] = Uᵀ U (its lower triangle) for the parts
// p = start..stop of the rows, each of `height` rows, a multiple of the lanes. With an `old`, F is the extrapolated
// max(0, new + beta (new - old)) afterwards, and `old` is the new factor.
template <class T, class Source>
void half_step(Index start, Index stop, Source& X, Index height, const Rows<T>& F, const Rows<const T>& G,
               const SweepOptions& how, const bool* skip, const Extrapolation<T>& beyond, const Stack<T>& cross,
               const Stack<T>& gram) {
    const Index r = F.count;
    const Components<T> of(G, how.wall, skip);
    Block<T> work(r), right(r);
    for (Index part = start; part < stop; ++part) {
        for (Index k = 0; k < r; ++k) {
            std::fill_n(cross[part][k], cross.width, T(0));
            std::fill_n(gram[part][k], r, T(0));
        }
        const Index last = std::min(X.count(), (part + 1) * height);
        for (Index first = part * height; first < last; first += BLOCK_LANES<T>) {
            const Index width = std::min(BLOCK_LANES<T>, last - first);
            X.load(first, width);
            X.multiply(right);
            work.load(as_const(F), first, width);
            sweep_block(work, right, of, how);
            if (beyond.old.count > 0)
                work.each_piece([&](Index k, Index lane, T* here, Index count, Index) {
                    extrapolate_line(here, beyond.old[k] + first + lane, count, beyond.beta);
                });
            work.store(F, first);
            X.add_cross(work, cross[part]);
            add_inner<T, true>(work, work, gram[part]);
        }
    }
}

// Add all parts into the first one, in order; Uᵀ U gets both triangles.
template <class T>
void add_parts(const Stack<T>& cross, const Stack<T>& gram) {
    for (const Stack<T>& sums : {cross, gram})
        for (Index part = 1; part < sums.count; ++part)
            for (Index k = 0; k < sums.height; ++k) {
                T* total = sums[0][k];
                const T* more = sums[part][k];
                for (Index j = 0; j < sums.width; ++j) total[j] += more[j];
            }
    for (Index i = 0; i < gram.height && gram.count > 0; ++i)
        for (Index k = 0; k < i; ++k) gram[0][k][i] = gram[0][i][k];
}

}  // namespace enmf
