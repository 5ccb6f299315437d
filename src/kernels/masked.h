// Row problems of a matrix with missing entries: every row i of the factor F has its own normal equations.
//
//     G_i = [G0] + sum_e a_e c_e c_eᵀ + ridge_i I        b_i = [B0_i] + sum_e t_e c_e
//
// over the entries e that are stored for row i, where c_e is the row of the other factor C at the column of e. A row
// that is described by its observed entries has a = weight, t = weight * x and no base. A row that is described by its
// missing entries has the base G0 = CᵀC, B0 = X C of the matrix with zeros at these entries, and a = -1, t = 0 at them
// (paper, appendix "Exterior NMC algorithm": the gradient of the row is F_i G_i - b_i). The row-wise r x r problems are
// those of masked alternating methods (Lin and Boutros 2018); here they are formed, used immediately and never stored.
#pragma once

#include <cmath>
#include <limits>

#include "equations.h"
#include "inner.h"
#include "nnls.h"
#include "offsets.h"

namespace enmf {

constexpr double CANCELLED = 64.0;  // a diagonal entry of G0 that has shrunk to this many rounding units counts as zero

// The stored entries. Weights and targets may have less precision than the factors.
template <class W, class I>
struct Entries {
    Offsets indptr;
    const I* indices;
    const W *weights, *targets;  // a, t
    const bool* from_base;
};

// What all row problems have in common: C (m x r), G0 (r x r), B0 (r x n), ridge (n).
template <class T, class W, class I>
struct RowProblems {
    Entries<W, I> entries;
    Rows<const T> C, G0, B0;
    const T* ridge;

    Index components() const { return C.width; }
};

// The normal equations of row i.
template <class T, class W, class I>
void form(Index i, const RowProblems<T, W, I>& of, NormalEquations<T>& G) {
    const auto& entries = of.entries;
    const Index r = of.components(), first = entries.indptr[i];
    const bool based = entries.from_base[i];
    G.clear();
    for (Index k = 0; based && k < r; ++k) {
        std::copy_n(of.G0[k], k + 1, G[k]);
        G.right()[k] = of.B0[k][i];
    }
    G.add(
        entries.indptr[i + 1] - first, [&](Index q) { return of.C[static_cast<Index>(entries.indices[first + q])]; },
        [&](Index q) { return static_cast<T>(entries.weights[first + q]); },
        [&](Index q) { return static_cast<T>(entries.targets[first + q]); });
    G.mirror();
    constexpr T rounding = static_cast<T>(CANCELLED * std::numeric_limits<T>::epsilon());
    for (Index k = 0; k < r; ++k) {
        T& diagonal = G[k][k];
        if (based && diagonal <= rounding * of.G0[k][k]) diagonal = T(0);
        diagonal += of.ridge[i];
    }
}

// Up to `how.most` coordinate sweeps for the rows start..stop of F (r x n), in place. A row stops when a sweep changes
// it by less than `how.progress` times the first. Components that the entries of the row do not determine stay
// unchanged.
template <class T, class W, class I>
void masked_sweep(Index start, Index stop, const RowProblems<T, W, I>& of, const Rows<T>& F, const SweepOptions& how) {
    const Index r = F.count;
    const auto& indptr = of.entries.indptr;
    NormalEquations<T> G(r);
    RowSweeps<T> row(r);
    for (Index i = start; i < stop; ++i) {
        if (indptr[i] == indptr[i + 1] && !of.entries.from_base[i] && of.ridge[i] == T(0)) continue;
        form(i, of, G);
        for (Index k = 0; k < r; ++k) row.u[k] = F[k][i];
        row.begin(G, how.wall);
        double first_change = 0.0;
        for (Index s = 0; s < how.most; ++s) {
            const double change = std::isinf(how.wall) ? row.template sweep<true>(G) : row.template sweep<false>(G);
            if (s == 0) first_change = change;
            if (change <= how.progress * how.progress * first_change) break;
        }
        for (Index k = 0; k < r; ++k) F[k][i] = row.u[k];
    }
}

// Masked projected gradient steps for the rows start..stop of F, in place (paper, Algorithm 2 and eq. 8 to 11).
//
// Step size and gradient use only the observed entries: d = ||g||² / (g G_i gᵀ). Negative entries of F stay unchanged;
// an entry at zero with a positive gradient is left out of g.
template <class T, class W, class I>
void masked_row_steps(Index start, Index stop, const RowProblems<T, W, I>& of, const Rows<T>& F, Index most,
                      double epsilon) {
    const Index r = F.count;
    NormalEquations<T> G(r);
    const Space<T> u(r), g(G.stride()), product(G.stride());
    const auto multiply = [&](const T* x) {  // product = G x
        for (Index j = 0; j < G.stride(); j += STRIP * LANES<T>)
            with_constant<STRIP>((G.stride() - j) / LANES<T>, [&](auto V) {
                auto tile = Tile<T, 1, V()>::zero();
                tile.add(x, 0, 1, G[0] + j, G.stride(), r);
                tile.write(product.get() + j, 0);
            });
    };
    for (Index i = start; i < stop; ++i) {
        form(i, of, G);
        for (Index k = 0; k < r; ++k) u[k] = F[k][i];
        T first_norm = 0;
        for (Index s = 0; s < most; ++s) {
            multiply(u.get());
            for (Index k = 0; k < r; ++k) {
                const T slope = product[k] - G.right()[k];
                g[k] = u[k] < T(0) || (u[k] == T(0) && slope > T(0)) ? T(0) : slope;
            }
            const T norm = dot(g.get(), g.get(), r);
            if (s == 0) first_norm = norm;
            if (static_cast<double>(norm) <= epsilon * epsilon * static_cast<double>(first_norm)) break;
            multiply(g.get());
            const T curvature = dot(g.get(), product.get(), r);
            if (curvature <= T(0)) break;
            const T step = norm / curvature;
            for (Index k = 0; k < r; ++k)
                if (u[k] >= T(0)) u[k] = std::max(u[k] - step * g[k], T(0));
        }
        for (Index k = 0; k < r; ++k) F[k][i] = u[k];
    }
}

// Nonnegative least squares to optimality for the rows start..stop of F, from the support of F.
template <class W, class I>
void masked_solve(Index start, Index stop, const RowProblems<double, W, I>& of, const Rows<double>& F) {
    const Index r = F.count;
    NormalEquations<double> G(r);
    ActiveSet problem(r);
    for (Index i = start; i < stop; ++i) {
        form(i, of, G);
        std::copy_n(G.right(), r, problem.b.get());
        for (Index k = 0; k < r; ++k) problem.x[k] = F[k][i];
        problem.solve({G[0], G.stride()});
        for (Index k = 0; k < r; ++k) F[k][i] = problem.x[k];
    }
}

// out[:, i] = sum_e (t_e - a_e p_e) D_e with p_e = F_i . C_e, and what the entries add to the squared error.
//
// F is n x r, C and D are m x r, out is r x n. For a row of observed entries errors[i] is sum a (x - p)², accurate
// however small; for a row with a base it is what the missing entries add to the error of the base.
template <class T, class W, class I>
void residual_times(Index start, Index stop, const Entries<W, I>& entries, const Rows<const T>& F,
                    const Rows<const T>& C, const Rows<const T>& D, const Rows<T>& out, double* errors) {
    const Index r = F.width, vectors = ceil_div(r, LANES<T>);
    const Part<T> rest(r % LANES<T>);
    const Space<T> sums(vectors * LANES<T>), residuals(GATHERED);
    for (Index i = start; i < stop; ++i) {
        const Index last = entries.indptr[i + 1];
        const bool based = entries.from_base[i];
        double error = 0.0;
        std::fill_n(sums.get(), sums.size(), T(0));
        for (Index e = entries.indptr[i]; e < last; e += GATHERED) {
            const Index count = std::min(GATHERED, last - e);
            const auto column = [&](Index q) { return static_cast<Index>(entries.indices[e + q]); };
            dots<T>(count, r, residuals.get(), [&](Index) { return F[i]; }, [&](Index q) { return C[column(q)]; });
            for (Index q = 0; q < count; ++q) {
                const T a = static_cast<T>(entries.weights[e + q]), t = static_cast<T>(entries.targets[e + q]);
                const T p = residuals[q], d = t - a * p;
                residuals[q] = d;
                error += based ? static_cast<double>(a * p * p - 2 * t * p)
                               : static_cast<double>(d) * static_cast<double>(d) / static_cast<double>(a);
            }
            for (Index v = 0; v < vectors; v += STRIP)
                with_constant<STRIP>(vectors - v, [&](auto V) {
                    const bool partly = v + V() == vectors && !rest.none();
                    auto tile = Tile<T, 1, V()>::read(sums.get() + v * LANES<T>, 0);
                    for (Index q = 0; q < count; ++q) {
                        const T* line = D[column(q)] + v * LANES<T>;
                        const Vector<T> d = all(residuals[q]);
                        for (int w = 0; w < V() - 1; ++w) tile.at[0][w] += d * load(line + w * LANES<T>);
                        line += (V() - 1) * LANES<T>;
                        tile.at[0][V() - 1] += d * (partly ? rest.load(line) : load(line));
                    }
                    tile.write(sums.get() + v * LANES<T>, 0);
                });
        }
        errors[i] = error;
        for (Index k = 0; k < r; ++k) out[k][i] = sums[k];
    }
}

// out[e] = U[rows[e]] . V[columns[e]] for start <= e < stop.
template <class T, class I>
void pair_products(Index start, Index stop, const I* rows, const I* columns, const Rows<const T>& U,
                   const Rows<const T>& V, T* out) {
    const auto left = [&](Index q) { return U[static_cast<Index>(rows[start + q])]; };
    const auto right = [&](Index q) { return V[static_cast<Index>(columns[start + q])]; };
    dots<T>(stop - start, U.width, out + start, left, right);
}

}  // namespace enmf
