// Products with a Gram matrix and its transpose, tile by tile and never stored.
#pragma once

#include <optional>

#include "mercer/gaussian.hpp"
#include "mercer/pairs.hpp"

namespace mercer {

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

// What multiply_one (c = 1) or multiply_many have summed, added to sums[R, c].
template <class T>
inline void add_partial(const T* partial, int c, int wide, double* sums) {
  constexpr int R = Geometry<T>::rows, W = Simd<T>::width;
  for (int r = 0; r < R; ++r)
    if (c == 1)
      sums[r] += total<T>(load<T>(partial + r * W));
    else
      for (int k = 0; k < c; ++k) sums[r * c + k] += double(partial[r * wide + k]);
}

// A copy of V[m, c] in an array [rows, columns] that is not smaller.
template <class T>
Buffer<T> with_zeros(const T* V, std::ptrdiff_t m, int c, std::ptrdiff_t rows, int columns) {
  Buffer<T> out = allocate<T>(rows * columns);
  for (std::ptrdiff_t j = 0; j < rows; ++j)
    for (int k = 0; k < columns; ++k)
      out[j * columns + k] = j < m && k < c ? V[j * c + k] : T(0);
  return out;
}

// sums[k][j] += values[r][j] U[r][k] for the first rows; `stride` numbers from one k to the next.
template <class T>
inline void multiply_transposed(const T* values, const T* U, int c, std::ptrdiff_t rows, T* sums,
                                std::ptrdiff_t stride) {
  constexpr int C = Geometry<T>::columns, W = Simd<T>::width;
  for (int k = 0; k < c; ++k) {
    Vector<T> sum[C / W];
#pragma GCC unroll 4
    for (int j = 0; j < C / W; ++j) sum[j] = load<T>(sums + k * stride + j * W);
    for (std::ptrdiff_t r = 0; r < rows; ++r) {
      const Vector<T> u = broadcast<T>(U[r * c + k]);
#pragma GCC unroll 4
      for (int j = 0; j < C / W; ++j) sum[j] += load<T>(values + r * C + j * W) * u;
    }
#pragma GCC unroll 4
    for (int j = 0; j < C / W; ++j) store<T>(sums + k * stride + j * W, sum[j]);
  }
}

// multiply_one and multiply_transposed, for one column each, from one reading of the values.
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

// out[n, c] = K V for V[m, c]; and, from the same tiles, side[m, c2] = K^T U for U[n, c2].
// With `symmetric`, K is its own transpose and U = V: tiles on and above the diagonal give all.
// Tiles are summed in T over a block of rows or columns, and in double across blocks.
template <class T, class Interrupted>
bool product(Pairs<T>& pairs, const T* V, int c, double* out, const T* U, int c2, double* side,
             bool symmetric, int threads, Interrupted interrupted) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns, W = Simd<T>::width;
  if (!pairs.prepare(threads, interrupted)) return false;
  const std::ptrdiff_t blocks = pairs.row_blocks(), tiles = pairs.column_tiles();
  const int wide = c == 1 ? 1 : (c + W - 1) / W * W;  // columns of V, padded with zeros
  const Buffer<T> padded = with_zeros<T>(V, pairs.m, c, tiles * C, wide);
  const std::ptrdiff_t at_once = pairs.tiles_at_once();
  // Each group of rows sums its share of K^T U apart, and the shares are added in order at the end:
  // a fixed number of them, so that they stay small beside K.
  constexpr std::ptrdiff_t most_shares = 16;
  const Tasks tasks(
      blocks, tiles,
      U ? std::max<std::ptrdiff_t>(row_blocks_per_task, (blocks + most_shares - 1) / most_shares)
        : row_blocks_per_task);
  std::vector<double> shares(U ? tasks.groups() * pairs.m * c2 : 0);
  std::vector<double> parts(tasks.parts * pairs.n * c);
  std::optional<GaussianTerms<T>> gaussian;
  if (c == 1 && pairs.gaussian() < 0) gaussian.emplace(pairs);
  const int lanes = std::max(wide, W);
  const bool done = share(
      tasks.count(), threads,
      [&](std::ptrdiff_t task, const Stop& stop) {
        const auto range = tasks[task];
        const std::ptrdiff_t first = range.first_block, last = range.last_block;
        auto scratch = pairs.scratch(first, last - first);
        std::vector<double> sums((last - first) * R * c);
        Buffer<T> partial = allocate<T>(R * lanes);
        const std::ptrdiff_t stride = at_once * C;
        Buffer<T> across = allocate<T>(stride * c2);  // of K^T U, for some rows and columns
        double* transposed = U ? shares.data() + task / tasks.parts * pairs.m * c2 : nullptr;
        const std::ptrdiff_t diagonal = symmetric ? first * R / C : 0;
        for (std::ptrdiff_t t0 = std::max(range.first_tile, diagonal); t0 < range.last_tile;
             t0 += at_once) {
          const std::ptrdiff_t t1 = std::min(t0 + at_once, range.last_tile);
          for (std::ptrdiff_t b = first; b < last; ++b) {
            if (stop) return;
            double* sum = sums.data() + (b - first) * R * c;
            std::fill_n(partial.get(), R * lanes, T(0));
            if ((b - first) % row_blocks_per_task == 0) std::fill_n(across.get(), stride * c2, T(0));
            for (std::ptrdiff_t t = t0; t < t1; ++t) {
              if (symmetric && (t + 1) * C <= b * R) continue;
              const bool crosses = symmetric && t * C < (b + 1) * R;
              const T* v = padded.get() + t * C * wide;
              T* values = scratch.runner.at(0);  // of the sums, and then of the Gaussian
              bool known = false;
              if (gaussian && !crosses) {
                pairs.sums(scratch, b - first, t);
                known = gaussian->multiply(values, b, t, v, partial.get(), U ? values : nullptr);
              }
              const std::ptrdiff_t rows = std::min<std::ptrdiff_t>(R, pairs.n - b * R);
              T* beside = across.get() + (t - t0) * C;
              if (!known) {
                values = pairs.tile(scratch, b, b - first, t);
                if ((t + 1) * C > pairs.m) clear_right<T>(values, pairs.m - t * C);
                if (c == 1 && U && c2 == 1 && rows == R && !crosses) {
                  multiply_both<T>(values, v, U + b * R, partial.get(), beside);
                  continue;
                }
                if (crosses) clear_left<T>(values, b * R, t * C, false);
                if (c == 1)
                  multiply_one<T>(values, v, partial.get());
                else if (c > 1)
                  multiply_many<T>(values, v, wide, partial.get());
                if (crosses) clear_left<T>(values, b * R, t * C, true);
              }
              if (U) multiply_transposed<T>(values, U + b * R * c2, c2, rows, beside, stride);
            }
            add_partial<T>(partial.get(), c, wide, sum);
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
