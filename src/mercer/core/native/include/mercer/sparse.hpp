// Gram matrices of sparse rows: inner products, and sums of minima.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "mercer/simd.hpp"
#include "mercer/threads.hpp"

namespace mercer {

// Rows in compressed form: row i has the values data[k] in the columns indices[k], for k from
// indptr[i] to indptr[i + 1] - 1, each column at most once.
struct SparseRows {
  std::ptrdiff_t count;
  const std::int64_t* indptr;   // (count + 1,)
  const std::int32_t* indices;  // (indptr[count],)
  const double* data;           // (indptr[count],)

  double dot(std::ptrdiff_t i, const double* w) const {
    double sum = 0;
    for (std::int64_t k = indptr[i]; k < indptr[i + 1]; ++k) sum += data[k] * w[indices[k]];
    return sum;
  }
  void add(std::ptrdiff_t i, double c, double* w) const {
    for (std::int64_t k = indptr[i]; k < indptr[i + 1]; ++k) w[indices[k]] += c * data[k];
  }
};

struct Product {
  template <class T>
  static MERCER_INLINE T of(const T& x, const T& y) {
    return x * y;
  }
  static double bound(double x) { return x * x; }
};
struct Minimum {  // of numbers that are not negative, so that zeros need no visit
  template <class T>
  static MERCER_INLINE T of(const T& x, const T& y) {
    return y < x ? y : x;
  }
  static double bound(double x) { return x; }
};

// Whether sums over these rows are whole numbers that float has: none is larger than the largest
// of a row with itself.
template <class F>
bool fits_float(const SparseRows& rows) {
  constexpr double most = 1 << 24;
  for (std::ptrdiff_t i = 0; i < rows.count; ++i) {
    double sum = 0;
    for (std::int64_t k = rows.indptr[i]; k < rows.indptr[i + 1]; ++k) {
      const double value = rows.data[k];
      if (!(std::abs(value) <= most) || value != std::floor(value)) return false;
      sum += F::bound(value);
    }
    if (sum > most) return false;
  }
  return true;
}

// Columns of the second rows: those that many rows have as panels of vectors, the others as lists.
template <class F, class T>
class Columns {
 public:
  static constexpr int vectors = vector_bytes >= 64 ? 16 : 8;  // sums of a panel, in registers
  static constexpr std::ptrdiff_t panel = vectors * Simd<T>::width;

  // keep: whether the sums will be of these rows with themselves
  Columns(const SparseRows& rows, std::int64_t width, bool keep)
      : panels_((rows.count + panel - 1) / panel), start_(width + 1) {
    constexpr std::int64_t rare = 16;  // one row in so many, where visiting all takes as long
    const std::int64_t entries = rows.indptr[rows.count];
    for (std::int64_t k = 0; k < entries; ++k) ++start_[rows.indices[k] + 1];
    full_.assign(width, -1);
    for (std::int64_t c = 0; c < width; ++c) {
      if (rare * start_[c + 1] >= padded()) {
        full_[c] = std::int32_t(wide_++);
        start_[c + 1] = 0;
      }
      start_[c + 1] += start_[c];
    }
    row_.resize(start_[width]);
    value_.resize(start_[width]);
    panel_.assign(panels_ * wide_ * panel, T(0));
    place_.resize(keep ? entries : 0);
    std::vector<std::int64_t> next(start_.begin(), start_.end() - 1);
    for (std::ptrdiff_t i = 0; i < rows.count; ++i)
      for (std::int64_t k = rows.indptr[i]; k < rows.indptr[i + 1]; ++k) {
        const std::int32_t c = rows.indices[k];
        if (full_[c] >= 0) {
          panel_[(i / panel * wide_ + full_[c]) * panel + i % panel] = T(rows.data[k]);
        } else {
          row_[next[c]] = std::int32_t(i);
          if (keep) place_[k] = next[c];
          value_[next[c]++] = T(rows.data[k]);
        }
      }
  }

  // How many numbers a row of sums has: whole panels.
  std::ptrdiff_t padded() const { return panels_ * panel; }

  // sums[i - from][j] = Σ_c f(x_ic, y_jc) for the rows x of A from `from` to `to` and all rows y;
  // where A is what the columns are of, for the panels from that of row `from` on.
  void sums(const SparseRows& A, std::ptrdiff_t from, std::ptrdiff_t to, bool same, T* sums) const {
    std::vector<std::pair<std::int32_t, T>> wide;  // columns held in panels, and values
    std::vector<std::size_t> starts{0};
    for (std::ptrdiff_t i = from; i < to; ++i) {
      T* row = sums + (i - from) * padded();
      std::fill(row, row + padded(), T(0));
      for (std::int64_t k = A.indptr[i]; k < A.indptr[i + 1]; ++k) {
        const std::int32_t c = A.indices[k];
        const T x = T(A.data[k]);
        if (full_[c] >= 0) {
          wide.emplace_back(full_[c], x);
          continue;
        }
        for (std::int64_t at = same ? place_[k] : start_[c]; at < start_[c + 1]; ++at)
          row[row_[at]] += F::of(x, value_[at]);
      }
      starts.push_back(wide.size());
    }
    for (std::ptrdiff_t p = same ? from / panel : 0; p < panels_; ++p)
      for (std::ptrdiff_t i = from; i < to; ++i)
        add(panel_.data() + p * wide_ * panel, wide.data() + starts[i - from],
            wide.data() + starts[i - from + 1], sums + (i - from) * padded() + p * panel);
  }

 private:
  using V = Vector<T>;

  // One row with one panel.
  static void add(const T* columns, const std::pair<std::int32_t, T>* entry,
                  const std::pair<std::int32_t, T>* end, T* row) {
    constexpr int W = Simd<T>::width;
    V sums[vectors];
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) sums[v] = load<T>(row + v * W);
    for (; entry < end; ++entry) {
      const T* y = columns + std::ptrdiff_t(entry->first) * panel;
      const V x = broadcast<T>(entry->second);
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v) sums[v] += F::of(x, load<T>(y + v * W));
    }
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) store<T>(row + v * W, sums[v]);
  }

  std::ptrdiff_t panels_, wide_ = 0;
  std::vector<std::int64_t> start_, place_;  // where each column's list and each entry in one is
  std::vector<std::int32_t> full_, row_;
  std::vector<T> value_, panel_;
};

template <class F, class T>
bool sparse_gram_in(const SparseRows& A, const SparseRows& B, std::int64_t width, bool symmetric,
                    double* out, int threads, Interrupted interrupted) {
  constexpr std::ptrdiff_t block = 16;
  const Columns<F, T> columns(B, width, symmetric);
  const std::ptrdiff_t m = B.count, padded = columns.padded();
  return share(
      (A.count + block - 1) / block, threads,
      [&](std::ptrdiff_t t, const Stop& stop) {
        if (stop) return;
        const std::ptrdiff_t from = t * block, to = std::min(A.count, from + block);
        std::vector<T> sums(block * padded);
        columns.sums(A, from, to, symmetric, sums.data());
        for (std::ptrdiff_t i = from; i < to; ++i) {
          const T* row = sums.data() + (i - from) * padded;
          for (std::ptrdiff_t j = symmetric ? i : 0; j < m; ++j) out[i * m + j] = double(row[j]);
        }
        for (std::ptrdiff_t j = symmetric ? from + 1 : m; j < m; ++j)
          for (std::ptrdiff_t i = from; i < std::min(to, j); ++i)
            out[j * m + i] = double(sums[(i - from) * padded + j]);
      },
      interrupted);
}

// out: (A.count, B.count); where they are the same rows half of it is computed.
template <class F>
bool sparse_gram(const SparseRows& A, const SparseRows& B, std::int64_t width, bool symmetric,
                 double* out, int threads, Interrupted interrupted) {
  if (fits_float<F>(A) && (symmetric || fits_float<F>(B)))
    return sparse_gram_in<F, float>(A, B, width, symmetric, out, threads, interrupted);
  return sparse_gram_in<F, double>(A, B, width, symmetric, out, threads, interrupted);
}

}  // namespace mercer
