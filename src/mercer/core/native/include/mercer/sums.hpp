// Sums over the features of a block of points with a panel of others: where most time is spent.
#pragma once

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#include <utility>

#include "mercer/statistics.hpp"

namespace mercer {

// A number that is read from memory and spread over a vector costs nothing as an operand of AVX-512
// arithmetic; spread over a register it takes the place of an operation.
#if defined(__AVX512F__)
constexpr bool broadcasts_are_operands = true;
#else
constexpr bool broadcasts_are_operands = false;
#endif

// Where multiply-adds take one number of a vector for all of the other, reading the rows' numbers as
// vectors takes a quarter of the loads, or half. Compilers go about it by way of integer registers.
#if defined(__aarch64__)
constexpr bool lanes_are_operands = true;

template <int Lane>
MERCER_INLINE void add_product(Vector<float>& sum, const Vector<float>& z, const Vector<float>& x) {
  sum = vfmaq_laneq_f32(sum, z, x, Lane);
}
template <int Lane>
MERCER_INLINE void add_product(Vector<double>& sum, const Vector<double>& z,
                               const Vector<double>& x) {
  sum = vfmaq_laneq_f64(sum, z, x, Lane);
}
#else
constexpr bool lanes_are_operands = false;

template <int Lane, class V>
MERCER_INLINE void add_product(V& sum, const V& z, const V& x) {
  sum += z * x[Lane];
}
#endif

// min(x, z), in the form that compilers do not find.
template <class T>
MERCER_INLINE Vector<T> minimum(const T& x, const Vector<T>& z) {
#if defined(__AVX512F__)
  Vector<T> y;
  if constexpr (sizeof(T) == 4)
    asm("vminps %2%{1to16%}, %1, %0" : "=v"(y) : "v"(z), "m"(x));
  else
    asm("vminpd %2%{1to8%}, %1, %0" : "=v"(y) : "v"(z), "m"(x));
  return y;
#else
  return z < x ? z : broadcast<T>(x);
#endif
}

struct Dot {
  template <class T>
  static MERCER_INLINE void step(Vector<T>& acc, const T& x, const Vector<T>& z) {
    acc += z * x;
  }
};
// The next two are given a vector of ones to multiply by where a fused multiply-add, which goes by
// other ports than an addition, evens out the load; else a null pointer.
struct AbsoluteDifference {
  template <class T>
  static MERCER_INLINE void step(Vector<T>& acc, const T& x, const Vector<T>& z,
                                 const Vector<T>* ones) {
    const Vector<T> distance = absolute<T>(z - x);
    acc += ones ? distance * *ones : distance;
  }
};
struct Lesser {
  template <class T>
  static MERCER_INLINE void step(Vector<T>& acc, const T& x, const Vector<T>& z,
                                 const Vector<T>* ones) {
    const Vector<T> least = minimum<T>(x, z);
    acc += ones ? least * *ones : least;
  }
};
struct ChiSquare {
  template <class T>
  static MERCER_INLINE void step(Vector<T>& acc, const T& x, const Vector<T>& z) {
    const Vector<T> difference = z - x, sum = z + x;
    const Vector<T> divisor = sum == T(0) ? broadcast<T>(T(1)) : sum;
    acc += difference / divisor * difference;
  }
};
struct Conjunct {
  template <class T>
  static MERCER_INLINE void step(Vector<T>& acc, const T& x, const Vector<T>& z) {
    acc *= z * x + T(1);
  }
};

// The sums in Which of a strip of rows with one panel: all accumulators in registers. The k-th sum
// of the set goes to out[k] + offset.
template <class T, unsigned Which, int Rows>
MERCER_INLINE void strip(const T* X, const T* Y, std::ptrdiff_t d, T* const* out,
                         std::ptrdiff_t offset, T one) {
  constexpr int sums = std::popcount(Which), R = Geometry<T>::rows, C = Geometry<T>::columns;
  constexpr int W = Simd<T>::width, P = Geometry<T>::panel;
  using V = Vector<T>;
#if defined(__FMA__)
  // Products per pair and feature besides these sums: the more, the fewer additions are fused.
  constexpr int products = (Which & of_dot ? 1 : 0) + (Which & of_conjunction ? 2 : 0);
#else
  constexpr int products = 2;
#endif
  // One half of the panel after the other, with the rows' numbers as operands. Beside products alone,
  // or the slow divisions of chi2, there is room to spread them once.
  constexpr bool in_halves =
      broadcasts_are_operands && Which != of_dot && !(Which & of_chi2);
  const V ones = broadcast<T>(one);
  T* ends[sums];  // read once: for all the compiler knows, what is stored may change `out`
  for (int s = 0; s < sums; ++s) ends[s] = out[s] + offset;
  const auto place = [](Sum sum) { return std::popcount(Which & (unsigned(sum) - 1)); };
  for (std::ptrdiff_t first = 0; first == 0 || first < d; first += features_at_once) {
    V acc[sums][Rows][2];
#pragma GCC unroll 8
    for (int s = 0; s < sums; ++s)
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        const bool product = (Which & of_conjunction) && s == place(of_conjunction);
        acc[s][r][0] = acc[s][r][1] = broadcast<T>(T(product));
      }
    const std::ptrdiff_t last = std::min(d, first + features_at_once);
    for (std::ptrdiff_t k = first; k < last; ++k) {
      const V z[2] = {load<T>(Y + k * P), load<T>(Y + k * P + W)};
      if constexpr (lanes_are_operands && Which == of_dot) {
        static_assert(Rows % W == 0);
        V x[Rows / W];
#pragma GCC unroll 8
        for (int v = 0; v < Rows / W; ++v) x[v] = load<T>(X + k * R + v * W);
        [&]<std::size_t... r>(std::index_sequence<r...>) {
          (..., (add_product<r % W>(acc[0][r][0], z[0], x[r / W]),
                 add_product<r % W>(acc[0][r][1], z[1], x[r / W])));
        }(std::make_index_sequence<Rows>());
        continue;
      }
      const T* x[sums];
#pragma GCC unroll 32
      for (int i = 0; i < 2 * Rows; ++i) {
        const int r = in_halves ? i % Rows : i / 2, h = in_halves ? i / Rows : i % 2;
        if (r == 0)
#pragma GCC unroll 8
          for (int s = 0; s < sums; ++s) x[s] = in_halves ? anew(X + k * R) : X + k * R;
        const V* fused = h < 2 - products ? &ones : nullptr;
        const auto step = [&]<class Step>(Step, Sum sum, auto... more) {
          const int s = place(sum);
          Step::template step<T>(acc[s][r][h], x[s][r], z[h], more...);
        };
        if constexpr (Which & of_dot) step(Dot{}, of_dot);
        if constexpr (Which & of_l1) step(AbsoluteDifference{}, of_l1, fused);
        if constexpr (Which & of_minsum) step(Lesser{}, of_minsum, fused);
        if constexpr (Which & of_chi2) step(ChiSquare{}, of_chi2);
        if constexpr (Which & of_conjunction) step(Conjunct{}, of_conjunction);
      }
    }
#pragma GCC unroll 8
    for (int s = 0; s < sums; ++s)
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 2
        for (int h = 0; h < 2; ++h) {
          T* to = ends[s] + r * C + h * W;
          const bool product = (Which & of_conjunction) && s == place(of_conjunction);
          if (first) acc[s][r][h] = product ? acc[s][r][h] * load<T>(to) : acc[s][r][h] + load<T>(to);
          store<T>(to, acc[s][r][h]);
        }
  }
}

// The sums in Which of a block of rows with one panel. `one` is the number one, and comes from
// outside so that the compiler does not know it.
template <class T, unsigned Which>
void sums_of_panel(const T* X, const T* Y, std::ptrdiff_t d, T* const* out, std::ptrdiff_t offset,
                   T one) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns;
  // Many temporaries, or constants, need registers besides the accumulators.
  constexpr bool crowded = Which & (of_chi2 | of_conjunction) || std::popcount(Which) > 2;
  constexpr int Rows = std::max(1, R / std::popcount(Which) / (crowded ? 2 : 1));
  static_assert(R % Rows == 0);
  for (int r = 0; r < R; r += Rows) strip<T, Which, Rows>(X + r, Y, d, out, offset + r * C, one);
}

// The dot products of a block of rows with one panel, both packed so.
template <class T>
void paired_panel(const T* X, const T* Y, std::ptrdiff_t d, T* const* out, std::ptrdiff_t offset,
                  T) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns, W = Simd<T>::width;
  constexpr int P = Geometry<T>::panel;
  using V = Vector<T>;
  T* const end = out[0] + offset;
  for (std::ptrdiff_t first = 0; first < d; first += paired_at_once) {
    V acc[2][R];
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const V products = load<T>(Y + h * W);
      const T* x = anew(X);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) acc[h][r] = products + x[r];
    }
    X += R;
    Y += P;
    const std::ptrdiff_t here = std::min(paired_at_once, d - first);
    std::ptrdiff_t k = 0;
    for (; k + 3 <= here; k += 3, X += 3 * R, Y += 3 * P)
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        // Read anew for each half: as operands of arithmetic these cost nothing, kept in registers
        // they leave no room for the accumulators.
        const T* x = anew(X);
        const V z0 = load<T>(Y + h * W), z1 = load<T>(Y + P + h * W);
        const V z2 = load<T>(Y + 2 * P + h * W);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
          acc[h][r] += (z1 + x[r]) * (z0 + x[R + r]);
          acc[h][r] += z2 * x[2 * R + r];
        }
      }
    for (; k < here; ++k, X += R, Y += P)
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        const T* x = anew(X);
        const V z = load<T>(Y + h * W);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) acc[h][r] += z * x[r];
      }
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h)
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        T* to = end + r * C + h * W;
        store<T>(to, first ? acc[h][r] + load<T>(to) : acc[h][r]);
      }
  }
}

template <class T>
SumsOfPanel<T> sums_of_panel(unsigned which) {
  switch (which) {
    case of_dot:
      return &sums_of_panel<T, of_dot>;
    case of_l1:
      return &sums_of_panel<T, of_l1>;
    case of_minsum:
      return &sums_of_panel<T, of_minsum>;
    case of_dot | of_l1:
      return &sums_of_panel<T, of_dot | of_l1>;
    case of_dot | of_minsum:
      return &sums_of_panel<T, of_dot | of_minsum>;
    case of_l1 | of_minsum:
      return &sums_of_panel<T, of_l1 | of_minsum>;
    case of_dot | of_l1 | of_minsum:
      return &sums_of_panel<T, of_dot | of_l1 | of_minsum>;
    case of_dot | of_chi2:
      return &sums_of_panel<T, of_dot | of_chi2>;
    case of_chi2:
      return &sums_of_panel<T, of_chi2>;
    case of_conjunction:
      return &sums_of_panel<T, of_conjunction>;
  }
  __builtin_unreachable();
}

}  // namespace mercer
