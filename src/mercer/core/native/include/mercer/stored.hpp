// Stored matrices times a few vectors, read once, at the speed of memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "mercer/simd.hpp"
#include "mercer/threads.hpp"

namespace mercer {

// Parts of the rows of about equal work, each with sums of its own that are added up in order: a
// fixed number, so that the result does not depend on that of threads.
constexpr int stored_parts = 16;
// Rows read side by side.
constexpr int stored_rows = 4;

// Rows first..last of the upper half: sums[c][i] += K[i][j] V[c][j], and sums[c][j] += K[i][j] V[c][i].
// V and sums have their c vectors one after another, n apart.
template <class T, int C>
inline void upper_rows(const T* K, std::ptrdiff_t n, const T* V, std::ptrdiff_t first,
                       std::ptrdiff_t last, T* sums) {
  constexpr int R = stored_rows, W = Simd<T>::width;
  using X = Vector<T>;
  for (std::ptrdiff_t i = first; i < last; i += R) {
    const int rows = int(std::min<std::ptrdiff_t>(R, last - i));
    const std::ptrdiff_t square = std::min(i + R, n);  // columns of the square on the diagonal
    const auto one = [&](int r, std::ptrdiff_t j) {
      const T value = K[(i + r) * n + j];
      for (int c = 0; c < C; ++c) {
        sums[c * n + i + r] += value * V[c * n + j];
        if (j != i + r) sums[c * n + j] += value * V[c * n + i + r];
      }
    };
    for (int r = 0; r < rows; ++r)
      for (std::ptrdiff_t j = i + r; j < square; ++j) one(r, j);
    std::ptrdiff_t j = square;
    if (rows == R) {
      X sum[R][C] = {}, own[R][C];
      for (int r = 0; r < R; ++r)
        for (int c = 0; c < C; ++c) own[r][c] = broadcast<T>(V[c * n + i + r]);
      for (; j + W <= n; j += W) {
        X across[C];
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) across[c] = load<T>(sums + c * n + j);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
          const X k = load<T>(K + (i + r) * n + j);
#pragma GCC unroll 4
          for (int c = 0; c < C; ++c) {
            sum[r][c] += k * load<T>(V + c * n + j);
            across[c] += k * own[r][c];
          }
        }
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) store<T>(sums + c * n + j, across[c]);
      }
      for (int r = 0; r < R; ++r)
        for (int c = 0; c < C; ++c) sums[c * n + i + r] += T(total<T>(sum[r][c]));
    }
    for (int r = 0; r < rows; ++r)
      for (std::ptrdiff_t rest = j; rest < n; ++rest) one(r, rest);
  }
}

// out[c, n] = (K V)^T for V^T[c, n] as rows one after another.
template <class T>
bool symmetric_rows(const T* K, std::ptrdiff_t n, const T* across, int c, double* out, int threads,
                    Interrupted interrupted) {
  std::vector<std::vector<T>> sums(stored_parts);
  // The rows up to x n have 1 - (1 - x)^2 of the work.
  const auto bound = [n](int part) {
    const double share = 1 - std::sqrt(1 - double(part) / stored_parts);
    return std::min(n, std::ptrdiff_t(share * double(n)) / stored_rows * stored_rows);
  };
  const bool done = share(
      stored_parts, threads,
      [&](std::ptrdiff_t part, const Stop&) {
        sums[part].assign(n * c, T(0));
        const std::ptrdiff_t first = bound(int(part));
        const std::ptrdiff_t last = part + 1 == stored_parts ? n : bound(int(part) + 1);
        int k = 0;
        for (; k + 2 <= c; k += 2)
          upper_rows<T, 2>(K, n, across + k * n, first, last, sums[part].data() + k * n);
        if (k < c) upper_rows<T, 1>(K, n, across + k * n, first, last, sums[part].data() + k * n);
      },
      interrupted);
  if (!done) return false;
  std::fill_n(out, n * c, 0.0);
  for (int part = 0; part < stored_parts; ++part)  // whose sums begin at its first row
    for (int k = 0; k < c; ++k)
      for (std::ptrdiff_t i = bound(part); i < n; ++i)
        out[k * n + i] += double(sums[part][k * n + i]);
  return true;
}

// out[n, c] = K V for V[n, c].
template <class T>
bool symmetric_times(const T* K, std::ptrdiff_t n, const T* V, int c, double* out, int threads,
                     Interrupted interrupted) {
  std::vector<T> across(n * c);
  for (std::ptrdiff_t i = 0; i < n; ++i)
    for (int k = 0; k < c; ++k) across[k * n + i] = V[i * c + k];
  std::vector<double> rows(n * c);
  if (!symmetric_rows<T>(K, n, across.data(), c, rows.data(), threads, interrupted)) return false;
  for (std::ptrdiff_t i = 0; i < n; ++i)
    for (int k = 0; k < c; ++k) out[i * c + k] = rows[k * n + i];
  return true;
}

// The largest |K_ij - K_ji| and the largest |K_ij| of K[n, n]; infinite where K holds an infinity
// or what is no number.
struct Symmetry {
  double gap = 0.0, largest = 0.0;
};

template <class T>
bool symmetry(const T* K, std::ptrdiff_t n, Symmetry& found, int threads, Interrupted interrupted) {
  constexpr std::ptrdiff_t side = 32;  // a block and its mirror image stay in the first-level cache
  constexpr int W = Simd<T>::width;
  using V = Vector<T>;
  static_assert(side % W == 0);
  const std::ptrdiff_t blocks = (n + side - 1) / side;
  std::vector<Symmetry> rows(static_cast<std::size_t>(blocks));
  const auto larger = [](const V& a, const V& b) -> V { return a > b ? a : b; };
  const bool done = share(
      blocks, threads,
      [&](std::ptrdiff_t block, const Stop& stop) {
        V gap{}, largest{}, nothing{};  // the last stays zero as long as all numbers are finite
        T here[side * side] = {}, there[side * side] = {};
        const std::ptrdiff_t top = block * side, height = std::min(side, n - top);
        for (std::ptrdiff_t left = top; left < n && !stop; left += side) {
          const std::ptrdiff_t width = std::min(side, n - left);
          if (height < side || width < side) {
            std::fill_n(here, side * side, T(0));
            std::fill_n(there, side * side, T(0));
          }
          for (std::ptrdiff_t i = 0; i < height; ++i)
            std::copy_n(K + (top + i) * n + left, width, here + i * side);
          for (std::ptrdiff_t j = 0; j < width; ++j)
            for (std::ptrdiff_t i = 0; i < height; ++i)
              there[i * side + j] = K[(left + j) * n + top + i];
          for (std::ptrdiff_t k = 0; k < side * side; k += W) {
            const V a = load<T>(here + k), b = load<T>(there + k);
            gap = larger(larger(a - b, b - a), gap);
            largest = larger(larger(larger(a, -a), larger(b, -b)), largest);
            nothing += a * T(0) + b * T(0);
          }
        }
        bool finite = true;
        for (int l = 0; l < W; ++l) {
          rows[block].gap = std::max(rows[block].gap, double(gap[l]));
          rows[block].largest = std::max(rows[block].largest, double(largest[l]));
          finite = finite && nothing[l] == T(0);
        }
        if (!finite) rows[block].gap = rows[block].largest = std::numeric_limits<double>::infinity();
      },
      interrupted);
  for (const Symmetry& row : rows)
    found = {std::max(found.gap, row.gap), std::max(found.largest, row.largest)};
  return done;
}

// out[n, c] = A B for A[n, w] and B[w, c].
inline bool tall_times(const double* A, std::ptrdiff_t n, std::ptrdiff_t w, const double* B, int c,
                       double* out, int threads, Interrupted interrupted) {
  constexpr int W = Simd<double>::width;
  using V = Vector<double>;
  std::vector<double> across(w * c);
  for (std::ptrdiff_t j = 0; j < w; ++j)
    for (int k = 0; k < c; ++k) across[k * w + j] = B[j * c + k];
  return share(
      stored_parts, threads,
      [&](std::ptrdiff_t part, const Stop&) {
        const std::ptrdiff_t last = n * (part + 1) / stored_parts;
        for (std::ptrdiff_t i = n * part / stored_parts; i < last; i += stored_rows) {
          const int rows = int(std::min<std::ptrdiff_t>(stored_rows, last - i));
          for (int k = 0; k < c; ++k) {
            const double* b = across.data() + k * w;
            V sum[stored_rows] = {};
            std::ptrdiff_t j = 0;
            for (; j + W <= w; j += W) {
              const V here = load<double>(b + j);
              for (int r = 0; r < rows; ++r) sum[r] += load<double>(A + (i + r) * w + j) * here;
            }
            for (int r = 0; r < rows; ++r) {
              double all = total<double>(sum[r]);
              for (std::ptrdiff_t rest = j; rest < w; ++rest) all += A[(i + r) * w + rest] * b[rest];
              out[(i + r) * c + k] = all;
            }
          }
        }
      },
      interrupted);
}

// out[w, c] = A^T B for A[n, w] and B[n, c].
inline bool tall_transposed_times(const double* A, std::ptrdiff_t n, std::ptrdiff_t w, const double* B,
                                  int c, double* out, int threads, Interrupted interrupted) {
  constexpr int W = Simd<double>::width;
  using V = Vector<double>;
  std::vector<std::vector<double>> sums(stored_parts);
  const bool done = share(
      stored_parts, threads,
      [&](std::ptrdiff_t part, const Stop&) {
        sums[part].assign(w * c, 0.0);
        const std::ptrdiff_t last = n * (part + 1) / stored_parts;
        for (std::ptrdiff_t i = n * part / stored_parts; i < last; i += stored_rows) {
          const int rows = int(std::min<std::ptrdiff_t>(stored_rows, last - i));
          for (int k = 0; k < c; ++k) {
            double* sum = sums[part].data() + k * w;
            std::ptrdiff_t j = 0;
            for (; j + W <= w; j += W) {
              V here = load<double>(sum + j);
              for (int r = 0; r < rows; ++r)
                here += load<double>(A + (i + r) * w + j) * B[(i + r) * c + k];
              store<double>(sum + j, here);
            }
            for (; j < w; ++j)
              for (int r = 0; r < rows; ++r) sum[j] += A[(i + r) * w + j] * B[(i + r) * c + k];
          }
        }
      },
      interrupted);
  if (!done) return false;
  for (std::ptrdiff_t j = 0; j < w; ++j)
    for (int k = 0; k < c; ++k) {
      double all = 0;
      for (const auto& part : sums) all += part[k * w + j];
      out[j * c + k] = all;
    }
  return true;
}

}  // namespace mercer
