// Gram matrices of sparse rows: inner products, and sums of minima.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "mercer/threads.hpp"

namespace mercer {

// Rows in compressed form: row i has the values data[k] in the columns indices[k], for k from
// indptr[i] to indptr[i + 1] - 1, each column at most once.
struct SparseRows {
  std::ptrdiff_t count;
  const std::int64_t* indptr;   // (count + 1,)
  const std::int32_t* indices;  // (indptr[count],)
  const double* data;           // (indptr[count],)
};

struct Product {
  static double of(double x, double y) { return x * y; }
};
struct Minimum {  // of numbers that are not negative, so that zeros need no visit
  static double of(double x, double y) { return x < y ? x : y; }
};

// Columns of the second rows: those that most rows have as whole arrays, the others as lists.
class Columns {
 public:
  Columns(const SparseRows& rows, std::int64_t width) : rows_(rows.count), start_(width + 1) {
    const std::int64_t entries = rows.indptr[rows.count];
    for (std::int64_t k = 0; k < entries; ++k) ++start_[rows.indices[k] + 1];
    full_.assign(width, -1);
    std::int64_t wide = 0;
    for (std::int64_t c = 0; c < width; ++c) {
      if (4 * start_[c + 1] >= rows_ && start_[c + 1] > 0) {
        full_[c] = wide++;
        start_[c + 1] = 0;
      }
      start_[c + 1] += start_[c];
    }
    row_.resize(start_[width]);
    value_.resize(start_[width]);
    wide_.assign(wide * rows_, 0.0);
    std::vector<std::int64_t> next(start_.begin(), start_.end() - 1);
    for (std::ptrdiff_t i = 0; i < rows.count; ++i)
      for (std::int64_t k = rows.indptr[i]; k < rows.indptr[i + 1]; ++k) {
        const std::int32_t c = rows.indices[k];
        if (full_[c] >= 0) {
          wide_[full_[c] * rows_ + i] = rows.data[k];
        } else {
          row_[next[c]] = std::int32_t(i);
          value_[next[c]++] = rows.data[k];
        }
      }
  }

  // out[j] = Σ_c f(x_c, y_jc) for one row x and all rows y
  template <class F>
  void row(const std::int32_t* columns, const double* x, std::int64_t size, double* out) const {
    std::fill(out, out + rows_, 0.0);
    const double* y[4] = {};
    double value[4] = {};
    int held = 0;
    for (std::int64_t k = 0; k < size; ++k) {
      const std::int32_t c = columns[k];
      if (full_[c] >= 0) {  // four at a time, so that out is read and written less often
        y[held] = wide_.data() + full_[c] * rows_;
        value[held++] = x[k];
        if (held == 4) {
          for (std::ptrdiff_t j = 0; j < rows_; ++j)
            out[j] += (F::of(value[0], y[0][j]) + F::of(value[1], y[1][j])) +
                      (F::of(value[2], y[2][j]) + F::of(value[3], y[3][j]));
          held = 0;
        }
      } else {
        for (std::int64_t at = start_[c]; at < start_[c + 1]; ++at)
          out[row_[at]] += F::of(x[k], value_[at]);
      }
    }
    for (int h = 0; h < held; ++h)
      for (std::ptrdiff_t j = 0; j < rows_; ++j) out[j] += F::of(value[h], y[h][j]);
  }

 private:
  std::ptrdiff_t rows_;
  std::vector<std::int64_t> start_, full_;
  std::vector<std::int32_t> row_;
  std::vector<double> value_, wide_;
};

// out: (A.count, B.count)
template <class F, class Interrupted>
bool sparse_gram(const SparseRows& A, const SparseRows& B, std::int64_t width, double* out,
                 int threads, Interrupted interrupted) {
  constexpr std::ptrdiff_t block = 8;
  const Columns columns(B, width);
  return share(
      (A.count + block - 1) / block, threads,
      [&](std::ptrdiff_t t, const Stop& stop) {
        for (std::ptrdiff_t i = t * block; i < std::min(A.count, (t + 1) * block) && !stop; ++i) {
          const std::int64_t from = A.indptr[i];
          columns.row<F>(A.indices + from, A.data + from, A.indptr[i + 1] - from,
                         out + i * B.count);
        }
      },
      interrupted);
}

}  // namespace mercer
