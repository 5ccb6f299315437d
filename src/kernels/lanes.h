// Columns of a factor are handled in blocks: the lanes. A factor is stored with one component per row (r x n), so that a
// block is r short lines, and loops across its lanes vectorise.
//
// Inside a block the lanes lie in strips, a few vectors wide: first all components of one strip, then those of the next.
// A strip of r components stays in the first cache while every component is subtracted from every other one.
#pragma once

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "vectors.h"

namespace enmf {

constexpr Index BLOCK = 128;          // columns handled together by kernels that work on whole lines
constexpr Index LANE_BYTES = 1024;    // the same for sweeps: BLOCK lanes in double precision, twice as many in single
constexpr Index RANGE = 2 * BLOCK;    // ranges of sweeps are multiples of this: the same blocks for any number of threads
constexpr int PANEL = 4;              // components handled together: what the others contribute is a matrix product

template <class T>
constexpr Index BLOCK_LANES = LANE_BYTES / static_cast<Index>(sizeof(T));

template <class T>
constexpr Index STRIP_LANES = STRIP * LANES<T>;

inline Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }
inline Index padded(Index count, Index to) { return ceil_div(count, to) * to; }

// Zeroed memory that begins on a cache line.
template <class T>
class Space {
  public:
    explicit Space(Index size)
        : data_(size <= FEW ? few_ : static_cast<T*>(::operator new(bytes(size), std::align_val_t{64}))), size_(size) {
        std::fill_n(data_, size, T(0));
    }
    Space(const Space&) = delete;
    Space& operator=(const Space&) = delete;
    ~Space() {
        if (data_ != few_) ::operator delete(data_, std::align_val_t{64});
    }

    T* get() const { return data_; }
    T& operator[](Index i) const { return data_[i]; }
    Index size() const { return size_; }
    Rows<T> rows(Index count) const { return {data_, count, count ? size_ / count : 0, count ? size_ / count : 0}; }

  private:
    static constexpr Index FEW = 32;  // numbers that need no allocation
    static std::size_t bytes(Index size) { return static_cast<std::size_t>(size) * sizeof(T); }

    alignas(64) T few_[FEW];
    T* data_;
    Index size_;
};

// Call body with 1, ..., MOST as a constant.
template <int MOST, class Body>
inline void with_constant(Index count, Body&& body) {
    if constexpr (MOST > 1) {
        if (count < MOST) return with_constant<MOST - 1>(count, body);
    }
    body(std::integral_constant<int, MOST>());
}

// A block of r components: `width` lanes of a factor, padded with zeros to whole vectors.
template <class T>
class Block {
  public:
    explicit Block(Index components) : components_(components), space_(components * BLOCK_LANES<T>) {}

    Index components() const { return components_; }
    Index width() const { return width_; }
    Index strips() const { return ceil_div(vectors_, STRIP); }
    Index whole_strips() const { return vectors_ / STRIP; }

    // The number of vectors of a strip; the last one may have fewer.
    Index vectors(Index strip) const { return std::min<Index>(STRIP, vectors_ - strip * STRIP); }

    // The lines of a strip: the components follow each other at a distance of its lanes.
    T* strip(Index strip) const { return space_.get() + strip * STRIP_LANES<T> * components_; }

    void resize(Index width) {
        width_ = width;
        vectors_ = ceil_div(width, LANES<T>);
    }

    void load(const Rows<const T>& F, Index first, Index width) {
        resize(width);
        each_piece([&](Index k, Index lane, T* here, Index count, Index lanes) {
            const T* there = F[k] + first + lane;
            if (count == STRIP_LANES<T>) return copy_strip(there, here);
            std::copy_n(there, count, here);
            std::fill(here + count, here + lanes, T(0));
        });
    }

    void store(const Rows<T>& F, Index first) const {
        each_piece([&](Index k, Index lane, const T* here, Index count, Index) {
            T* there = F[k] + first + lane;
            if (count == STRIP_LANES<T>) return copy_strip(here, there);
            std::copy_n(here, count, there);
        });
    }

    // body(component, first lane, its numbers in this strip, how many are inside, and with the padding)
    template <class Body>
    void each_piece(Body&& body) const {
        for (Index s = 0; s < strips(); ++s) {
            const Index lanes = vectors(s) * LANES<T>, lane = s * STRIP_LANES<T>;
            const Index count = std::min(lanes, width_ - lane);
            for (Index k = 0; k < components_; ++k) body(k, lane, strip(s) + k * lanes, count, lanes);
        }
    }

  private:
    static void copy_strip(const T* from, T* to) {
        for (int v = 0; v < STRIP; ++v) enmf::store(to + v * LANES<T>, enmf::load(from + v * LANES<T>));
    }

    Index components_, width_ = 0, vectors_ = 0;
    Space<T> space_;
};

}  // namespace enmf
