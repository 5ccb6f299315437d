// Iterations of the rotation's ADMM (linalg/rotation.py) on few rows, in one call. With the lines of Wᵀ (r x n)
//     Z and Z + Y from W R and Y (admm.h);  R = C Dᵀ from the SVD  Wᵀ (Z + Y) = C S Dᵀ;  Y += Z - W R,
// and then rho and the end are decided as they are there.
//
// The SVD is one-sided Jacobi (Hestenes 1958): the columns of M D are rotated in pairs, and D with them, until all are
// orthogonal; then they are those of C S. M changes little from one iteration to the next, so that the D before is
// nearly right and a sweep or two are enough. Each sweep is a tournament: pairs of a round have no column in common, so
// that their angles are computed side by side.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "admm.h"
#include "products.h"

namespace enmf {

constexpr int MOST_SWEEPS = 40;  // of Jacobi; about eight are needed from D = I
constexpr Index FRESH = 64;      // iterations after which D is the identity again: every rotation adds its rounding

// Lines of the result are sums over j < inner of coefficient(line, j) times line j.
template <class T>
void combine(const T* coefficients, Index per_line, Index per_j, const Rows<const T>& lines, const Rows<T>& out) {
    const Index vectors = ceil_div(out.width, LANES<T>), inner = lines.count;
    for (Index v = 0; v < vectors; v += STRIP)
        with_constant<STRIP>(vectors - v, [&](auto V) {
            const Index c = v * LANES<T>, last = std::min(LANES<T>, out.width - c - (V() - 1) * LANES<T>);
            const Part<T> rest(last);
            each_panel(out.count, [&](Index k, auto P) {
                auto tile = Tile<T, P(), V()>::zero();
                const T* from = coefficients + k * per_line;
                if (last == LANES<T>) {
                    tile.add(from, per_line, per_j, lines[0] + c, lines.stride, inner);
                    tile.write(out[k] + c, out.stride);
                } else {
                    tile.template add<false, true>(from, per_line, per_j, lines[0] + c, lines.stride, inner, rest);
                    tile.write_part(out[k] + c, out.stride, rest);
                }
            });
        });
}

// Inner products of all lines of one matrix with all lines of another.
template <class T>
void multiply_lines(const Rows<const T>& left, const Rows<const T>& right, const Rows<double>& out) {
    each_tile(left.count, right.count, [&](auto P, auto Q, Index k, Index j) {
        auto inner = Inner<T, P(), Q()>::zero();
        inner.add(left[k], left.stride, right[j], right.stride, left.width);
        T total[P()][Q()];
        inner.totals(total);
        for (int p = 0; p < P(); ++p)
            for (int q = 0; q < Q(); ++q) out[k + p][j + q] = static_cast<double>(total[p][q]);
    });
}

// The orthogonal R that maximizes trace(Rᵀ M), for one M after another.
class Procrustes {
  public:
    explicit Procrustes(Index r)
        : r_(r), line_(ceil_div(r, LANES<double>) * LANES<double>), both_(2 * r * line_), squares_(r),
          left_(ceil_div(r, 2)), right_(left_.size()), inner_(left_.size()), cosine_(left_.size()),
          sine_(left_.size()) {}

    // Mt is the transposed M. The lines of D are right singular vectors: a guess before the call, those of M after it.
    void solve(const Rows<const double>& Mt, const Rows<double>& D, double tolerance, const Rows<double>& R) {
        combine<double>(D[0], D.stride, 1, Mt, {column(0), r_, r_, 2 * line_});
        for (Index p = 0; p < r_; ++p) std::copy_n(D[p], r_, column(p) + line_);
        for (int sweep = 0; sweep < MOST_SWEEPS && improve(tolerance); ++sweep) {}
        normalize();
        for (Index p = 0; p < r_; ++p) std::copy_n(column(p) + line_, r_, D[p]);
        combine<double>(column(0), 1, 2 * line_, as_const(D), R);
    }

  private:
    double* column(Index p) const { return both_.get() + p * 2 * line_; }  // of M D, and behind it that of D

    // A sweep; was any pair farther from orthogonal than the tolerance?
    bool improve(double tolerance) {
        for (Index p = 0; p < r_; ++p) squares_[p] = squared_norm(column(p), line_);
        const Index players = r_ + r_ % 2, circle = players - 1;
        bool rotated = false;
        for (Index round = 0; round < circle; ++round) {
            Index pairs = 0;
            for (Index i = 0; i < players / 2; ++i) {
                const Index a = i == 0 ? circle : (round + i) % circle, b = (round + circle - i) % circle;
                if (a == r_) continue;  // an odd number: b has no partner in this round
                left_[pairs] = a;
                right_[pairs++] = b;
            }
            rotated |= rotate(pairs, tolerance);
        }
        return rotated;
    }

    // Make the columns of each pair orthogonal, unless they are.
    bool rotate(Index pairs, double tolerance) {
        dots<double>(pairs, line_, inner_.get(), [&](Index i) { return column(left_[i]); },
                     [&](Index i) { return column(right_[i]); });
        bool rotated = false;
        for (Index i = 0; i < pairs; ++i) {
            double &a = squares_[left_[i]], &b = squares_[right_[i]];
            const double ab = inner_[i];
            sine_[i] = 0.0;
            if (!(ab * ab > tolerance * tolerance * a * b)) continue;
            const double cotangent = (b - a) / (2.0 * ab);  // of twice the angle
            const double size = std::abs(cotangent) + std::sqrt(1.0 + cotangent * cotangent);
            const double tangent = std::copysign(1.0 / size, cotangent);
            cosine_[i] = 1.0 / std::sqrt(1.0 + tangent * tangent);
            sine_[i] = tangent * cosine_[i];
            a = std::max(a - tangent * ab, 0.0);
            b += tangent * ab;
            rotated = true;
        }
        if (!rotated) return false;
        for (Index i = 0; i < pairs; ++i) {
            if (sine_[i] == 0.0) continue;
            const Vector<double> c = all(cosine_[i]), s = all(sine_[i]);
            double *a = column(left_[i]), *b = column(right_[i]);
            for (Index j = 0; j < 2 * line_; j += LANES<double>) {
                const Vector<double> x = load(a + j), y = load(b + j);
                store(a + j, c * x - s * y);
                store(b + j, s * x + c * y);
            }
        }
        return true;
    }

    // Divide the columns of M D by their lengths. Those that are rounding are replaced by any that complete the basis.
    void normalize() {
        double largest = 0.0;
        for (Index p = 0; p < r_; ++p) {
            squares_[p] = squared_norm(column(p), line_);
            largest = std::max(largest, squares_[p]);
        }
        const double rounding = static_cast<double>(r_) * std::numeric_limits<double>::epsilon();
        for (Index p = 0; p < r_; ++p) {
            const bool known = squares_[p] > rounding * rounding * largest;
            if (known) scale(column(p), 1.0 / std::sqrt(squares_[p]));
            squares_[p] = known ? 1.0 : 0.0;
        }
        Index axis = 0;
        for (Index p = 0; p < r_; ++p)
            while (squares_[p] == 0.0 && axis < r_) complete(p, axis++);
    }

    // Column p becomes what an axis has outside the span of the known columns, if that is not little.
    void complete(Index p, Index axis) {
        double* here = column(p);
        std::fill_n(here, r_, 0.0);
        here[axis] = 1.0;
        for (int again = 0; again < 2; ++again)
            for (Index q = 0; q < r_; ++q) {
                if (squares_[q] == 0.0) continue;
                const double inside = dot(here, column(q), r_);
                for (Index i = 0; i < r_; ++i) here[i] -= inside * column(q)[i];
            }
        const double square = squared_norm(here, r_);
        if (square * static_cast<double>(r_) < 0.5) return;  // an axis with at least 1 / r outside is still to come
        scale(here, 1.0 / std::sqrt(square));
        squares_[p] = 1.0;
    }

    void scale(double* line, double factor) const {
        for (Index i = 0; i < r_; ++i) line[i] *= factor;
    }

    Index r_, line_;  // line_: r and padding with zeros
    Space<double> both_, squares_;
    Space<Index> left_, right_;
    Space<double> inner_, cosine_, sine_;
};

// When rho changes and when the iteration ends, see linalg/rotation.py.
struct TurningRules {
    double uneven, step;         // ratio of the residuals above which rho changes, and its factor
    double least_rho, most_rho;
    double share, enough;        // the negative mass must fall by this share over `window` iterations; it is small enough
    Index window;
};

// What is known after an iteration.
template <class T>
struct Turning {
    Rows<const T> W;           // r x n, as all others of this type
    Rows<T> WR, Y;             // without gaps between their lines
    Rows<double> R, best, D;   // r x r: the last one, that with the least negative mass, right singular vectors (lines)
    Line<double> masses;       // the negative mass after every iteration
    double rho;
};

inline bool has_ended(const double* masses, Index iteration, const TurningRules& rules) {
    const double best = *std::min_element(masses, masses + iteration + 1);
    if (best <= rules.enough) return true;
    if (iteration < rules.window) return false;
    return best > (1.0 - rules.share) * *std::min_element(masses, masses + iteration + 1 - rules.window);
}

// Iterations start + 1, ..., stop, or fewer if the end comes first; returns the last one. Iteration 0 only measures.
template <class T>
Index turn(Index start, Index stop, Turning<T>& now, const TurningRules& rules) {
    const Index r = now.W.count, n = now.W.width, size = r * n;
    Space<T> Z(size), ZY(size), turned(size), rotation(r * r);
    Space<double> partial(std::max<Index>(ceil_div(size, CHUNK), 1) * 4), Mt(r * r);
    const Rows<double> sums{partial.get(), ceil_div(size, CHUNK), 4, 4};
    const Rows<T> both{ZY.get(), r, n, n};
    Procrustes procrustes(r);
    T *WR = now.WR.data, *before = turned.get(), *Y = now.Y.data;

    const auto rotate = [&] {  // WR = W R
        for (Index i = 0; i < r; ++i)
            for (Index j = 0; j < r; ++j) rotation[i * r + j] = static_cast<T>(now.R[i][j]);
        combine<T>(rotation.get(), 1, r, now.W, {WR, r, n, n});
    };
    const auto measure = [&](Index iteration) {  // Y += Z - WR; returns the squared residuals
        update_dual<T>(0, size, WR, before, Y, Z.get(), sums);
        double total[4] = {};
        for (Index c = 0; c < sums.count; ++c)
            for (int i = 0; i < 4; ++i) total[i] += sums[c][i];
        const double mass = total[3] > 0.0 ? (total[3] - total[2]) / (2.0 * total[3]) : 0.0;
        if (iteration == 0 || mass < *std::min_element(now.masses.data, now.masses.data + iteration))
            for (Index i = 0; i < r; ++i) std::copy_n(now.R[i], r, now.best[i]);
        now.masses[iteration] = mass;
        return std::pair(total[0], total[1]);
    };

    if (start == 0) {
        rotate();
        std::copy_n(WR, size, Z.get());  // Y remains
        measure(0);
    }
    Index iteration = start;
    while (iteration < stop && !has_ended(now.masses.data, iteration, rules)) {
        if (iteration % FRESH == 0)
            for (Index i = 0; i < r; ++i)
                for (Index j = 0; j < r; ++j) now.D[i][j] = i == j ? 1.0 : 0.0;
        split<T>(0, size, WR, Y, Z.get(), ZY.get(), static_cast<T>(1.0 / now.rho));
        multiply_lines<T>(as_const(both), now.W, Mt.rows(r));
        procrustes.solve(as_const(Mt.rows(r)), now.D, static_cast<double>(std::numeric_limits<T>::epsilon()), now.R);
        std::swap(WR, before);
        rotate();
        const auto [primal, moved] = measure(++iteration);
        const double residual = std::sqrt(primal), step = now.rho * std::sqrt(moved);
        const bool more = residual > rules.uneven * step, less = step > rules.uneven * residual;
        const double factor = more ? rules.step : less ? 1.0 / rules.step : 1.0;
        if (factor != 1.0 && rules.least_rho < now.rho * factor && now.rho * factor < rules.most_rho) {
            now.rho *= factor;
            for (Index i = 0; i < size; ++i) Y[i] /= static_cast<T>(factor);
        }
    }
    if (WR != now.WR.data) std::copy_n(WR, size, now.WR.data);
    return iteration;
}

}  // namespace enmf
