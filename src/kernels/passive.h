// Least squares on a subset of the components, the members (in the active set method: the passive set).
//
//     G_MM z = b_M        by G_MM = L Lᵀ,  y = L⁻¹ b_M,  z = L⁻ᵀ y
//
// The columns of L are lines in memory, and the right-hand sides are further rows of L: with b_Mᵀ below G_MM, the same
// steps that make L make y. A row of L depends on the rows above it alone, so that members that come or go at the end
// leave the others as they are.
#pragma once

#include <cmath>

#include "products.h"

namespace enmf {

constexpr double DEPENDENT = 1e-13;  // of its diagonal entry is left of the pivot of a member that depends on others

// A symmetric matrix whose rows are padded with zeros to whole vectors.
struct Gram {
    const double* data;
    Index stride;

    const double* operator[](Index i) const { return data + i * stride; }
};

// Such a copy of a matrix.
class PaddedGram {
  public:
    explicit PaddedGram(const Rows<const double>& G)
        : stride_(padded(G.count, LANES<double>)), space_(G.count * stride_) {
        for (Index k = 0; k < G.count; ++k) std::copy_n(G[k], G.count, space_.get() + k * stride_);
    }

    Gram view() const { return {space_.get(), stride_}; }

  private:
    Index stride_;
    Space<double> space_;
};

// The sum over the members q of coefficients[q] times row q of G, subtracted from a padded line.
inline void subtract_members(double* line, const double* coefficients, Index distance, const Gram& G,
                             const Index* members, Index count) {
    Index at = 0;
    for (Index vectors = G.stride / LANES<double>; vectors > 0; vectors -= STRIP, at += STRIP * LANES<double>)
        with_constant<STRIP>(vectors, [&](auto V) {
            auto tile = Tile<double, 1, V()>::read(line + at, 0);
            for (Index q = 0; q < count; ++q)
                tile.template add<true>(coefficients + q * distance, 0, 0, G[members[q]] + at, 0, 1);
            tile.write(line + at, 0);
        });
}

class Passive {
  public:
    using T = double;

    // For up to r members and `most` right-hand sides.
    Passive(Index r, Index most)
        : stride_(padded(r + most + LANES<T>, LANES<T>)), L_(r * stride_), inverse_(r) {}

    // Row p of L in a column q < p; the diagonal is known by its inverse.
    T at(Index p, Index q) const { return L_[q * stride_ + p]; }
    T inverse(Index q) const { return inverse_[q]; }

    // Entry q of the right-hand sides, which lie side by side; after `solve`, of their solutions.
    T* right(Index q, Index count) const { return L_.get() + q * stride_ + count; }
    Index stride() const { return stride_; }

    // Rows from `first` on, where those before it are right; the right-hand sides become y. Returns the position of a
    // member that depends on the previous ones (its pivot vanishes, its row of L is right), or -1.
    Index factor(const Gram& G, const Index* members, Index count, Index first, Index sides) {
        first = first / PANEL * PANEL;
        for (Index q = 0; q < count; ++q) {
            const T* row = G[members[q]];
            for (Index p = std::max(q, first); p < count; ++p) L_[q * stride_ + p] = row[members[p]];
        }
        Index dependent = -1;
        for (Index q = 0; q < count && dependent < 0; q += PANEL)
            with_constant<PANEL>(count - q, [&](auto P) {
                dependent = panel<P()>(G, members, q, std::max(q, first), count + sides);
            });
        return dependent;
    }

    // y becomes z.
    void solve(Index count, Index sides) {
        Index q = count;
        while (q > 0) {
            const Index few = (q - 1) % PANEL + 1;
            q -= few;
            with_constant<PANEL>(few, [&](auto P) {
                each_strip(sides, [&](Index s, auto V) { solve_panel<P(), V()>(q, count, s); });
            });
        }
    }

  private:
    template <class Body>
    static void each_strip(Index numbers, Body&& body) {
        Index at = 0;
        for (Index vectors = ceil_div(numbers, LANES<T>); vectors > 0; vectors -= STRIP, at += STRIP * LANES<T>)
            with_constant<STRIP>(vectors, [&](auto V) { body(at, V); });
    }

    // Columns q .. q + P of L, in the rows begin .. end.
    template <int P>
    Index panel(const Gram& G, const Index* members, Index q, Index begin, Index end) {
        Index dependent = -1;
        each_strip(end - begin, [&](Index at, auto V) {
            if (dependent >= 0) return;
            T* lines = L_.get() + q * stride_ + begin + at;
            auto tile = Tile<T, P, V()>::read(lines, stride_);
            tile.template add<true>(L_.get() + q, 1, stride_, L_.get() + begin + at, stride_, q);
            if (begin == q && at == 0) {
                tile.write(lines, stride_);
                dependent = pivots<P>(G, members, q);
                if (dependent >= 0) return;
            }
            for (int p = 0; p < P; ++p)
                for (int v = 0; v < V(); ++v) {
                    tile.at[p][v] *= all(inverse_[q + p]);
                    for (int c = p + 1; c < P; ++c) tile.at[c][v] -= all(this->at(q + c, q + p)) * tile.at[p][v];
                }
            tile.write(lines, stride_);
        });
        return dependent;
    }

    // The P x P block on the diagonal.
    template <int P>
    Index pivots(const Gram& G, const Index* members, Index q) {
        const auto entry = [&](int row, int column) -> T& { return L_[(q + column) * stride_ + q + row]; };
        for (int p = 0; p < P; ++p) {
            const T pivot = entry(p, p);
            if (pivot <= DEPENDENT * G[members[q + p]][members[q + p]]) return q + p;
            inverse_[q + p] = 1.0 / std::sqrt(pivot);
            for (int c = p + 1; c < P; ++c) entry(c, p) *= inverse_[q + p];
            for (int c = p + 1; c < P; ++c)
                for (int d = c; d < P; ++d) entry(d, c) -= entry(c, p) * entry(d, p);
        }
        return -1;
    }

    // Entries q .. q + P of the solutions s, s + 1, ...: those after them are known.
    template <int P, int V>
    void solve_panel(Index q, Index count, Index s) {
        const Index after = q + P;
        auto tile = Tile<T, P, V>::read(right(q, count) + s, stride_);
        const T* column = L_.get() + q * stride_ + after;
        tile.template add<true>(column, stride_, 1, right(after, count) + s, stride_, count - after);
        for (int p = P - 1; p >= 0; --p)
            for (int v = 0; v < V; ++v) {
                tile.at[p][v] *= all(inverse_[q + p]);
                for (int c = 0; c < p; ++c) tile.at[c][v] -= all(at(q + p, q + c)) * tile.at[p][v];
            }
        tile.write(right(q, count) + s, stride_);
    }

    Index stride_;
    Space<T> L_, inverse_;  // column q of L is a line
};

}  // namespace enmf
