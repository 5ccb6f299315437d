// Plain views of memory: a line of numbers, and rows of numbers that lie at a fixed distance from each other.
#pragma once

#include <cstddef>

namespace enmf {

using Index = std::ptrdiff_t;

template <class T>
struct Line {
    T* data;
    Index size;

    T& operator[](Index i) const { return data[i]; }
};

template <class T>
struct Rows {
    T* data;
    Index count, width;  // rows, and numbers in each of them
    Index stride;        // from the beginning of a row to that of the next one

    T* operator[](Index i) const { return data + i * stride; }
};

template <class T>
inline Rows<const T> as_const(const Rows<T>& rows) {
    return {rows.data, rows.count, rows.width, rows.stride};
}

template <class T>
struct Stack {  // of equally large blocks of rows
    T* data;
    Index count;
    Index height, width, stride;  // of a block and its rows
    Index distance;               // from the beginning of a block to that of the next one

    Rows<T> operator[](Index i) const { return {data + i * distance, height, width, stride}; }
};

}  // namespace enmf
