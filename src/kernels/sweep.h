// Coordinate sweeps for min_F 1/2 <F, F G> - <F, B> with or without F >= 0; rows of F are independent.
//
// With F = U, G = VᵀV and B = X V this is the U half of HALS (Cichocki and Phan 2009):
//     u_k <- max(0, u_k + (b_k - sum_j G_kj u_j) / G_kk)        for k = 1..r
// A soft wall delta replaces the projection when delta is finite:
//     z = G_kk u_k + b_k - sum_j G_kj u_j ;   u_k <- z / G_kk if z >= 0 else z / (G_kk + delta)
#pragma once

#include <cmath>

#include "products.h"

namespace enmf {

struct SweepOptions {
    double wall;      // infinite: F >= 0
    Index most;       // sweeps
    double progress;  // sweeps end when one changes a block by less than this share of the first
};

constexpr Index FEW = 24;  // components of a block that stays in the first cache

template <class T>
constexpr T LEAST_CURVATURE = sizeof(T) == 4 ? T(1e-37) : T(1e-300);  // what a component must exceed to be determined

// What a sweep needs to know about its components, once for all blocks.
template <class T>
class Components {
  public:
    Components(const Rows<const T>& G, double wall, const bool* skip)
        : G(G), hard(std::isinf(wall)), up(G.count), down(G.count), moves_(G.count), settles_(G.count) {
        for (Index k = 0; k < G.count; ++k) {
            const bool determined = G[k][k] > LEAST_CURVATURE<T>;
            moves_[k] = determined && !skip[k];
            settles_[k] = !determined && !skip[k];
            any_settles_ |= settles_[k];
            all_move_ &= moves_[k];
            up[k] = determined ? T(1) / G[k][k] : T(0);
            down[k] = determined && !hard ? static_cast<T>(1.0 / (static_cast<double>(G[k][k]) + wall)) : T(0);
        }
    }

    bool moves(Index k) const { return moves_[k]; }
    bool all_move() const { return all_move_; }

    // A penalty (b < 0) sends a component that the data do not determine to zero.
    void settle(const Block<T>& work, const Block<T>& right) const {
        if (!any_settles_) return;
        work.each_piece([&](Index k, Index lane, T* here, Index, Index lanes) {
            const T* target = right.strip(lane / STRIP_LANES<T>) + k * lanes;
            for (Index c = 0; c < lanes && settles_[k]; ++c)
                if (target[c] < T(0)) here[c] = T(0);
        });
    }

    const Rows<const T> G;
    const bool hard;
    const Space<T> up, down;  // 1 / G_kk, and 1 / (G_kk + wall)

  private:
    Space<bool> moves_, settles_;
    bool any_settles_ = false, all_move_ = true;
};

// The components panel .. panel + P of one strip of V vectors.
template <class T, int P, int V, bool HARD, bool ALL>
inline __attribute__((always_inline)) void sweep_panel(T* work, const T* right, const Components<T>& of, Index panel,
                                                       Vector<T> (&moved)[V]) {
    constexpr Index lanes = V * LANES<T>;
    const Rows<const T>& G = of.G;
    const Index r = G.count, after = panel + P;
    auto target = Tile<T, P, V>::read(right + panel * lanes, lanes);
    // those swept last come last: their new values may still be on the way to memory
    target.template add<true>(G[after] + panel, 1, G.stride, work + after * lanes, lanes, r - after);
    target.template add<true>(G[0] + panel, 1, G.stride, work, lanes, panel);
    T* here = work + panel * lanes;
    for (int q = 1; q < P; ++q)  // inside the panel: the old values of those that come later ...
        for (int v = 0; v < V; ++v) {
            const Vector<T> before = load(here + q * lanes + v * LANES<T>);
            for (int p = 0; p < q; ++p) target.at[p][v] -= all(G[panel + q][panel + p]) * before;
        }
    for (int p = 0; p < P; ++p) {
        const Index k = panel + p;
        T* line = here + p * lanes;
        const Vector<T> up = all(of.up[k]), down = all(of.down[k]);
        const bool moves = ALL || of.moves(k);
        for (int v = 0; v < V; ++v) {
            const Vector<T> before = load(line + v * LANES<T>), z = target.at[p][v];
            Vector<T> now = HARD ? positive<T>(z * up) : z * (z > Vector<T>{} ? up : down);
            if (!moves) now = before;
            const Vector<T> step = now - before;
            moved[v] += step * step;
            store(line + v * LANES<T>, now);
            for (int q = p + 1; q < P; ++q) target.at[q][v] -= all(G[k][panel + q]) * now;  // ... and the new ones
        }
    }
}

// One sweep over all components of `strips` strips of V vectors, which follow each other; returns the sum of the squared
// changes. The components of a strip stay in the cache; where they are few, the strips of a panel follow each other, so
// that the next one need not wait.
template <class T, int V, bool HARD, bool ALL>
double sweep_strips(T* work, const T* right, const Components<T>& of, Index strips) {
    const Index r = of.G.count, distance = V * LANES<T> * r;
    const Index together = r <= FEW ? strips : 1;
    Vector<T> moved[V] = {};
    for (Index first = 0; first < strips; first += together) {
        Index panel = 0;
        for (; panel + PANEL <= r; panel += PANEL)
            for (Index s = first; s < first + together; ++s)
                sweep_panel<T, PANEL, V, HARD, ALL>(work + s * distance, right + s * distance, of, panel, moved);
        if (panel < r)
            with_constant<PANEL - 1>(r - panel, [&](auto P) {
                for (Index s = first; s < first + together; ++s)
                    sweep_panel<T, P(), V, HARD, ALL>(work + s * distance, right + s * distance, of, panel, moved);
            });
    }
    for (int v = 1; v < V; ++v) moved[0] += moved[v];
    return static_cast<double>(sum<T>(moved[0]));
}

template <class T, bool HARD, bool ALL>
void sweep_block(const Block<T>& work, const Block<T>& right, const Components<T>& of, const SweepOptions& how) {
    double first_change = 0.0;
    for (Index s = 0; s < how.most; ++s) {
        const Index whole = work.whole_strips();
        double change = whole ? sweep_strips<T, STRIP, HARD, ALL>(work.strip(0), right.strip(0), of, whole) : 0.0;
        if (whole < work.strips())
            with_constant<STRIP>(work.vectors(whole), [&](auto V) {
                change += sweep_strips<T, V(), HARD, ALL>(work.strip(whole), right.strip(whole), of, 1);
            });
        if (s == 0) first_change = change;
        if (change <= how.progress * how.progress * first_change) break;
    }
}

template <class T>
void sweep_block(const Block<T>& work, const Block<T>& right, const Components<T>& of, const SweepOptions& how) {
    if (how.most > 0) of.settle(work, right);
    if (of.hard && of.all_move())
        sweep_block<T, true, true>(work, right, of, how);
    else if (of.hard)
        sweep_block<T, true, false>(work, right, of, how);
    else
        sweep_block<T, false, false>(work, right, of, how);
}

// compiled once, in sweep.cpp
extern template void sweep_block(const Block<float>&, const Block<float>&, const Components<float>&, const SweepOptions&);
extern template void sweep_block(const Block<double>&, const Block<double>&, const Components<double>&,
                                 const SweepOptions&);

// Sweeps over the columns start..stop of F (r x n), in place. Components with skip[k] stay unchanged. So do those with
// G_kk = 0 (or too small for an inverse), except where a penalty (b < 0) sends them to zero.
template <class T>
void sweep(Index start, Index stop, const Rows<T>& F, const Rows<const T>& B, const Rows<const T>& G,
           const SweepOptions& how, const bool* skip) {
    const Components<T> of(G, how.wall, skip);
    Block<T> work(F.count), right(F.count);
    for (Index first = start; first < stop; first += BLOCK_LANES<T>) {
        const Index width = std::min(BLOCK_LANES<T>, stop - first);
        work.load(as_const(F), first, width);
        right.load(B, first, width);
        sweep_block(work, right, of, how);
        work.store(F, first);
    }
}

// now <- max(least now, now + beta (now - before)), and `before` <- now.
template <class T>
inline void extrapolate_line(T* __restrict now, T* __restrict before, Index count, T beta, T least = T(0)) {
    for (Index i = 0; i < count; ++i) {
        const T reached = now[i];
        const T beyond = reached + beta * (reached - before[i]);
        now[i] = beyond > least * reached ? beyond : least * reached;
        before[i] = reached;
    }
}

template <class T>
void extrapolate_columns(Index start, Index stop, const Rows<T>& F, const Rows<T>& old, T beta, T least) {
    for (Index k = 0; k < F.count; ++k) extrapolate_line(F[k] + start, old[k] + start, stop - start, beta, least);
}

}  // namespace enmf
