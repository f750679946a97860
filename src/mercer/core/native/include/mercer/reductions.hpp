// Rows of a Gram matrix reduced to a number each, tile by tile: log-sum-exp, and the least value.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "mercer/pairs.hpp"

namespace mercer {

// log(sum of exp) so far, as largest + log(scaled).
struct LogSum {
  double largest = -std::numeric_limits<double>::infinity(), scaled = 0.0;

  void add(const LogSum& other) {
    const double top = std::max(largest, other.largest);
    // An infinite top counts itself; NaN in a sum stays there.
    const auto shrink = [top](double from) {
      return from == top ? 1.0 : std::isinf(top) ? 0.0 : std::exp(from - top);
    };
    scaled = scaled * shrink(largest) + other.scaled * shrink(other.largest);
    largest = top;
  }
};

// Calls visit(values, place, tile, width) for every tile: a block of rows with `width` columns, and
// where what is found of these rows in this part of the columns is kept.
template <class T, class Visit>
bool visit_tiles(const Pairs<T>& pairs, const Tasks& tasks, int threads, Interrupted interrupted,
                 Visit visit) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns;
  return share(
      tasks.count(), threads,
      [&](std::ptrdiff_t task, const Stop& stop) {
        const auto range = tasks[task];
        const std::ptrdiff_t b = range.first_block;
        auto scratch = pairs.scratch(b, 1);
        for (std::ptrdiff_t t = range.first_tile; t < range.last_tile; ++t) {
          if (stop) return;
          visit(pairs.tile(scratch, b, 0, t), (range.part * tasks.blocks + b) * R, t,
                std::min<std::ptrdiff_t>(C, pairs.m - t * C));
        }
      },
      interrupted);
}

// For each row, log of the sum over columns of exp(k + log_weight[j]), without overflow.
template <class T>
bool log_sum_exp(Pairs<T>& pairs, const T* log_weight, double* out, int threads,
                 Interrupted interrupted) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns, W = Simd<T>::width;
  constexpr T infinity = std::numeric_limits<T>::infinity();
  if (!pairs.prepare(threads, interrupted)) return false;
  const Tasks tasks(pairs.row_blocks(), pairs.column_tiles(), 1);
  Buffer<T> weight = allocate<T>(tasks.tiles * C);
  std::fill_n(weight.get(), tasks.tiles * C, T(0));
  if (log_weight) std::copy_n(log_weight, pairs.m, weight.get());
  std::vector<LogSum> sums(tasks.parts * tasks.blocks * R);
  const auto visit = [&](T* values, std::ptrdiff_t place, std::ptrdiff_t t, std::ptrdiff_t width) {
    LogSum* sum = sums.data() + place;
    const ExpTwo<T> exp_two;
    for (int r = 0; r < R; ++r) {
      std::fill(values + r * C + width, values + (r + 1) * C, -infinity);
      Vector<T> here[C / W], top = broadcast<T>(T(sum[r].largest));
      Mask<T> odd{};
      for (int j = 0; j < C / W; ++j) {
        here[j] = load<T>(values + r * C + j * W) + load<T>(weight.get() + t * C + j * W);
        top = here[j] > top ? here[j] : top;
        odd |= here[j] != here[j];
      }
      T peak = T(sum[r].largest);
      if (any<T>(top > peak))
        for (int i = 0; i < W; ++i) peak = std::max(peak, top[i]);
      double part = any<T>(odd) ? std::numeric_limits<double>::quiet_NaN() : 0.0;
      if (peak == infinity) part += 1.0;
      if (std::abs(peak) < infinity) {
        Vector<T> terms{};
        for (int j = 0; j < C / W; ++j)
          terms += exp_two(factor_of_two<T>(1.0) * (here[j] - peak));
        part += total<T>(terms);
      }
      sum[r].add({double(peak), part});
    }
  };
  if (!visit_tiles(pairs, tasks, threads, interrupted, visit)) return false;
  for (std::ptrdiff_t i = 0; i < pairs.n; ++i) {
    LogSum whole;
    for (std::ptrdiff_t part = 0; part < tasks.parts; ++part)
      whole.add(sums[part * tasks.blocks * R + i]);
    out[i] = whole.largest + std::log(whole.scaled);
  }
  return true;
}

// For each row, the least value and the first column that has it. NaN is passed over.
template <class T>
bool arg_min(Pairs<T>& pairs, T* least, std::int64_t* where, int threads,
             Interrupted interrupted) {
  constexpr int R = Geometry<T>::rows, C = Geometry<T>::columns, W = Simd<T>::width;
  if (!pairs.prepare(threads, interrupted)) return false;
  const Tasks tasks(pairs.row_blocks(), pairs.column_tiles(), 1);
  struct Least {
    T value = std::numeric_limits<T>::infinity();
    std::int64_t where = 0;
  };
  std::vector<Least> found(tasks.parts * tasks.blocks * R);
  const auto visit = [&](const T* values, std::ptrdiff_t place, std::ptrdiff_t t,
                         std::ptrdiff_t width) {
    Least* best = found.data() + place;
    for (int r = 0; r < R; ++r) {
      Mask<T> less{};
      for (int j = 0; j < C; j += W) less |= load<T>(values + r * C + j) < best[r].value;
      if (!any<T>(less)) continue;
      for (std::ptrdiff_t j = 0; j < width; ++j)
        if (values[r * C + j] < best[r].value) best[r] = {values[r * C + j], t * C + j};
    }
  };
  if (!visit_tiles(pairs, tasks, threads, interrupted, visit)) return false;
  for (std::ptrdiff_t i = 0; i < pairs.n; ++i) {
    Least whole = found[i];
    for (std::ptrdiff_t part = 1; part < tasks.parts; ++part) {
      const Least& next = found[part * tasks.blocks * R + i];
      if (next.value < whole.value) whole = next;
    }
    least[i] = whole.value;
    where[i] = whole.where;
  }
  return true;
}

}  // namespace mercer
