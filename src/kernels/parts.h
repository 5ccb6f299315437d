// Parts of vectors: the numbers at the end of a line that do not fill a vector, and the sum across lanes.
#pragma once

#include <utility>

#include "vectors.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace enmf {

// The first numbers of a vector, fewer than it has lanes (or none): nothing beyond them is read or written.
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
        for (Index i = 0; i < LANES<T> - 1; ++i)
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
        for (Index i = 0; i < LANES<T> - 1; ++i)
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

// The sum of N lanes, by halves: few steps wait for each other.
template <class T, int N, class Lanes>
inline T total_of(Lanes v) {
    if constexpr (N == 2) {
        return v[0] + v[1];
    } else {
        return [&]<int... I>(std::integer_sequence<int, I...>) {
            return total_of<T, N / 2>(__builtin_shufflevector(v, v, I...) +
                                      __builtin_shufflevector(v, v, (I + N / 2)...));
        }(std::make_integer_sequence<int, N / 2>());
    }
}

template <class T>
inline T total(Vector<T> v) {
    return total_of<T, static_cast<int>(LANES<T>)>(v);
}

}  // namespace enmf
