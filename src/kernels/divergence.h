// Row problems of a beta divergence: for fixed C (m x r) every row u of F has a problem of its own,
//
//     min over u >= 0 of  sum_e w_e d(x_e | m_e) + l1 sum(u) + l2/2 ||u||²,   m_e = u . c_e
//
//     d(x | m) = x log(x/m) - x + m (beta = 1),  x/m - log(x/m) - 1 (beta = 0),
//                (x^beta + (beta - 1) m^beta - beta x m^(beta-1)) / (beta (beta - 1)) otherwise
//
// over the entries e of the row; entries that are not listed are missing, or zeros with weight 1 (`implied`). For
// beta = 1 the zeros add sum m_e = u . s to the loss, s the sum of all rows of C: only entries that are not zero cost
// anything. For beta < 1 the concave part of d is replaced by its tangent (Févotte and Idier 2011), which lies above it
// and touches it, so that what lowers the replacement lowers the loss.
//
// A Newton step minimizes the second-order model, whose normal equations are those of a weighted least squares problem,
//     G = sum_e a_e c_e c_eᵀ,  b = sum_e t_e c_e,   a = w d''(x | m),  t = a m - w d'(x | m),
// by coordinate sweeps over u >= 0. The slope of the (convex) replacement at the end of the step decides: if it is not
// positive, the step has only gone down. It may have gone a little up again at its end; a bound on the change tells.
// Otherwise a shorter step is taken. So every step lowers the loss, and none needs a logarithm.
#pragma once

#include <bit>
#include <cmath>
#include <limits>

#include "equations.h"
#include "inner.h"
#include "sparse.h"

namespace enmf {
inline namespace ENMF_MODULE {  // these are types for Python, and every instruction set has its own

// log x for normal x > 0, to rounding: x = 2^e (1 + f) with 1 + f between sqrt(1/2) and sqrt(2), and
// log(1 + f) = 2 artanh(s), s = f / (2 + f).
template <class T>
inline Vector<T> logarithm(Vector<T> x) {
    using Bits = typename VectorOf<T>::mask;
    using Int = std::conditional_t<sizeof(T) == 8, long long, int>;
    constexpr int digits = std::numeric_limits<T>::digits - 1;
    constexpr Int one = std::bit_cast<Int>(T(1)), fraction = (Int(1) << digits) - 1;
    const T root = static_cast<T>(1.4142135623730951);
    Bits bits;
    std::memcpy(&bits, &x, sizeof x);
    Bits exponent = (bits - one) >> digits;
    Bits mantissa = (bits & fraction) | one;
    Vector<T> f;
    std::memcpy(&f, &mantissa, sizeof f);
    const Bits large = f > all(root);
    f = large ? f * T(0.5) : f;
    exponent -= large;  // a mask is -1 where it holds
    f -= T(1);
    const Vector<T> s = f / (f + T(2)), z = s * s;
    constexpr int terms = sizeof(T) == 8 ? 11 : 5;
    Vector<T> series = all(T(2) / T(2 * terms + 1));
    for (int i = terms - 1; i > 0; --i) series = series * z + T(2) / T(2 * i + 1);
    const Vector<T> e = __builtin_convertvector(exponent, Vector<T>);
    return e * static_cast<T>(0.6931471805599453) + (s * T(2) + s * z * series);
}

// q - 1 - log q, accurate also near q = 1.
template <class T>
inline Vector<T> excess(Vector<T> q) {
    return (q - T(1)) - logarithm<T>(q);
}

// The entries of one row, padded with entries that change no sum.
template <class T>
class RowEntries {
  public:
    explicit RowEntries(Index most)
        : columns(most), x(most + LANES<T>), w(most + LANES<T>), m(most + LANES<T>), after(most + LANES<T>),
          a(most + LANES<T>), t(most + LANES<T>) {}

    Index count = 0;
    bool weighted = false, implied = false;
    const Space<Index> columns;
    const Space<T> x, w, m, after, a, t;  // m, and m after a step

    void begin() {
        count = 0;
        weighted = implied = false;
    }

    void put(Index column, T value) {
        columns[count] = column;
        x[count++] = value;
    }

    void pad() {
        for (Index e = count; e < count + LANES<T>; ++e) {
            x[e] = m[e] = after[e] = T(1);
            w[e] = T(0);
        }
    }
};

// A matrix by its rows.
template <class T>
struct RowSource {
    virtual ~RowSource() = default;
    virtual void read(Index i, RowEntries<T>& row) const = 0;  // `all`: zeros too
    Index rows = 0, columns = 0, longest = 0;                  // entries of a row
    T largest = 0;                                             // entry of all
    bool zeros = false;                                        // they have to be listed
};

template <class T>
struct DenseSource : RowSource<T> {
    explicit DenseSource(const Rows<const T>& X) : X(X) {
        this->rows = X.count;
        this->columns = this->longest = X.width;
        for (Index i = 0; i < X.count; ++i)
            for (Index j = 0; j < X.width; ++j) this->largest = std::max(this->largest, X[i][j]);
    }

    void read(Index i, RowEntries<T>& row) const override {
        row.begin();
        row.implied = !this->zeros;
        for (Index j = 0; j < X.width; ++j)
            if (this->zeros || X[i][j] > T(0)) row.put(j, X[i][j]);
        row.pad();
    }

    Rows<const T> X;
};

// Stored entries, in blocks of columns. Those that are not stored are zeros (`implied`) or missing.
template <class T, class I>
struct SparseSource : RowSource<T> {
    SparseSource(const Starts& starts, Index rows, Index columns, Index blocks, const Entries<T, I>& entries,
                 const T* weights, bool implied)
        : starts(starts), blocks(blocks), entries(entries), weights(weights), implied(implied) {
        this->rows = rows;
        this->columns = columns;
        for (Index i = 0; i < rows; ++i) this->longest = std::max(this->longest, length(i));
        for (Index e = 0; e < entries.count; ++e) this->largest = std::max(this->largest, entries.values[e]);
    }

    Index length(Index i) const {
        Index count = 0;
        for (Index b = 0; b < blocks; ++b) count += starts(b, i + 1) - starts(b, i);
        return count;
    }

    void read(Index i, RowEntries<T>& row) const override {
        row.begin();
        row.weighted = weights != nullptr;
        row.implied = implied && !this->zeros;
        const bool expands = implied && this->zeros;
        if (expands) {
            for (Index j = 0; j < this->columns; ++j) {
                row.put(j, T(0));
                row.w[j] = T(1);
            }
        }
        for (Index b = 0; b < blocks; ++b)
            for (Index e = starts(b, i); e < starts(b, i + 1); ++e) {
                const Index j = static_cast<Index>(entries.columns[e]), at = expands ? j : row.count;
                if (weights) row.w[at] = weights[e];
                if (expands)
                    row.x[at] = entries.values[e];
                else
                    row.put(j, entries.values[e]);
            }
        row.pad();
    }

    const Starts starts;
    const Index blocks;
    const Entries<T, I> entries;
    const T* weights;
    const bool implied;
};

// What a loss says about the entries of a row, all of them at once.
template <class T>
class BetaLoss {
  public:
    // `largest` entry of the matrix: models of zeros are kept a tiny share of it away from zero.
    BetaLoss(double beta, T largest)
        : beta_(beta), floor_((largest > T(0) ? largest : T(1)) * least_share(beta)) {}

    double beta() const { return beta_; }

    // Away from zero, where the loss or its derivatives are infinite.
    void keep_off_zero(const RowEntries<T>& row, T* m) const {
        each(row, [&](Index e) { store(m + e, off_zero(row, e, load(m + e))); });
    }

    struct Derivatives {
        Vector<T> slope, curvature;
    };

    // d' and d'' at m, times the weight; for beta < 1 the curvature of the convex part.
    Derivatives derivatives(const RowEntries<T>& row, Index e) const {
        const Vector<T> x = load(row.x.get() + e), m = load(row.m.get() + e), w = weight(row, e);
        if (beta_ == 1.0) {
            const Vector<T> inverse = T(1) / m, ratio = w * x * inverse;
            return {linear(row, w) - ratio, ratio * inverse};
        }
        if (beta_ == 0.0) {
            const Vector<T> inverse = T(1) / m, ratio = w * x * inverse * inverse;
            return {w * inverse - ratio, ratio * inverse * T(2)};
        }
        const T b = static_cast<T>(beta_);
        const Vector<T> p = w * power(m, b - T(3));
        return {(m - x) * p * m, p * (x * (T(2) - b) + (beta_ > 1.0 ? m * (b - T(1)) : Vector<T>{}))};
    }

    // a and t of the second-order model at m.
    void model(const RowEntries<T>& row) const {
        each(row, [&](Index e) {
            const auto [slope, curvature] = derivatives(row, e);
            store(row.a.get() + e, curvature);
            store(row.t.get() + e, curvature * load(row.m.get() + e) - slope);
        });
    }

    // Sums of the derivatives along an entry of u whose numbers in the lines are c.
    std::pair<T, T> along(const RowEntries<T>& row, const T* c) const {
        Vector<T> first{}, second{};
        each(row, [&](Index e) {
            const auto [slope, curvature] = derivatives(row, e);
            const Vector<T> by = load(c + e);
            first += slope * by;
            second += curvature * by * by;
        });
        return {sum<T>(first), sum<T>(second)};
    }

    // m after a step of that entry.
    void move(const RowEntries<T>& row, const T* c, T step) const {
        each(row, [&](Index e) {
            store(row.m.get() + e, off_zero(row, e, load(row.m.get() + e) + load(c + e) * step));
        });
    }

    // Slope of the replacement along p = after - m, at m + share p.
    double slope(const RowEntries<T>& row, T share) const {
        Vector<double> total{};
        each(row, [&](Index e) {
            const Vector<T> x = load(row.x.get() + e), m = load(row.m.get() + e), w = weight(row, e);
            const Vector<T> after = load(row.after.get() + e), p = after - m;
            const Vector<T> there = share == T(1) ? after : off_zero(row, e, m + p * share);
            Vector<T> slope;
            if (beta_ == 1.0)
                slope = linear(row, w) - w * x / there;
            else if (beta_ == 0.0)
                slope = w * (T(1) / m - x / (there * there));
            else {
                const T b = static_cast<T>(beta_);
                const Vector<T> rising = power(beta_ > 1.0 ? there : m, b - T(1));
                slope = w * (rising - x * power(there, b - T(2)));
            }
            total += in_double(slope * p);
        });
        return sum<double>(total);
    }

    // A bound from above on the change of the replacement from m to `after`; but for beta = 1 the change itself. For
    // beta = 1 it rests on log(1 + z) >= 2 z / (2 + z) for z >= 0, and z (2 + z) / (2 + 2 z) for z < 0.
    double rise(const RowEntries<T>& row) const {
        Vector<double> total{};
        each(row, [&](Index e) {
            const Vector<T> x = load(row.x.get() + e), m = load(row.m.get() + e), w = weight(row, e);
            const Vector<T> there = load(row.after.get() + e), p = there - m;
            Vector<T> change;
            if (beta_ == 1.0) {
                const Vector<T> z = p / m;
                const Vector<T> log = z > Vector<T>{} ? T(2) * z / (z + T(2)) : z * (z + T(2)) * T(0.5) / (z + T(1));
                change = linear(row, w) * p - (x > Vector<T>{} ? w * x * log : Vector<T>{});
            } else if (beta_ == 0.0) {
                change = w * (p / m + x / there - x / m);
            } else {
                const T b = static_cast<T>(beta_);
                const Vector<T> here = power(m, b - T(1)), then = power(there, b - T(1));
                const Vector<T> rising = beta_ > 1.0 ? (then * there - here * m) / b : here * p;
                change = w * (rising - x * (then - here) / (b - T(1)));
            }
            total += in_double(change);
        });
        return sum<double>(total);
    }

    double value(const RowEntries<T>& row) const {
        Vector<double> total{};
        each(row, [&](Index e) {
            const Vector<T> x = load(row.x.get() + e), m = load(row.m.get() + e), w = weight(row, e);
            Vector<T> d{};
            if (beta_ == 1.0) {
                const auto some = x > m * NOTHING;  // else d = m to rounding, and m / x might overflow
                const Vector<T> divisor = some ? x : m;
                d = w * (some ? x * excess<T>(m / divisor) : m);
                if (row.implied) d -= m;
                for (Index lane = row.count - e; lane < LANES<T>; ++lane) d[lane] = T(0);  // m = 1 of the padding
            } else if (beta_ == 0.0) {
                d = w * excess<T>(x / m);
            } else {
                for (Index lane = 0; lane < LANES<T>; ++lane) d[lane] = w[lane] * general(x[lane], m[lane]);
            }
            total += in_double(d);
        });
        return sum<double>(total);
    }

    // Sums of w x, and of the linear part of the slope times m.
    void add_sums(const RowEntries<T>& row, Vector<double>& own, Vector<double>& model) const {
        each(row, [&](Index e) {
            const Vector<T> x = load(row.x.get() + e), m = load(row.m.get() + e), w = weight(row, e);
            Vector<T> a = w * x, b = linear(row, w) * m;
            for (Index lane = row.count - e; lane < LANES<T>; ++lane) a[lane] = b[lane] = T(0);
            own += in_double(a);
            model += in_double(b);
        });
    }

    // The two parts of the slope, x m^(beta - 2) and m^(beta - 1), into a and t.
    void parts(const RowEntries<T>& row) const {
        each(row, [&](Index e) {
            const Vector<T> x = load(row.x.get() + e), m = load(row.m.get() + e), w = weight(row, e);
            Vector<T> up, down;
            if (beta_ == 1.0) {
                up = w * x / m;
                down = linear(row, w);
            } else if (beta_ == 0.0) {
                down = w / m;
                up = down * x / m;
            } else {
                const Vector<T> p = w * power(m, static_cast<T>(beta_) - T(2));
                up = x * p;
                down = m * p;
            }
            store(row.a.get() + e, up);
            store(row.t.get() + e, down);
        });
    }

  private:
    static constexpr T NOTHING = sizeof(T) == 8 ? T(1e-200) : T(1e-30);
    // Its inverse to the third power, which occurs for beta near 0, does not overflow.
    static T least_share(double beta) { return sizeof(T) == 8 ? T(1e-30) : beta == 1.0 ? T(1e-25) : T(1e-12); }

    Vector<T> off_zero(const RowEntries<T>& row, Index e, Vector<T> m) const {
        constexpr T share = sizeof(T) == 8 ? T(1e-10) : T(1e-6);
        const Vector<T> least = load(row.x.get() + e) * share + floor_;
        return m > least ? m : least;
    }

    template <class Body>
    static void each(const RowEntries<T>& row, Body&& body) {
        for (Index e = 0; e < row.count; e += LANES<T>) body(e);
    }

    static Vector<T> weight(const RowEntries<T>& row, Index e) {
        return row.weighted ? load(row.w.get() + e) : all(T(1));
    }

    // The part of the slope for beta = 1 that does not depend on m; s has the weight 1 of entries that are implied.
    static Vector<T> linear(const RowEntries<T>& row, Vector<T> w) { return row.implied ? w - T(1) : w; }

    static Vector<double> in_double(Vector<T> v) {
        if constexpr (sizeof(T) == 8)
            return v;
        else
            return widen_part<0, T>(v) + widen_part<1, T>(v);
    }

    static Vector<T> power(Vector<T> m, T exponent) {
        Vector<T> out{};
        for (Index lane = 0; lane < LANES<T>; ++lane) out[lane] = std::pow(m[lane], exponent);
        return out;
    }

    T general(T x, T m) const {
        const double b = beta_, X = static_cast<double>(x), M = static_cast<double>(m);
        if (!(X > 0.0)) return static_cast<T>(std::pow(M, b) / b);
        return static_cast<T>((std::pow(X, b) + (b - 1.0) * std::pow(M, b) - b * X * std::pow(M, b - 1.0)) /
                              (b * (b - 1.0)));
    }

    const double beta_;
    const T floor_;
};

// Coordinate sweeps on the second-order model of a row, at most so many, until one changes u by less than this share of
// the first.
template <class T>
void minimize(NormalEquations<T>& G, RowSweeps<T>& sweeps, Index r, Index most, double progress) {
    sweeps.begin(G, std::numeric_limits<double>::infinity());
    for (Index k = 0; k < r; ++k)  // no curvature, so the loss is linear in it
        if (!(G[k][k] > LEAST_CURVATURE<T>) && G.right()[k] < T(0)) sweeps.u[k] = T(0);
    double first = 0.0;
    for (Index s = 0; s < most; ++s) {
        const double change = sweeps.template sweep<true>(G);
        if (s == 0) first = change;
        if (change <= progress * progress * first) break;
    }
}

// What all rows have in common.
template <class T>
struct DivergenceProblem {
    const RowSource<T>& X;
    Rows<const T> C;   // m x r
    const T* base;     // r: sum of the rows of C
    T l1;
    const T* l2;       // n
    BetaLoss<T> loss;
};

// The loss of one row: its entries, its model, and how it changes along a step.
template <class T>
class DivergenceRow {
  public:
    explicit DivergenceRow(const DivergenceProblem<T>& of)
        : of_(of), r_(of.C.width), row_(of.X.longest), G_(r_), sweeps_(r_), before_(r_),
          up_(padded(r_, LANES<T>)), down_(padded(r_, LANES<T>)) {}

    const Space<T>& u() const { return sweeps_.u; }

    void read(Index i, const Rows<const T>& F) {
        i_ = i;
        of_.X.read(i, row_);
        for (Index k = 0; k < r_; ++k) u()[k] = F[k][i];
    }

    void predict(T* m) {
        dots<T>(row_.count, r_, m, [&](Index) { return u().get(); }, [&](Index e) { return line(e); });
        of_.loss.keep_off_zero(row_, m);
    }

    void predict() { predict(row_.m.get()); }

    // The two parts of the gradient, up and down: sum_e a_e c_e and sum_e t_e c_e.
    void gradient_parts() {
        of_.loss.parts(row_);
        add_lines(row_.a.get(), up_);
        if (row_.implied && !row_.weighted) {
            std::copy_n(of_.base, r_, down_.get());
            return;
        }
        add_lines(row_.t.get(), down_);
        for (Index k = 0; row_.implied && k < r_; ++k) down_[k] += of_.base[k];
    }

    // A multiplicative step: it never raises the loss, and finds the size of a row that is far off at once.
    void multiply() {
        gradient_parts();
        const double beta = of_.loss.beta();
        const T exponent = beta < 1.0 ? static_cast<T>(1.0 / (2.0 - beta)) : T(1);
        T total = 0;
        std::fill_n(before_.get(), r_, std::numeric_limits<T>::infinity());
        for (Index k = 0; k < r_; ++k) {
            const T below = down_[k] + of_.l1 + of_.l2[i_] * u()[k];
            if (!(below > T(0))) continue;
            const T factor = up_[k] / below;
            total += below * u()[k];
            u()[k] *= beta < 1.0 ? std::pow(factor, exponent) : factor;
            before_[k] = factor < T(1) ? below * u()[k] : std::numeric_limits<T>::infinity();
        }
        for (Index k = 0; k < r_; ++k)  // it shrinks, and has become too small to be seen: multiplication never ends
            if (before_[k] < std::numeric_limits<T>::epsilon() * total) u()[k] = T(0);
        predict();
    }

    // By how much the sums of the row and of its model differ, as a share; for beta = 1, where they agree at the optimum.
    double off_balance() const {
        if (of_.loss.beta() != 1.0) return std::numeric_limits<double>::infinity();
        Vector<double> own{}, model{};
        of_.loss.add_sums(row_, own, model);
        double x = sum<double>(own), m = sum<double>(model);
        for (Index k = 0; row_.implied && k < r_; ++k)
            m += static_cast<double>(of_.base[k]) * static_cast<double>(u()[k]);
        return std::abs(x - m) / (x > 0.0 ? x : 1.0);
    }

    const Space<T>& up() const { return up_; }
    const Space<T>& down() const { return down_; }

    // One step; returns whether u has changed. m has to be that of u, and is so afterwards.
    bool step(Index most, double progress) {
        second_order();
        G_.mirror();
        for (Index k = 0; k < r_; ++k) {
            G_[k][k] += of_.l2[i_];
            G_.right()[k] -= of_.l1 + (row_.implied ? of_.base[k] : T(0));
            before_[k] = u()[k];
        }
        minimize(G_, sweeps_, r_, most, progress);
        return settle();
    }

    // The lower triangle of G, and b without the entries that are implied.
    const NormalEquations<T>& second_order() {
        of_.loss.model(row_);
        G_.clear();
        G_.add(
            row_.count, [&](Index e) { return line(e); }, [&](Index e) { return row_.a[e]; },
            [&](Index e) { return row_.t[e]; });
        return G_;
    }

    // A step from u to row i of `to`, for `slope_at` and `rise`.
    void set_out(const Rows<const T>& to) {
        for (Index k = 0; k < r_; ++k) {
            before_[k] = u()[k];
            u()[k] = to[k][i_];
        }
        predict(row_.after.get());
    }

    // Slope of the replacement at this share of the step.
    double slope_at(double share) const {
        double total = of_.loss.slope(row_, static_cast<T>(share));
        for (Index k = 0; k < r_; ++k) {
            const double from = static_cast<double>(before_[k]), step = static_cast<double>(u()[k]) - from;
            const double linear = static_cast<double>(of_.l1 + (row_.implied ? of_.base[k] : T(0)));
            total += step * (linear + static_cast<double>(of_.l2[i_]) * (from + share * step));
        }
        return total;
    }

    // A bound from above on the change of the replacement over the whole step.
    double rise() const {
        double total = of_.loss.rise(row_);
        for (Index k = 0; k < r_; ++k) {
            const double from = static_cast<double>(before_[k]), to = static_cast<double>(u()[k]);
            const double linear = static_cast<double>(of_.l1 + (row_.implied ? of_.base[k] : T(0)));
            total += (to - from) * (linear + 0.5 * static_cast<double>(of_.l2[i_]) * (to + from));
        }
        return total;
    }

    double value() const {
        double total = of_.loss.value(row_);
        for (Index k = 0; row_.implied && k < r_; ++k)
            total += static_cast<double>(of_.base[k]) * static_cast<double>(u()[k]);
        return total;
    }

    const RowEntries<T>& entries() const { return row_; }
    BetaLoss<T> loss() const { return of_.loss; }
    const T* line(Index e) const { return of_.C[row_.columns[e]]; }

  private:
    // sums = sum_e factors[e] c_e
    void add_lines(const T* factors, const Space<T>& sums) const {
        const Index vectors = ceil_div(r_, LANES<T>);
        const Part<T> rest(r_ % LANES<T>);
        for (Index v = 0; v < vectors; v += STRIP)
            with_constant<STRIP>(vectors - v, [&](auto V) {
                const bool partly = v + V() == vectors && !rest.none();
                auto tile = Tile<T, 1, V()>::zero();
                for (Index e = 0; e < row_.count; ++e) {
                    const T* from = line(e) + v * LANES<T>;
                    const Vector<T> factor = all(factors[e]);
                    for (int w = 0; w < V() - 1; ++w) tile.at[0][w] += factor * load(from + w * LANES<T>);
                    from += (V() - 1) * LANES<T>;
                    tile.at[0][V() - 1] += factor * (partly ? rest.load(from) : load(from));
                }
                tile.write(sums.get() + v * LANES<T>, 0);
            });
    }

    // From before_ toward u, so far that the slope does not become positive.
    bool settle() {
        predict(row_.after.get());
        double slope = slope_at(1.0);
        if (slope <= 0.0 || rise() <= 0.0) {
            accept(T(1));
            return true;
        }
        double start = slope_at(0.0), share = 1.0;
        for (int tries = 0; start < 0.0 && tries < MOST_TRIES; ++tries) {
            const double secant = share * start / (start - slope);
            share = std::max(secant, LEAST_SHARE * share);
            start *= 0.5;  // else secants might approach the minimum from beyond it, and never end before it
            slope = slope_at(share);
            if (slope <= 0.0) {
                accept(static_cast<T>(share));
                return true;
            }
        }
        std::copy_n(before_.get(), r_, u().get());
        return false;
    }

    void accept(T share) {
        if (share == T(1)) {
            std::copy_n(row_.after.get(), row_.count, row_.m.get());
            return;
        }
        for (Index k = 0; k < r_; ++k) u()[k] = before_[k] + share * (u()[k] - before_[k]);
        for (Index e = 0; e < row_.count; ++e) row_.m[e] += share * (row_.after[e] - row_.m[e]);
    }

    static constexpr int MOST_TRIES = 12;
    static constexpr double LEAST_SHARE = 0.1;

    const DivergenceProblem<T> of_;
    const Index r_;
    Index i_ = 0;
    RowEntries<T> row_;
    NormalEquations<T> G_;
    RowSweeps<T> sweeps_;
    Space<T> before_, up_, down_;
};

constexpr double FAR_OFF = 0.2;  // share by which a row's sum is off that begins with a multiplicative step

struct NewtonOptions {
    Index steps;      // of a row, at most
    double progress;  // a row ends when a step changes it by less than this share of the first
    Index sweeps;     // of a step, at most
    double accuracy;  // sweeps end when one changes the row by less than this share of the first
};

// Newton steps of the rows start..stop of F (r x n), in place.
template <class T>
void newton(Index start, Index stop, const DivergenceProblem<T>& of, const Rows<T>& F, const NewtonOptions& how) {
    DivergenceRow<T> row(of);
    const Index r = F.count;
    const Space<T> before(r);
    for (Index i = start; i < stop; ++i) {
        row.read(i, as_const(F));
        row.predict();
        if (how.steps == 0 || row.off_balance() > FAR_OFF) row.multiply();
        double first = 0.0;
        for (Index s = 0; s < how.steps; ++s) {
            std::copy_n(row.u().get(), r, before.get());
            if (!row.step(how.sweeps, how.accuracy)) break;
            double change = 0.0;
            for (Index k = 0; k < r; ++k) {
                const double d = static_cast<double>(row.u()[k]) - static_cast<double>(before[k]);
                change += d * d;
            }
            if (s == 0) first = change;
            if (change <= how.progress * how.progress * first) break;
        }
        for (Index k = 0; k < r; ++k) F[k][i] = row.u()[k];
    }
}

// Newton steps of single entries of u, one after another: u_k <- max(0, u_k - g/h), g and h the derivatives of the loss
// along u_k (Hsieh and Dhillon 2011); m follows every step. Nothing keeps such a step from raising the loss. For
// beta = 1 the loss is self-concordant, and a damped step never does (Hien and Gillis 2021): with
//     lambda = sqrt(h) |d| / sqrt(smallest w x^beta of entries w x > 0 of the row)
// the step d is taken in full if g <= 0 or lambda <= 0.683802, else d / (1 + lambda).
template <class T>
class EntrySteps {
  public:
    explicit EntrySteps(const DivergenceProblem<T>& of)
        : of_(of), row_(of), r_(of.C.width), stride_(padded(of.X.longest, LANES<T>)), lines_(r_ * stride_) {}

    const Space<T>& u() const { return row_.u(); }

    void read(Index i, const Rows<const T>& F) {
        i_ = i;
        row_.read(i, F);
        row_.predict();
        gather();
    }

    void sweep(bool damped) {
        const double least = damped ? smallest() : std::numeric_limits<double>::infinity();
        for (Index k = 0; k < r_; ++k) step(k, least);
    }

  private:
    // The lines of C that belong to entries of the row, transposed, and zeros behind them.
    void gather() {
        const Index count = row_.entries().count;
        for (Index first = 0; first < count; first += LANES<T>) {
            const Index some = std::min(LANES<T>, count - first);
            for (Index e = 0; e < some; ++e) {
                const T* from = row_.line(first + e);
                for (Index k = 0; k < r_; ++k) lines_[k * stride_ + first + e] = from[k];
            }
            for (Index e = some; e < LANES<T>; ++e)
                for (Index k = 0; k < r_; ++k) lines_[k * stride_ + first + e] = T(0);
        }
    }

    double smallest() const {
        const RowEntries<T>& row = row_.entries();
        const double beta = of_.loss.beta();
        double least = std::numeric_limits<double>::infinity();
        for (Index e = 0; e < row.count; ++e) {
            const double x = static_cast<double>(row.x[e]), w = row.weighted ? static_cast<double>(row.w[e]) : 1.0;
            if (x > 0.0 && w > 0.0) least = std::min(least, w * (beta == 1.0 ? x : std::pow(x, beta)));
        }
        return least;
    }

    void step(Index k, double least) {
        const RowEntries<T>& row = row_.entries();
        const T* c = lines_.get() + k * stride_;
        const T before = u()[k], l2 = of_.l2[i_];
        auto [g, h] = of_.loss.along(row, c);
        g += of_.l1 + l2 * before + (row.implied ? of_.base[k] : T(0));
        h += l2;
        T now = before;
        if (h > LEAST_CURVATURE<T>)
            now = before > g / h ? before - g / h : T(0);
        else if (g > T(0))  // no curvature, so the loss is linear in it
            now = T(0);
        const double lambda = std::sqrt(static_cast<double>(h) / least) * static_cast<double>(before - now);
        if (g > T(0) && lambda > MOST_FULL) now = before + static_cast<T>(1.0 / (1.0 + lambda)) * (now - before);
        if (now == before) return;
        u()[k] = now;
        of_.loss.move(row, c, now - before);
    }

    static constexpr double MOST_FULL = 0.683802;

    const DivergenceProblem<T> of_;
    DivergenceRow<T> row_;
    const Index r_, stride_;
    Index i_ = 0;
    Space<T> lines_;
};

// Sweeps over the entries of the rows start..stop of F (r x n), in place.
template <class T>
void entry_steps(Index start, Index stop, const DivergenceProblem<T>& of, const Rows<T>& F, Index sweeps, bool damped) {
    EntrySteps<T> row(of);
    for (Index i = start; i < stop; ++i) {
        row.read(i, as_const(F));
        for (Index s = 0; s < sweeps; ++s) row.sweep(damped);
        for (Index k = 0; k < F.count; ++k) F[k][i] = row.u()[k];
    }
}

// values[i], the loss of row i of F (r x n); and with `up` and `down` (r x n) the two parts of its gradient,
// down - up, without the penalty.
template <class T>
void divergence_terms(Index start, Index stop, const DivergenceProblem<T>& of, const Rows<const T>& F, double* values,
                      const Rows<T>& up, const Rows<T>& down) {
    DivergenceRow<T> row(of);
    const Index r = F.count;
    for (Index i = start; i < stop; ++i) {
        row.read(i, F);
        row.predict();
        if (values) values[i] = row.value();
        if (up.width == 0) continue;
        row.gradient_parts();
        for (Index k = 0; k < r; ++k) {
            up[k][i] = row.up()[k];
            down[k][i] = row.down()[k];
        }
    }
}

// A step of rows whose entries lie in several blocks, each in the memory of somebody else, takes two sums over the blocks.
// The first is that of the models, a line of numbers for each row: the lower triangle of G, then both parts of the
// gradient, which give b = G u + up - down. The second judges the step: slopes at some shares of it, and the bound on its
// change. Penalties count once, so they are not in these sums.

inline Index model_numbers(Index r) { return r * (r + 1) / 2 + 2 * r; }

// Add the models of the rows start..stop of F (r x n) to the lines of `models`.
template <class T>
void add_models(Index start, Index stop, const DivergenceProblem<T>& of, const Rows<const T>& F,
                const Rows<double>& models) {
    DivergenceRow<T> row(of);
    const Index r = F.count;
    for (Index i = start; i < stop; ++i) {
        row.read(i, F);
        row.predict();
        row.gradient_parts();
        const NormalEquations<T>& G = row.second_order();
        double* to = models[i];
        for (Index k = 0; k < r; ++k)
            for (Index j = 0; j <= k; ++j) *to++ += static_cast<double>(G[k][j]);
        for (Index k = 0; k < r; ++k) to[k] += static_cast<double>(row.up()[k]);
        for (Index k = 0; k < r; ++k) to[r + k] += static_cast<double>(row.down()[k]);
    }
}

// Add, for the steps of the rows start..stop from F to `to` (r x n), slopes at the shares and the bound on the change.
template <class T>
void add_slopes(Index start, Index stop, const DivergenceProblem<T>& of, const Rows<const T>& F,
                const Rows<const T>& to, const Line<const double>& shares, const Rows<double>& slopes) {
    DivergenceRow<T> row(of);
    for (Index i = start; i < stop; ++i) {
        row.read(i, F);
        row.predict();
        row.set_out(to);
        for (Index s = 0; s < shares.size; ++s) slopes[i][s] += row.slope_at(shares[s]);
        slopes[i][shares.size] += row.rise();
    }
}

// Minimize the models of the rows start..stop of F (r x n), penalty included, in place.
template <class T>
void sweep_models(Index start, Index stop, const Rows<const double>& models, double l1, double l2, const Rows<T>& F,
                  Index sweeps, double accuracy) {
    const Index r = F.count;
    NormalEquations<double> G(r);
    RowSweeps<double> row(r);
    for (Index i = start; i < stop; ++i) {
        G.clear();
        const double* from = models[i];
        for (Index k = 0; k < r; ++k)
            for (Index j = 0; j <= k; ++j) G[k][j] = *from++;
        G.mirror();
        for (Index k = 0; k < r; ++k) {
            row.u[k] = static_cast<double>(F[k][i]);
            G.right()[k] = from[k] - from[r + k] - l1;
        }
        for (Index k = 0; k < r; ++k)
            for (Index j = 0; j < r; ++j) G.right()[k] += G[k][j] * row.u[j];
        for (Index k = 0; k < r; ++k) G[k][k] += l2;
        minimize(G, row, r, sweeps, accuracy);
        for (Index k = 0; k < r; ++k) F[k][i] = static_cast<T>(row.u[k]);
    }
}

}  // namespace ENMF_MODULE
}  // namespace enmf
