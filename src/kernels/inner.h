// Inner products of lines, with sums in vectors.
#pragma once

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

}  // namespace enmf
