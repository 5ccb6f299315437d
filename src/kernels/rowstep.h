// Row-wise projected gradient steps for min 1/2 <F, F G> - <F, B> over nonnegative entries of F (paper, Algorithm 2).
//
// For row i (a column of the r x n array F), with D = F G - B and g = D on the entries that may move, 0 elsewhere:
//     d = ||g||² / (g G gᵀ)                     eq. 10 and 11; g G gᵀ is ||g Vᵀ||², without the n x m product
//     F_ij <- max(0, F_ij - d g_j)              eq. 8 and 9, for the entries that may move
#pragma once

#include "inner.h"
#include "products.h"

namespace enmf {

struct StepOptions {
    double fixed;    // > 0: the step size, in place of the optimal one
    Index most;      // steps
    double epsilon;  // a block ends when ||g|| is below this share of its first value
    bool literal;    // as in the paper: g covers all nonnegative entries. Otherwise an entry at 0 with a positive
                     // gradient is left out of g, so that it does not shorten the step of the others.
};

// g of one strip of V vectors, and ||g||² of each of its lanes.
template <class T, int V>
void find_gradient(const T* F, const T* B, const Rows<const T>& G, bool literal, T* g, T* squares) {
    constexpr Index lanes = V * LANES<T>;
    const Vector<T> zero{};
    Vector<T> sums[V] = {};
    each_panel(G.count, [&](Index panel, auto P) {
        auto D = Tile<T, P(), V>::zero();
        D.add(G[panel], G.stride, 1, F, lanes, G.count);
        D.subtract(B + panel * lanes, lanes);
        for (int p = 0; p < P(); ++p)
            for (int v = 0; v < V; ++v) {
                const Vector<T> f = load(F + (panel + p) * lanes + v * LANES<T>), d = D.at[p][v];
                const Vector<T> below = d < zero ? d : zero, at_zero = literal ? d : below;
                const Vector<T> moving = f > zero ? d : f == zero ? at_zero : zero;
                sums[v] += moving * moving;
                store(g + (panel + p) * lanes + v * LANES<T>, moving);
            }
    });
    for (int v = 0; v < V; ++v) store(squares + v * LANES<T>, sums[v]);
}

// The step sizes of one strip: ||g||² / (g G gᵀ), or 0 where nothing moves.
template <class T, int V>
void find_steps(const T* g, const Rows<const T>& G, const T* squares, Vector<T> (&steps)[V]) {
    constexpr Index lanes = V * LANES<T>;
    const Vector<T> zero{};
    Vector<T> curvature[V] = {};
    each_panel(G.count, [&](Index panel, auto P) {
        auto gG = Tile<T, P(), V>::zero();
        gG.add(G[panel], G.stride, 1, g, lanes, G.count);
        for (int p = 0; p < P(); ++p)
            for (int v = 0; v < V; ++v) curvature[v] += gG.at[p][v] * load(g + (panel + p) * lanes + v * LANES<T>);
    });
    for (int v = 0; v < V; ++v)
        steps[v] = curvature[v] > zero ? load(squares + v * LANES<T>) / curvature[v] : zero;
}

template <class T, int V>
void take_steps(T* F, const T* g, Index r, const Vector<T> (&steps)[V]) {
    const Vector<T> zero{};
    for (Index k = 0; k < r; ++k)
        for (int v = 0; v < V; ++v, F += LANES<T>, g += LANES<T>) {
            const Vector<T> f = load(F), moved = positive<T>(f - steps[v] * load(g));
            store(F, f >= zero ? moved : f);
        }
}

// Up to `how.most` steps for the columns start..stop of F (r x n), in place; negative entries stay unchanged.
template <class T>
void row_steps(Index start, Index stop, const Rows<T>& F, const Rows<const T>& B, const Rows<const T>& G,
               const StepOptions& how) {
    const Index r = F.count;
    Block<T> work(r), right(r), gradient(r);
    alignas(64) T squares[BLOCK];
    for (Index first = start; first < stop; first += BLOCK) {
        const Index width = std::min(BLOCK, stop - first);
        work.load(as_const(F), first, width);
        right.load(B, first, width);
        gradient.resize(width);
        double first_norm = 0.0;
        for (Index step = 0; step < how.most; ++step) {
            each_strip(work, [&](Index s, auto V) {
                find_gradient<T, V()>(work.strip(s), right.strip(s), G, how.literal, gradient.strip(s),
                                      squares + s * STRIP_LANES<T>);
            });
            const double norm = total(squares, width);
            if (step == 0) first_norm = norm;
            if (norm <= how.epsilon * how.epsilon * first_norm) break;
            each_strip(work, [&](Index s, auto V) {
                Vector<T> steps[V()];
                if (how.fixed > 0.0)
                    std::fill_n(steps, V(), all(static_cast<T>(how.fixed)));
                else
                    find_steps<T, V()>(gradient.strip(s), G, squares + s * STRIP_LANES<T>, steps);
                take_steps<T, V()>(work.strip(s), gradient.strip(s), r, steps);
            });
        }
        work.store(F, first);
    }
}

}  // namespace enmf
