// Gram matrices, whole or some of their rows.
#pragma once

#include "mercer/pairs.hpp"

namespace mercer {

// Copy what is above the diagonal of out[n, n] below it.
template <class T>
bool mirror(T* out, std::ptrdiff_t n, int threads, Interrupted interrupted) {
  constexpr std::ptrdiff_t side = 32;
  return share(
      (n + side - 1) / side, threads,
      [&](std::ptrdiff_t block, const Stop& stop) {
        const std::ptrdiff_t top = block * side, bottom = std::min(n, top + side);
        for (std::ptrdiff_t left = 0; left < bottom && !stop; left += side)
          for (std::ptrdiff_t j = top; j < bottom; ++j)
            for (std::ptrdiff_t i = left; i < std::min(left + side, j); ++i)
              out[j * n + i] = out[i * n + j];
      },
      interrupted);
}

// out[n, m] = the Gram matrix. With `symmetric`, one half is computed and the other mirrored, so
// that the matrix is symmetric to the last bit. A block computed beforehand may be `out` itself:
// then no place is written before it was read.
template <class T>
bool gram(Pairs<T>& pairs, T* out, bool symmetric, int threads, Interrupted interrupted) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns;
  if (!pairs.prepare(threads, interrupted)) return false;
  const Tasks tasks(pairs.row_blocks(), pairs.column_tiles(), row_blocks_per_task / 2);
  const bool in_place = std::any_of(pairs.leaves.begin(), pairs.leaves.end(),
                                    [&](const Leaf<T>& leaf) { return leaf.block == out; });
  const bool done = share(
      tasks.count(), threads,
      [&](std::ptrdiff_t task, const Stop& stop) {
        const auto range = tasks[task];
        const std::ptrdiff_t first = range.first_block, last = range.last_block;
        auto scratch = pairs.scratch(first, last - first);
        const std::ptrdiff_t diagonal = symmetric ? first * R / C : 0;
        for (std::ptrdiff_t t = std::max(range.first_tile, diagonal); t < range.last_tile; ++t) {
          if (stop) return;
          for (std::ptrdiff_t b = first; b < last; ++b) {
            const std::ptrdiff_t row = b * R, column = t * C;
            if (symmetric && column + C <= row) continue;
            const T* values = pairs.tile(scratch, b, b - first, t);
            const std::ptrdiff_t height = std::min<std::ptrdiff_t>(R, pairs.n - row);
            const std::ptrdiff_t width = std::min<std::ptrdiff_t>(C, pairs.m - column);
            for (std::ptrdiff_t r = 0; r < height; ++r) {
              // Of a tile that crosses the diagonal, only what lies on or above it.
              const std::ptrdiff_t from =
                  symmetric ? std::max<std::ptrdiff_t>(0, row + r - column) : 0;
              if (from < width)
                std::memcpy(out + (row + r) * pairs.m + column + from, values + r * C + from,
                            (width - from) * sizeof(T));
            }
            if (!symmetric || in_place) continue;
            for (std::ptrdiff_t j = 0; j < width; ++j)
              for (std::ptrdiff_t r = 0; r < std::min(height, column + j - row + 1); ++r)
                out[(column + j) * pairs.m + row + r] = values[r * C + j];
          }
        }
      },
      interrupted);
  return done && (!symmetric || !in_place || mirror(out, pairs.n, threads, interrupted));
}

// out[places[i], first:last] = K[rows[i], first:last], for an out of m columns. The columns are
// prepared by the first call, and serve the later ones.
template <class T>
bool some_rows(Pairs<T>& pairs, const std::int64_t* rows, const std::int64_t* places,
               std::ptrdiff_t count, std::ptrdiff_t first, std::ptrdiff_t last, T* out, int threads,
               Interrupted interrupted) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns;
  if (!pairs.prepared() && !pairs.prepare(threads, interrupted)) return false;
  const Pairs<T> part = pairs.part(rows, count);
  const std::ptrdiff_t first_tile = first / C, tiles = (last + C - 1) / C - first_tile;
  Tasks tasks(part.row_blocks(), tiles, row_blocks_per_task / 2);
  tasks.parts = std::clamp<std::ptrdiff_t>(16 / tasks.groups(), 1, std::max<std::ptrdiff_t>(tiles / 4, 1));
  return share(
      tasks.count(), threads,
      [&](std::ptrdiff_t task, const Stop& stop) {
        const auto range = tasks[task];
        auto scratch = part.scratch(range.first_block, range.last_block - range.first_block);
        for (std::ptrdiff_t t = range.first_tile; t < range.last_tile; ++t)
          for (std::ptrdiff_t b = range.first_block; b < range.last_block; ++b) {
            if (stop) return;
            const T* values = part.tile(scratch, b, b - range.first_block, first_tile + t);
            const std::ptrdiff_t column = (first_tile + t) * C;
            const std::ptrdiff_t from = std::max(first, column), to = std::min(last, column + C);
            for (std::ptrdiff_t r = 0; r < std::min<std::ptrdiff_t>(R, count - b * R); ++r)
              std::copy(values + r * C + (from - column), values + r * C + (to - column),
                        out + places[b * R + r] * pairs.m + from);
          }
      },
      interrupted);
}

}  // namespace mercer
