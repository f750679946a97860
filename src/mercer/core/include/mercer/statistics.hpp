// Pair statistics on tiles: the same loop for each, with another update per feature.
#pragma once

#include <algorithm>
#include <vector>

#include "mercer/functions.hpp"

namespace mercer {

enum class Statistic : int {
  dot,
  sqdist,
  l1,
  minsum,
  chi2,
  conjunction,
  difference_product,  // sum (x - z)(dx - dz), the points and their tangents side by side
  sign_product,        // sum sign(x - z)(dx - dz), likewise
  given,               // any other statistic, computed beforehand
};

// Below this many features squared distances are summed from differences.
constexpr int exact_features = 4;

// One statistic of n points X with m points Y.
template <class T>
struct Leaf {
  Statistic kind = Statistic::given;
  const T* X = nullptr;        // (n, d) rows, moved towards the origin where the kind is sqdist
  const T* Y = nullptr;        // (m, d)
  const T* X_given = nullptr;  // (n, d) rows as they came, to recompute distances of near points
  const T* Y_given = nullptr;  // (m, d)
  const T* X_norms = nullptr;  // (n,) squared norms of X, for sqdist
  const T* Y_norms = nullptr;  // (m,)
  const T* block = nullptr;    // (n, m) values computed beforehand, dot products for sqdist
  std::ptrdiff_t n = 0, m = 0, d = 0;

  bool needs_norms() const { return kind == Statistic::sqdist && (block || d > exact_features); }
};

template <class T>
struct Geometry {
  static constexpr int rows = tile_rows;
  static constexpr int panel = 2 * Simd<T>::width;   // columns of a panel
  static constexpr int panels = 2;                   // panels of a tile
  static constexpr int columns = panel * panels;
};

// Points repacked so that a tile reads them in order: blocks of `step` points, feature by feature.
// The last block is filled up with copies of the last point, so that nothing odd appears in it.
template <class T>
inline void pack(const T* points, std::ptrdiff_t first, std::ptrdiff_t count, std::ptrdiff_t n,
                 std::ptrdiff_t d, int step, T* out) {
  for (std::ptrdiff_t start = 0; start < count; start += step, out += step * d)
    for (int r = 0; r < step; ++r) {
      const T* row = points + std::min(first + start + r, n - 1) * d;
      for (std::ptrdiff_t k = 0; k < d; ++k) out[k * step + r] = row[k];
    }
}

struct Dot {
  template <class T>
  static MERCER_INLINE void step(Vector<T>& acc, const Vector<T>& x, const Vector<T>& z) {
    acc += x * z;
  }
};
struct SquaredDifference {
  template <class T>
  static MERCER_INLINE void step(Vector<T>& acc, const Vector<T>& x, const Vector<T>& z) {
    const Vector<T> difference = x - z;
    acc += difference * difference;
  }
};
struct AbsoluteDifference {
  template <class T>
  static MERCER_INLINE void step(Vector<T>& acc, const Vector<T>& x, const Vector<T>& z) {
    acc += absolute<T>(x - z);
  }
};
struct Minimum {
  template <class T>
  static MERCER_INLINE void step(Vector<T>& acc, const Vector<T>& x, const Vector<T>& z) {
    acc += x < z ? x : z;
  }
};
struct ChiSquare {
  template <class T>
  static MERCER_INLINE void step(Vector<T>& acc, const Vector<T>& x, const Vector<T>& z) {
    const Vector<T> difference = x - z, sum = x + z;
    const Vector<T> divisor = sum == T(0) ? broadcast<T>(T(1)) : sum;
    acc += difference / divisor * difference;
  }
};
struct Conjunct {
  template <class T>
  static MERCER_INLINE void step(Vector<T>& acc, const Vector<T>& x, const Vector<T>& z) {
    acc *= x * z + T(1);
  }
};

// out[r][j] for one panel: rows x panel accumulators in registers, one pass over the features.
template <class T, class Update>
MERCER_INLINE void panel_tile(const T* X, const T* Y, std::ptrdiff_t d, T start, T* out,
                              int columns) {
  constexpr int R = Geometry<T>::rows, W = Simd<T>::width, P = Geometry<T>::panel;
  using V = Vector<T>;
  V acc[R][2];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = broadcast<T>(start);
  for (std::ptrdiff_t k = 0; k < d; ++k) {
    const V z0 = load<T>(Y + k * P), z1 = load<T>(Y + k * P + W);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const V x = broadcast<T>(X[k * R + r]);
      Update::template step<T>(acc[r][0], x, z0);
      Update::template step<T>(acc[r][1], x, z1);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    store<T>(out + r * columns, acc[r][0]);
    store<T>(out + r * columns + W, acc[r][1]);
  }
}

// sum (x - z)(dx - dz) or sum sign(x - z)(dx - dz); features alternate with their tangents.
template <class T, bool Sign>
MERCER_INLINE void tangent_tile(const T* X, const T* Y, std::ptrdiff_t d, T* out, int columns) {
  constexpr int R = Geometry<T>::rows, W = Simd<T>::width, P = Geometry<T>::panel;
  using V = Vector<T>;
  for (int r = 0; r < R; ++r)
    for (int j = 0; j < P; j += W) {
      V acc{};
      for (std::ptrdiff_t k = 0; k < d; k += 2) {
        const V u = X[k * R + r] - load<T>(Y + k * P + j);
        const V du = X[(k + 1) * R + r] - load<T>(Y + (k + 1) * P + j);
        if constexpr (Sign) {
          const V positive = u > T(0) ? du : V{};
          acc += u < T(0) ? -du : positive;
        } else {
          acc += u * du;
        }
      }
      store<T>(out + r * columns + j, acc);
    }
}

// The tile of squared distances summed from differences of the points as they were given.
template <class T>
inline void exact_tile(const Leaf<T>& leaf, std::ptrdiff_t row, std::ptrdiff_t column, T* out) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns, P = Geometry<T>::panel;
  thread_local std::vector<T> X, Y;
  X.resize(R * leaf.d);
  Y.resize(C * leaf.d);
  pack<T>(leaf.X_given, row, R, leaf.n, leaf.d, R, X.data());
  pack<T>(leaf.Y_given, column, C, leaf.m, leaf.d, P, Y.data());
  for (int p = 0; p < Geometry<T>::panels; ++p)
    panel_tile<T, SquaredDifference>(X.data(), Y.data() + p * P * leaf.d, leaf.d, T(0), out + p * P,
                                     C);
}

template <class T>
inline T exact_distance(const Leaf<T>& leaf, std::ptrdiff_t row, std::ptrdiff_t column) {
  const T* x = leaf.X_given + std::min(row, leaf.n - 1) * leaf.d;
  const T* z = leaf.Y_given + std::min(column, leaf.m - 1) * leaf.d;
  T sum = 0;
  for (std::ptrdiff_t k = 0; k < leaf.d; ++k) sum += (x[k] - z[k]) * (x[k] - z[k]);
  return sum;
}

// From dot products to squared distances: norms added, near pairs recomputed from differences (and
// those whose norms overflow). X_norms, Y_norms: of the tile's rows and columns.
template <class T>
inline void finish_sqdist(const Leaf<T>& leaf, std::ptrdiff_t row, std::ptrdiff_t column,
                          const T* X_norms, const T* Y_norms, T* out) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns, W = Simd<T>::width;
  constexpr T near = sizeof(T) == 4 ? T(1e-2) : T(1e-4);
  constexpr int many = R * C / 8;
  using V = Vector<T>;
  Mask<T> far = ~Mask<T>{};
  for (int r = 0; r < R; ++r)
    for (int j = 0; j < C; j += W) {
      const V norms = X_norms[r] + load<T>(Y_norms + j);
      const V distance = norms - T(2) * load<T>(out + r * C + j);
      far &= distance > near * norms;
      store<T>(out + r * C + j, distance);
    }
  if (!any<T>(~far)) return;
  std::int16_t found[R * C];
  int count = 0;
  for (int i = 0; i < R * C; ++i)
    if (!(out[i] > near * (X_norms[i / C] + Y_norms[i % C]))) found[count++] = std::int16_t(i);
  if (count > many) return exact_tile<T>(leaf, row, column, out);
  for (int i = 0; i < count; ++i)
    out[found[i]] = exact_distance<T>(leaf, row + found[i] / C, column + found[i] % C);
}

// One panel of a statistic, from the packed features of its rows and columns.
template <class T>
MERCER_INLINE void compute_panel(Statistic kind, const T* X, const T* Y, std::ptrdiff_t d, T* out) {
  constexpr int C = Geometry<T>::columns;
  switch (kind) {
    case Statistic::dot:
      return panel_tile<T, Dot>(X, Y, d, T(0), out, C);
    case Statistic::sqdist:
      if (d > exact_features) return panel_tile<T, Dot>(X, Y, d, T(0), out, C);
      return panel_tile<T, SquaredDifference>(X, Y, d, T(0), out, C);
    case Statistic::l1:
      return panel_tile<T, AbsoluteDifference>(X, Y, d, T(0), out, C);
    case Statistic::minsum:
      return panel_tile<T, Minimum>(X, Y, d, T(0), out, C);
    case Statistic::chi2:
      return panel_tile<T, ChiSquare>(X, Y, d, T(0), out, C);
    case Statistic::conjunction:
      return panel_tile<T, Conjunct>(X, Y, d, T(1), out, C);
    case Statistic::difference_product:
      return tangent_tile<T, false>(X, Y, d, out, C);
    case Statistic::sign_product:
      return tangent_tile<T, true>(X, Y, d, out, C);
    case Statistic::given:
      break;
  }
}

// One tile of values computed beforehand; past the edges, copies of the last ones.
template <class T>
inline void copy_block(const Leaf<T>& leaf, std::ptrdiff_t row, std::ptrdiff_t column, T* out) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns;
  const std::ptrdiff_t width = std::min<std::ptrdiff_t>(C, leaf.m - column);
  for (int r = 0; r < R; ++r) {
    const T* source = leaf.block + std::min(row + r, leaf.n - 1) * leaf.m + column;
    std::copy_n(source, width, out + r * C);
    std::fill_n(out + r * C + width, C - width, source[width - 1]);
  }
}

// One tile of a statistic. X: a packed block of rows, Y: `panels` packed panels.
template <class T>
inline void tile(const Leaf<T>& leaf, std::ptrdiff_t row, std::ptrdiff_t column, const T* X,
                 const T* Y, const T* X_norms, const T* Y_norms, T* out) {
  constexpr int P = Geometry<T>::panel;
  if (leaf.block)
    copy_block<T>(leaf, row, column, out);
  else
    for (int p = 0; p < Geometry<T>::panels; ++p)
      compute_panel<T>(leaf.kind, X, Y + p * P * leaf.d, leaf.d, out + p * P);
  if (leaf.needs_norms()) finish_sqdist<T>(leaf, row, column, X_norms, Y_norms, out);
}

}  // namespace mercer
