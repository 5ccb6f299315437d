// Products of a sparse matrix with a block of columns: P = (S C)ᵀ.
//
// S is stored by blocks of its columns: `starts[b]` holds, for each row, where its entries in block b begin; `columns`
// and `values` are theirs. A CSR matrix is one block. C is m x r, the r numbers of a row are contiguous; P is r x n.
// Both have the working precision, the values may have a different one.
// For Xᵀ U the rows of U that belong to a block stay in the cache while all rows of Xᵀ gather from them; with one long U
// each entry would be fetched from memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "inner.h"
#include "lanes.h"

namespace enmf {

constexpr Index ROWS = 32;               // rows of S that are transposed into P together
constexpr Index CACHE_BYTES = 1 << 20;  // rows of a larger C are fetched ahead ...
constexpr Index AHEAD = 8;              // ... by this number of entries ...
constexpr int FEW_SUMS = 4;             // ... if they have more vectors: the processor looks ahead far enough by itself

#if defined(__AVX512F__)
constexpr int MOST_SUMS = 16;  // vectors of sums that stay in registers
#else
constexpr int MOST_SUMS = 8;
#endif

// Where the rows of S begin, in one of two integer types: looked up once a row, so that the loops over its entries need
// not be compiled for both.
class Starts {
  public:
    explicit Starts(const Rows<const std::int32_t>& of) : narrow_(of.data), stride_(of.stride) {}
    explicit Starts(const Rows<const std::int64_t>& of) : wide_(of.data), stride_(of.stride) {}

    Index operator()(Index block, Index row) const {
        const Index at = block * stride_ + row;
        return wide_ ? static_cast<Index>(wide_[at]) : static_cast<Index>(narrow_[at]);
    }

  private:
    const std::int32_t* narrow_ = nullptr;
    const std::int64_t* wide_ = nullptr;
    Index stride_;
};

template <class D, class I>
struct Entries {
    const I* columns;
    const D* values;
    Index count;
};

// The r sums of a row of S stay in registers: V vectors of W numbers. The last vector ends with the row of C, so that it
// overlaps the one before it unless r is a multiple of W; what is added to numbers in both is the same.
template <class T, Index W, int V>
class RowSums {
  public:
    RowSums(const Rows<const T>& C, Index first, Index width)
        : C_(C.data + first), stride_(C.stride), last_(width - W), far_(is_far(C)) {}

    Index width() const { return last_ + W; }

    template <class D, class I>
    void add(T* sums, const Entries<D, I>& of, Index e, Index end, bool fresh) const {
        Pack<T, W> total[CHAINS][V] = {};
        if (!fresh)
            for (int v = 0; v < V; ++v) total[0][v] = load_pack<T, W>(sums + offset(v));
        for (; e + CHAINS <= end; e += CHAINS)
            for (int c = 0; c < CHAINS; ++c) add_entry(total[c], of, e + c);
        for (int c = 0; c < CHAINS - 1 && e < end; ++c, ++e) add_entry(total[c], of, e);
        for (int v = 0; v < V; ++v) {
            for (int c = 1; c < CHAINS; ++c) total[0][v] += total[c][v];
            std::memcpy(sums + offset(v), &total[0][v], sizeof total[0][v]);
        }
    }

  private:
    static constexpr int CHAINS = V == 1 ? 4 : V == 2 ? 2 : 1;  // sums that do not wait for each other

    static bool is_far(const Rows<const T>& C) { return C.count * C.stride * static_cast<Index>(sizeof(T)) > CACHE_BYTES; }

    Index offset(int v) const { return v == V - 1 ? last_ : v * W; }

    template <class D, class I>
    void add_entry(Pack<T, W> (&total)[V], const Entries<D, I>& of, Index e) const {
        const T value = static_cast<T>(of.values[e]);
        const T* row = C_ + static_cast<Index>(of.columns[e]) * stride_;
        if (V > FEW_SUMS && far_) {
            const T* next = C_ + static_cast<Index>(of.columns[std::min(e + AHEAD, of.count - 1)]) * stride_;
            for (Index k = 0; k < V * W; k += 64 / static_cast<Index>(sizeof(T))) __builtin_prefetch(next + k);
        }
        for (int v = 0; v < V; ++v) total[v] += value * load_pack<T, W>(row + offset(v));
    }

    const T* C_;
    Index stride_, last_;
    bool far_;  // rows of C are fetched ahead
};

// body(RowSums, first number) for parts of a row of C whose sums fit into registers.
template <class T, Index W = LANES<T>, class Body>
void each_part(const Rows<const T>& C, const Body& body) {
    const Index r = C.width;
    if constexpr (W > 1) {
        if (r < W) return each_part<T, W / 2>(C, body);
    }
    constexpr int MOST = W == LANES<T> ? MOST_SUMS : 2;
    const Index vectors = ceil_div(r, W), parts = ceil_div(vectors, MOST);
    for (Index p = 0; p < parts; ++p) {
        const Index first = vectors * p / parts, last = vectors * (p + 1) / parts;
        with_constant<MOST>(last - first, [&](auto V) {
            body(RowSums<T, W, V()>(C, first * W, std::min(last * W, r) - first * W), first * W);
        });
    }
}

// out[:, i] = sum over the entries e of row i of values[e] * C[columns[e], :], for start <= i < stop.
template <class T, class D, class I>
void times(Index start, Index stop, const Starts& starts, Index blocks, const Entries<D, I>& of,
           const Rows<const T>& C, const Rows<T>& out) {
    const Index r = C.width, most = blocks == 1 ? std::min(ROWS, stop - start) : stop - start;
    const Space<T> space(most * r);
    for (Index first = start; first < stop; first += most) {
        const Index height = std::min(most, stop - first);
        for (Index b = 0; b < blocks; ++b)
            each_part<T>(C, [&](const auto& part, Index k) {
                for (Index i = 0; i < height; ++i)
                    part.add(space.get() + i * r + k, of, starts(b, first + i), starts(b, first + i + 1), b == 0);
            });
        for (Index top = 0; top < height; top += ROWS)
            for (Index k = 0; k < r; ++k) {
                const T* from = space.get() + top * r + k;
                T* to = out[k] + first + top;
                for (Index i = 0; i < std::min(ROWS, height - top); ++i) to[i] = from[i * r];
            }
    }
}

// Xᵀ by blocks: block b has the entries of the rows b * height ... of X (CSR), sorted by column and row.
template <class P, class I, class D>
void transpose(Index start, Index stop, const Line<const P>& indptr, const I* __restrict columns,
               const D* __restrict values, Index height, const Rows<P>& starts, I* __restrict rows, D* __restrict sorted) {
    const Index n = indptr.size - 1, m = starts.width - 1;
    for (Index b = start; b < stop; ++b) {
        const Index first = std::min(n, b * height), last = std::min(n, first + height);
        P* __restrict at = starts[b];
        std::fill_n(at, m + 1, P(0));
        for (Index e = indptr[first]; e < indptr[last]; ++e) ++at[columns[e]];
        P begin = indptr[first];
        for (Index j = 0; j <= m; ++j) begin = static_cast<P>(begin + std::exchange(at[j], begin));
        for (Index i = first; i < last; ++i)
            for (Index e = indptr[i]; e < indptr[i + 1]; ++e) {
                const Index place = at[columns[e]]++;
                rows[place] = static_cast<I>(i);
                sorted[place] = values[e];
            }
        for (Index j = m; j > 0; --j) at[j] = at[j - 1];  // every position has advanced to that of the next column
        at[0] = indptr[first];
    }
}

// out[i] = sum of squares of row i.
template <class D>
void row_squares(Index start, Index stop, const Starts& starts, const D* values, double* out) {
    for (Index i = start; i < stop; ++i) {
        const Index first = starts(0, i);
        out[i] = squared_norm(values + first, starts(0, i + 1) - first);
    }
}

// partial[i] = sum over the entries e of row i of (values[e] - p)² - p², p = U[i] . V[columns[e]].
// Adding ||U Vᵀ||² gives ||S - U Vᵀ||²: entries that are not stored contribute p².
// The sum is ||values||² - 2 U[i] . (row i of S V).
template <class D, class I>
void residual(Index start, Index stop, const Starts& starts, const Entries<D, I>& of, const Rows<const double>& U,
              const Rows<const double>& V, double* partial) {
    row_squares(start, stop, starts, of.values, partial);
    const Space<double> sums(V.width);
    each_part<double>(V, [&](const auto& part, Index k) {
        const Index width = part.width();
        for (Index i = start; i < stop; ++i) {
            part.add(sums.get(), of, starts(0, i), starts(0, i + 1), true);
            partial[i] -= 2.0 * dot(U[i] + k, sums.get(), width);
        }
    });
}

}  // namespace enmf
