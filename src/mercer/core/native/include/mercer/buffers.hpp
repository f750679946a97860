// Arrays that begin where a cache line does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>

namespace mercer {

template <class T>
struct AlignedDelete {
  void operator()(T* p) const { ::operator delete[](p, std::align_val_t(64)); }
};
template <class T>
using Buffer = std::unique_ptr<T[], AlignedDelete<T>>;

template <class T>
Buffer<T> allocate(std::ptrdiff_t size) {
  return Buffer<T>(static_cast<T*>(::operator new[](std::max<std::ptrdiff_t>(size, 1) * sizeof(T),
                                                    std::align_val_t(64))));
}

}  // namespace mercer
