// Least squares on passive sets, for block principal pivoting (Kim and Park 2011).
//
// Rows that share a passive set form a group and share one Cholesky factor. The rows of a group are consecutive in
// `order`; `borders` holds the positions where groups begin.
#pragma once

#include "offsets.h"
#include "passive.h"

namespace enmf {

constexpr Index SIDES = 64;  // rows of a group that are solved together

// For the groups start..stop: F = G_PP⁻¹ B_P on the passive set P, 0 elsewhere, and D = F G - B (n x r). A group whose
// G_PP is singular is marked in `failed` (one flag per row).
template <class I>
void solve_groups(Index start, Index stop, const Rows<const double>& G, const Rows<const double>& B,
                  const Rows<const bool>& passive, const I* order, const Offsets& borders,
                  const Rows<double>& F, const Rows<double>& D, bool* failed) {
    const Index r = G.count;
    const PaddedGram gram(G);
    Passive factor(r, SIDES);
    const Space<Index> members(r);
    const Space<double> slopes(padded(r, LANES<double>));
    for (Index group = start; group < stop; ++group) {
        const Index begin = borders[group], end = borders[group + 1];
        if (begin == end) continue;
        Index count = 0;
        for (Index k = 0; k < r; ++k)
            if (passive[order[begin]][k]) members[count++] = k;
        for (Index first = begin; first < end; first += SIDES) {
            const Index sides = std::min(SIDES, end - first);
            for (Index q = 0; q < count; ++q)
                for (Index s = 0; s < sides; ++s) factor.right(q, count)[s] = B[order[first + s]][members[q]];
            if (factor.factor(gram.view(), members.get(), count, first == begin ? 0 : count, sides) >= 0) {
                for (Index p = begin; p < end; ++p) failed[order[p]] = true;
                break;
            }
            factor.solve(count, sides);
            for (Index s = 0; s < sides; ++s) {
                const Index i = order[first + s];
                const double* z = factor.right(0, count) + s;
                std::copy_n(B[i], r, slopes.get());
                subtract_members(slopes.get(), z, factor.stride(), gram.view(), members.get(), count);
                std::fill_n(F[i], r, 0.0);
                for (Index k = 0; k < r; ++k) D[i][k] = -slopes[k];
                for (Index q = 0; q < count; ++q) {
                    F[i][members[q]] = z[q * factor.stride()];
                    D[i][members[q]] = 0.0;
                }
            }
        }
    }
}

}  // namespace enmf
