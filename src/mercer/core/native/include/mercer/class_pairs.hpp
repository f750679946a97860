// Soft-margin support vector classification for every pair of classes on one stored Gram matrix.
//
// Class c has the points column[starts[c]] to column[starts[c + 1] - 1]. The
// pair (i, j), i < j, is the programme of box.hpp with p = -y, y = +1 for class i and -1 for
// class j, bounds 0 and y C, and with an intercept coefficients that sum to zero.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "mercer/threads.hpp"
#include "mercer/working_sets.hpp"

namespace mercer {

struct ClassPairs {
  const std::int64_t* starts = nullptr;  // (classes + 1,)
  std::ptrdiff_t classes = 0;
  const std::int64_t* column = nullptr;  // (starts[classes],), places of the points in K
  std::ptrdiff_t n = 0;
  const double* C = nullptr;             // (n,), of each point
  const std::int64_t* q = nullptr;       // (pairs,), variables at a time
  bool intercept = true;
  double tol = 0.0, largest_gap = 0.0;
  std::int64_t max_steps = 0;            // of each pair

  std::ptrdiff_t count() const { return classes * (classes - 1) / 2; }
};

// What is found for each pair. Variables of all pairs follow each other, pair by pair.
struct PairsFound {
  double *a = nullptr, *F = nullptr;  // (variables,)
  double *multiplier = nullptr, *objective = nullptr, *squared_norm = nullptr;  // (pairs,)
  double *violation = nullptr, *gap = nullptr;                                  // (pairs,)
  std::int64_t* steps = nullptr;                                                // (pairs,)
  std::int32_t* state = nullptr;                                                // (pairs,)
};

// One pair: solved until the violation is at most tol and the gap at most largest_gap, as far as
// its steps go. `slot` is the identity, (n,).
template <class T>
void solve_pair(const ClassPairs& all, const T* K, const std::vector<std::int64_t>& slot,
                std::ptrdiff_t pair, std::ptrdiff_t i, std::ptrdiff_t j, std::ptrdiff_t offset,
                const PairsFound& found) {
  const std::ptrdiff_t n = all.n, in_i = all.starts[i + 1] - all.starts[i],
                       size = in_i + all.starts[j + 1] - all.starts[j];
  std::vector<std::int64_t> given(static_cast<std::size_t>(size)), order(given.size());
  std::copy_n(all.column + all.starts[i], in_i, given.begin());
  std::copy_n(all.column + all.starts[j], size - in_i, given.begin() + in_i);
  // Points in the order that K has them in, so that their entries of a row are next to each other.
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t v, std::int64_t w) { return given[v] < given[w]; });
  std::vector<std::int64_t> column(given.size());
  std::vector<double> p(given.size()), lo(given.size(), 0.0), hi(given.size(), 0.0), a(given.size(), 0.0);
  double largest = 0.0;
  for (std::ptrdiff_t v = 0; v < size; ++v) {
    const bool first = order[v] < in_i;
    column[v] = given[order[v]];
    (first ? hi : lo)[v] = first ? all.C[column[v]] : -all.C[column[v]];
    p[v] = first ? -1.0 : 1.0;
    largest = std::max(largest, double(K[column[v] * n + column[v]]));
  }
  const std::vector<std::int32_t> group(column.size(), 0);
  std::vector<double> F = p;
  Problem problem;
  problem.box = {size, a.data(), F.data(), lo.data(), hi.data(), group.data(), all.intercept ? 1 : 0};
  problem.p = p.data();
  problem.points = size;
  problem.column = column.data();
  problem.q = all.q[pair];
  problem.tol = all.tol;
  problem.flat = flat_below(largest);
  const Rows<T> rows{K, n, slot.data()};
  std::int64_t steps = 0;
  Measured measured;
  State state = State::going;
  while (true) {
    const Progress progress = advance(problem, rows, infinity, all.max_steps - steps);
    steps += progress.steps;
    state = progress.state;
    measured = mercer::measured(problem.box, problem.p);
    if (state != State::done || measured.gap <= all.largest_gap || problem.violation == 0.0) break;
    problem.tol = tighter * problem.violation;
  }
  for (std::ptrdiff_t v = 0; v < size; ++v)
    found.a[offset + order[v]] = a[v], found.F[offset + order[v]] = F[v];
  found.multiplier[pair] = measured.multipliers.empty() ? 0.0 : measured.multipliers[0];
  found.objective[pair] = measured.objective;
  found.squared_norm[pair] = measured.squared_norm;
  found.violation[pair] = measured.violation;
  found.gap[pair] = measured.gap;
  found.steps[pair] = steps;
  found.state[pair] = std::int32_t(state);
}

// K: (n, n), the Gram matrix of all points.
template <class T>
bool solve_pairs(const ClassPairs& all, const T* K, const PairsFound& found, int threads,
                 Interrupted interrupted) {
  struct Task {
    std::ptrdiff_t i, j, offset;
  };
  std::vector<Task> tasks;
  std::ptrdiff_t offset = 0;
  for (std::ptrdiff_t i = 0; i < all.classes; ++i)
    for (std::ptrdiff_t j = i + 1; j < all.classes; ++j) {
      tasks.push_back({i, j, offset});
      offset += all.starts[i + 1] - all.starts[i] + all.starts[j + 1] - all.starts[j];
    }
  std::vector<std::int64_t> slot(static_cast<std::size_t>(all.n));
  std::iota(slot.begin(), slot.end(), 0);
  return share(
      std::ptrdiff_t(tasks.size()), threads,
      [&](std::ptrdiff_t t, const Stop&) {
        solve_pair(all, K, slot, t, tasks[t].i, tasks[t].j, tasks[t].offset, found);
      },
      interrupted);
}

}  // namespace mercer
