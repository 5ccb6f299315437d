// Vectors of the instruction set this file is compiled for. GCC and Clang (on Windows clang-cl) have them as types, with
// the usual operators; loops that are written with them keep their sums in registers, plain loops do not.
#pragma once

#include <cstring>

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

template <class T>
inline T sum(Vector<T> v) {
    T total = 0;
    for (Index i = 0; i < LANES<T>; ++i) total += v[i];
    return total;
}

}  // namespace enmf
