// What all bindings share: the arrays they take and give, checks, and work without the GIL.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <stdexcept>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace nb = nanobind;

namespace {

template <class T, int D>
using In = nb::ndarray<const T, nb::ndim<D>, nb::c_contig, nb::device::cpu>;
template <class T, int D>
using Out = nb::ndarray<nb::numpy, T, nb::ndim<D>>;

// Sizes beyond this are mistakes, and sums of them would overflow.
constexpr std::size_t most_points = std::size_t(1) << 40, most_columns = std::size_t(1) << 20;

inline void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(message);
}

// Reading an array at an address that its numbers may not have is undefined.
template <class Array>
void require_aligned(const Array& array) {
  require(reinterpret_cast<std::uintptr_t>(array.data()) % alignof(typename Array::Scalar) == 0,
          "arrays are aligned");
}

inline constexpr auto interrupted = [] {
  nb::gil_scoped_acquire held;
  return PyErr_CheckSignals() != 0;
};

// Run work without the GIL; it returns whether it was done, or else a signal has come.
template <class F>
void without_gil(F work) {
  bool done;
  {
    nb::gil_scoped_release released;
    done = work();
  }
  if (!done) throw nb::python_error();
}

// The same, one call at a time on one object.
template <class F>
void without_gil(std::mutex& busy, F work) {
  without_gil([&] {
    std::lock_guard alone(busy);
    return work();
  });
}

// Memory for a result, to be freed by std::free. Large ones ask for large pages, which takes less
// time than touching as many small ones.
inline void* room(std::size_t bytes) {
  void* found = nullptr;
#if defined(__linux__)
  constexpr std::size_t page = std::size_t(1) << 21;
  if (bytes >= 2 * page) {
    found = std::aligned_alloc(page, (bytes + page - 1) / page * page);
    if (found) madvise(found, bytes, MADV_HUGEPAGE);
  }
#endif
  if (!found) found = std::malloc(std::max<std::size_t>(bytes, 1));
  if (!found) throw std::bad_alloc();
  return found;
}

template <class T, int D>
Out<T, D> new_array(std::initializer_list<std::size_t> shape) {
  std::size_t size = 1;
  for (std::size_t s : shape) {
    require(s == 0 || size <= most_points / s, "no more numbers than fit in memory");
    size *= s;
  }
  T* data = static_cast<T*>(room(size * sizeof(T)));
  nb::capsule owner(data, [](void* p) noexcept { std::free(p); });
  return Out<T, D>(data, shape, owner);
}

template <class T>
Out<T, 1> copied(const std::vector<T>& values) {
  Out<T, 1> out = new_array<T, 1>({values.size()});
  std::copy(values.begin(), values.end(), out.data());
  return out;
}

// Places 0 = starts[0] <= starts[1] <= ... where the parts of an array of this size begin and end.
inline void require_starts(const In<std::int64_t, 1>& starts, std::size_t size) {
  require_aligned(starts);
  require(starts.shape(0) > 0 && starts(0) == 0, "starts begin with 0");
  for (std::size_t i = 1; i < starts.shape(0); ++i)
    require(starts(i - 1) <= starts(i), "starts do not decrease");
  require(std::size_t(starts(starts.shape(0) - 1)) == size, "starts end with the size");
}

}  // namespace
