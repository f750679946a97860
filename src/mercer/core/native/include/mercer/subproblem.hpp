// The quadratic program over a few variables of a box, solved by pairs of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "mercer/box.hpp"
#include "mercer/simd.hpp"

namespace mercer {

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

// 0, 1, ... in the lanes.
struct Counted {
  std::int64_t lane[lanes];
  constexpr Counted() : lane() {
    for (int i = 0; i < lanes; ++i) lane[i] = i;
  }
};

MERCER_INLINE Longs positions(std::ptrdiff_t first) {
  static constexpr Counted counted;
  Longs v;
  std::memcpy(&v, counted.lane, sizeof v);
  return v + first;
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
  struct Seen {
    Range range;
    std::ptrdiff_t first = -1;  // where the lowest is
  };
  std::vector<Seen> seen;                         // (groups,), while steps are taken

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
    if (groups) look();
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
      const Range range = seen[g].range;
      const double gap = range.highest - range.lowest;
      found.violation = std::max(found.violation, gap);
      if (!(gap > tol) || seen[g].first < 0) continue;
      double gain = best;
      const std::ptrdiff_t second =
          partner(begin[g], begin[g + 1], seen[g].first, range.lowest, flat, gain);
      if (second >= 0) i = seen[g].first, j = second, best = gain;
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
    for (int g = 0; g < groups; ++g)
      seen[g].range = extremes(begin[g], begin[g + 1], seen[g].first, [&](std::ptrdiff_t k) {
        const Doubles f =
            widened(F.data() + k) + step * (widened(row_i + k) - widened(row_j + k));
        store<double>(F.data() + k, f);
        return f;
      });
    return true;
  }

  // The extremes of every group as they stand.
  void look() {
    seen.resize(std::size_t(groups));
    for (int g = 0; g < groups; ++g)
      seen[g].range = extremes(begin[g], begin[g + 1], seen[g].first,
                               [&](std::ptrdiff_t k) { return widened(F.data() + k); });
  }

  // `at(k)` gives the gradients from k on.
  template <class At>
  MERCER_INLINE Range extremes(std::ptrdiff_t from, std::ptrdiff_t to, std::ptrdiff_t& first,
                               At at) const {
    Doubles low = broadcast<double>(infinity), high = broadcast<double>(-infinity);
    Longs where = positions(0) * 0 - 1, here = positions(from);
    first = -1;
    for (std::ptrdiff_t k = from; k < to; k += lanes, here += lanes) {
      const Doubles f = at(k);
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

  // Without groups: the best move of one variable, then the best of a second one with it, with
  // the first free to follow where it has met no bound.
  bool free_step(double tol, double flat, Outcome& found) {
    std::ptrdiff_t ignored = -1;
    const Range range =
        extremes(0, size, ignored, [&](std::ptrdiff_t k) { return widened(F.data() + k); });
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

}  // namespace mercer
