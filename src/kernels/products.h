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

    // The same where the last of the V vectors is a part.
    static Tile read_part(const T* from, Index stride, const Part<T>& rest) {
        Tile tile;
        for (int p = 0; p < P; ++p)
            for (int v = 0; v < V; ++v) tile.at[p][v] = piece(from + p * stride, v, rest);
        return tile;
    }

    void write_part(T* to, Index stride, const Part<T>& rest) const {
        for (int p = 0; p < P; ++p)
            for (int v = 0; v < V; ++v) {
                if (v < V - 1)
                    store(to + p * stride + v * LANES<T>, at[p][v]);
                else
                    rest.store(to + p * stride + v * LANES<T>, at[p][v]);
            }
    }

    static Vector<T> piece(const T* from, int v, const Part<T>& rest) {
        return v < V - 1 ? load(from + v * LANES<T>) : rest.load(from + v * LANES<T>);
    }

    void subtract(const T* lines, Index stride) {
        for (int p = 0; p < P; ++p)
            for (int v = 0; v < V; ++v) at[p][v] -= load(lines + p * stride + v * LANES<T>);
    }

    // Line p gains (or loses) the sum over j < count of coefficient(p, j) times line j.
    template <bool SUBTRACT = false, bool PART = false>
    void add(const T* coefficients, Index per_line, Index per_j, const T* lines, Index stride, Index count,
             const Part<T>& rest = Part<T>(0)) {
        for (Index j = 0; j < count; ++j, coefficients += per_j, lines += stride) {
            Vector<T> line[V];
            for (int v = 0; v < V; ++v) line[v] = PART ? piece(lines, v, rest) : load(lines + v * LANES<T>);
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

// Inner products of P lines with Q others: the sums stay in registers, and are added up across the lanes at the end.
template <class T, int P, int Q>
struct Inner {
    Vector<T> at[P][Q];

    static Inner zero() {
        Inner inner;
        for (int p = 0; p < P; ++p)
            for (int q = 0; q < Q; ++q) inner.at[p][q] = Vector<T>{};
        return inner;
    }

    void add(const Vector<T> (&left)[P], const Vector<T> (&right)[Q]) {
        for (int p = 0; p < P; ++p)
            for (int q = 0; q < Q; ++q) at[p][q] += left[p] * right[q];
    }

    // Over the first `count` numbers of lines that lie `left_stride` and `right_stride` apart.
    void add(const T* left, Index left_stride, const T* right, Index right_stride, Index count) {
        Vector<T> a[P], b[Q];
        Index i = 0;
        for (; i + LANES<T> <= count; i += LANES<T>) {
            for (int p = 0; p < P; ++p) a[p] = load(left + p * left_stride + i);
            for (int q = 0; q < Q; ++q) b[q] = load(right + q * right_stride + i);
            add(a, b);
        }
        if (i == count) return;
        const Part<T> rest(count - i);
        for (int p = 0; p < P; ++p) a[p] = rest.load(left + p * left_stride + i);
        for (int q = 0; q < Q; ++q) b[q] = rest.load(right + q * right_stride + i);
        add(a, b);
    }

    // The totals, line by line.
    void totals(T (&out)[P][Q]) const {
        constexpr int count = P * Q, lanes = static_cast<int>(LANES<T>);
        constexpr int whole = (count + lanes - 1) / lanes * lanes;
        Vector<T> all_of_them[whole] = {};
        for (int i = 0; i < count; ++i) all_of_them[i] = at[i / Q][i % Q];
        T total[whole];
        for (int i = 0; i < whole; i += lanes) store(total + i, sums<T>(all_of_them + i));
        for (int i = 0; i < count; ++i) out[i / Q][i % Q] = total[i];
    }
};

// Body is called for tiles of at most PANEL x STRIP that cover `rows` x `columns`: body(P, Q, first row, first column).
template <class Body>
inline void each_tile(Index rows, Index columns, Body&& body) {
    for (Index k = 0; k < rows; k += PANEL)
        with_constant<PANEL>(rows - k, [&](auto P) {
            for (Index j = 0; j < columns; j += STRIP)
                with_constant<STRIP>(columns - j, [&](auto Q) { body(P, Q, k, j); });
        });
}

// T += left rightᵀ for two blocks with the same lanes; with LOWER only tiles that reach below the diagonal.
template <class T, bool LOWER = false>
void add_inner(const Block<T>& left, const Block<T>& right, const Rows<T>& totals) {
    each_tile(left.components(), right.components(), [&](auto P, auto Q, Index k, Index j) {
        if (LOWER && j > k + P() - 1) return;
        auto inner = Inner<T, P(), Q()>::zero();
        for (Index s = 0; s < left.strips(); ++s) {
            const Index lanes = left.vectors(s) * LANES<T>;
            inner.add(left.strip(s) + k * lanes, lanes, right.strip(s) + j * lanes, lanes, lanes);
        }
        T total[P()][Q()];
        inner.totals(total);
        for (int p = 0; p < P(); ++p)
            for (int q = 0; q < Q(); ++q) totals[k + p][j + q] += total[p][q];
    });
}

// compiled once, in onepass.cpp
extern template void add_inner<float, true>(const Block<float>&, const Block<float>&, const Rows<float>&);
extern template void add_inner<double, true>(const Block<double>&, const Block<double>&, const Rows<double>&);

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
