// A matrix of many rows times a few vectors, from either side: read once, at the speed of memory.
#pragma once

#include <algorithm>
#include <vector>

#include "mercer/simd.hpp"
#include "mercer/threads.hpp"

namespace mercer {

// Parts of the rows, a fixed number, so that sums do not depend on that of threads.
constexpr std::ptrdiff_t tall_parts = 16;
// Rows read side by side.
constexpr int tall_rows = 4;

// out[n, c] = A B for A[n, w] and B[w, c].
template <class Interrupted>
bool tall_times(const double* A, std::ptrdiff_t n, std::ptrdiff_t w, const double* B, int c,
                double* out, int threads, Interrupted interrupted) {
  constexpr int W = Simd<double>::width;
  using V = Vector<double>;
  std::vector<double> across(w * c);
  for (std::ptrdiff_t j = 0; j < w; ++j)
    for (int k = 0; k < c; ++k) across[k * w + j] = B[j * c + k];
  return share(
      tall_parts, threads,
      [&](std::ptrdiff_t part, const Stop&) {
        const std::ptrdiff_t last = n * (part + 1) / tall_parts;
        for (std::ptrdiff_t i = n * part / tall_parts; i < last; i += tall_rows) {
          const int rows = int(std::min<std::ptrdiff_t>(tall_rows, last - i));
          for (int k = 0; k < c; ++k) {
            const double* b = across.data() + k * w;
            V sum[tall_rows] = {};
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
template <class Interrupted>
bool tall_transposed_times(const double* A, std::ptrdiff_t n, std::ptrdiff_t w, const double* B,
                           int c, double* out, int threads, Interrupted interrupted) {
  constexpr int W = Simd<double>::width;
  using V = Vector<double>;
  std::vector<std::vector<double>> sums(tall_parts);
  const bool done = share(
      tall_parts, threads,
      [&](std::ptrdiff_t part, const Stop&) {
        sums[part].assign(w * c, 0.0);
        const std::ptrdiff_t last = n * (part + 1) / tall_parts;
        for (std::ptrdiff_t i = n * part / tall_parts; i < last; i += tall_rows) {
          const int rows = int(std::min<std::ptrdiff_t>(tall_rows, last - i));
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
