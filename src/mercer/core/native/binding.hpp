// What all bindings share: the arrays they take and give, checks, and work without the GIL.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#if !defined(_WIN32)
#include <unistd.h>
#endif
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

// The lock of one object. A forked child has none of its parent's other threads, so a lock that one
// of them held would never be released there: the child begins with a new one. An object that was
// being changed at the fork is refused in the child, where the change will never be finished.
class Busy {
 public:
  // Before each call. Where two threads find an object of the parent, one of them renews it while
  // the other waits: process_ is -here meanwhile, which a child forked at that moment can tell from
  // its own.
  void renew() {
    const int here = process();
    for (int found = process_; found != here; found = process_) {
      if (found == -here || !process_.compare_exchange_strong(found, -here)) continue;
      std::construct_at(&mutex_);  // the old one may be locked, so it is not destroyed
      broken_ |= changing_;
      process_ = here;
    }
    if (broken_)
      throw std::runtime_error(
          "another thread was changing this object when the process was forked; make it anew in "
          "the child, or fork before starting threads");
  }
  void lock(bool changes) {
    mutex_.lock();
    changing_ = changes;
  }
  void unlock() {
    changing_ = false;
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  static int process() {
#if defined(_WIN32)
    return 0;  // where nothing forks
#else
    return int(getpid());
#endif
  }

  std::atomic<int> process_ = process();
  bool changing_ = false, broken_ = false;
};

// A Busy held by one thread, after it was renewed.
class Turn {
 public:
  Turn(Busy& busy, bool changes) : busy_(busy) { busy_.lock(changes); }
  Turn(const Turn&) = delete;
  ~Turn() { busy_.unlock(); }

 private:
  Busy& busy_;
};

// Run work without the GIL, one call at a time on one object, which it may change.
template <class F>
void without_gil(Busy& busy, F work, bool changes = false) {
  busy.renew();
  without_gil([&] {
    Turn turn(busy, changes);
    return work();
  });
}

// What Python's MemoryError says where an array has no room: its shape and its size.
class NoRoom : public std::bad_alloc {
 public:
  NoRoom(std::initializer_list<std::size_t> shape, std::size_t bytes) {
    text_ = "Unable to allocate " + std::to_string(bytes >> 20) + " MiB for an array with shape (";
    const char* between = "";
    for (std::size_t s : shape) {
      text_ += between + std::to_string(s);
      between = ", ";
    }
    text_ += ")";
  }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

// Memory for a result, to be freed by std::free. Large ones ask for large pages, which takes less
// time than touching as many small ones. A null pointer where there is none.
inline void* room(std::size_t bytes) {
  void* found = nullptr;
#if defined(__linux__)
  constexpr std::size_t page = std::size_t(1) << 21;
  if (bytes >= 2 * page) {
    found = std::aligned_alloc(page, (bytes + page - 1) / page * page);
    if (found) madvise(found, bytes, MADV_HUGEPAGE);
  }
#endif
  return found ? found : std::malloc(std::max<std::size_t>(bytes, 1));
}

template <class T, int D>
Out<T, D> new_array(std::initializer_list<std::size_t> shape) {
  std::size_t size = 1;
  for (std::size_t s : shape) {
    require(s == 0 || size <= most_points / s, "no more numbers than fit in memory");
    size *= s;
  }
  T* data = static_cast<T*>(room(size * sizeof(T)));
  if (!data) throw NoRoom(shape, size * sizeof(T));
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
