// Loops over the entries of a dense matrix in C order.
#pragma once

#include <cstdint>

#include "inner.h"

namespace enmf {

// squares[i] = sum of the squares of row i in double precision, nonzeros[i] = number of its nonzero entries.
template <class T>
void survey(Index start, Index stop, const Rows<const T>& A, double* squares, std::int64_t* nonzeros) {
    constexpr Index L = LANES<T>, AT_ONCE = 4;
    using Counts = typename VectorOf<T>::mask;
    for (Index i = start; i < stop; ++i) {
        const T* row = A[i];
        const Vector<T> zero{};
        Vector<double> sums[AT_ONCE] = {};
        Counts counts[AT_ONCE] = {};
        const auto add = [&](Index j, Index v) {
            const Vector<T> value = load(row + j);
            counts[v] -= value != zero;  // a lane that holds is -1
            const auto low = widen_part<0, T>(value), high = widen_part<PARTS<T> - 1, T>(value);
            sums[v] += low * low;
            if constexpr (PARTS<T> > 1) sums[v] += high * high;
        };
        Index j = 0;
        for (; j + AT_ONCE * L <= A.width; j += AT_ONCE * L)
            for (Index v = 0; v < AT_ONCE; ++v) add(j + v * L, v);
        for (; j + L <= A.width; j += L) add(j, 0);
        double total = sum_pack((sums[0] + sums[1]) + (sums[2] + sums[3]));
        std::int64_t count = sum_pack((counts[0] + counts[1]) + (counts[2] + counts[3]));
        for (; j < A.width; ++j) {
            const double value = static_cast<double>(row[j]);
            total += value * value;
            count += value != 0.0;
        }
        squares[i] = total;
        nonzeros[i] = count;
    }
}

}  // namespace enmf
