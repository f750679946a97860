// Products with a Gram matrix and its transpose, tile by tile and never stored.
#pragma once

#include <optional>
#include <vector>

#include "mercer/gaussian.hpp"
#include "mercer/pairs.hpp"

namespace mercer {

// Columns that are summed one by one, a lane at a time; more are summed side by side.
constexpr int few_columns = 8;

// partial[k][r][lane] += values[r][j] V[k][j] for N columns, `stride` numbers from one to the next.
template <class T, int N>
MERCER_INLINE void multiply_columns(const T* values, const T* V, std::ptrdiff_t stride, T* partial) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns, W = Simd<T>::width;
  for (int r = 0; r < R; ++r) {
    Vector<T> sum[N];
#pragma GCC unroll 4
    for (int k = 0; k < N; ++k) sum[k] = load<T>(partial + (k * R + r) * W);
#pragma GCC unroll 4
    for (int j = 0; j < C; j += W) {
      const Vector<T> value = load<T>(values + r * C + j);
#pragma GCC unroll 4
      for (int k = 0; k < N; ++k) sum[k] += value * load<T>(V + k * stride + j);
    }
#pragma GCC unroll 4
    for (int k = 0; k < N; ++k) store<T>(partial + (k * R + r) * W, sum[k]);
  }
}

// The same for any number of columns.
template <class T>
inline void multiply_few(const T* values, const T* V, int c, std::ptrdiff_t stride, T* partial) {
  constexpr int step = Geometry<T>::rows * Simd<T>::width;
  int k = 0;
  const auto next = [&]<int N>(std::integral_constant<int, N>) {
    for (; k + N <= c; k += N)
      multiply_columns<T, N>(values, V + k * stride, stride, partial + k * step);
  };
  next(std::integral_constant<int, 4>());
  next(std::integral_constant<int, 2>());
  next(std::integral_constant<int, 1>());
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

// V[m, c] for the tiles of a product K V, with zeros below it: column by column if they are few, else
// row by row, padded with zeros to a whole number of vectors.
template <class T>
class RightSide {
 public:
  static constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns, W = Simd<T>::width;

  RightSide(const T* V, std::ptrdiff_t m, int c, std::ptrdiff_t tiles)
      : c_(c), few_(c > 0 && c <= few_columns), wide_(few_ ? c : (c + W - 1) / W * W),
        rows_(tiles * C), V_(allocate<T>(rows_ * wide_)) {
    for (std::ptrdiff_t j = 0; j < rows_; ++j)
      for (int k = 0; k < wide_; ++k)
        V_[few_ ? k * rows_ + j : j * wide_ + k] = j < m && k < c ? V[j * c + k] : T(0);
  }

  // Whether there are columns, and few.
  bool few() const { return few_; }
  // How many partial sums a block of rows has.
  std::ptrdiff_t size() const { return std::ptrdiff_t(R) * (few_ ? c_ * W : wide_); }
  // The first of few columns, where it meets a tile.
  const T* first(std::ptrdiff_t tile) const { return V_.get() + tile * C; }

  // Add a tile's values times V, or times all but the first of few columns.
  void multiply(const T* values, std::ptrdiff_t tile, T* partial, bool but_first = false) const {
    if (!few_) return multiply_many<T>(values, V_.get() + tile * C * wide_, wide_, partial);
    multiply_few<T>(values, first(tile) + but_first * rows_, c_ - but_first, rows_,
                    partial + but_first * R * W);
  }
  // What was summed, added to sums[R, c].
  void add(const T* partial, double* sums) const {
    for (int r = 0; r < R; ++r)
      for (int k = 0; k < c_; ++k)
        sums[r * c_ + k] += few_ ? total<T>(load<T>(partial + (k * R + r) * W))
                                 : double(partial[r * wide_ + k]);
  }

 private:
  int c_;
  bool few_;
  int wide_;
  std::ptrdiff_t rows_;
  Buffer<T> V_;
};

// sums[k][j] += values[r][j] U[r][k] for the first rows and N columns; `stride` numbers from one k to
// the next.
template <class T, int N>
MERCER_INLINE void transpose_columns(const T* values, const T* U, int c, std::ptrdiff_t rows, T* sums,
                                     std::ptrdiff_t stride) {
  constexpr int C = Geometry<T>::columns, W = Simd<T>::width, vectors = C / W;
  Vector<T> sum[N][vectors];
#pragma GCC unroll 4
  for (int k = 0; k < N; ++k)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) sum[k][j] = load<T>(sums + k * stride + j * W);
  for (std::ptrdiff_t r = 0; r < rows; ++r) {
    Vector<T> value[vectors];
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) value[j] = load<T>(values + r * C + j * W);
#pragma GCC unroll 4
    for (int k = 0; k < N; ++k) {
      const Vector<T> u = broadcast<T>(U[r * c + k]);
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) sum[k][j] += value[j] * u;
    }
  }
#pragma GCC unroll 4
  for (int k = 0; k < N; ++k)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) store<T>(sums + k * stride + j * W, sum[k][j]);
}

// The same for all c columns.
template <class T>
inline void multiply_transposed(const T* values, const T* U, int c, std::ptrdiff_t rows, T* sums,
                                std::ptrdiff_t stride) {
  constexpr int together = tile_rows == 12 ? 4 : 2;  // what the registers hold
  int k = 0;
  for (; k + together <= c; k += together)
    transpose_columns<T, together>(values, U + k, c, rows, sums + k * stride, stride);
  for (; k < c; ++k) transpose_columns<T, 1>(values, U + k, c, rows, sums + k * stride, stride);
}

// multiply_few and multiply_transposed, for one column each, from one reading of the values.
template <class T>
inline void multiply_both(const T* values, const T* v, const T* u, T* partial, T* sums) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns, W = Simd<T>::width;
  Vector<T> along[C / W], across[C / W];
#pragma GCC unroll 4
  for (int j = 0; j < C / W; ++j) {
    along[j] = load<T>(v + j * W);
    across[j] = load<T>(sums + j * W);
  }
  for (int r = 0; r < R; ++r) {
    const Vector<T> x = broadcast<T>(u[r]);
    Vector<T> sum = load<T>(partial + r * W);
#pragma GCC unroll 4
    for (int j = 0; j < C / W; ++j) {
      const Vector<T> value = load<T>(values + r * C + j * W);
      sum += value * along[j];
      across[j] += value * x;
    }
    store<T>(partial + r * W, sum);
  }
#pragma GCC unroll 4
  for (int j = 0; j < C / W; ++j) store<T>(sums + j * W, across[j]);
}

// out[size] = the sum of so many arrays laid end to end, in their order.
inline void add_up(const std::vector<double>& arrays, std::ptrdiff_t count, double* out,
                   std::ptrdiff_t size) {
  std::copy_n(arrays.data(), size, out);
  for (std::ptrdiff_t a = 1; a < count; ++a)
    for (std::ptrdiff_t i = 0; i < size; ++i) out[i] += arrays[a * size + i];
}

// Entries of a tile left of the diagonal, or on it and left of it, become zero.
template <class T>
inline void clear_left(T* values, std::ptrdiff_t row, std::ptrdiff_t column, bool diagonal) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns;
  for (int r = 0; r < R; ++r)
    for (int j = 0; j < std::min<std::ptrdiff_t>(C, row + r - column + diagonal); ++j)
      values[r * C + j] = T(0);
}

// Entries of a tile past its first columns become zero: copies of the last point, which may be
// infinite, stand there.
template <class T>
inline void clear_right(T* values, std::ptrdiff_t columns) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns;
  for (int r = 0; r < R; ++r) std::fill(values + r * C + columns, values + (r + 1) * C, T(0));
}

// What multiply_gaussian takes, made once for all tiles.
template <class T>
class GaussianTerms {
 public:
  static constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns;

  explicit GaussianTerms(const Pairs<T>& pairs) : by_norms_(pairs.leaves[0].needs_norms()) {
    const double c = pairs.gaussian() * log2_e;  // of 2^y, not exp(y)
    scale_ = T(by_norms_ ? -2 * c : c);
    fill(rows_, pairs.row_blocks() * R, by_norms_ ? pairs.X_norms() : nullptr, c, R, row_peaks_);
    fill(columns_, pairs.column_tiles() * C, by_norms_ ? pairs.Y_norms() : nullptr, c, C,
         column_peaks_);
  }

  // False where near pairs want the care of the program. Values go to `kept`, unless it is null.
  bool multiply(const T* sums, std::ptrdiff_t block, std::ptrdiff_t tile, const T* v, T* partial,
                T* kept = nullptr) const {
    const double norms = -double(row_peaks_[block]) - double(column_peaks_[tile]);
    const T* rows = rows_.get() + block * R;
    const T* columns = columns_.get() + tile * C;
    const bool harmless = norms <= harmless_norms;
    const T limit = T(harmless ? 0.0 : -nearness<T> * norms);
    const auto by = harmless ? kept ? multiply_gaussian<T, false, true>
                                    : multiply_gaussian<T, false, false>
                    : kept   ? multiply_gaussian<T, true, true>
                             : multiply_gaussian<T, true, false>;
    return by(sums, scale_, rows, columns, v, limit, partial, kept);
  }

 private:
  // c times the norms, and the lowest of each block.
  static void fill(Buffer<T>& terms, std::ptrdiff_t size, const T* norms, double c, int step,
                   std::vector<T>& peaks) {
    terms = allocate<T>(size);
    for (std::ptrdiff_t i = 0; i < size; ++i) terms[i] = norms ? T(c * double(norms[i])) : T(0);
    for (std::ptrdiff_t i = 0; i < size; i += step)
      peaks.push_back(*std::min_element(terms.get() + i, terms.get() + i + step));
  }

  bool by_norms_;
  T scale_;
  Buffer<T> rows_, columns_;
  std::vector<T> row_peaks_, column_peaks_;
};

// What the sums of K^T U over some tiles may take of the first-level cache.
constexpr std::ptrdiff_t across_bytes = 16 * 1024;

// out[n, c] = K V for V[m, c]; and, from the same tiles, side[m, c2] = K^T U for U[n, c2].
// With `symmetric`, K is its own transpose and U = V: tiles on and above the diagonal give all.
// Tiles are summed in T over a block of rows or columns, and in double across blocks.
template <class T>
bool product(Pairs<T>& pairs, const T* V, int c, double* out, const T* U, int c2, double* side,
             bool symmetric, int threads, Interrupted interrupted) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns;
  if (!pairs.prepared() && !pairs.prepare(threads, interrupted)) return false;
  const std::ptrdiff_t blocks = pairs.row_blocks(), tiles = pairs.column_tiles();
  const RightSide<T> right(V, pairs.m, c, tiles);
  const std::ptrdiff_t at_once = std::clamp<std::ptrdiff_t>(
      across_bytes / (std::max(c2, 1) * C * std::ptrdiff_t(sizeof(T))), 1, pairs.tiles_at_once());
  // Each group of rows sums its share of K^T U apart, and the shares are added in order at the end:
  // a fixed number of them, so that they stay small compared with K.
  constexpr std::ptrdiff_t most_shares = 16;
  const Tasks tasks(
      blocks, tiles,
      U ? std::max<std::ptrdiff_t>(row_blocks_per_task, (blocks + most_shares - 1) / most_shares)
        : row_blocks_per_task);
  std::vector<double> shares(U ? tasks.groups() * pairs.m * c2 : 0);
  std::vector<double> parts(tasks.parts * pairs.n * c);
  std::optional<GaussianTerms<T>> gaussian;
  if (right.few() && pairs.gaussian() < 0) gaussian.emplace(pairs);
  const bool done = share(
      tasks.count(), threads,
      [&](std::ptrdiff_t task, const Stop& stop) {
        const auto range = tasks[task];
        const std::ptrdiff_t first = range.first_block, last = range.last_block;
        auto scratch = pairs.scratch(first, last - first);
        std::vector<double> sums((last - first) * R * c);
        Buffer<T> partial = allocate<T>(right.size());
        const std::ptrdiff_t stride = at_once * C;
        Buffer<T> across = allocate<T>(stride * c2);  // of K^T U, for some rows and columns
        double* transposed = U ? shares.data() + task / tasks.parts * pairs.m * c2 : nullptr;
        const std::ptrdiff_t diagonal = symmetric ? first * R / C : 0;
        for (std::ptrdiff_t t0 = std::max(range.first_tile, diagonal); t0 < range.last_tile;
             t0 += at_once) {
          const std::ptrdiff_t t1 = std::min(t0 + at_once, range.last_tile);
          for (std::ptrdiff_t b = first; b < last; ++b) {
            if (stop) return;
            std::fill_n(partial.get(), right.size(), T(0));
            if ((b - first) % row_blocks_per_task == 0) std::fill_n(across.get(), stride * c2, T(0));
            for (std::ptrdiff_t t = t0; t < t1; ++t) {
              if (symmetric && (t + 1) * C <= b * R) continue;
              const bool crosses = symmetric && t * C < (b + 1) * R;
              T* values = scratch.runner.at(0);  // of the sums, and then of the Gaussian
              bool known = false;
              if (gaussian && !crosses) {
                pairs.sums(scratch, b - first, t);
                known = gaussian->multiply(values, b, t, right.first(t), partial.get(),
                                           U || c > 1 ? values : nullptr);
                if (known && c > 1) right.multiply(values, t, partial.get(), true);
              }
              const std::ptrdiff_t rows = std::min<std::ptrdiff_t>(R, pairs.n - b * R);
              T* beside = across.get() + (t - t0) * C;
              if (!known) {
                values = pairs.tile(scratch, b, b - first, t);
                if ((t + 1) * C > pairs.m) clear_right<T>(values, pairs.m - t * C);
                if (c == 1 && U && c2 == 1 && rows == R && !crosses) {
                  multiply_both<T>(values, right.first(t), U + b * R, partial.get(), beside);
                  continue;
                }
                if (crosses) clear_left<T>(values, b * R, t * C, false);
                right.multiply(values, t, partial.get());
                if (crosses) clear_left<T>(values, b * R, t * C, true);
              }
              if (U) multiply_transposed<T>(values, U + b * R * c2, c2, rows, beside, stride);
            }
            right.add(partial.get(), sums.data() + (b - first) * R * c);
            if (U && ((b - first + 1) % row_blocks_per_task == 0 || b + 1 == last))
              for (std::ptrdiff_t j = t0 * C; j < std::min(t1 * C, pairs.m); ++j)
                for (int k = 0; k < c2; ++k)
                  transposed[j * c2 + k] += double(across[k * stride + j - t0 * C]);
          }
        }
        const std::ptrdiff_t rows = std::min(last * R, pairs.n) - first * R;
        std::copy_n(sums.data(), rows * c, parts.data() + (range.part * pairs.n + first * R) * c);
      },
      interrupted);
  if (!done) return false;
  add_up(parts, tasks.parts, out, pairs.n * c);
  if (U) add_up(shares, tasks.groups(), side, pairs.m * c2);
  return true;
}

}  // namespace mercer
