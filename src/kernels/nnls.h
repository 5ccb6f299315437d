// Nonnegative least squares with one Gram matrix and many right-hand sides, solved to optimality.
//
//     minimize 1/2 xᵀ G x - bᵀ x  over x >= 0      for each column b of B
//
// Active set method of Lawson and Hanson (1974, chapter 23), started from the support of the given x: coordinate sweeps
// find most of the support, the active set makes it exact. Works in double precision.
#pragma once

#include "passive.h"

namespace enmf {

constexpr double SIGNIFICANT = 1e-10;  // of the numbers it is the difference of: no rounding

class ActiveSet {
  public:
    explicit ActiveSet(Index r)
        : x(r), b(padded(r, LANES<double>)), r_(r), members_(r), z_(r), slopes_(b.size()), inside_(r), barred_(r),
          usable_(r), passive_(r, 1) {}

    const Space<double> x, b;  // the starting point, then the solution; and the right-hand side

    void solve(const Gram& G) {
        begin(G);
        for (Index i = 0; i < 10 * r_ + 50; ++i) {
            for (Index q = 0; q < count_; ++q) *passive_.right(q, count_) = b[members_[q]];
            const Index dependent = passive_.factor(G, members_.get(), count_, known_, 1);
            known_ = dependent < 0 ? count_ : dependent;
            if (dependent >= 0) {
                // independent when it came, by rounding
                const bool borderline = settled_ && x[members_[dependent]] > 0.0;
                const Index left = exchange(G, dependent);
                usable_[left] = !borderline;
                continue;
            }
            settled_ = true;
            passive_.solve(count_, 1);
            for (Index p = 0; p < count_; ++p) z_[p] = *passive_.right(p, count_);
            if (blocked()) continue;
            for (Index p = 0; p < count_; ++p) x[members_[p]] = z_[p];
            const Index best = steepest(G);
            if (best < 0) break;
            members_[count_++] = best;
            inside_[best] = true;
        }
        for (Index k = 0; k < r_; ++k)
            if (!inside_[k]) x[k] = 0.0;
    }

  private:
    void begin(const Gram& G) {
        count_ = known_ = 0;
        settled_ = false;
        double largest = 0.0;
        for (Index k = 0; k < r_; ++k) {
            largest = std::max(largest, std::abs(b[k]));
            usable_[k] = G[k][k] > 0.0;
            inside_[k] = x[k] > 0.0 && usable_[k];
            barred_[k] = false;
            if (inside_[k])
                members_[count_++] = k;
            else
                x[k] = 0.0;
        }
        tolerance_ = 1e-13 * largest;
    }

    // Go toward z as far as x >= 0 allows; whether something was in the way, which then has left.
    bool blocked() {
        double step = 1.0;
        bool blocked = false;  // also if the step toward a tiny negative z rounds to 1
        for (Index p = 0; p < count_; ++p) {
            if (!(z_[p] <= 0.0)) continue;
            const double here = x[members_[p]];
            blocked = true;
            step = here > 0.0 ? std::min(step, here / (here - z_[p])) : 0.0;
        }
        if (!blocked) return false;
        for (Index p = 0; p < count_; ++p) x[members_[p]] += step * (z_[p] - x[members_[p]]);
        for (Index p = count_ - 1; p >= 0; --p) {
            if (!(z_[p] <= 0.0 && x[members_[p]] <= 1e-15 * std::abs(z_[p]))) continue;
            x[members_[p]] = 0.0;
            remove(p);
            std::fill_n(barred_.get(), r_, false);
        }
        return true;
    }

    // The component outside that gains most, or -1.
    Index steepest(const Gram& G) {
        std::copy_n(b.get(), b.size(), slopes_.get());
        subtract_members(slopes_.get(), z_.get(), 1, G, members_.get(), count_);
        Index best = -1;
        double most = tolerance_;
        for (Index k = 0; k < r_; ++k) {
            if (inside_[k] || barred_[k] || !usable_[k] || !(slopes_[k] > most)) continue;
            most = slopes_[k];
            best = k;
        }
        return best;
    }

    void remove(Index position) {
        inside_[members_[position]] = false;
        std::copy(members_.get() + position + 1, members_.get() + count_, members_.get() + position);
        --count_;
        known_ = std::min(known_, position);
    }

    // One member leaves, where the one at `position` depends on those before it: which one.
    //
    // Along d = e_k - sum_p w_p e_p, for which G d = 0, the objective has the slope -bᵀd. Up to rounding it is zero
    // where b = Aᵀy, but not with a penalty: then k may have to replace one of the others. So x goes along d to the
    // bound if that gains something, else along -d, where k itself is at zero in the end unless another comes first.
    Index exchange(const Gram& G, Index position) {
        const Index k = members_[position];
        const Space<double>& w = z_;
        double gain = b[k], scale = std::abs(b[k]);
        for (Index p = position - 1; p >= 0; --p) {
            const Index m = members_[p];
            w[p] = passive_.at(position, p);
            for (Index q = p + 1; q < position; ++q) w[p] -= passive_.at(q, p) * w[q];
            w[p] *= passive_.inverse(p);
            gain -= w[p] * b[m];
            scale += std::abs(w[p] * b[m]) + std::abs(G[k][m]) * x[m];
        }
        Index leaves = -1;
        double step = 0.0;
        const auto shorten = [&] {
            for (Index p = 0; p < position; ++p) {
                const double here = x[members_[p]];
                if (!(here < step * w[p])) continue;
                leaves = p;
                step = here / w[p];
            }
        };
        if (gain > SIGNIFICANT * scale) {
            step = gain / (DEPENDENT * G[k][k]);  // the curvature may be that large: the gain is certain up to here
            shorten();
        }
        if (leaves >= 0) {
            std::fill_n(barred_.get(), r_, false);
        } else {
            barred_[k] = x[k] == 0.0;
            leaves = position;
            step = -x[k];
            shorten();
        }
        for (Index p = 0; p < position; ++p) x[members_[p]] = std::max(x[members_[p]] - step * w[p], 0.0);
        x[k] = std::max(x[k] + step, 0.0);
        const Index left = members_[leaves];
        x[left] = 0.0;
        remove(leaves);
        return left;
    }

    const Index r_;
    Index count_ = 0, known_ = 0;  // members, and how many of them have their rows in the factor
    bool settled_ = false;         // the members are independent: those of the start need not be
    double tolerance_ = 0.0;
    Space<Index> members_;
    Space<double> z_, slopes_;
    Space<bool> inside_;
    Space<bool> barred_;  // depends on the members, and no gain from it
    Space<bool> usable_;  // else it stays at zero
    Passive passive_;
};

// Solve for the columns start..stop of F (r x n), whose values are the starting points.
inline void nnls(Index start, Index stop, const Rows<const double>& G, const Rows<const double>& B,
                 const Rows<double>& F) {
    const Index r = G.count;
    const PaddedGram gram(G);
    ActiveSet problem(r);
    for (Index c = start; c < stop; ++c) {
        for (Index k = 0; k < r; ++k) {
            problem.b[k] = B[k][c];
            problem.x[k] = F[k][c];
        }
        problem.solve(gram.view());
        for (Index k = 0; k < r; ++k) F[k][c] = problem.x[k];
    }
}

}  // namespace enmf
