// Vectors of the instruction set this file is compiled for. GCC and Clang (on Windows clang-cl) have them as types, with
// the usual operators; loops that are written with them keep their sums in registers, plain loops do not.
#pragma once

#include <cstring>
#include <utility>

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

#include "views.h"

namespace enmf {

#if defined(__AVX512F__)
constexpr int VECTOR_BYTES = 64;
constexpr int STRIP = 4;  // vectors side by side in a strip; with four lines, sums take half of the 32 registers
#elif defined(__AVX2__)
constexpr int VECTOR_BYTES = 32;
constexpr int STRIP = 2;  // 16 registers
#elif defined(__aarch64__)
constexpr int VECTOR_BYTES = 16;
constexpr int STRIP = 4;  // 32 registers
#else
constexpr int VECTOR_BYTES = 16;
constexpr int STRIP = 2;
#endif

template <class T>
struct VectorOf;

template <>
struct VectorOf<double> {
    typedef double type __attribute__((vector_size(VECTOR_BYTES)));
    typedef long long mask __attribute__((vector_size(VECTOR_BYTES)));
};

template <>
struct VectorOf<float> {
    typedef float type __attribute__((vector_size(VECTOR_BYTES)));
    typedef int mask __attribute__((vector_size(VECTOR_BYTES)));
};

template <class T>
using Vector = typename VectorOf<T>::type;

template <class T>
constexpr Index LANES = VECTOR_BYTES / static_cast<Index>(sizeof(T));  // numbers in a vector

template <class T>
inline Vector<T> load(const T* from) {
    Vector<T> v;
    std::memcpy(&v, from, sizeof v);
    return v;
}

template <class T>
inline void store(T* to, Vector<T> v) {
    std::memcpy(to, &v, sizeof v);
}

template <class T>
inline Vector<T> all(T value) {
    return value - Vector<T>{};  // the compiler makes a broadcast of it
}

template <class T>
inline Vector<T> positive(Vector<T> v) {  // max(v, 0), and 0 for a NaN
    return v > Vector<T>{} ? v : Vector<T>{};
}

// The first `count` numbers, and zeros: nothing beyond them is touched.
template <class T>
inline Vector<T> load_part(const T* from, Index count) {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 8)
        return (Vector<T>)_mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << count) - 1u), from);
    else
        return (Vector<T>)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1u), from);
#else
    Vector<T> v{};
    for (Index i = 0; i < count; ++i) v[i] = from[i];
    return v;
#endif
}

template <class T>
inline void store_part(T* to, Vector<T> v, Index count) {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 8)
        _mm512_mask_storeu_pd(to, static_cast<__mmask8>((1u << count) - 1u), (__m512d)v);
    else
        _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << count) - 1u), (__m512)v);
#else
    for (Index i = 0; i < count; ++i) to[i] = v[i];
#endif
}

// Where bit D of a lane's number is not set: a number of a plus its neighbour at a distance of D; elsewhere one of b.
template <class T, int D, std::size_t... I>
inline Vector<T> merged(Vector<T> a, Vector<T> b, std::index_sequence<I...>) {
    constexpr int L = static_cast<int>(LANES<T>);
    return __builtin_shufflevector(a, b, ((I & D) ? static_cast<int>(I) - D + L : static_cast<int>(I))...) +
           __builtin_shufflevector(a, b, ((I & D) ? static_cast<int>(I) + L : static_cast<int>(I) + D)...);
}

// The sums of LANES vectors, as the lanes of one.
template <class T, int D = 1>
inline Vector<T> sums(const Vector<T>* v) {
    constexpr int L = static_cast<int>(LANES<T>);
    constexpr auto lanes = std::make_index_sequence<static_cast<std::size_t>(L)>();
    if constexpr (2 * D == L)
        return merged<T, D>(v[0], v[D], lanes);
    else {
        // vectors that belong together lie D apart: first all pairs of neighbours, then pairs of these
        Vector<T> half[static_cast<std::size_t>(L)];
        for (int i = 0; i < L; i += 2 * D) half[i] = merged<T, D>(v[i], v[i + D], lanes);
        return sums<T, 2 * D>(half);
    }
}

template <class T>
inline T sum(Vector<T> v) {
    T numbers[LANES<T>];
    std::memcpy(numbers, &v, sizeof v);
    for (Index width = LANES<T> / 2; width > 0; width /= 2)
        for (Index i = 0; i < width; ++i) numbers[i] += numbers[i + width];
    return numbers[0];
}

}  // namespace enmf
