// Small matrix products in registers: the inner loops of sweeps and of everything that multiplies blocks of lanes.
#pragma once

#include "lanes.h"

namespace enmf {

// P lines of V vectors each, held in registers.
template <class T, int P, int V>
struct Tile {
    Vector<T> at[P][V];

    static Tile zero() {
        Tile tile;
        for (int p = 0; p < P; ++p)
            for (int v = 0; v < V; ++v) tile.at[p][v] = Vector<T>{};
        return tile;
    }

    static Tile read(const T* from, Index stride) {
        Tile tile;
        for (int p = 0; p < P; ++p)
            for (int v = 0; v < V; ++v) tile.at[p][v] = load(from + p * stride + v * LANES<T>);
        return tile;
    }

    void write(T* to, Index stride) const {
        for (int p = 0; p < P; ++p)
            for (int v = 0; v < V; ++v) store(to + p * stride + v * LANES<T>, at[p][v]);
    }

    void subtract(const T* lines, Index stride) {
        for (int p = 0; p < P; ++p)
            for (int v = 0; v < V; ++v) at[p][v] -= load(lines + p * stride + v * LANES<T>);
    }

    // Line p gains (or loses) the sum over j < count of coefficient(p, j) times line j.
    template <bool SUBTRACT = false>
    void add(const T* coefficients, Index per_line, Index per_j, const T* lines, Index stride, Index count) {
        for (Index j = 0; j < count; ++j, coefficients += per_j, lines += stride) {
            Vector<T> line[V];
            for (int v = 0; v < V; ++v) line[v] = load(lines + v * LANES<T>);
            for (int p = 0; p < P; ++p) {
                const Vector<T> c = all(coefficients[p * per_line]);
                for (int v = 0; v < V; ++v) {
                    if constexpr (SUBTRACT)
                        at[p][v] -= c * line[v];
                    else
                        at[p][v] += c * line[v];
                }
            }
        }
    }
};

// body(first component, how many as a constant) for the panels of r components.
template <class Body>
inline void each_panel(Index r, Body&& body) {
    Index panel = 0;
    for (; panel + PANEL <= r; panel += PANEL) body(panel, std::integral_constant<int, PANEL>());
    if (panel < r) with_constant<PANEL - 1>(r - panel, [&](auto P) { body(panel, P); });
}

// body(strip, its vectors as a constant) for the strips of a block.
template <class T, class Body>
inline void each_strip(const Block<T>& block, Body&& body) {
    for (Index s = 0; s < block.whole_strips(); ++s) body(s, std::integral_constant<int, STRIP>());
    if constexpr (STRIP > 1) {
        if (const Index last = block.whole_strips(); last < block.strips())
            with_constant<STRIP - 1>(block.vectors(last), [&](auto V) { body(last, V); });
    }
}

}  // namespace enmf
