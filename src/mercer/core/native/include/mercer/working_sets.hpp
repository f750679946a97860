// Quadratic programs over a box, a working set of variables at a time: which variables to work
// on, the small programme over them solved by pairs, and the gradient of all the others after it.
//
//   minimise 1/2 a'Qa + p'a   over   lo <= a <= hi,   the sum of a over each group as it is,
//   Q[v, w] = sign[v] sign[w] K[point(v), point(w)],   point(v) = v mod points,
//
// with F = Qa + p carried along. Coefficients and gradient are double, K is double or float.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "mercer/box.hpp"
#include "mercer/subproblem.hpp"
#include "mercer/threads.hpp"

namespace mercer {

// Up to q variables to work on, group by group: all where there are no more; else the most
// violating, as many that can rise as can fall, then half of the place for those of the last set,
// free ones first. Equal violations are taken in an order that has nothing to do with that of the
// points.
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
  std::size_t next = 0;  // the sides take turns
  const auto take_violating = [&](std::ptrdiff_t room) {
    const std::size_t turns = 2 * std::max(up.size(), down.size());
    for (; std::ptrdiff_t(chosen.size()) < room && next < turns; ++next) {
      const auto& side = next % 2 ? down : up;
      if (next / 2 < side.size()) take(side[next / 2].v);
    }
  };
  take_violating(last.empty() ? q : std::max<std::ptrdiff_t>(2, q / 2));
  for (const bool free : {true, false})
    for (const std::int32_t v : last)
      if ((box.lo[v] < box.a[v] && box.a[v] < box.hi[v]) == free) take(v);
  take_violating(q);
  by_group();
}

// Rows of a Gram matrix, as far as they have been computed.
template <class T>
struct Rows {
  const T* rows = nullptr;             // (kept, columns)
  std::ptrdiff_t columns = 0;
  const std::int64_t* slot = nullptr;  // (columns,), the place of each point's row, or -1
};

// Neighbouring columns of a Gram matrix, and where they go.
struct Run {
  std::ptrdiff_t from, to, length;
};

// The columns at(0), at(1), ... of the variables that are no gaps, in runs.
template <class At>
std::vector<Run> runs_of(const std::vector<std::int32_t>& variable, At at) {
  std::vector<Run> runs;
  for (std::ptrdiff_t j = 0, k = 0; j < std::ptrdiff_t(variable.size()); ++j) {
    if (variable[j] < 0) continue;
    const std::ptrdiff_t column = at(k++);
    if (!runs.empty() && runs.back().from + runs.back().length == column &&
        runs.back().to + runs.back().length == j)
      ++runs.back().length;
    else
      runs.push_back({column, j, 1});
  }
  return runs;
}

// The most variables that a working set is made larger for.
constexpr std::ptrdiff_t most_together = 1024;

// Operations from which on other threads take part in a loop.
constexpr double worth_sharing = 3e5;

// part(first, last) over [0, count) in blocks, on threads where there is enough to do: `each` is the
// number of operations for one of them.
template <class Part>
void in_blocks(std::ptrdiff_t count, std::ptrdiff_t block, std::ptrdiff_t each, int threads, Part part) {
  share(
      (count + block - 1) / block, double(count) * double(each) < worth_sharing ? 0 : threads,
      [&](std::ptrdiff_t b, const Stop&) { part(b * block, std::min(count, (b + 1) * block)); },
      [] { return false; });
}

// Copy the half of a square matrix above the diagonal to the half below, a block at a time.
template <class T>
void mirror(T* Q, std::ptrdiff_t n, std::ptrdiff_t ld) {
  constexpr std::ptrdiff_t side = 16;
  for (std::ptrdiff_t top = 0; top < n; top += side)
    for (std::ptrdiff_t left = 0; left <= top; left += side)
      for (std::ptrdiff_t i = top; i < std::min(n, top + side); ++i)
        for (std::ptrdiff_t j = left; j < std::min(i, left + side); ++j) Q[i * ld + j] = Q[j * ld + i];
}

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

  // Variables of the next set: q, and where they are not too many all that are free, with half as
  // many again that may become so. Those interact, and are solved for together soonest.
  std::ptrdiff_t room() const {
    std::ptrdiff_t free = 0;
    for (std::ptrdiff_t v = 0; v < box.n; ++v) free += box.lo[v] < box.a[v] && box.a[v] < box.hi[v];
    return q + free <= most_together ? std::min(q + free + free / 2, most_together) : q;
  }

  // Look at the violation and, where it is too large, choose the next working set.
  // `grow` where rows of K are stored, so that larger sets cost little.
  bool select(bool grow = false) {
    const std::vector<Range> range = ranges(box);
    violation = mercer::violation(box, range);
    if (violation <= tol) return false;
    if (!waiting) {
      std::vector<std::int32_t> chosen;
      choose(box, range, grow ? room() : q, set, chosen);
      set.swap(chosen);
    }
    return true;
  }

  // Solve the programme over the working set, whose entry (i, j) of K is row(i)[at(j)], and leave
  // the coefficients' changes, summed by point, in net: (points,).
  template <class T, class Row, class At>
  Outcome work(Small<T>& small, Row row, At at, std::int64_t steps, std::vector<double>& net,
               int threads = 0) {
    small.place(box, set);
    const std::vector<Run> runs = runs_of(small.variable, at);
    // Columns far apart are read one by one, without a branch between: each is a wait for memory,
    // and the processor then has many of them under way at once.
    const bool apart = std::ptrdiff_t(runs.size()) * 4 > std::ptrdiff_t(set.size());
    std::vector<std::pair<std::ptrdiff_t, std::ptrdiff_t>> moves;  // of a row, from where to where
    std::vector<T> signs;
    if (apart)
      for (const Run& run : runs)
        for (std::ptrdiff_t j = 0; j < run.length; ++j) moves.emplace_back(run.from + j, run.to + j);
    if (sign)
      for (const std::int32_t v : small.variable) signs.push_back(v < 0 ? T(1) : T(sign[v]));
    std::vector<std::ptrdiff_t> filled;  // rows that are no gaps
    for (std::ptrdiff_t i = 0; i < small.size; ++i)
      if (small.variable[i] >= 0) filled.push_back(i);
    // Operations that a number from far apart takes as long as.
    constexpr std::ptrdiff_t wait = 16;
    const std::ptrdiff_t count = std::ptrdiff_t(filled.size()), ld = small.ld;
    T* Q = small.Q.data();
    in_blocks(count, 16, apart ? wait * count : count, threads,
              [&](std::ptrdiff_t first, std::ptrdiff_t last) {
                for (std::ptrdiff_t k = first; k < last; ++k) {
                  const T* from = row(k);
                  T* out = Q + filled[k] * ld;
                  if (apart)  // the half above the diagonal
                    for (std::ptrdiff_t m = k; m < count; ++m) out[moves[m].second] = from[moves[m].first];
                  else
                    for (const Run& run : runs) std::copy_n(from + run.from, run.length, out + run.to);
                  if (sign)
                    for (std::ptrdiff_t j = 0; j < small.size; ++j)
                      out[j] *= signs[filled[k]] * signs[j];
                }
              });
    if (apart) mirror(Q, small.size, ld);
    // With all variables at hand, nothing is learned from a look at the others.
    const bool whole = std::ptrdiff_t(set.size()) == box.n;
    const Outcome outcome = small.solve(whole ? tol : std::max(tol, inner * violation), steps, flat);
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
              std::vector<double>& change, int threads = 0) {
  // Entries of `change` that stay in the first-level cache while rows are added to them.
  constexpr std::ptrdiff_t most = 512;
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
  const bool apart = runs * 16 > problem.points;
  in_blocks(problem.points, most, std::ptrdiff_t(rows.size()), threads,
            [&](std::ptrdiff_t first, std::ptrdiff_t last) {
              if (apart) {
                for (const auto& [row, by] : rows)
                  for (std::ptrdiff_t k = first; k < last; ++k)
                    change[k] += by * double(row[column[k]]);
                return;
              }
              for (std::ptrdiff_t from = first; from < last;) {
                std::ptrdiff_t to = from + 1;
                while (to < last && column[to] == column[to - 1] + 1) ++to;
                double* out = change.data() + from;
                for (const auto& [row, by] : rows) {
                  const T* values = row + column[from];
                  for (std::ptrdiff_t j = 0; j < to - from; ++j) out[j] += by * double(values[j]);
                }
                from = to;
              }
            });
  return true;
}

// Multiplications on one working set at most, some hundredths of a second.
constexpr double most_work = 4e6;

// Work on one programme until it is done, until rows are missing, or for about so many
// multiplications, looked at between working sets, so that the path is the same however often the
// work is taken up again. Where rows are missing, `needed` says which. It is done when the
// violation is at most tol with F computed afresh.
template <class T>
Progress advance(Problem& problem, const Rows<T>& kept, double work, std::int64_t max_steps,
                 int threads = 0) {
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
    if (!multiply(kept, problem, problem.coefficients(), change, threads)) return false;
    std::copy_n(problem.p, problem.box.n, problem.box.F);
    problem.follow(change.data());
    return problem.fresh = true;
  };
  if (problem.violation == infinity && !refresh()) return wait();
  while (true) {
    if (!problem.select(true)) {
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
        column, most, net, threads);
    progress.steps += outcome.steps;
    if (outcome.unbounded || outcome.steps == 0) {
      progress.state = outcome.unbounded ? State::unbounded : State::stuck;
      return progress;
    }
    if (size == problem.box.n) {  // of all variables the gradient is known
      for (std::ptrdiff_t i = 0; i < small.size; ++i)
        if (small.variable[i] >= 0) problem.box.F[small.variable[i]] = small.F[i];
    } else {
      multiply(kept, problem, net, change, threads);
      problem.follow(change.data());
    }
    std::ptrdiff_t moved = 1;
    for (const double move : net) moved += move != 0.0;
    work -= double(outcome.steps + 1) * double(size) + double(problem.points) * double(moved);
  }
}

}  // namespace mercer
