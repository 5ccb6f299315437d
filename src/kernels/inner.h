// Inner products of lines, with sums in vectors.
#pragma once

#include <algorithm>

#include "parts.h"

namespace enmf {

template <class T>
inline T dot(const T* a, const T* b, Index n) {
    constexpr Index L = LANES<T>;
    Vector<T> sums[4] = {};
    Index i = 0;
    for (; i + 4 * L <= n; i += 4 * L)
        for (int v = 0; v < 4; ++v) sums[v] += load(a + i + v * L) * load(b + i + v * L);
    for (; i + L <= n; i += L) sums[0] += load(a + i) * load(b + i);
    if (i < n) {
        const Part<T> rest(n - i);
        sums[1] += rest.load(a + i) * rest.load(b + i);
    }
    return total<T>((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// Every second group of WIDE lanes of a, and of b, plus the group after it: half of the sums for each of the two.
template <int WIDE, class Lanes, int... I>
inline Lanes halved(Lanes a, Lanes b, std::integer_sequence<int, I...>) {
    constexpr int N = sizeof...(I), PAIR = 2 * WIDE;
    // lane i comes from a in the first half of a pair of groups, else from b
    return __builtin_shufflevector(a, b, (I % PAIR < WIDE ? I : N + I - WIDE)...) +
           __builtin_shufflevector(a, b, (I % PAIR < WIDE ? I + WIDE : N + I)...);
}

// Lanes at a distance of four are added up.
template <int N, class Lanes>
inline auto folded(Lanes v) {
    if constexpr (N == 4) {
        return v;
    } else {
        return [&]<int... I>(std::integer_sequence<int, I...>) {
            return folded<N / 2>(__builtin_shufflevector(v, v, I...) + __builtin_shufflevector(v, v, (I + N / 2)...));
        }(std::make_integer_sequence<int, N / 2>());
    }
}

// The sums of four vectors. Each is added up in the same order, whichever of the four it is.
template <class T>
inline void four_totals(const Vector<T> (&v)[4], T* totals) {
    constexpr int N = static_cast<int>(LANES<T>);
    if constexpr (N < 4) {
        for (int q = 0; q < 4; ++q) totals[q] = total<T>(v[q]);
    } else {
        constexpr auto lanes = std::make_integer_sequence<int, N>();
        const auto sums = halved<2>(halved<1>(v[0], v[1], lanes), halved<1>(v[2], v[3], lanes), lanes);
        const auto four = folded<N>(sums);
        std::memcpy(totals, &four, sizeof four);
    }
}

// products[q] = left(q) . right(q) for q < count, lines of n numbers. A product does not depend on the others.
template <class T, class Left, class Right>
inline void dots(Index count, Index n, T* products, Left&& left, Right&& right) {
    const Index whole = n / LANES<T> * LANES<T>;
    const Part<T> rest(n - whole);
    for (Index first = 0; first < count; first += 4) {
        const T *a[4], *b[4];
        for (Index q = 0; q < 4; ++q) {
            const Index here = std::min(first + q, count - 1);
            a[q] = left(here);
            b[q] = right(here);
        }
        Vector<T> sums[4] = {};
        for (Index i = 0; i < whole; i += LANES<T>)
            for (int q = 0; q < 4; ++q) sums[q] += load(a[q] + i) * load(b[q] + i);
        if (!rest.none())
            for (int q = 0; q < 4; ++q) sums[q] += rest.load(a[q] + whole) * rest.load(b[q] + whole);
        T totals[4];
        four_totals<T>(sums, totals);
        for (Index q = 0; q < std::min<Index>(4, count - first); ++q) products[first + q] = totals[q];
    }
}

}  // namespace enmf
