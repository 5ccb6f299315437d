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

// The first numbers of a vector, as at the end of a line: nothing beyond them is read or written.
template <class T>
class Part {
  public:
    explicit Part(Index count) : count_(count) {
#if defined(__AVX512F__)
        mask_ = (1u << count) - 1u;
#elif defined(__AVX2__)
        for (Index i = 0; i < LANES<T>; ++i) mask_[i] = i < count ? -1 : 0;
#endif
    }

    bool none() const { return count_ == 0; }

    // The other lanes are zero.
    Vector<T> load(const T* from) const {
#if defined(__AVX512F__)
        if constexpr (sizeof(T) == 8)
            return _mm512_maskz_loadu_pd(static_cast<__mmask8>(mask_), from);
        else
            return _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask_), from);
#elif defined(__AVX2__)
        if constexpr (sizeof(T) == 8)
            return _mm256_maskload_pd(from, reinterpret_cast<__m256i>(mask_));
        else
            return _mm256_maskload_ps(from, reinterpret_cast<__m256i>(mask_));
#else
        Vector<T> v{};
        for (Index i = 0; i < LANES<T>; ++i)
            if (i < count_) v[i] = from[i];
        return v;
#endif
    }

    void store(T* to, Vector<T> v) const {
#if defined(__AVX512F__)
        if constexpr (sizeof(T) == 8)
            _mm512_mask_storeu_pd(to, static_cast<__mmask8>(mask_), v);
        else
            _mm512_mask_storeu_ps(to, static_cast<__mmask16>(mask_), v);
#else
        for (Index i = 0; i < LANES<T>; ++i)
            if (i < count_) to[i] = v[i];
#endif
    }

  private:
    Index count_;
#if defined(__AVX512F__)
    unsigned mask_;
#elif defined(__AVX2__)
    typename VectorOf<T>::mask mask_{};
#endif
};

template <class P>
constexpr Index LANES_OF = sizeof(P) / sizeof(P{}[0]);

// The first (0) or the second (1) half of the lanes.
template <Index WHICH, class P, std::size_t... I>
inline auto half(P v, std::index_sequence<I...>) {
    return __builtin_shufflevector(v, v, (WHICH * sizeof...(I) + I)...);
}

template <Index WHICH, class P>
inline auto half(P v) {
    return half<WHICH>(v, std::make_index_sequence<LANES_OF<P> / 2>());
}

// The sum of all lanes, by halves: few steps wait for each other.
template <class P>
inline auto sum_pack(P v) {
    if constexpr (LANES_OF<P> == 1)
        return v[0];
    else
        return sum_pack(half<0>(v) + half<1>(v));
}

template <class T>
inline T sum(Vector<T> v) {
    return sum_pack(v);
}

}  // namespace enmf
