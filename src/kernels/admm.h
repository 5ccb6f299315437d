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

// Sums over a chunk, in double precision.
template <class T>
class DualSums {
  public:
    void add(Vector<T> residual, Vector<T> step, Vector<T> turned) {
        add_part<0>(residual, step, turned);
        if constexpr (PARTS<T> > 1) add_part<1>(residual, step, turned);
    }

    void write(double* row) const {
        for (int i = 0; i < 4; ++i) {
            Vector<double> sum{};
            for (int part = 0; part < PARTS<T>; ++part) sum += sums_[i][part];
            row[i] = sum_pack(sum);
        }
    }

  private:
    template <int PART>
    void add_part(Vector<T> residual, Vector<T> step, Vector<T> turned) {
        const auto r = widen_part<PART, T>(residual), s = widen_part<PART, T>(step), w = widen_part<PART, T>(turned);
        sums_[0][PART] += r * r;
        sums_[1][PART] += s * s;
        sums_[2][PART] += w;
        sums_[3][PART] += w < Vector<double>{} ? -w : w;
    }

    Vector<double> sums_[4][PARTS<T>] = {};
};

// Y += Z - WR. Sums of (Z - WR)², (WR - before)², WR and |WR| (start is a multiple of CHUNK).
template <class T>
void update_dual(Index start, Index stop, const T* WR, const T* before, T* Y, const T* Z, const Rows<double>& partial) {
    constexpr Index L = LANES<T>;
    for (Index first = start; first < stop; first += CHUNK) {
        const Index last = std::min(first + CHUNK, stop);
        DualSums<T> sums;
        const auto step = [&sums](const T* w, const T* old, T* y, const T* z) {
            const Vector<T> turned = load(w), residual = load(z) - turned;
            store(y, load(y) + residual);
            sums.add(residual, turned - load(old), turned);
        };
        Index i = first;
        for (; i + L <= last; i += L) step(WR + i, before + i, Y + i, Z + i);
        if (i < last) {  // a vector that is padded with zeros
            T rest[4][L] = {};
            const Index count = last - i;
            std::copy_n(WR + i, count, rest[0]);
            std::copy_n(before + i, count, rest[1]);
            std::copy_n(Y + i, count, rest[2]);
            std::copy_n(Z + i, count, rest[3]);
            step(rest[0], rest[1], rest[2], rest[3]);
            std::copy_n(rest[2], count, Y + i);
        }
        sums.write(partial[first / CHUNK]);
    }
}

}  // namespace enmf
