// Quadratic programs over a box, and how far a point is from their optimum.
//
//   minimise 1/2 a'Qa + p'a   over   lo <= a <= hi,   the sum of a over each group as it is,
//
// with F = Qa + p known.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace mercer {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Below this curvature a direction is flat to rounding, as for repeated points.
inline double flat_below(double largest_diagonal) {
  return std::max(1e-12 * largest_diagonal, 1e-150);
}

// Where the violation is within tol and the gap still large, the search goes on to this share of it.
constexpr double tighter = 0.1;

// All variables of one programme.
struct Box {
  std::ptrdiff_t n = 0;
  double *a = nullptr, *F = nullptr;              // (n,)
  const double *lo = nullptr, *hi = nullptr;      // (n,)
  const std::int32_t* group = nullptr;            // (n,), 0 to groups - 1
  int groups = 0;                                 // none: the variables move on their own
};

// The smallest gradient of variables that can rise and the largest of those that can fall.
struct Range {
  double lowest = infinity, highest = -infinity;
};

inline std::vector<Range> ranges(const Box& box) {
  std::vector<Range> found(std::max(box.groups, 1));
  if (!box.groups) {  // a variable alone gains as if paired with one of gradient zero
    found[0] = {0.0, 0.0};
  }
  for (std::ptrdiff_t v = 0; v < box.n; ++v) {
    Range& range = found[box.groups ? box.group[v] : 0];
    if (box.a[v] < box.hi[v]) range.lowest = std::min(range.lowest, box.F[v]);
    if (box.a[v] > box.lo[v]) range.highest = std::max(range.highest, box.F[v]);
  }
  return found;
}

// LIBSVM's measure of how far the optimality conditions are from holding.
inline double violation(const Box& box, const std::vector<Range>& range) {
  double worst = 0.0;
  for (const Range& r : range)
    worst = std::max(worst, box.groups ? r.highest - r.lowest : std::max(r.highest, -r.lowest));
  return worst;
}

// What is known of a point whose gradient is known: the certificate of an answer.
struct Measured {
  std::vector<double> multipliers;  // (groups,)
  double objective = 0.0, squared_norm = 0.0, violation = 0.0, gap = 0.0;
};

// The multiplier of a group that leaves the smallest duality gap, for finite bounds. The gap is
// convex in it and piecewise linear, with a kink at every F; where it is flat, the middle.
inline double best_multiplier(const Box& box, int g) {
  std::vector<std::pair<double, double>> kinks;  // and by how much the slope grows there
  double width = 0.0, below = 0.0;
  for (std::ptrdiff_t v = 0; v < box.n; ++v) {
    if (box.group[v] != g) continue;
    if (std::isnan(box.F[v])) return box.F[v];
    kinks.push_back({box.F[v], box.hi[v] - box.lo[v]});
    width += box.hi[v] - box.lo[v];
    below += box.a[v] - box.lo[v];
  }
  if (kinks.empty()) return 0.0;
  std::sort(kinks.begin(), kinks.end());
  const double rounding = 1e-12 * width;
  double slope = 0.0, lower = kinks.back().first, upper = kinks.back().first;
  bool found = false;
  for (const auto& [F, grows] : kinks) {
    slope += grows;
    if (!found && slope - below >= -rounding) lower = F, found = true;
    if (slope - below >= rounding) {
      upper = F;
      break;
    }
  }
  return (lower + upper) / 2;
}

// p: (n,), F where all coefficients are zero.
inline Measured measured(const Box& box, const double* p) {
  Measured m;
  for (int g = 0; g < box.groups; ++g) m.multipliers.push_back(best_multiplier(box, g));
  double linear = 0.0;
  for (std::ptrdiff_t v = 0; v < box.n; ++v) {
    const double a = box.a[v], F = box.F[v];
    m.squared_norm += a * (F - p[v]);
    linear += p[v] * a;
    const double r = box.groups ? F - m.multipliers[box.group[v]] : F;
    m.gap += r > 0 ? r * (a - box.lo[v]) : r < 0 ? r * (a - box.hi[v]) : r;
  }
  m.objective = 0.5 * m.squared_norm + linear;
  m.squared_norm = std::max(0.0, m.squared_norm);
  m.violation = violation(box, ranges(box));
  m.gap /= std::max(1.0, std::abs(m.objective));
  return m;
}

}  // namespace mercer
