// Quadratic programmes over a box, a working set of variables at a time: which variables to work
// on, the small programme over them solved by pairs, and the gradient of all the others after it.
//
//   minimise 1/2 a'Qa + p'a   over   lo <= a <= hi,   the sum of a over each group as it is,
//   Q[v, w] = sign[v] sign[w] K[point(v), point(w)],   point(v) = v mod points,
//
// with F = Qa + p carried along. Coefficients and gradient are double, K is double or float.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "mercer/simd.hpp"

namespace mercer {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int lanes = vector_bytes / int(sizeof(double));

typedef double Doubles __attribute__((vector_size(vector_bytes)));
typedef std::int64_t Longs __attribute__((vector_size(vector_bytes)));
typedef float Singles __attribute__((vector_size(vector_bytes / 2)));

MERCER_INLINE Doubles widened(const double* p) { return load<double>(p); }
MERCER_INLINE Doubles widened(const float* p) {
  Singles v;
  std::memcpy(&v, p, sizeof v);
  return __builtin_convertvector(v, Doubles);
}

MERCER_INLINE Longs positions(std::ptrdiff_t first) {
  Longs v;
  for (int i = 0; i < lanes; ++i) v[i] = first + i;
  return v;
}

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

// Up to q variables to work on, group by group: all where there are no more; else the most violating, as many that can rise as can
// fall, then half of the place for those of the last set, free ones first. Equal violations are
// taken in an order that has nothing to do with that of the points.
inline void choose(const Box& box, const std::vector<Range>& range, std::ptrdiff_t q,
                   const std::vector<std::int32_t>& last, std::vector<std::int32_t>& chosen) {
  struct Candidate {
    double gain;
    std::uint32_t shuffled;
    std::int32_t v;
    bool operator<(const Candidate& other) const {
      return gain != other.gain ? gain > other.gain : shuffled < other.shuffled;
    }
  };
  std::vector<Candidate> up, down;
  const auto by_group = [&] {
    if (box.groups > 1)
      std::stable_sort(chosen.begin(), chosen.end(), [&](std::int32_t v, std::int32_t w) {
        return box.group[v] < box.group[w];
      });
  };
  if (q >= box.n) {
    chosen.resize(std::size_t(box.n));
    std::iota(chosen.begin(), chosen.end(), 0);
    return by_group();
  }
  for (std::ptrdiff_t v = 0; v < box.n; ++v) {
    const Range& r = range[box.groups ? box.group[v] : 0];
    // Odd, so that different positions stay different.
    const auto shuffled = std::uint32_t(v) * 2654435769u;
    const double F = box.F[v];
    if (box.a[v] < box.hi[v] && F < r.highest)
      up.push_back({r.highest - F, shuffled, std::int32_t(v)});
    if (box.a[v] > box.lo[v] && F > r.lowest)
      down.push_back({F - r.lowest, shuffled, std::int32_t(v)});
  }
  std::vector<char> taken(std::size_t(box.n), 0);
  chosen.clear();
  const auto take = [&](std::int32_t v) {
    if (!taken[v] && std::ptrdiff_t(chosen.size()) < q) taken[v] = 1, chosen.push_back(v);
  };
  for (auto* side : {&up, &down}) {
    const std::size_t most = std::min<std::size_t>(side->size(), std::size_t(q));
    std::partial_sort(side->begin(), side->begin() + most, side->end());
    side->resize(most);
  }
  std::size_t next = 0;
  const auto take_violating = [&](std::ptrdiff_t room) {
    for (; std::ptrdiff_t(chosen.size()) < room && next < std::max(up.size(), down.size()); ++next) {
      if (next < up.size()) take(up[next].v);
      if (next < down.size()) take(down[next].v);
    }
  };
  take_violating(last.empty() ? q : std::max<std::ptrdiff_t>(2, q / 2));
  for (const bool free : {true, false})
    for (const std::int32_t v : last)
      if ((box.lo[v] < box.a[v] && box.a[v] < box.hi[v]) == free) take(v);
  take_violating(q);
  by_group();
}

struct Outcome {
  std::int64_t steps = 0;
  double violation = infinity;
  bool stuck = false;      // rounding hides every gain
  bool unbounded = false;  // the objective falls without end
};

// The programme over a working set. Each group starts at a multiple of the vector width, and the
// gaps between are variables that cannot move.
template <class T>
struct Small {
  std::ptrdiff_t size = 0, ld = 0;
  int groups = 0;
  std::vector<std::ptrdiff_t> begin;              // (groups + 1,), of each group
  std::vector<T> Q;                               // (size, ld)
  std::vector<double> a, F, lo, hi, diagonal;     // (ld,)
  std::vector<double> rise, fall;                 // (ld,), what keeps a variable from being chosen
  std::vector<std::int32_t> variable;             // (ld,), of the box, or -1

  void place(const Box& box, const std::vector<std::int32_t>& chosen) {
    groups = box.groups;
    begin.assign(1, 0);
    variable.clear();
    std::size_t next = 0;
    for (int g = 0; g < std::max(groups, 1); ++g) {
      while (next < chosen.size() && (groups == 0 || box.group[chosen[next]] == g))
        variable.push_back(chosen[next++]);
      while (variable.size() % lanes) variable.push_back(-1);
      begin.push_back(std::ptrdiff_t(variable.size()));
    }
    size = ld = std::ptrdiff_t(variable.size());
    for (auto* values : {&a, &F, &lo, &hi, &diagonal}) values->assign(size, 0.0);
    rise.assign(size, infinity);
    fall.assign(size, -infinity);
    for (std::ptrdiff_t i = 0; i < size; ++i)
      if (variable[i] >= 0) {
        const std::int32_t v = variable[i];
        a[i] = box.a[v], F[i] = box.F[v], lo[i] = box.lo[v], hi[i] = box.hi[v];
        mark(i);
      }
    Q.resize(std::size_t(size) * ld);  // rows of the gaps are never read
  }

  void mark(std::ptrdiff_t i) {
    rise[i] = a[i] < hi[i] ? 0.0 : infinity;
    fall[i] = a[i] > lo[i] ? 0.0 : -infinity;
  }

  // Take steps until the violation is at most tol, or so many. `flat` is the curvature below
  // which rounding makes it.
  Outcome solve(double tol, std::int64_t steps, double flat) {
    for (std::ptrdiff_t i = 0; i < size; ++i) diagonal[i] = double(Q[i * ld + i]);
    Outcome found;
    for (; found.steps < steps; ++found.steps) {
      const bool moved = groups ? pair_step(tol, flat, found) : free_step(tol, flat, found);
      if (!moved) break;
    }
    return found;
  }

 private:
  // The pair within one group that gains most by the second-order model.
  bool pair_step(double tol, double flat, Outcome& found) {
    double best = 0.0;
    std::ptrdiff_t i = -1, j = -1;
    found.violation = 0.0;
    for (int g = 0; g < groups; ++g) {
      std::ptrdiff_t first = -1;
      const Range range = extremes(begin[g], begin[g + 1], first);
      const double gap = range.highest - range.lowest;
      found.violation = std::max(found.violation, gap);
      if (!(gap > tol) || first < 0) continue;
      double gain = best;
      const std::ptrdiff_t second =
          partner(begin[g], begin[g + 1], first, range.lowest, flat, gain);
      if (second >= 0) i = first, j = second, best = gain;
    }
    if (found.violation <= tol || i < 0) return false;
    const T *row_i = Q.data() + i * ld, *row_j = Q.data() + j * ld;
    const double curvature = diagonal[i] + diagonal[j] - 2.0 * double(row_i[j]);
    const double room_i = hi[i] - a[i], room_j = a[j] - lo[j];
    if (curvature <= flat && room_i == infinity && room_j == infinity) {
      found.unbounded = true;
      return false;
    }
    double step = (F[j] - F[i]) / std::max(curvature, flat);
    double new_i = a[i] + step, new_j = a[j] - step;
    if (step >= std::min(room_i, room_j)) {
      step = std::min(room_i, room_j);
      new_i = room_i <= step ? hi[i] : a[i] + step;
      new_j = room_j <= step ? lo[j] : a[j] - step;
    }
    if (new_i == a[i] && new_j == a[j]) {
      found.stuck = true;
      return false;
    }
    a[i] = new_i, a[j] = new_j;
    mark(i), mark(j);
    for (std::ptrdiff_t k = 0; k < size; k += lanes)
      store<double>(F.data() + k, widened(F.data() + k) +
                                      step * (widened(row_i + k) - widened(row_j + k)));
    return true;
  }

  Range extremes(std::ptrdiff_t from, std::ptrdiff_t to, std::ptrdiff_t& first) const {
    Doubles low = broadcast<double>(infinity), high = broadcast<double>(-infinity);
    Longs where = positions(0) * 0 - 1, here = positions(from);
    for (std::ptrdiff_t k = from; k < to; k += lanes, here += lanes) {
      const Doubles f = widened(F.data() + k);
      const Doubles up = f + widened(rise.data() + k), down = f + widened(fall.data() + k);
      const Longs lower = up < low;
      low = lower ? up : low;
      where = lower ? here : where;
      high = down > high ? down : high;
    }
    Range range;
    for (int l = 0; l < lanes; ++l) {
      if (low[l] < range.lowest || (low[l] == range.lowest && where[l] >= 0 && where[l] < first))
        range.lowest = low[l], first = where[l];
      range.highest = std::max(range.highest, high[l]);
    }
    return range;
  }

  std::ptrdiff_t partner(std::ptrdiff_t from, std::ptrdiff_t to, std::ptrdiff_t i, double lowest,
                         double flat, double& gain) const {
    const T* row = Q.data() + i * ld;
    Doubles best = broadcast<double>(gain);
    Longs where = positions(0) * 0 - 1, here = positions(from);
    const Doubles none{}, least = broadcast<double>(flat);
    for (std::ptrdiff_t k = from; k < to; k += lanes, here += lanes) {
      Doubles fall_by = widened(F.data() + k) + widened(fall.data() + k) - lowest;
      fall_by = fall_by > none ? fall_by : none;
      Doubles curvature = widened(diagonal.data() + k) + diagonal[i] - 2.0 * widened(row + k);
      curvature = curvature > least ? curvature : least;
      const Doubles score = fall_by * fall_by / curvature;
      const Longs better = score > best;
      best = better ? score : best;
      where = better ? here : where;
    }
    std::ptrdiff_t found = -1;
    for (int l = 0; l < lanes; ++l)
      if (where[l] >= 0 && (best[l] > gain || (best[l] == gain && found >= 0 && where[l] < found)))
        gain = best[l], found = where[l];
    return found;
  }

  // Without groups: the best move of one variable, then the best of a second one beside it, with
  // the first free to follow where it has met no bound.
  bool free_step(double tol, double flat, Outcome& found) {
    std::ptrdiff_t ignored = -1;
    const Range range = extremes(0, size, ignored);
    found.violation = std::max({0.0, range.highest, -range.lowest});
    if (found.violation <= tol) return false;
    const std::ptrdiff_t i = best_move(nullptr, 0.0, 0.0, flat);
    if (i < 0) {
      found.stuck = true;
      return false;
    }
    const double room = F[i] < 0 ? hi[i] - a[i] : a[i] - lo[i];
    if (diagonal[i] <= flat && room == infinity) {
      found.unbounded = true;
      return false;
    }
    const T* row = Q.data() + i * ld;
    const double step = alone(i, F[i], flat) - a[i];
    const bool follows = lo[i] < a[i] + step && a[i] + step < hi[i];
    const double bend = follows ? 1.0 / std::max(diagonal[i], flat) : 0.0;
    const std::ptrdiff_t j = best_move(row, step, bend, flat);
    if (j < 0 || j == i) return move_by(i, step, found);
    const double between = double(row[j]);
    const double curvature = std::max(diagonal[j] - bend * between * between, flat);
    const double slope = F[j] + step * between;
    double to_j = std::clamp(a[j] - slope / curvature, lo[j], hi[j]);
    const double to_i = alone(i, F[i] + between * (to_j - a[j]), flat);
    to_j = alone(j, F[j] + between * (to_i - a[i]), flat);
    const bool moved_i = move_by(i, to_i - a[i], found), moved_j = move_by(j, to_j - a[j], found);
    found.stuck = !moved_i && !moved_j;
    return moved_i || moved_j;
  }

  // Where a variable is best with this gradient and the others as they are.
  double alone(std::ptrdiff_t i, double slope, double flat) const {
    return std::clamp(a[i] - slope / std::max(diagonal[i], flat), lo[i], hi[i]);
  }

  bool move_by(std::ptrdiff_t i, double move, Outcome& found) {
    const double to = std::clamp(a[i] + move, lo[i], hi[i]);
    found.stuck = to == a[i];
    if (found.stuck) return false;
    a[i] = to;
    mark(i);
    const T* row = Q.data() + i * ld;
    for (std::ptrdiff_t k = 0; k < size; k += lanes)
      store<double>(F.data() + k, widened(F.data() + k) + move * widened(row + k));
    return true;
  }

  // The variable whose best move gains most, after a step along `row` if there is one, where
  // following that variable lowers the curvature by bend row².
  std::ptrdiff_t best_move(const T* row, double step, double bend, double flat) const {
    Doubles best{};
    Longs where = positions(0) * 0 - 1, here = positions(0);
    const Doubles least = broadcast<double>(flat);
    for (std::ptrdiff_t k = 0; k < size; k += lanes, here += lanes) {
      Doubles f = widened(F.data() + k), curvature = widened(diagonal.data() + k);
      if (row) {
        const Doubles beside = widened(row + k);
        f += step * beside;
        curvature -= bend * beside * beside;
      }
      const Doubles at = widened(a.data() + k);
      const Doubles low = widened(lo.data() + k), high = widened(hi.data() + k);
      curvature = curvature > least ? curvature : least;
      Doubles to = at - f / curvature;
      to = to < low ? low : to;
      to = to > high ? high : to;
      const Doubles move = to - at;
      const Doubles gain = -move * (f + 0.5 * curvature * move);
      const Longs better = gain > best;
      best = better ? gain : best;
      where = better ? here : where;
    }
    std::ptrdiff_t found = -1;
    double gain = 0.0;
    for (int l = 0; l < lanes; ++l)
      if (where[l] >= 0 && (best[l] > gain || (best[l] == gain && found >= 0 && where[l] < found)))
        gain = best[l], found = where[l];
    return found;
  }
};

// Rows of a Gram matrix, as far as they have been computed.
template <class T>
struct Rows {
  const T* rows = nullptr;             // (kept, columns)
  std::ptrdiff_t columns = 0;
  const std::int64_t* slot = nullptr;  // (columns,), the place of each point's row, or -1
};

// One of many programmes on some of the points of one Gram matrix.
struct Problem {
  Box box;
  const double* p = nullptr;             // (n,), F where all coefficients are zero
  std::ptrdiff_t points = 0;
  const std::int64_t* column = nullptr;  // (points,), of the Gram matrix
  const double* sign = nullptr;          // (n,), or null where all are +1
  std::ptrdiff_t q = 0;                  // variables at a time
  double tol = 0.0, inner = 0.1;         // a small programme is solved to this share of the violation
  double flat = 0.0;
  double violation = infinity;           // at the last look
  std::vector<std::int32_t> set;         // the working set, last or waiting for its rows
  bool waiting = false;
  bool fresh = false;                    // whether F is no sum of many changes
  std::vector<std::int64_t> needed;      // columns of the Gram matrix whose rows are missing

  // The coefficient of each point, (points,).
  std::vector<double> coefficients() const {
    std::vector<double> net(std::size_t(points), 0.0);
    for (std::ptrdiff_t v = 0; v < box.n; ++v)
      net[v % points] += sign ? sign[v] * box.a[v] : box.a[v];
    return net;
  }

  // Look at the violation and, where it is too large, choose the next working set.
  bool select() {
    const std::vector<Range> range = ranges(box);
    violation = mercer::violation(box, range);
    if (violation <= tol) return false;
    if (!waiting) {
      std::vector<std::int32_t> chosen;
      choose(box, range, q, set, chosen);
      set.swap(chosen);
    }
    return true;
  }

  // Solve the programme over the working set, whose entry (i, j) of K is row(i)[at(j)], and leave
  // the coefficients' changes, summed by point, in net: (points,).
  template <class T, class Row, class At>
  Outcome work(Small<T>& small, Row row, At at, std::int64_t steps, std::vector<double>& net) {
    small.place(box, set);
    std::vector<std::ptrdiff_t> where(std::size_t(small.size), 0);  // anywhere for the gaps
    for (std::ptrdiff_t j = 0, k = 0; j < small.size; ++j)
      if (small.variable[j] >= 0) where[j] = at(k++);
    for (std::ptrdiff_t i = 0, k = 0; i < small.size; ++i) {
      if (small.variable[i] < 0) continue;
      const T* from = row(k++);
      T* out = small.Q.data() + i * small.ld;
      for (std::ptrdiff_t j = 0; j < small.size; ++j) out[j] = from[where[j]];
      if (sign)
        for (std::ptrdiff_t j = 0; j < small.size; ++j)
          if (small.variable[j] >= 0 && sign[small.variable[i]] != sign[small.variable[j]])
            out[j] = -out[j];
    }
    const Outcome outcome = small.solve(std::max(tol, inner * violation), steps, flat);
    fresh = false;
    net.assign(std::size_t(points), 0.0);
    for (std::ptrdiff_t i = 0; i < small.size; ++i)
      if (const std::int32_t v = small.variable[i]; v >= 0) {
        const double move = small.a[i] - box.a[v];
        box.a[v] = small.a[i];
        net[v % points] += sign ? sign[v] * move : move;
      }
    return outcome;
  }

  // F after a change of K times the net coefficients, (points,).
  void follow(const double* change) {
    for (std::ptrdiff_t v = 0; v < box.n; v += points)
      for (std::ptrdiff_t k = 0; k < points; ++k)
        box.F[v + k] += sign ? sign[v + k] * change[k] : change[k];
  }
};

enum class State : std::int32_t { going = 0, waiting = 1, done = 2, stuck = 3, unbounded = 4 };

struct Progress {
  State state = State::going;
  std::int64_t steps = 0;
};

// change = K net over the problem's points, a run of neighbouring columns at a time where those are
// long; false where a row it takes is missing.
template <class T>
bool multiply(const Rows<T>& kept, Problem& problem, const std::vector<double>& net,
              std::vector<double>& change) {
  // Entries of `change` that stay in the first-level cache while rows are added to them.
  constexpr std::ptrdiff_t most = 1024;
  const std::int64_t* column = problem.column;
  std::vector<std::pair<const T*, double>> rows;
  problem.needed.clear();
  for (std::ptrdiff_t k = 0; k < problem.points; ++k) {
    if (net[k] == 0.0) continue;
    const std::int64_t slot = kept.slot[column[k]];
    if (slot < 0) problem.needed.push_back(column[k]);
    else rows.push_back({kept.rows + slot * kept.columns, net[k]});
  }
  if (!problem.needed.empty()) return false;
  change.assign(std::size_t(problem.points), 0.0);
  std::ptrdiff_t runs = 1;
  for (std::ptrdiff_t k = 1; k < problem.points; ++k) runs += column[k] != column[k - 1] + 1;
  if (runs * 16 > problem.points) {
    for (const auto& [row, by] : rows)
      for (std::ptrdiff_t k = 0; k < problem.points; ++k) change[k] += by * double(row[column[k]]);
    return true;
  }
  for (std::ptrdiff_t from = 0; from < problem.points;) {
    std::ptrdiff_t to = from + 1;
    while (to < problem.points && to - from < most && column[to] == column[to - 1] + 1) ++to;
    double* out = change.data() + from;
    for (const auto& [row, by] : rows) {
      const T* values = row + column[from];
      for (std::ptrdiff_t j = 0; j < to - from; ++j) out[j] += by * double(values[j]);
    }
    from = to;
  }
  return true;
}

// Multiplications on one working set at most, some hundredths of a second.
constexpr double most_work = 4e6;

// Work on one programme until it is done, until rows are missing, or for about so many
// multiplications, looked at between working sets, so that the path is the same however often the
// work is taken up again. Where rows are missing, `needed` says which. It is done when the
// violation is at most tol with F computed afresh.
template <class T>
Progress advance(Problem& problem, const Rows<T>& kept, double work, std::int64_t max_steps) {
  Progress progress;
  const auto column = [&](std::ptrdiff_t i) {
    return problem.column[problem.set[i] % problem.points];
  };
  const auto wait = [&] {
    progress.state = State::waiting;
    return progress;
  };
  Small<T> small;
  std::vector<double> net, change;
  const auto refresh = [&] {
    if (!multiply(kept, problem, problem.coefficients(), change)) return false;
    std::copy_n(problem.p, problem.box.n, problem.box.F);
    problem.follow(change.data());
    return problem.fresh = true;
  };
  if (problem.violation == infinity && !refresh()) return wait();
  while (true) {
    if (!problem.select()) {
      if (!problem.fresh) {
        if (!refresh()) return wait();
        continue;
      }
      progress.state = State::done;
      return progress;
    }
    if (work <= 0 || progress.steps >= max_steps) return progress;
    const auto size = std::ptrdiff_t(problem.set.size());
    problem.needed.clear();
    for (std::ptrdiff_t i = 0; i < size; ++i)
      if (kept.slot[column(i)] < 0) problem.needed.push_back(column(i));
    problem.waiting = !problem.needed.empty();
    if (problem.waiting) return wait();
    const auto most = std::min<std::int64_t>(max_steps - progress.steps,
                                             std::int64_t(most_work / double(size)) + 1);
    const Outcome outcome = problem.work(
        small, [&](std::ptrdiff_t i) { return kept.rows + kept.slot[column(i)] * kept.columns; },
        column, most, net);
    progress.steps += outcome.steps;
    if (outcome.unbounded || outcome.steps == 0) {
      progress.state = outcome.unbounded ? State::unbounded : State::stuck;
      return progress;
    }
    multiply(kept, problem, net, change);
    problem.follow(change.data());
    std::ptrdiff_t moved = 1;
    for (const double move : net) moved += move != 0.0;
    work -= double(outcome.steps + 1) * double(size) + double(problem.points) * double(moved);
  }
}

}  // namespace mercer
