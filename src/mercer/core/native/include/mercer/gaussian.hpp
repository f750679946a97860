// The Gaussian exp(c |x - z|^2) times a vector: what most products are, in fewer steps than the
// program takes. From dot products on, each pair is worked on in registers until it is summed.
#pragma once

#include "mercer/functions.hpp"
#include "mercer/statistics.hpp"

namespace mercer {

// Where the exponents' rounding, of the size of the norms, is this small, near pairs need no care.
constexpr double harmless_norms = 8;

// partial[r][lane] += 2^y v over one tile, with y = scale * tile + rows[r] + columns[j]. Returns
// whether every y is below `limit`, if that is asked; where one is not, partial is left as it was.
// With `Keep`, 2^y itself goes to kept[R, C].
template <class T, bool Limited, bool Keep>
inline bool multiply_gaussian(const T* tile, T scale, const T* rows, const T* columns, const T* v,
                              T limit, T* partial, T* kept) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns, W = Simd<T>::width;
  using V = Vector<T>;
  const ExpTwo<T> exp_two;
  V sums[R];
  Mask<T> near{};
  for (int r = 0; r < R; ++r) {
    V sum = load<T>(partial + r * W);
#pragma GCC unroll 4
    for (int j = 0; j < C; j += W) {
      const V y = load<T>(tile + r * C + j) * scale + (load<T>(columns + j) + rows[r]);
      if constexpr (Limited) near |= ~(y < limit);
      const V value = exp_two(y);
      if constexpr (Keep) store<T>(kept + r * C + j, value);
      sum += value * load<T>(v + j);
    }
    sums[r] = sum;
  }
  if (Limited && any<T>(near)) return false;
  for (int r = 0; r < R; ++r) store<T>(partial + r * W, sums[r]);
  return true;
}

}  // namespace mercer
