// Online learners: one point after another, a coefficient changed where the point's score falls
// short, and the scores of all points that are still to come kept up to date.
//
// There are `sources`, points that have coefficients or may get them, and `targets`, points whose
// scores are asked for, with K between them. Coefficients and scores are double, K is double or
// float.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "mercer/simd.hpp"

namespace mercer {

template <class T>
struct Online {
  std::ptrdiff_t sources = 0, targets = 0, machines = 0;
  const T* K = nullptr;        // (sources, targets)
  const double* Y = nullptr;   // (targets, machines): -1 or +1
  double* F = nullptr;         // (machines, targets): scores without bias
  double* coef = nullptr;      // (machines, sources)
  double* bias = nullptr;      // (machines,), or null for none
  bool inclusive = false;      // whether a margin equal to the threshold falls short
  std::ptrdiff_t budget = -1;  // most sources with coefficients; negative for any number
  std::deque<std::int64_t> queue;  // sources with coefficients, oldest first; kept under a budget
  std::vector<char> queued;        // (sources,): whether in the queue

  // F += change K[source]
  void spread(std::ptrdiff_t machine, std::ptrdiff_t source, double change) {
    const T* row = K + source * targets;
    double* scores = F + machine * targets;
    for (std::ptrdiff_t j = 0; j < targets; ++j) scores[j] += change * double(row[j]);
  }

  // Visit a target: whose coefficients change, as a source, is written to changed (machines,).
  void visit(std::ptrdiff_t target, std::ptrdiff_t source, double threshold, std::uint8_t* changed) {
    bool any = false;
    // All machines look before any of them moves: they do not meet, and neither order matters.
    for (std::ptrdiff_t m = 0; m < machines; ++m) {
      const double score = F[m * targets + target] + (bias ? bias[m] : 0.0);
      const double margin = Y[target * machines + m] * score;
      changed[m] = inclusive ? margin <= threshold : margin < threshold;
      any = any || changed[m];
    }
    if (!any) return;
    for (std::ptrdiff_t m = 0; m < machines; ++m) {
      if (!changed[m]) continue;
      const double y = Y[target * machines + m];
      coef[m * sources + source] += y;
      if (bias) bias[m] += y;
      spread(m, source, y);
    }
    if (budget >= 0) remember(source);
  }

  // The source joins the queue, and the oldest leaves it when there are too many.
  void remember(std::ptrdiff_t source) {
    if (!queued[source]) {
      queued[source] = 1;
      queue.push_back(source);
    }
    while (std::ptrdiff_t(queue.size()) > budget) {
      const std::ptrdiff_t oldest = queue.front();
      queue.pop_front();
      queued[oldest] = 0;
      for (std::ptrdiff_t m = 0; m < machines; ++m) {
        double& held = coef[m * sources + oldest];
        if (held != 0.0) spread(m, oldest, -held);
        held = 0.0;
      }
    }
  }
};

}  // namespace mercer
