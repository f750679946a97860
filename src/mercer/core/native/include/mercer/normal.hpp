// Products with K^T K, the matrix of least squares, from one evaluation of each pair.
#pragma once

#include <vector>

#include "mercer/products.hpp"

namespace mercer {

// side[m, c] = K^T S (T - K V) for V[m, c], T[n, c] and S = diag(weight[n]), and total[c], the sum
// over the rows of S (T - K V). Without targets K V stands for T - K V, without weights S = I.
// The values of some rows with all columns are kept until both products have used them.
template <class T>
bool normal_product(Pairs<T>& pairs, const T* V, int c, const T* targets, const T* weight,
                    double* side, double* total, int threads, Interrupted interrupted) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns;
  constexpr std::ptrdiff_t most_shares = 16;
  if (!pairs.prepare(threads, interrupted)) return false;
  const std::ptrdiff_t blocks = pairs.row_blocks(), tiles = pairs.column_tiles();
  const RightSide<T> right(V, pairs.m, c, tiles);
  const std::ptrdiff_t at_once = pairs.tiles_at_once(), stride = tiles * C;
  const std::ptrdiff_t blocks_per_share =
      std::max<std::ptrdiff_t>(row_blocks_per_task, (blocks + most_shares - 1) / most_shares);
  const std::ptrdiff_t count = (blocks + blocks_per_share - 1) / blocks_per_share;
  std::vector<double> shares(count * pairs.m * c), totals(count * c);
  std::optional<GaussianTerms<T>> gaussian;
  if (right.few() && pairs.gaussian() < 0) gaussian.emplace(pairs);
  const bool done = share(
      count, threads,
      [&](std::ptrdiff_t task, const Stop& stop) {
        const std::ptrdiff_t first = task * blocks_per_share;
        const std::ptrdiff_t last = std::min(first + blocks_per_share, blocks);
        const Buffer<T> strip = allocate<T>(R * stride), across = allocate<T>(stride * c);
        const Buffer<T> partial = allocate<T>(right.size()), residual = allocate<T>(R * c);
        std::vector<double> sums(R * c);
        double* transposed = shares.data() + task * pairs.m * c;
        for (std::ptrdiff_t b0 = first; b0 < last; b0 += row_blocks_per_task) {
          const std::ptrdiff_t b1 = std::min<std::ptrdiff_t>(b0 + row_blocks_per_task, last);
          auto scratch = pairs.scratch(b0, b1 - b0);
          std::fill_n(across.get(), stride * c, T(0));
          for (std::ptrdiff_t b = b0; b < b1; ++b) {
            if (stop) return;
            std::fill(sums.begin(), sums.end(), 0.0);
            for (std::ptrdiff_t t0 = 0; t0 < tiles; t0 += at_once) {
              std::fill_n(partial.get(), right.size(), T(0));
              for (std::ptrdiff_t t = t0; t < std::min(t0 + at_once, tiles); ++t) {
                T* kept = strip.get() + t * R * C;
                if (gaussian) {
                  pairs.sums(scratch, b - b0, t);
                  if (gaussian->multiply(scratch.runner.at(0), b, t, right.first(t), partial.get(),
                                         kept)) {
                    if (c > 1) right.multiply(kept, t, partial.get(), true);
                    continue;
                  }
                }
                T* values = pairs.tile(scratch, b, b - b0, t);
                if ((t + 1) * C > pairs.m) clear_right<T>(values, pairs.m - t * C);
                right.multiply(values, t, partial.get());
                std::copy_n(values, R * C, kept);
              }
              right.add(partial.get(), sums.data());
            }
            const std::ptrdiff_t row = b * R, rows = std::min<std::ptrdiff_t>(R, pairs.n - row);
            for (std::ptrdiff_t r = 0; r < rows; ++r)
              for (int k = 0; k < c; ++k) {
                double value = sums[r * c + k];
                if (targets) value = double(targets[(row + r) * c + k]) - value;
                if (weight) value *= double(weight[row + r]);
                totals[task * c + k] += value;
                residual[r * c + k] = T(value);
              }
            for (std::ptrdiff_t t = 0; t < tiles; ++t)
              multiply_transposed<T>(strip.get() + t * R * C, residual.get(), c, rows,
                                     across.get() + t * C, stride);
          }
          for (std::ptrdiff_t j = 0; j < pairs.m; ++j)
            for (int k = 0; k < c; ++k) transposed[j * c + k] += double(across[k * stride + j]);
        }
      },
      interrupted);
  if (!done) return false;
  add_up(shares, count, side, pairs.m * c);
  add_up(totals, count, total, c);
  return true;
}

}  // namespace mercer
