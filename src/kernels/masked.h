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

#include "inner.h"
#include "nnls.h"
#include "offsets.h"
#include "products.h"
#include "sweep.h"

namespace enmf {

constexpr Index GATHERED = 64;      // entries of a row whose lines are copied together before they are summed
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

// The normal equations of one row. The right-hand side is one more line below G, and t one more coefficient beside a c:
//     line k = sum_e (a_e c_e, t_e)_k c_e
template <class T>
class NormalEquations {
  public:
    explicit NormalEquations(Index r)
        : r_(r), stride_(padded(r, LANES<T>)), per_entry_(stride_ + LANES<T>),
          lines_((r + 1) * stride_), gathered_(GATHERED * stride_), coefficients_(GATHERED * per_entry_) {}

    T* operator[](Index k) const { return lines_.get() + k * stride_; }  // row k of G, padded with zeros
    T* right() const { return (*this)[r_]; }
    Index stride() const { return stride_; }

    template <class W, class I>
    void form(Index i, const RowProblems<T, W, I>& of) {
        const auto& entries = of.entries;
        const bool based = entries.from_base[i];
        std::fill_n(lines_.get(), lines_.size(), T(0));
        for (Index k = 0; based && k < r_; ++k) {
            std::copy_n(of.G0[k], k + 1, (*this)[k]);
            right()[k] = of.B0[k][i];
        }
        const Index last = entries.indptr[i + 1];
        for (Index e = entries.indptr[i]; e < last; e += GATHERED) {
            const Index count = std::min(GATHERED, last - e);
            gather(entries, of.C, e, count);
            add_products(count);
        }
        constexpr T rounding = static_cast<T>(CANCELLED * std::numeric_limits<T>::epsilon());
        for (Index k = 0; k < r_; ++k) {
            for (Index j = 0; j < k; ++j) (*this)[j][k] = (*this)[k][j];
            T& diagonal = (*this)[k][k];
            if (based && diagonal <= rounding * of.G0[k][k]) diagonal = T(0);
            diagonal += of.ridge[i];
        }
    }

  private:
    template <class W, class I>
    void gather(const Entries<W, I>& entries, const Rows<const T>& C, Index first, Index count) {
        const Index whole = r_ / LANES<T> * LANES<T>;
        const Part<T> rest(r_ - whole);
        for (Index q = 0; q < count; ++q) {
            const T* row = C[static_cast<Index>(entries.indices[first + q])];
            const Vector<T> a = all(static_cast<T>(entries.weights[first + q]));
            T *line = gathered_.get() + q * stride_, *weighted = coefficients_.get() + q * per_entry_;
            for (Index k = 0; k < whole; k += LANES<T>) {
                const Vector<T> c = load(row + k);
                store(line + k, c);
                store(weighted + k, a * c);
            }
            if (!rest.none()) {
                const Vector<T> c = rest.load(row + whole);
                store(line + whole, c);
                store(weighted + whole, a * c);
            }
            weighted[r_] = static_cast<T>(entries.targets[first + q]);
        }
    }

    // The lower triangle of G, in whole vectors, and the right-hand side.
    void add_products(Index count) {
        for (Index k = 0; k <= r_; k += PANEL)
            with_constant<PANEL>(r_ + 1 - k, [&](auto P) {
                const Index end = std::min(k + P(), r_);  // of what is needed of these lines
                for (Index j = 0; j < end; j += STRIP * LANES<T>)
                    with_constant<STRIP>(ceil_div(end - j, LANES<T>), [&](auto V) {
                        auto tile = Tile<T, P(), V()>::read((*this)[k] + j, stride_);
                        tile.add(coefficients_.get() + k, 1, per_entry_, gathered_.get() + j, stride_, count);
                        tile.write((*this)[k] + j, stride_);
                    });
            });
    }

    const Index r_, stride_, per_entry_;
    Space<T> lines_, gathered_, coefficients_;
};

// Coordinate sweeps on the normal equations of one row (compare sweep.h).
template <class T>
class RowSweeps {
  public:
    explicit RowSweeps(Index r) : u(r), r_(r), up_(r), down_(r) {}

    const Space<T> u;

    // The right-hand side becomes the descent direction b - G u. A finite wall is soft, and relative to the mean
    // diagonal of G.
    void begin(const NormalEquations<T>& G, double wall) {
        double diagonal = 0.0;
        for (Index k = 0; k < r_; ++k) diagonal += static_cast<double>(G[k][k]);
        wall *= diagonal / static_cast<double>(r_);
        for (Index k = 0; k < r_; ++k) {
            const T g = G[k][k];
            const bool determined = g > LEAST_CURVATURE<T>;
            up_[k] = determined ? T(1) / g : T(0);
            down_[k] = determined ? static_cast<T>(1.0 / (static_cast<double>(g) + wall)) : T(0);
        }
        for (Index k = 0; k < r_; k += PANEL)
            with_constant<PANEL>(r_ - k, [&](auto P) { moved<P()>(G, k, u.get() + k); });
    }

    // One sweep over the components; returns the sum of the squared changes.
    template <bool HARD>
    double sweep(const NormalEquations<T>& G) {
        double change = 0.0;
        for (Index k = 0; k < r_; k += PANEL)
            with_constant<PANEL>(r_ - k, [&](auto P) { change += panel<HARD, P()>(G, k); });
        return change;
    }

  private:
    template <bool HARD, int P>
    double panel(const NormalEquations<T>& G, Index k) {
        T z[P], steps[P];
        double change = 0.0;
        bool any = false;
        for (int q = 0; q < P; ++q) {
            T held = 0;  // old values, which give way to the new ones
            for (int p = 0; p <= q; ++p) held += G[k + q][k + p] * u[k + p];
            z[q] = G.right()[k + q] + held;
        }
        for (int p = 0; p < P; ++p) {
            const T before = u[k + p], up = up_[k + p];
            const T above = z[p] * up, below = HARD ? T(0) : z[p] * down_[k + p];
            const T goal = above > below ? above : below;  // z >= 0: above; z < 0: below, as down <= up
            const T now = up > T(0) ? goal : before;
            for (int q = p + 1; q < P; ++q) z[q] -= now * G[k + q][k + p];
            const T step = now - before;
            change += static_cast<double>(step) * static_cast<double>(step);
            any |= step != T(0);
            steps[p] = step;
            u[k + p] = now;
        }
        if (any) moved<P>(G, k, steps);
        return change;
    }

    // The descent direction after these steps of the components k .. k + P.
    template <int P>
    static void moved(const NormalEquations<T>& G, Index k, const T* steps) {
        for (Index j = 0; j < G.stride(); j += LANES<T>) {
            auto slope = load(G.right() + j);
            for (int p = 0; p < P; ++p) slope -= all(steps[p]) * load(G[k + p] + j);
            store(G.right() + j, slope);
        }
    }

    const Index r_;
    Space<T> up_, down_;  // 1 / G_kk, and 1 / (G_kk + wall); zero where the entries do not determine a component
};

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
        G.form(i, of);
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
        G.form(i, of);
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
        G.form(i, of);
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
