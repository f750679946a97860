// Statistics of points whose features are 0 or 1, from words that hold one bit of each feature. The
// words come as numbers of type T, which they are no numbers of.
#pragma once

#include "mercer/statistics.hpp"

namespace mercer {

constexpr bool counts_bits(Statistic kind) {
  return kind == Statistic::common || kind == Statistic::different;
}

// Whether the processor counts the bits of a vector's lanes by an instruction.
inline bool counts_by_instruction() {
#if defined(__AVX512F__)
  static const bool has = counts_bits_of_lanes();
  return has;
#else
  return false;
#endif
}

// How many bits of each lane are set.
template <class T, bool ByInstruction>
MERCER_INLINE Mask<T> count(Mask<T> word) {
#if defined(__AVX512F__)
  if constexpr (ByInstruction) {
    Mask<T> found;
    if constexpr (sizeof(T) == 4)
      asm("vpopcntd %1, %0" : "=v"(found) : "v"(word));
    else
      asm("vpopcntq %1, %0" : "=v"(found) : "v"(word));
    return found;
  }
#endif
  // Sums of ever wider fields, side by side; at last those of all bytes come to the highest.
  using Unsigned = typename Simd<T>::Unsigned;
  using U = std::make_unsigned_t<typename Simd<T>::Int>;
  constexpr U ones = U(~U(0)) / 255;  // of each byte
  const auto x = Unsigned(word);
  const Unsigned pairs = x - ((x >> 1) & ones * 0x55);
  const Unsigned fours = (pairs & ones * 0x33) + ((pairs >> 2) & ones * 0x33);
  const Unsigned bytes = (fours + (fours >> 4)) & ones * 0x0f;
  return Mask<T>((bytes * ones) >> (8 * (sizeof(T) - 1)));
}

// Of one panel, in how many features both points have a one, or with `Different` one of the two.
template <class T, bool Different, bool ByInstruction>
inline void bit_panel(const T* X, const T* Y, std::ptrdiff_t words, T* out) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns, W = Simd<T>::width;
  constexpr int P = Geometry<T>::panel;
  using Int = typename Simd<T>::Int;
  Mask<T> found[R][2] = {};
  for (std::ptrdiff_t k = 0; k < words; ++k) {
    const Mask<T> z[2] = {bits<T>(load<T>(Y + k * P)), bits<T>(load<T>(Y + k * P + W))};
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      Int x;
      std::memcpy(&x, X + k * R + r, sizeof x);
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h)
        found[r][h] += count<T, ByInstruction>(Different ? z[h] ^ x : z[h] & x);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
    for (int h = 0; h < 2; ++h)
      store<T>(out + r * C + h * W, __builtin_convertvector(found[r][h], Vector<T>));
}

template <class T>
inline void bit_panel(Statistic kind, const T* X, const T* Y, std::ptrdiff_t words, T* out) {
  const bool different = kind == Statistic::different;
  if (counts_by_instruction())
    return different ? bit_panel<T, true, true>(X, Y, words, out)
                     : bit_panel<T, false, true>(X, Y, words, out);
  different ? bit_panel<T, true, false>(X, Y, words, out)
            : bit_panel<T, false, false>(X, Y, words, out);
}

}  // namespace mercer
