// The normal equations of a single row, for problems in which every row has its own, and coordinate sweeps on them.
#pragma once

#include "products.h"
#include "sweep.h"

namespace enmf {

constexpr Index GATHERED = 64;  // entries of a row whose lines are copied together before they are summed

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

    void clear() { std::fill_n(lines_.get(), lines_.size(), T(0)); }

    // Add a c cᵀ to the lower triangle of G and t c to the right-hand side for the lines c = line(q), q < count.
    template <class Lines, class A, class B>
    void add(Index count, Lines&& line, A&& a, B&& t) {
        for (Index q = 0; q < count; q += GATHERED) {
            const Index some = std::min(GATHERED, count - q);
            gather(q, some, line, a, t);
            add_products(some);
        }
    }

    // The upper triangle follows the lower one.
    void mirror() {
        for (Index k = 0; k < r_; ++k)
            for (Index j = 0; j < k; ++j) (*this)[j][k] = (*this)[k][j];
    }

  private:
    template <class Lines, class A, class B>
    void gather(Index first, Index count, Lines&& line, A&& a, B&& t) {
        const Index whole = r_ / LANES<T> * LANES<T>;
        const Part<T> rest(r_ - whole);
        for (Index q = 0; q < count; ++q) {
            const T* row = line(first + q);
            const Vector<T> weight = all(a(first + q));
            T *copy = gathered_.get() + q * stride_, *weighted = coefficients_.get() + q * per_entry_;
            for (Index k = 0; k < whole; k += LANES<T>) {
                const Vector<T> c = load(row + k);
                store(copy + k, c);
                store(weighted + k, weight * c);
            }
            if (!rest.none()) {
                const Vector<T> c = rest.load(row + whole);
                store(copy + whole, c);
                store(weighted + whole, weight * c);
            }
            weighted[r_] = t(first + q);
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

}  // namespace enmf
