// Elementwise parts of the rotation's ADMM (paper, eq. 7), fused so that each array is read once.
//
// All arrays are flat views of equal length. Sums go to one row of `partial` per CHUNK of entries, so that they do not
// depend on how a range is split.
#pragma once

#include <algorithm>

#include "inner.h"

namespace enmf {

constexpr Index CHUNK = 8192;

// B = WR - Y;  Z = B above 0, 0 down to -threshold, B + threshold below;  ZY = Z + Y.
template <class T>
void split(Index start, Index stop, const T* __restrict WR, const T* __restrict Y, T* __restrict Z, T* __restrict ZY,
           T threshold) {
    for (Index i = start; i < stop; ++i) {
        const T b = WR[i] - Y[i], moved = b + threshold, below = moved < T(0) ? moved : T(0), z = b > T(0) ? b : below;
        Z[i] = z;
        ZY[i] = z + Y[i];
    }
}

// Sums in double precision, spread over the lanes of two vectors.
class Sum {
  public:
    template <class T>
    void add(Vector<T> v) {
        sums_[0] += widen_part<0, T>(v);
        if constexpr (PARTS<T> > 1) sums_[1] += widen_part<PARTS<T> - 1, T>(v);
    }

    template <class T>
    void add_square(Vector<T> v) {
        const auto low = widen_part<0, T>(v), high = widen_part<PARTS<T> - 1, T>(v);
        sums_[0] += low * low;
        if constexpr (PARTS<T> > 1) sums_[1] += high * high;
    }

    void add_one(double value) { rest_ += value; }
    double total() const { return sum_pack(sums_[0] + sums_[1]) + rest_; }

  private:
    Vector<double> sums_[2] = {};
    double rest_ = 0.0;
};

// Y += Z - WR. Sums of (Z - WR)², (WR - before)², WR and |WR| (start is a multiple of CHUNK).
template <class T>
void update_dual(Index start, Index stop, const T* WR, const T* before, T* Y, const T* Z, const Rows<double>& partial) {
    constexpr Index L = LANES<T>;
    for (Index first = start; first < stop; first += CHUNK) {
        const Index last = std::min(first + CHUNK, stop);
        Sum primal, moved, total, size;
        Index i = first;
        for (; i + L <= last; i += L) {
            const Vector<T> turned = load(WR + i), residual = load(Z + i) - turned;
            store(Y + i, load(Y + i) + residual);
            primal.add_square<T>(residual);
            moved.add_square<T>(turned - load(before + i));
            total.add<T>(turned);
            size.add<T>(turned < Vector<T>{} ? -turned : turned);
        }
        for (; i < last; ++i) {
            const T residual = Z[i] - WR[i];
            Y[i] += residual;
            const double turned = static_cast<double>(WR[i]), distance = static_cast<double>(residual);
            const double step = static_cast<double>(WR[i] - before[i]);
            primal.add_one(distance * distance);
            moved.add_one(step * step);
            total.add_one(turned);
            size.add_one(turned < 0.0 ? -turned : turned);
        }
        double* row = partial[first / CHUNK];
        row[0] = primal.total();
        row[1] = moved.total();
        row[2] = total.total();
        row[3] = size.total();
    }
}

}  // namespace enmf
