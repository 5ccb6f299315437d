// Where the entries of each row begin (CSR `indptr`), in 32 or 64 bits whatever the other indices have; and checks of
// index arrays for bindings.
#pragma once

#include "python.h"

namespace enmf {

class Offsets {
  public:
    Offsets(const Array& array, const char* name) {
        by_index(array, name, [&]<class I>(Type<I>) {
            const auto line = array.line<const I>(name);
            size_ = line.size;
            if constexpr (sizeof(I) == 4)
                narrow_ = line.data;
            else
                wide_ = line.data;
        });
    }

    Index operator[](Index i) const { return narrow_ ? narrow_[i] : static_cast<Index>(wide_[i]); }
    Index rows() const { return size_ - 1; }

    // Whether those of the rows start..stop are positions 0..entries, none before the previous one.
    bool rise(Index start, Index stop, Index entries) const {
        Index before = 0;
        for (Index i = start; i <= stop; ++i) {
            if ((*this)[i] < before) return false;
            before = (*this)[i];
        }
        return before <= entries;
    }

  private:
    const std::int32_t* narrow_ = nullptr;
    const std::int64_t* wide_ = nullptr;
    Index size_ = 0;
};

}  // namespace enmf
