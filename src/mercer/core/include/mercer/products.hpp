// Gram matrices, their products and reductions, tile by tile and never stored unless asked for.
#pragma once

#include <limits>
#include <memory>
#include <new>

#include "mercer/program.hpp"
#include "mercer/statistics.hpp"
#include "mercer/threads.hpp"

namespace mercer {

// Columns worked on at a time, so that their packed panels stay in the second-level cache.
constexpr std::ptrdiff_t block_bytes = 192 * 1024;
// Blocks of rows per task: enough to use a block of columns many times.
constexpr int row_blocks_per_task = 16;

template <class T>
struct AlignedDelete {
  void operator()(T* p) const { ::operator delete[](p, std::align_val_t(64)); }
};
template <class T>
using Buffer = std::unique_ptr<T[], AlignedDelete<T>>;

template <class T>
Buffer<T> allocate(std::ptrdiff_t size) {
  return Buffer<T>(static_cast<T*>(::operator new[](std::max<std::ptrdiff_t>(size, 1) * sizeof(T),
                                                    std::align_val_t(64))));
}

// An expression over two sets of points, with everything its tiles need.
template <class T>
struct Pairs {
  Program program;
  std::vector<Leaf<T>> leaves;
  std::vector<const T*> row_terms, column_terms;  // (n,) and (m,), by the program's numbering
  std::ptrdiff_t n = 0, m = 0;

  static constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns;

  std::ptrdiff_t row_blocks() const { return (n + R - 1) / R; }
  std::ptrdiff_t column_tiles() const { return (m + C - 1) / C; }

  // Pack the columns of every statistic, and pad what is read past the end.
  template <class Interrupted>
  bool prepare(int threads, Interrupted interrupted) {
    packed_.resize(leaves.size());
    X_norms_.resize(leaves.size());
    Y_norms_.resize(leaves.size());
    padded_rows_.clear();
    padded_columns_.clear();
    for (std::size_t l = 0; l < leaves.size(); ++l) {
      Leaf<T>& leaf = leaves[l];
      if (leaf.needs_norms()) {
        X_norms_[l] = padded(leaf.X_norms, n, row_blocks() * R);
        Y_norms_[l] = padded(leaf.Y_norms, m, column_tiles() * C);
      }
      if (leaf.block) continue;
      packed_[l] = allocate<T>(column_tiles() * C * leaf.d);
      T* out = packed_[l].get();
      const bool done = share(
          column_tiles(), threads,
          [&](std::ptrdiff_t t) {
            pack<T>(leaf.Y, t * C, C, m, leaf.d, Geometry<T>::panel, out + t * C * leaf.d);
          },
          interrupted);
      if (!done) return false;
    }
    for (const T* term : row_terms) padded_rows_.push_back(padded(term, n, row_blocks() * R));
    for (const T* term : column_terms)
      padded_columns_.push_back(padded(term, m, column_tiles() * C));
    return true;
  }

  // Room for one thread: packed rows of each statistic, and the program's registers.
  struct Scratch {
    std::vector<Buffer<T>> rows;
    Buffer<T> registers;
    std::vector<const T*> rows_of, columns_of;
  };

  Scratch scratch(std::ptrdiff_t blocks) const {
    Scratch s;
    for (const Leaf<T>& leaf : leaves) s.rows.push_back(allocate<T>(blocks * R * leaf.d));
    s.registers = allocate<T>(std::ptrdiff_t(program.registers) * R * C);
    s.rows_of.resize(row_terms.size());
    s.columns_of.resize(column_terms.size());
    return s;
  }

  void pack_rows(Scratch& s, std::ptrdiff_t first_block, std::ptrdiff_t blocks) const {
    for (std::size_t l = 0; l < leaves.size(); ++l)
      if (!leaves[l].block)
        pack<T>(leaves[l].X, first_block * R, blocks * R, n, leaves[l].d, R, s.rows[l].get());
  }

  // The values of one tile: (R, C), row by row. `local` counts blocks from the first one packed.
  const T* tile(Scratch& s, std::ptrdiff_t block, std::ptrdiff_t local,
                std::ptrdiff_t column_tile) const {
    const std::ptrdiff_t row = block * R, column = column_tile * C;
    for (std::size_t l = 0; l < leaves.size(); ++l) {
      const std::ptrdiff_t d = leaves[l].d;
      mercer::tile<T>(leaves[l], row, column, s.rows[l].get() + local * R * d,
                      packed_[l] ? packed_[l].get() + column * d : nullptr,
                      X_norms_[l] ? X_norms_[l].get() + row : nullptr,
                      Y_norms_[l] ? Y_norms_[l].get() + column : nullptr,
                      s.registers.get() + std::ptrdiff_t(l) * R * C);
    }
    for (std::size_t k = 0; k < row_terms.size(); ++k)
      s.rows_of[k] = padded_rows_[k].get() + row;
    for (std::size_t k = 0; k < column_terms.size(); ++k)
      s.columns_of[k] = padded_columns_[k].get() + column;
    run<T>(program, s.registers.get(), R, C, s.rows_of.data(), s.columns_of.data());
    return s.registers.get() + std::ptrdiff_t(program.result) * R * C;
  }

  // Column tiles that fit the second-level cache together.
  std::ptrdiff_t tiles_at_once() const {
    std::ptrdiff_t bytes = 0;
    for (const Leaf<T>& leaf : leaves) bytes += C * leaf.d * std::ptrdiff_t(sizeof(T));
    // At most so many are summed in T before the sum goes on in double.
    constexpr std::ptrdiff_t most = 16;
    return std::clamp<std::ptrdiff_t>(block_bytes / std::max<std::ptrdiff_t>(bytes, 1), 1, most);
  }

 private:
  static Buffer<T> padded(const T* values, std::ptrdiff_t n, std::ptrdiff_t size) {
    Buffer<T> out = allocate<T>(size);
    for (std::ptrdiff_t i = 0; i < size; ++i) out[i] = values[std::min(i, n - 1)];
    return out;
  }

  std::vector<Buffer<T>> packed_, X_norms_, Y_norms_;
  std::vector<Buffer<T>> padded_rows_, padded_columns_;
};

// out[n, m] (leading dimension ld) = the Gram matrix. With `symmetric`, one half is computed and
// the other mirrored, so that the matrix is symmetric to the last bit.
template <class T, class Interrupted>
bool gram(Pairs<T>& pairs, T* out, std::ptrdiff_t ld, bool symmetric, int threads,
          Interrupted interrupted) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns;
  if (!pairs.prepare(threads, interrupted)) return false;
  const std::ptrdiff_t blocks = pairs.row_blocks();
  constexpr int group = row_blocks_per_task / 2;
  const std::ptrdiff_t tasks = (blocks + group - 1) / group;
  return share(
      tasks, threads,
      [&](std::ptrdiff_t task) {
        const std::ptrdiff_t first = task * group, last = std::min(first + group, blocks);
        auto scratch = pairs.scratch(group);
        pairs.pack_rows(scratch, first, last - first);
        for (std::ptrdiff_t t = symmetric ? first * R / C : 0; t < pairs.column_tiles(); ++t)
          for (std::ptrdiff_t b = first; b < last; ++b) {
            const std::ptrdiff_t row = b * R, column = t * C;
            if (symmetric && column + C <= row) continue;
            const T* values = pairs.tile(scratch, b, b - first, t);
            const std::ptrdiff_t width = std::min<std::ptrdiff_t>(C, pairs.m - column);
            for (std::ptrdiff_t r = 0; r < std::min<std::ptrdiff_t>(R, pairs.n - row); ++r) {
              // Of a tile that crosses the diagonal, only what lies on or above it.
              const std::ptrdiff_t from =
                  symmetric ? std::max<std::ptrdiff_t>(0, row + r - column) : 0;
              if (from < width)
                std::memcpy(out + (row + r) * ld + column + from, values + r * C + from,
                            (width - from) * sizeof(T));
              if (symmetric)
                for (std::ptrdiff_t j = from; j < width; ++j)
                  out[(column + j) * ld + row + r] = values[r * C + j];
            }
          }
      },
      interrupted);
}

// partial[r][lane] += values[r][j] v[j], a lane at a time.
template <class T>
MERCER_INLINE void multiply_one(const T* values, const T* v, T* partial) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns, W = Simd<T>::width;
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    Vector<T> sum = load<T>(partial + r * W);
#pragma GCC unroll 4
    for (int j = 0; j < C; j += W) sum += load<T>(values + r * C + j) * load<T>(v + j);
    store<T>(partial + r * W, sum);
  }
}

// partial[r][k] += values[r][j] V[j][k].
template <class T>
MERCER_INLINE void multiply_many(const T* values, const T* V, int wide, T* partial) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns, W = Simd<T>::width;
  for (int k = 0; k < wide; k += W) {
    Vector<T> sum[R];
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) sum[r] = load<T>(partial + r * wide + k);
    for (int j = 0; j < C; ++j) {
      const Vector<T> v = load<T>(V + j * wide + k);
#pragma GCC unroll 12
      for (int r = 0; r < R; ++r) sum[r] += broadcast<T>(values[r * C + j]) * v;
    }
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) store<T>(partial + r * wide + k, sum[r]);
  }
}

// out[n, c] = K V for V[m, c]; and, from the same tiles, side[m, c2] = K^T U for U[n, c2].
// Tiles are summed in T over a block of columns, and in double across blocks.
template <class T, class Interrupted>
bool product(Pairs<T>& pairs, const T* V, int c, double* out, const T* U, int c2, double* side,
             int threads, Interrupted interrupted) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns, W = Simd<T>::width;
  if (!pairs.prepare(threads, interrupted)) return false;
  const std::ptrdiff_t blocks = pairs.row_blocks(), tiles = pairs.column_tiles();
  const int wide = (c + W - 1) / W * W;  // columns of V, padded with zeros
  Buffer<T> padded = allocate<T>(tiles * C * (c == 1 ? 1 : wide));
  for (std::ptrdiff_t j = 0; j < tiles * C; ++j)
    for (int k = 0; k < (c == 1 ? 1 : wide); ++k)
      padded[j * (c == 1 ? 1 : wide) + k] = j < pairs.m && k < c ? V[j * c + k] : T(0);
  const std::ptrdiff_t at_once = pairs.tiles_at_once();
  // Each task sums its share of K^T U apart, and the shares are added in order at the end: a fixed
  // number of them, so that they stay small beside K.
  constexpr std::ptrdiff_t most_shares = 16;
  const std::ptrdiff_t per_task =
      U ? std::max<std::ptrdiff_t>(row_blocks_per_task, (blocks + most_shares - 1) / most_shares)
        : row_blocks_per_task;
  const std::ptrdiff_t tasks = (blocks + per_task - 1) / per_task;
  std::vector<Buffer<double>> shares(U ? tasks : 0);
  const bool done = share(
      tasks, threads,
      [&](std::ptrdiff_t task) {
        const std::ptrdiff_t first = task * per_task;
        const std::ptrdiff_t last = std::min(first + per_task, blocks);
        auto scratch = pairs.scratch(per_task);
        pairs.pack_rows(scratch, first, last - first);
        std::vector<double> sums(std::size_t(per_task) * R * std::max(c, 1), 0.0);
        Buffer<T> partial = allocate<T>(R * std::max(wide, W));
        if (U) {
          shares[task] = allocate<double>(pairs.m * c2);
          std::fill_n(shares[task].get(), pairs.m * c2, 0.0);
        }
        for (std::ptrdiff_t t0 = 0; t0 < tiles; t0 += at_once)
          for (std::ptrdiff_t b = first; b < last; ++b) {
            double* sum = sums.data() + (b - first) * R * c;
            std::fill_n(partial.get(), R * std::max(wide, W), T(0));
            for (std::ptrdiff_t t = t0; t < std::min(t0 + at_once, tiles); ++t) {
              const T* values = pairs.tile(scratch, b, b - first, t);
              if (c == 1)
                multiply_one<T>(values, padded.get() + t * C, partial.get());
              else if (c > 1)
                multiply_many<T>(values, padded.get() + t * C * wide, wide, partial.get());
              if (U) {
                const std::ptrdiff_t rows = std::min<std::ptrdiff_t>(R, pairs.n - b * R);
                const std::ptrdiff_t width = std::min<std::ptrdiff_t>(C, pairs.m - t * C);
                for (std::ptrdiff_t r = 0; r < rows; ++r)
                  for (std::ptrdiff_t j = 0; j < width; ++j)
                    for (int k = 0; k < c2; ++k)
                      shares[task][(t * C + j) * c2 + k] +=
                          double(values[r * C + j]) * double(U[(b * R + r) * c2 + k]);
              }
            }
            if (c == 1)
              for (int r = 0; r < R; ++r) sum[r] += total<T>(load<T>(partial.get() + r * W));
            else
              for (int r = 0; r < R; ++r)
                for (int k = 0; k < c; ++k) sum[r * c + k] += double(partial[r * wide + k]);
          }
        for (std::ptrdiff_t i = first * R; i < std::min(last * R, pairs.n); ++i)
          for (int k = 0; k < c; ++k) out[i * c + k] = sums[(i - first * R) * c + k];
      },
      interrupted);
  if (!done || !U) return done;
  std::fill_n(side, pairs.m * c2, 0.0);
  for (const auto& part : shares)
    for (std::ptrdiff_t i = 0; i < pairs.m * c2; ++i) side[i] += part[i];
  return true;
}

// For each row, log of the sum over columns of weight[j] exp(k), without overflow.
template <class T, class Interrupted>
bool log_sum_exp(Pairs<T>& pairs, const T* log_weight, double* out, int threads,
                 Interrupted interrupted) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns, W = Simd<T>::width;
  constexpr T lowest = std::numeric_limits<T>::lowest();
  if (!pairs.prepare(threads, interrupted)) return false;
  const std::ptrdiff_t blocks = pairs.row_blocks(), tiles = pairs.column_tiles();
  Buffer<T> weight = allocate<T>(tiles * C);
  for (std::ptrdiff_t j = 0; j < tiles * C; ++j)
    weight[j] = j >= pairs.m ? lowest : log_weight ? log_weight[j] : T(0);
  return share(
      blocks, threads,
      [&](std::ptrdiff_t b) {
        auto scratch = pairs.scratch(1);
        pairs.pack_rows(scratch, b, 1);
        T largest[R];
        double sum[R] = {};
        std::fill_n(largest, R, lowest);
        for (std::ptrdiff_t t = 0; t < tiles; ++t) {
          const T* values = pairs.tile(scratch, b, 0, t);
          for (int r = 0; r < R; ++r) {
            Vector<T> here[C / W], top = broadcast<T>(lowest);
            for (int j = 0; j < C / W; ++j) {
              here[j] = load<T>(values + r * C + j * W) + load<T>(weight.get() + t * C + j * W);
              top = here[j] > top ? here[j] : top;
            }
            T peak = largest[r];
            for (int i = 0; i < W; ++i) peak = top[i] > peak ? top[i] : peak;
            if (peak > largest[r]) {
              sum[r] *= std::exp(double(largest[r]) - double(peak));
              largest[r] = peak;
            }
            Vector<T> part{};
            for (int j = 0; j < C / W; ++j) part += exp_nonpositive<T>(here[j] - peak);
            if (peak > lowest) sum[r] += total<T>(part);
          }
        }
        for (std::ptrdiff_t i = b * R; i < std::min((b + 1) * R, pairs.n); ++i)
          out[i] = double(largest[i - b * R]) + std::log(sum[i - b * R]);
      },
      interrupted);
}

// For each row, the least value and the first column that has it.
template <class T, class Interrupted>
bool arg_min(Pairs<T>& pairs, T* least, std::int64_t* where, int threads,
             Interrupted interrupted) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns;
  if (!pairs.prepare(threads, interrupted)) return false;
  return share(
      pairs.row_blocks(), threads,
      [&](std::ptrdiff_t b) {
        auto scratch = pairs.scratch(1);
        pairs.pack_rows(scratch, b, 1);
        const std::ptrdiff_t rows = std::min<std::ptrdiff_t>(R, pairs.n - b * R);
        for (std::ptrdiff_t r = 0; r < rows; ++r) {
          least[b * R + r] = std::numeric_limits<T>::infinity();
          where[b * R + r] = 0;
        }
        for (std::ptrdiff_t t = 0; t < pairs.column_tiles(); ++t) {
          const T* values = pairs.tile(scratch, b, 0, t);
          const std::ptrdiff_t width = std::min<std::ptrdiff_t>(C, pairs.m - t * C);
          for (std::ptrdiff_t r = 0; r < rows; ++r)
            for (std::ptrdiff_t j = 0; j < width; ++j)
              if (values[r * C + j] < least[b * R + r]) {
                least[b * R + r] = values[r * C + j];
                where[b * R + r] = t * C + j;
              }
        }
      },
      interrupted);
}

}  // namespace mercer
