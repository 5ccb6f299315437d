// Arrays of Python as views. A kernel is bound once: the arrays say which precision and which index it is to be compiled
// for, every view is checked (type, dimensions, contiguous rows, may it be written to), and the GIL is released for the
// loops alone. What is wrong is said by the name of the argument.
#pragma once

#include <nanobind/nanobind.h>

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "views.h"

namespace enmf {

namespace nb = nanobind;

template <class T>
struct Type {
    using type = T;
};

// What the numbers of an array are.
enum class Kind : char { other, float32, float64, int32, int64, boolean };

template <class T>
constexpr Kind kind_of() {
    using Plain = std::remove_const_t<T>;
    if constexpr (std::is_same_v<Plain, float>) return Kind::float32;
    if constexpr (std::is_same_v<Plain, double>) return Kind::float64;
    if constexpr (std::is_same_v<Plain, std::int32_t>) return Kind::int32;
    if constexpr (std::is_same_v<Plain, std::int64_t>) return Kind::int64;
    if constexpr (std::is_same_v<Plain, bool>) return Kind::boolean;
    return Kind::other;
}

inline const char* name_of(Kind kind) {
    constexpr const char* names[] = {"another type", "float32", "float64", "int32", "int64", "bool"};
    return names[static_cast<int>(kind)];
}

// An argument that holds numbers; it keeps the buffer of the Python object for the time of the call.
class Array {
  public:
    Array() = default;
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
    Array& operator=(Array&&) = delete;
    Array(Array&& other) noexcept : buffer_(other.buffer_), copy_(std::move(other.copy_)), kind_(other.kind_) {
        other.buffer_.obj = nullptr;
    }
    ~Array() {
        if (buffer_.obj) PyBuffer_Release(&buffer_);
    }

    bool fill(PyObject* object) {
        if (PyObject_GetBuffer(object, &buffer_, PyBUF_RECORDS_RO) != 0) {
            buffer_.obj = nullptr;
            PyErr_Clear();
            return false;
        }
        const char* format = buffer_.format;
        if (*format == '@' || *format == '=' || *format == (std::endian::native == std::endian::little ? '<' : '>'))
            ++format;
        const Index size = buffer_.itemsize;
        switch (format[1] == '\0' ? *format : '\0') {
            case 'f': kind_ = Kind::float32; break;
            case 'd': kind_ = Kind::float64; break;
            case '?': kind_ = Kind::boolean; break;
            case 'i': case 'l': case 'q': kind_ = size == 4 ? Kind::int32 : size == 8 ? Kind::int64 : Kind::other; break;
            default: kind_ = Kind::other;
        }
        return true;
    }

    Kind kind() const { return kind_; }
    Index extent(int axis) const { return axis < buffer_.ndim ? buffer_.shape[axis] : 0; }
    bool empty() const { return buffer_.len == 0; }

    template <class T>
    Line<T> line(const char* name) const {
        check<T>(name, 1);
        return {data<T>(), extent(0)};
    }

    template <class T>
    Rows<T> rows(const char* name) const {
        check<T>(name, 2);
        return {data<T>(), extent(0), extent(1), stride<T>(0)};
    }

    template <class T>
    Stack<T> stack(const char* name) const {
        check<T>(name, 3);
        return {data<T>(), extent(0), extent(1), extent(2), stride<T>(1), stride<T>(0)};
    }

    // Whether the two share memory: a kernel must not read through one what it writes through the other.
    bool touches(const Array& other) const {
        const auto [low, high] = span();
        const auto [from, to] = other.span();
        return low < to && from < high;
    }

  private:
    template <class T>
    T* data() const {
        return reinterpret_cast<T*>(copy_ ? copy_.get() : static_cast<char*>(buffer_.buf));
    }

    template <class T>
    Index stride(int axis) const {
        if (!copy_) return buffer_.strides[axis] / static_cast<Index>(sizeof(T));
        Index step = 1;
        for (int inner = axis + 1; inner < buffer_.ndim; ++inner) step *= buffer_.shape[inner];
        return step;
    }

    template <class T>
    void check(const char* name, int dimensions) const {
        const auto fail = [&](const std::string& what) { throw nb::type_error((std::string(name) + " " + what).c_str()); };
        if (kind_ != kind_of<T>())
            fail(std::string("has to be ") + name_of(kind_of<T>()) + ", and is " + name_of(kind_));
        if (buffer_.ndim != dimensions) fail("has " + std::to_string(buffer_.ndim) + " dimensions");
        if (!std::is_const_v<T> && buffer_.readonly) fail("is read-only");
        if (empty()) return;
        if (extent(dimensions - 1) > 1 && buffer_.strides[dimensions - 1] != buffer_.itemsize)
            fail("has to be contiguous along its last axis");
        for (int axis = 0; axis < dimensions; ++axis)
            if (extent(axis) > 1 && (buffer_.strides[axis] < 0 || buffer_.strides[axis] % buffer_.itemsize != 0))
                fail("has strides that go backwards or between numbers");
        if (reinterpret_cast<std::uintptr_t>(buffer_.buf) % alignof(T) == 0) return;
        if (!std::is_const_v<T>) fail("is not aligned");
        // numbers that came from another process or a file may lie anywhere
        copy_ = std::make_unique<char[]>(static_cast<std::size_t>(buffer_.len));
        PyBuffer_ToContiguous(copy_.get(), &buffer_, buffer_.len, 'C');
    }

    std::pair<const char*, const char*> span() const {
        const char* low = static_cast<const char*>(buffer_.buf);
        if (empty()) return {low, low};
        const char* high = low + buffer_.itemsize;
        for (int axis = 0; axis < buffer_.ndim; ++axis) {
            const Index reach = (buffer_.shape[axis] - 1) * buffer_.strides[axis];
            (reach < 0 ? low : high) += reach;
        }
        return {low, high};
    }

    Py_buffer buffer_{};
    mutable std::unique_ptr<char[]> copy_;
    Kind kind_ = Kind::other;
};

inline void require(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
}

// No array that is written to may share memory with another argument.
inline void apart(std::initializer_list<const Array*> written, std::initializer_list<const Array*> read = {}) {
    for (auto a = written.begin(); a != written.end(); ++a) {
        for (auto b = a + 1; b != written.end(); ++b) require(!(*a)->touches(**b), "two results share memory");
        for (const Array* b : read) require(!(*a)->touches(*b), "a result shares memory with another argument");
    }
}

inline void inside(Index start, Index stop, Index length) {
    require(0 <= start && start <= stop && stop <= length, "the range is not inside the array");
}

// Call body(Type<float>) or body(Type<double>), whichever the array holds.
template <class Body>
void by_real(const Array& array, const char* name, Body&& body) {
    if (array.kind() == Kind::float64) return body(Type<double>());
    if (array.kind() == Kind::float32) return body(Type<float>());
    throw nb::type_error((std::string(name) + " has to be float32 or float64, and is " + name_of(array.kind())).c_str());
}

template <class Body>
void by_index(const Array& array, const char* name, Body&& body) {
    if (array.kind() == Kind::int32) return body(Type<std::int32_t>());
    if (array.kind() == Kind::int64) return body(Type<std::int64_t>());
    throw nb::type_error((std::string(name) + " has to be int32 or int64, and is " + name_of(array.kind())).c_str());
}

// The loops themselves, while other threads of Python go on.
template <class Loops>
void unlocked(Loops&& loops) {
    nb::gil_scoped_release release;
    loops();
}

}  // namespace enmf

namespace nanobind::detail {
template <>
struct type_caster<enmf::Array> {
    NB_TYPE_CASTER(enmf::Array, const_name("numpy.ndarray"))

    bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept { return value.fill(source.ptr()); }
};
}  // namespace nanobind::detail
