// Vectors of the width this instruction-set level has, by the compiler's vector extension.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#define MERCER_INLINE inline __attribute__((always_inline))

namespace mercer {

#if defined(__AVX512F__)
constexpr int vector_bytes = 64;
constexpr int tile_rows = 12;  // 24 accumulators of 32 registers
#elif defined(__AVX__)
constexpr int vector_bytes = 32;
constexpr int tile_rows = 6;  // 12 accumulators of 16 registers
#elif defined(__aarch64__)
constexpr int vector_bytes = 16;
constexpr int tile_rows = 12;  // 24 accumulators of 32 registers
#else
constexpr int vector_bytes = 16;
constexpr int tile_rows = 6;
#endif

template <class T>
struct Simd {
  static constexpr int width = vector_bytes / int(sizeof(T));
  using Int = std::conditional_t<
      sizeof(T) == 2, std::int16_t, std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>>;
  typedef T Vector __attribute__((vector_size(vector_bytes)));
  typedef Int Mask __attribute__((vector_size(vector_bytes)));
  typedef std::make_unsigned_t<Int> Unsigned __attribute__((vector_size(vector_bytes)));
};

template <class T>
using Vector = typename Simd<T>::Vector;
template <class T>
using Mask = typename Simd<T>::Mask;

template <class T>
MERCER_INLINE Vector<T> load(const T* p) {
  Vector<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class T>
MERCER_INLINE void store(T* p, const Vector<T>& v) {
  std::memcpy(p, &v, sizeof v);
}

template <class T>
MERCER_INLINE Vector<T> broadcast(T value) {
  return value - Vector<T>{};
}

// The same, in a register from then on: compilers like to load constants anew in every turn of a
// loop, which costs more than the arithmetic.
template <class T>
MERCER_INLINE Vector<T> kept(T value) {
  Vector<T> v = broadcast<T>(value);
#if defined(__AVX512F__)
  asm("" : "+v"(v));
#endif
  return v;
}

// The same address, unknown to the compiler.
template <class T>
MERCER_INLINE const T* anew(const T* p) {
#if defined(__AVX512F__)
  asm volatile("" : "+r"(p));
#endif
  return p;
}

// Numbers spread over vectors beforehand: reading one takes no time compared with arithmetic, spreading it
// does.
template <class T, int N>
struct Spread {
  static constexpr int size = N;
  alignas(vector_bytes) T lanes[N][Simd<T>::width];

  constexpr explicit Spread(const T (&numbers)[N]) {
    for (int k = 0; k < N; ++k)
      for (T& lane : lanes[k]) lane = numbers[k];
  }
  MERCER_INLINE Vector<T> operator[](int k) const { return load<T>(anew(lanes[k])); }
};

template <class T>
MERCER_INLINE Mask<T> bits(const Vector<T>& v) {
  Mask<T> m;
  std::memcpy(&m, &v, sizeof m);
  return m;
}

template <class T>
MERCER_INLINE Vector<T> from_bits(const Mask<T>& m) {
  Vector<T> v;
  std::memcpy(&v, &m, sizeof v);
  return v;
}

template <class T>
MERCER_INLINE bool any(const Mask<T>& m) {
  typedef std::int64_t Words __attribute__((vector_size(vector_bytes)));
  Words w;
  std::memcpy(&w, &m, sizeof w);
  std::int64_t found = 0;
  for (int i = 0; i < vector_bytes / 8; ++i) found |= w[i];
  return found != 0;
}

template <class T>
MERCER_INLINE double total(const Vector<T>& v) {
  Vector<double> parts;
  if constexpr (sizeof(T) == 4) {
    typedef T Half __attribute__((vector_size(vector_bytes / 2)));
    Half halves[2];
    std::memcpy(halves, &v, sizeof v);
    parts = __builtin_convertvector(halves[0], Vector<double>) +
            __builtin_convertvector(halves[1], Vector<double>);
  } else {
    parts = v;
  }
  double sum = 0;
  for (int i = 0; i < Simd<double>::width; ++i) sum += parts[i];
  return sum;
}

}  // namespace mercer
