// Arrays that an object of Python keeps between calls, and sparse matrices made of them.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "python.h"
#include "sparse.h"

namespace enmf {

class HeldArrays {
  public:
    const Array& hold(nb::handle object) {
        auto array = std::make_unique<Array>();
        if (!array->fill(object.ptr())) throw nb::type_error("X has to be made of arrays");
        arrays_.push_back(std::move(array));
        return *arrays_.back();
    }

    auto begin() const { return arrays_.begin(); }
    auto end() const { return arrays_.end(); }

  private:
    std::vector<std::unique_ptr<Array>> arrays_;
};

// body(starts, rows, blocks, entries) for a matrix of so many columns, in blocks of them, whose entries are all inside.
template <class T, class Body>
void with_sparse(Index width, const Array& starts, const Array& columns, const Array& values, Body&& body) {
    by_index(starts, "starts", [&]<class P>(Type<P>) {
        const auto rows = starts.rows<const P>("starts");
        require(rows.count > 0 && rows.width > 0, "starts has to have a row");
        by_index(columns, "columns", [&]<class I>(Type<I>) {
            const auto places = columns.line<const I>("columns");
            const auto numbers = values.line<const T>("values");
            require(places.size == numbers.size, "columns and values have to be equally long");
            for (Index b = 0; b < rows.count; ++b)
                require(0 <= rows[b][0] && std::is_sorted(rows[b], rows[b] + rows.width) &&
                            static_cast<Index>(rows[b][rows.width - 1]) <= numbers.size,
                        "rows begin or end outside the entries");
            require(std::all_of(places.data, places.data + places.size, [&](I j) { return 0 <= j && j < width; }),
                    "an entry lies outside the matrix");
            body(Starts(rows), rows.width - 1, rows.count, Entries<T, I>{places.data, numbers.data, numbers.size});
        });
    });
}

}  // namespace enmf
