// Loops along a line of numbers. Their sums are spread over a few vectors, so that an addition need not wait for the
// one before it; what is left at the end of a line is added by ever shorter vectors.
#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "vectors.h"

namespace enmf {

// W numbers: as many as a vector holds, or a smaller power of two.
template <class T, Index W>
struct PackOf {
    typedef T type __attribute__((vector_size(static_cast<std::size_t>(W) * sizeof(T))));
};

template <class T, Index W>
using Pack = typename PackOf<T, W>::type;

template <class T, Index W>
inline Pack<T, W> load_pack(const T* from) {
    Pack<T, W> v;
    std::memcpy(&v, from, sizeof v);
    return v;
}

// A pack in double precision.
template <class P>
inline auto widen(P v) {
    // GCC 12 would convert one half after the other
#if defined(__AVX512F__)
    if constexpr (std::is_same_v<P, Pack<float, 8>>) return Pack<double, 8>(_mm512_maskz_cvtps_pd(0xff, v));
#endif
#if defined(__AVX2__)
    if constexpr (std::is_same_v<P, Pack<float, 4>>) return Pack<double, 4>(_mm256_cvtps_pd(v));
#endif
    return __builtin_convertvector(v, Pack<double, LANES_OF<P>>);
}

// Part 0, 1, ... of a vector in double precision; a vector of floats has two.
template <class T>
constexpr int PARTS = static_cast<int>(sizeof(double) / sizeof(T));

template <int PART, class T>
inline Vector<double> widen_part(Vector<T> v) {
    if constexpr (PARTS<T> == 1)
        return v;
    else
        return widen(half<PART>(v));
}

// The sum of term(i, W), W numbers from number i on as a pack, over fewer than 2 W numbers ...
template <class T, Index W, class Term>
inline T sum_rest(Index i, Index n, const Term& term) {
    T total = 0;
    if constexpr (W > 1) total = sum_rest<T, W / 2>(i + (n - i >= W ? W : 0), n, term);
    if (n - i >= W) total += sum_pack(term(i, std::integral_constant<Index, W>()));
    return total;
}

// ... and over n numbers.
template <class T, class Term>
inline T sum_terms(Index n, const Term& term) {
    constexpr Index L = LANES<T>;
    constexpr std::integral_constant<Index, L> whole;
    Index i = 0;
    T total = 0;
    if (n >= L) {
        Vector<T> sums[4] = {};
        for (; i + 4 * L <= n; i += 4 * L)
            for (Index v = 0; v < 4; ++v) sums[v] += term(i + v * L, whole);
        for (Index v = 0; i + L <= n; i += L, ++v) sums[v] += term(i, whole);
        total = sum_pack((sums[0] + sums[1]) + (sums[2] + sums[3]));
    }
    return i < n ? total + sum_rest<T, L / 2>(i, n, term) : total;
}

// a . b
template <class T>
inline T dot(const T* a, const T* b, Index n) {
    return sum_terms<T>(n, [=]<Index W>(Index i, std::integral_constant<Index, W>) {
        return load_pack<T, W>(a + i) * load_pack<T, W>(b + i);
    });
}

// a . a, in double precision
template <class T>
inline double squared_norm(const T* a, Index n) {
    return sum_terms<double>(n, [=]<Index W>(Index i, std::integral_constant<Index, W>) {
        const auto value = widen(load_pack<T, W>(a + i));
        return value * value;
    });
}

// a . b, in double precision
template <class T>
inline double dot_in_double(const T* a, const T* b, Index n) {
    return sum_terms<double>(n, [=]<Index W>(Index i, std::integral_constant<Index, W>) {
        return widen(load_pack<T, W>(a + i)) * widen(load_pack<T, W>(b + i));
    });
}

// The sum of a line, in double precision
template <class T>
inline double total(const T* a, Index n) {
    return sum_terms<double>(n, [=]<Index W>(Index i, std::integral_constant<Index, W>) {
        return widen(load_pack<T, W>(a + i));
    });
}

// Lanes at a distance of four are added up.
template <int N, class Lanes>
inline auto folded(Lanes v) {
    if constexpr (N == 4)
        return v;
    else
        return folded<N / 2>(half<0>(v) + half<1>(v));
}

// The sums of four vectors. Each is added up in the same order, whichever of the four it is.
template <class T>
inline void four_totals(const Vector<T> (&v)[4], T* totals) {
    constexpr int N = static_cast<int>(LANES<T>);
    if constexpr (N < 4) {
        for (int q = 0; q < 4; ++q) totals[q] = sum<T>(v[q]);
    } else {
        constexpr auto lanes = std::make_index_sequence<static_cast<std::size_t>(N)>();
        const auto sums = merged<T, 2>(merged<T, 1>(v[0], v[1], lanes), merged<T, 1>(v[2], v[3], lanes), lanes);
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
