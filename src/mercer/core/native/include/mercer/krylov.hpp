// Block Lanczos on a stored matrix: products, and orthonormal directions of what they add.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "mercer/simd.hpp"
#include "mercer/stored.hpp"

namespace mercer {

// Directions this small compared with what K makes of unit vectors are rounding.
constexpr double krylov_lost = 1e-13;
// A vector that keeps this share of its length is orthogonal to what was subtracted (Kahan).
constexpr double krylov_kept = 0.5;

inline double inner_product(const double* a, const double* b, std::ptrdiff_t n) {
  constexpr int W = Simd<double>::width;
  Vector<double> sum[4] = {};
  std::ptrdiff_t i = 0;
  for (; i + 4 * W <= n; i += 4 * W)
    for (int l = 0; l < 4; ++l) sum[l] += load<double>(a + i + l * W) * load<double>(b + i + l * W);
  double all = total<double>((sum[0] + sum[1]) + (sum[2] + sum[3]));
  for (; i < n; ++i) all += a[i] * b[i];
  return all;
}

inline double euclidean_norm(const double* a, std::ptrdiff_t n) {
  double largest = 0;
  for (std::ptrdiff_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(a[i]));
  if (largest > 1e-100 && largest < 1e100) return std::sqrt(inner_product(a, a, n));
  if (!(largest > 0)) return 0;
  double sum = 0;
  for (std::ptrdiff_t i = 0; i < n; ++i) sum += (a[i] / largest) * (a[i] / largest);
  return std::sqrt(sum) * largest;
}

inline void subtract_mean(double* a, std::ptrdiff_t n) {
  double mean = 0;
  for (std::ptrdiff_t i = 0; i < n; ++i) mean += a[i];
  mean /= double(n);
  for (std::ptrdiff_t i = 0; i < n; ++i) a[i] -= mean;
}

// What C vectors w[C, n] have of the first m rows of the basis is subtracted from them, and added
// to h[m, c], whose rows are `stride` apart.
template <int C>
inline void project(const double* basis, std::ptrdiff_t n, int m, double* w, double* h,
                    std::ptrdiff_t stride) {
  constexpr int W = Simd<double>::width, R = stored_rows;
  using V = Vector<double>;
  std::vector<double> found(std::size_t(m) * C);
  int j = 0;
  for (; j + R <= m; j += R) {
    const double* row = basis + j * n;
    V sum[R][C] = {};
    std::ptrdiff_t i = 0;
    for (; i + W <= n; i += W)
      for (int c = 0; c < C; ++c) {
        const V here = load<double>(w + c * n + i);
        for (int r = 0; r < R; ++r) sum[r][c] += load<double>(row + r * n + i) * here;
      }
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < C; ++c) {
        double all = total<double>(sum[r][c]);
        for (std::ptrdiff_t rest = i; rest < n; ++rest) all += row[r * n + rest] * w[c * n + rest];
        found[(j + r) * C + c] = all;
      }
  }
  for (; j < m; ++j)
    for (int c = 0; c < C; ++c) found[j * C + c] = inner_product(basis + j * n, w + c * n, n);
  for (j = 0; j < m; j += R) {
    const int rows = std::min(R, m - j);
    const double* row = basis + j * n;
    for (int c = 0; c < C; ++c) {
      V size[R] = {};
      for (int r = 0; r < rows; ++r) size[r] = broadcast<double>(found[(j + r) * C + c]);
      std::ptrdiff_t i = 0;
      if (rows == R)
        for (; i + W <= n; i += W) {
          V here = load<double>(w + c * n + i);
          for (int r = 0; r < R; ++r) here -= size[r] * load<double>(row + r * n + i);
          store<double>(w + c * n + i, here);
        }
      for (; i < n; ++i)
        for (int r = 0; r < rows; ++r) w[c * n + i] -= found[(j + r) * C + c] * row[r * n + i];
    }
  }
  for (j = 0; j < m; ++j)
    for (int c = 0; c < C; ++c) h[j * stride + c] += found[j * C + c];
}

// Block Lanczos with full orthogonalisation. The basis [room, n] has `size` orthonormal rows, of
// which K is yet to be multiplied with the last `width`. Each step multiplies K with these, fills
// their rows and columns of T = basis K basis^T [room, room], and adds as many rows to the basis.
// With `centred` K stands for itself with the means of its rows and columns subtracted. At the end
// K Q = basis^T T + Q' rest for the last block Q that was multiplied and the next one, Q'. Fewer
// steps are taken where a block has directions that are rounding.
inline bool krylov_steps(const double* K, std::ptrdiff_t n, double* basis, double* T, int room, int size,
                  int width, int steps, bool centred, int threads, Interrupted interrupted,
                  double* rest, int& taken) {
  std::vector<double> images(n * width), sources(n * width), norms(width), row(width);
  for (taken = 0; taken < steps; ++taken, size += width) {
    const int first = size - width;
    std::copy_n(basis + first * n, n * width, sources.data());
    if (centred)
      for (int c = 0; c < width; ++c) subtract_mean(sources.data() + c * n, n);
    if (!symmetric_rows<double>(K, n, sources.data(), width, images.data(), threads, interrupted))
      return false;
    for (int c = 0; c < width; ++c) {
      if (centred) subtract_mean(images.data() + c * n, n);
      norms[c] = euclidean_norm(images.data() + c * n, n);
      for (int j = 0; j < size; ++j) T[j * room + first + c] = 0;
    }
    int c = 0;
    for (; c + 2 <= width; c += 2)
      project<2>(basis, n, size, images.data() + c * n, T + first + c, room);
    if (c < width) project<1>(basis, n, size, images.data() + c * n, T + first + c, room);
    std::fill_n(rest, width * width, 0.0);
    for (c = 0; c < width; ++c) {
      double* next = basis + (size + c) * n;
      std::copy_n(images.data() + c * n, n, next);
      double before = norms[c], length = euclidean_norm(next, n);
      for (int again = 0; c > 0 || length <= krylov_kept * before; ++again) {
        before = length;
        project<1>(basis, n, size, next, T + first + c, room);
        project<1>(basis + size * n, n, c, next, rest + c, width);
        length = euclidean_norm(next, n);
        if (length > krylov_kept * before || again == 3) break;
      }
      if (!(length > krylov_lost * norms[c])) return true;
      rest[c * width + c] = length;
      for (std::ptrdiff_t i = 0; i < n; ++i) next[i] /= length;
    }
    for (int j = 0; j < size; ++j)
      for (c = 0; c < width; ++c) {
        const int k = first + c;
        if (j < first) T[k * room + j] = T[j * room + k];
      }
    for (int a = first; a < size; ++a)
      for (int b = a + 1; b < size; ++b)
        T[a * room + b] = T[b * room + a] = 0.5 * (T[a * room + b] + T[b * room + a]);
  }
  return true;
}

}  // namespace mercer
