// Loops along a line of numbers. Their sums are spread over a few vectors, so that an addition need not wait for the
// one before it; what is left at the end of a line is added by ever shorter vectors.
#pragma once

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

// W numbers of another precision.
template <class To, Index W, class From>
inline Pack<To, W> load_as(const From* from) {
    return __builtin_convertvector((load_pack<From, W>(from)), Pack<To, W>);
}

template <class T, Index W>
inline T sum_pack(Pack<T, W> v) {
    if constexpr (W == 1) {
        return v[0];
    } else {
        T halves[W];
        std::memcpy(halves, &v, sizeof v);
        return sum_pack<T, W / 2>(load_pack<T, W / 2>(halves) + load_pack<T, W / 2>(halves + W / 2));
    }
}

// The sum of term(i, width): `width` numbers from number i on, as a Pack of T; lanes W are the most it gives at once.
template <class T, Index W, class Term>
inline T sum_rest(Index i, Index n, const Term& term) {
    T total = 0;
    if constexpr (W > 1) total = sum_rest<T, W / 2>(i + (n - i >= W ? W : 0), n, term);
    if (n - i >= W) total += sum_pack<T, W>(term(i, std::integral_constant<Index, W>()));
    return total;
}

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
        total = sum_pack<T, L>((sums[0] + sums[1]) + (sums[2] + sums[3]));
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
        const auto value = load_as<double, W>(a + i);
        return value * value;
    });
}

// a . b, in double precision
template <class T>
inline double dot_in_double(const T* a, const T* b, Index n) {
    return sum_terms<double>(n, [=]<Index W>(Index i, std::integral_constant<Index, W>) {
        return load_as<double, W>(a + i) * load_as<double, W>(b + i);
    });
}

}  // namespace enmf
