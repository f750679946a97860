// Quadratic programs whose matrix is Phi Phi^T, one variable at a time: each step costs what one
// row of Phi has entries, since w = Phi^T a is kept.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "mercer/sparse.hpp"
#include "mercer/threads.hpp"

namespace mercer {

// Minimise a^T Q a / 2 + p^T a over lo <= a <= hi with the sums of groups given, where
// Q_ij = s_i s_j phi_i . phi_j and variable v belongs to point v modulo their number.
struct FeatureProgram {
  SparseRows phi;
  std::int32_t width;  // columns of phi
  std::int64_t n;
  double* a;
  const double *p, *lo, *hi, *sign;  // sign may be null: all +1
  const std::int32_t* group;         // null where nothing is said of sums
  const double* totals;
  int groups;
};

// Rounds of steps in random order, variables that seem settled at a bound left out and looked at
// again in the end (Hsieh et al., "A dual coordinate descent method for large-scale linear SVM",
// 2008). Sums are held by multipliers that every round corrects (the augmented Lagrangian), so they
// are right to about the tolerance and no more.
class CoordinateDescent {
 public:
  CoordinateDescent(const FeatureProgram& program, double tol, std::uint64_t seed)
      : program_(program), tol_(tol), random_(seed), w_(program.width),
        curvature_(program.phi.count), sum_(program.groups), multiplier_(program.groups),
        order_(program.n), active_(program.n) {
    const SparseRows& phi = program_.phi;
    for (std::int64_t i = 0; i < phi.count; ++i) {
      for (std::int64_t k = phi.indptr[i]; k < phi.indptr[i + 1]; ++k)
        curvature_[i] += phi.data[k] * phi.data[k];
      if (program_.groups) penalty_ += curvature_[i] / double(phi.count);
    }
    for (std::int64_t v = 0; v < program_.n; ++v) {
      order_[v] = v;
      phi.add(v % phi.count, sign(v) * program_.a[v], w_.data());
      if (program_.group) sum_[program_.group[v]] += program_.a[v];
    }
  }

  std::int64_t rounds() const { return rounds_; }
  // How often a variable was optimised.
  std::int64_t steps() const { return steps_; }
  // At the last round that looked at all variables.
  double violation() const { return violation_; }
  bool done() const { return violation_ <= tol_; }

  // Go on for so many rounds or seconds, or until all is within the tolerance.
  void run(std::int64_t rounds, double seconds, const Stop& stop) {
    using Clock = std::chrono::steady_clock;
    const auto begun = Clock::now();
    for (std::int64_t r = 0; r < rounds && !done() && !stop; ++r) {
      round(stop);
      if (std::chrono::duration<double>(Clock::now() - begun).count() > seconds) return;
    }
  }

 private:
  static constexpr double infinity = std::numeric_limits<double>::infinity();

  double sign(std::int64_t v) const { return program_.sign ? program_.sign[v] : 1.0; }

  void round(const Stop& stop) {
    double up = -infinity, down = infinity;  // range of the projected gradient
    for (std::int64_t k = 0; k < active_; ++k)
      std::swap(order_[k], order_[k + std::int64_t(random_() % std::uint64_t(active_ - k))]);
    const bool all = active_ == program_.n;
    for (std::int64_t k = 0; k < active_; ++k) {
      if ((k & 1023) == 0 && stop) return;
      const std::int64_t v = order_[k];
      const double gradient = gradient_at(v), a = program_.a[v];
      const bool at_lo = a <= program_.lo[v], at_hi = a >= program_.hi[v];
      if ((at_lo && gradient > highest_) || (at_hi && gradient < lowest_)) {
        std::swap(order_[k--], order_[--active_]);
        continue;
      }
      const double projected =
          at_lo ? std::min(gradient, 0.0) : at_hi ? std::max(gradient, 0.0) : gradient;
      up = std::max(up, projected);
      down = std::min(down, projected);
      if (projected != 0) step(v, gradient);
    }
    ++rounds_;
    double range = up > down ? up - down : 0.0;
    for (int g = 0; g < program_.groups; ++g) {
      const double step = penalty_ * (sum_[g] - program_.totals[g]);
      multiplier_[g] += step;
      range = std::max(range, std::abs(step));
    }
    if (all) violation_ = range;
    highest_ = up > 0 ? up : infinity;
    lowest_ = down < 0 ? down : -infinity;
    if (range <= tol_ && !done()) {  // settled among those: look at all once more
      active_ = program_.n;
      highest_ = infinity;
      lowest_ = -infinity;
    }
  }

  double gradient_at(std::int64_t v) const {
    const double own = sign(v) * program_.phi.dot(v % program_.phi.count, w_.data());
    if (!program_.group) return own + program_.p[v];
    const int g = program_.group[v];
    return own + program_.p[v] + multiplier_[g] + penalty_ * (sum_[g] - program_.totals[g]);
  }

  void step(std::int64_t v, double gradient) {
    ++steps_;
    const std::int64_t i = v % program_.phi.count;
    const double a = program_.a[v], lo = program_.lo[v], hi = program_.hi[v];
    const double room = curvature_[i] + penalty_;
    const double to =
        room > 0 ? std::clamp(a - gradient / room, lo, hi) : (gradient > 0 ? lo : hi);
    program_.a[v] = to;
    program_.phi.add(i, sign(v) * (to - a), w_.data());
    if (program_.group) sum_[program_.group[v]] += to - a;
  }

  FeatureProgram program_;
  double tol_;
  std::mt19937_64 random_;
  std::vector<double> w_, curvature_, sum_, multiplier_;
  std::vector<std::int64_t> order_;  // those at work first
  std::int64_t active_, rounds_ = 0, steps_ = 0;
  double penalty_ = 0.0, violation_ = infinity;
  double highest_ = infinity, lowest_ = -infinity;  // gradients beyond these settle a variable
};

}  // namespace mercer
