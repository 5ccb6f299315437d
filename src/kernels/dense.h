// Loops over the entries of a dense matrix in C order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "inner.h"

namespace enmf {

// Add the squares and the number of nonzeros of fewer than 2 W entries.
template <Index W, class T>
inline void survey_rest(const T* row, Index count, double& squares, std::int64_t& nonzeros) {
    if (count >= W) {
        const auto value = load_pack<T, W>(row);
        const auto wide = widen(value);
        squares += sum_pack(wide * wide);
        nonzeros -= sum_pack(value != Pack<T, W>{});  // a lane that holds is -1
        row += W;
        count -= W;
    }
    if constexpr (W > 1) survey_rest<W / 2>(row, count, squares, nonzeros);
}

// squares[i] = sum of the squares of row i in double precision, nonzeros[i] = number of its nonzero entries.
template <class T>
void survey(Index start, Index stop, const Rows<const T>& A, double* squares, std::int64_t* nonzeros) {
    constexpr Index L = LANES<T>, AT_ONCE = 4;
    for (Index i = start; i < stop; ++i) {
        const T* row = A[i];
        Vector<double> sums[AT_ONCE] = {};
        typename VectorOf<T>::mask counts[AT_ONCE] = {};
        const auto add = [&](Index j, Index v) {
            const Vector<T> value = load(row + j);
            counts[v] -= value != Vector<T>{};
            const auto low = widen_part<0, T>(value), high = widen_part<PARTS<T> - 1, T>(value);
            sums[v] += low * low;
            if constexpr (PARTS<T> > 1) sums[v] += high * high;
        };
        Index j = 0;
        for (; j + AT_ONCE * L <= A.width; j += AT_ONCE * L)
            for (Index v = 0; v < AT_ONCE; ++v) add(j + v * L, v);
        for (; j + L <= A.width; j += L) add(j, 0);
        squares[i] = sum_pack((sums[0] + sums[1]) + (sums[2] + sums[3]));
        nonzeros[i] = sum_pack((counts[0] + counts[1]) + (counts[2] + counts[3]));
        if (j < A.width) survey_rest<L / 2>(row + j, A.width - j, squares[i], nonzeros[i]);
    }
}

// out = A, for columns start, ..., stop - 1.
template <class T>
void copy(Index start, Index stop, const Rows<const T>& A, const Rows<T>& out) {
    for (Index k = 0; k < A.count; ++k) std::copy_n(A[k] + start, stop - start, out[k] + start);
}

// out = Aᵀ, for the same columns. A few of them at a time: their numbers in all rows of A stay in the cache.
template <class T>
void transpose(Index start, Index stop, const Rows<const T>& A, const Rows<T>& out) {
    constexpr Index FEW = 16;
    for (Index first = start; first < stop; first += FEW) {
        const Index last = std::min(first + FEW, stop);
        for (Index k = 0; k < A.count; ++k)
            for (Index i = first; i < last; ++i) out[i][k] = A[k][i];
    }
}

}  // namespace enmf
