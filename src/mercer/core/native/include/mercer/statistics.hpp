// Pair statistics on tiles: one pass over the features for all that are summed over the same points.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "mercer/functions.hpp"
#include "mercer/machine.hpp"

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
  common,              // features that both points have, of points of bits
  different,           // features that one of them has, likewise
  given,               // any other statistic, computed beforehand
};

// A squared distance that is smaller than this part of the norms has lost too many digits when it
// was made from dot products, and is recomputed.
template <class T>
constexpr T nearness = sizeof(T) == 4 ? T(1e-2) : T(1e-4);

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

// Statistics that are summed over the features in the same way. Where a kernel needs several of the
// same points, one pass may do: the loads are shared, and additions and products overlap.
enum Sum : unsigned { of_dot = 1, of_l1 = 2, of_minsum = 4, of_chi2 = 8, of_conjunction = 16 };

// Whether sums are computed in one pass. Each set is a function more to compile, and where the
// arithmetic of one takes long, sharing the loads gains little: but for divisions along with products.
constexpr bool go_together(unsigned sums) {
  return std::has_single_bit(sums) || sums <= unsigned(of_dot | of_l1 | of_minsum) ||
         sums == unsigned(of_dot | of_chi2);
}
constexpr int most_sums = 3;

constexpr unsigned sum_of(Statistic kind, std::ptrdiff_t d) {
  switch (kind) {
    case Statistic::dot:
      return of_dot;
    case Statistic::sqdist:
      return d > exact_features ? unsigned(of_dot) : 0;
    case Statistic::l1:
      return of_l1;
    case Statistic::minsum:
      return of_minsum;
    case Statistic::chi2:
      return of_chi2;
    case Statistic::conjunction:
      return of_conjunction;
    default:
      return 0;
  }
}

// Features summed in T before the sum so far is added up apart, which keeps the rounding small.
constexpr std::ptrdiff_t features_at_once = 128;

template <class T>
using SumsOfPanel = void (*)(const T*, const T*, std::ptrdiff_t, T* const*, std::ptrdiff_t, T);

// Dot products with fewer multiplications, by Winograd's identity (1968)
//   x0 z0 + x1 z1 = (x0 + z1)(x1 + z0) - x0 x1 - z0 z1,
// whose last two terms belong to one point each. Where a processor adds and multiplies by ports of
// their own, two features of three done so take two cycles instead of three. The rounding is in
// proportion to |x|^2 + |z|^2 and not to |x||z|: no matter for squared distances alone.
constexpr std::ptrdiff_t paired_at_once = features_at_once / 3 * 3;
// With fewer features the sums of products, one more number to read, cost what this saves.
constexpr std::ptrdiff_t paired_features = 9;

inline bool adds_beside_products() {
#if defined(__AVX512F__)
  static const bool apart = is_amd();
  return apart;
#else
  return false;
#endif
}

// The numbers that a point has when it is packed for this: before each paired_at_once features,
// minus the sum of their products x0 x1.
constexpr std::ptrdiff_t paired_length(std::ptrdiff_t d) {
  return d + (d + paired_at_once - 1) / paired_at_once;
}

template <class T>
inline void pack_paired(const T* points, std::ptrdiff_t first, std::ptrdiff_t count,
                        std::ptrdiff_t n, std::ptrdiff_t d, int step, T* out) {
  for (std::ptrdiff_t start = 0; start < count; start += step, out += step * paired_length(d))
    for (int r = 0; r < step; ++r) {
      const T* row = points + std::min(first + start + r, n - 1) * d;
      T* to = out + r;
      for (std::ptrdiff_t k = 0; k < d; k += paired_at_once) {
        const std::ptrdiff_t here = std::min(paired_at_once, d - k);
        double products = 0;
        for (std::ptrdiff_t i = k; i + 3 <= k + here; i += 3)
          products += double(row[i]) * double(row[i + 1]);
        *to = T(-products);
        to += step;
        for (std::ptrdiff_t i = k; i < k + here; ++i, to += step) *to = row[i];
      }
    }
}

// The dot products of a block of rows with one panel, both packed so.
template <class T>
void paired_panel(const T* X, const T* Y, std::ptrdiff_t d, T* const* out, std::ptrdiff_t offset, T);

// The function for a set of sums that go together.
template <class T>
SumsOfPanel<T> sums_of_panel(unsigned which);

// Squared distances of one panel, summed from differences.
template <class T>
inline void difference_tile(const T* X, const T* Y, std::ptrdiff_t d, T* out) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns, W = Simd<T>::width;
  constexpr int P = Geometry<T>::panel;
  using V = Vector<T>;
  for (std::ptrdiff_t first = 0; first == 0 || first < d; first += features_at_once) {
    V acc[R][2] = {};
    for (std::ptrdiff_t k = first; k < std::min(d, first + features_at_once); ++k) {
      const V z0 = load<T>(Y + k * P), z1 = load<T>(Y + k * P + W);
#pragma GCC unroll 12
      for (int r = 0; r < R; ++r) {
        const V u0 = X[k * R + r] - z0, u1 = X[k * R + r] - z1;
        acc[r][0] += u0 * u0;
        acc[r][1] += u1 * u1;
      }
    }
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        T* to = out + r * C + h * W;
        store<T>(to, first ? acc[r][h] + load<T>(to) : acc[r][h]);
      }
  }
}

// sum (x - z)(dx - dz) or sum sign(x - z)(dx - dz); features alternate with their tangents.
template <class T, bool Sign>
inline void tangent_tile(const T* X, const T* Y, std::ptrdiff_t d, T* out) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns, W = Simd<T>::width;
  constexpr int P = Geometry<T>::panel;
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
      store<T>(out + r * C + j, acc);
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
    difference_tile<T>(X.data(), Y.data() + p * P * leaf.d, leaf.d, out + p * P);
}

template <class T>
inline T exact_distance(const Leaf<T>& leaf, std::ptrdiff_t row, std::ptrdiff_t column) {
  const T* x = leaf.X_given + std::min(row, leaf.n - 1) * leaf.d;
  const T* z = leaf.Y_given + std::min(column, leaf.m - 1) * leaf.d;
  double sum = 0;
  for (std::ptrdiff_t k = 0; k < leaf.d; ++k) sum += double(x[k] - z[k]) * double(x[k] - z[k]);
  return T(sum);
}

// Less than zero where x is not above zero, or is infinity less infinity; of x = 0 nothing is said.
template <class T>
MERCER_INLINE Mask<T> not_positive(const Vector<T>& x) {
#if defined(__x86_64__)
  return bits<T>(x);  // the NaN that comes of infinities has its sign set
#else
  return ~(x > T(0));
#endif
}

// From a tile of dot products to squared distances: norms added, near pairs recomputed from
// differences (and those whose norms overflow). X_norms, Y_norms: of the tile's rows and columns.
template <class T>
inline void finish_sqdist(const Leaf<T>& leaf, std::ptrdiff_t row, std::ptrdiff_t column,
                          const T* X_norms, const T* Y_norms, const T* dots, T* out) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns, W = Simd<T>::width;
  constexpr T near = nearness<T>;
  constexpr int many = R * C / 8;
  using V = Vector<T>;
  Mask<T> close{};
  V columns[C / W];
#pragma GCC unroll 4
  for (int j = 0; j < C / W; ++j) columns[j] = load<T>(Y_norms + j * W);
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < C / W; ++j) {
      const V norms = columns[j] + X_norms[r];
      const V distance = norms - T(2) * load<T>(dots + r * C + j * W);
      close |= not_positive<T>(distance - near * norms);
      store<T>(out + r * C + j * W, distance);
    }
  if (!any<T>(close < 0)) return;
  std::int16_t found[R * C];
  int count = 0;
  for (int r = 0; r < R; ++r)
    for (int j = 0; j < C; j += W) {
      const V limit = near * (load<T>(Y_norms + j) + X_norms[r]);
      const Mask<T> here = ~(load<T>(out + r * C + j) > limit);
      if (!any<T>(here)) continue;
      for (int i = 0; i < W; ++i)
        if (here[i]) found[count++] = std::int16_t(r * C + j + i);
    }
  if (count > many) return exact_tile<T>(leaf, row, column, out);
  for (int i = 0; i < count; ++i)
    out[found[i]] = exact_distance<T>(leaf, row + found[i] / C, column + found[i] % C);
}

// One panel of a statistic that is not among the sums.
template <class T>
inline void compute_panel(Statistic kind, const T* X, const T* Y, std::ptrdiff_t d, T* out) {
  if (kind == Statistic::difference_product) return tangent_tile<T, false>(X, Y, d, out);
  if (kind == Statistic::sign_product) return tangent_tile<T, true>(X, Y, d, out);
  difference_tile<T>(X, Y, d, out);
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

}  // namespace mercer
