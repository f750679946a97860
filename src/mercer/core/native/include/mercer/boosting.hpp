// Gradient boosting of partitions: trees that ask one question of all leaves of a level.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "mercer/threads.hpp"

namespace mercer {

enum class BoostingLoss { squared = 0, logistic = 1, softmax = 2 };

// Features are given by the interval that each value is in. Rows of weight zero have no part in the
// fit; the boosting ends by the mean loss of the rows with a judge's weight.
struct BoostingProblem {
  const std::uint8_t* codes;    // (d, n), below n_codes
  const std::int32_t* n_codes;  // (d)
  std::ptrdiff_t n, d;
  const float* targets;  // (n, outputs): numbers, or indicators of classes
  const float* weights;  // (n)
  const float* judges;   // (n)
  int outputs;
  BoostingLoss loss;
};

// A leaf's value is rate * G / (H + l2), with G and H the sums of gradients and curvatures. Each
// tree sees a share of the rows, and each level a share of the features.
struct BoostingSettings {
  int trees, depth, patience;
  float rate, l2, rows, columns;
  std::uint64_t seed;
};

struct BoostedTrees {
  std::vector<std::int32_t> features, cuts;  // (trees, depth): codes above the cut set a bit
  std::vector<float> values;                 // (trees, 2^depth, outputs)
  std::vector<double> losses;                // of the judging rows after each tree
};

// Steele, Lea and Flood's generator, which the Python twin repeats.
class SplitMix {
 public:
  explicit SplitMix(std::uint64_t seed) : state_(seed) {}
  std::uint64_t operator()() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

class Boosting {
 public:
  // scores (n, outputs) are those to begin with, and afterwards those of the trees that are kept.
  Boosting(const BoostingProblem& problem, const BoostingSettings& settings, float* scores)
      : p_(problem),
        s_(settings),
        scores_(scores),
        random_(settings.seed),
        gradient_(p_.n * p_.outputs),
        curvature_(p_.n * p_.outputs),
        leaf_(p_.n) {
    int most = 2;
    for (std::ptrdiff_t k = 0; k < p_.d; ++k) {
      most = std::max(most, int(p_.n_codes[k]));
      if (p_.n_codes[k] > 1) useful_.push_back(std::int32_t(k));
    }
    sums_.resize((std::size_t(2) * most) << (s_.depth - 1));
    gains_.resize(most);
    for (std::ptrdiff_t i = 0; i < p_.n; ++i)
      if (p_.weights[i] > 0) inside_.push_back(i);
    find_rare();
  }

  BoostedTrees run(const Stop& stop) {
    BoostedTrees found;
    if (useful_.empty() || inside_.empty()) return found;
    std::size_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    std::vector<float> best_scores(scores_, scores_ + p_.n * p_.outputs);
    for (std::size_t t = 1; t <= std::size_t(s_.trees) && !stop; ++t) {
      set_slopes();
      draw();
      grow(found);
      found.losses.push_back(judged_loss());
      if (found.losses.back() < least) {
        least = found.losses.back(), best = t;
        std::copy_n(scores_, best_scores.size(), best_scores.begin());
      } else if (t - best >= std::size_t(s_.patience)) {
        break;
      }
    }
    std::copy(best_scores.begin(), best_scores.end(), scores_);
    found.features.resize(best * s_.depth);
    found.cuts.resize(best * s_.depth);
    found.values.resize((best << s_.depth) * p_.outputs);
    return found;
  }

 private:
  // Rows of each feature outside its most frequent interval, where these are few: sums over the
  // others are differences.
  void find_rare() {
    constexpr double frequent = 0.6;
    common_.assign(p_.d, -1);
    rare_.resize(p_.d);
    std::vector<std::ptrdiff_t> counts;
    for (std::int32_t k : useful_) {
      const std::uint8_t* code = p_.codes + k * p_.n;
      counts.assign(p_.n_codes[k], 0);
      for (std::ptrdiff_t i : inside_) ++counts[code[i]];
      const auto most = std::max_element(counts.begin(), counts.end());
      if (double(*most) < frequent * double(inside_.size())) continue;
      common_[k] = int(most - counts.begin());
      for (std::ptrdiff_t i : inside_)
        if (code[i] != common_[k]) rare_[k].push_back(i);
    }
  }

  // Negative gradients and curvatures of the loss, (outputs, n), times the weights.
  void set_slopes() {
    constexpr float flattest = 1e-6f;
    const int C = p_.outputs;
    std::vector<float> q(C);
    for (std::ptrdiff_t i : inside_) {
      const float *f = scores_ + i * C, *y = p_.targets + i * C, w = p_.weights[i];
      if (p_.loss == BoostingLoss::squared)
        std::copy_n(f, C, q.begin());
      else
        probabilities(f, q.data());
      for (int c = 0; c < C; ++c) {
        gradient_[c * p_.n + i] = w * (y[c] - q[c]);
        curvature_[c * p_.n + i] =
            p_.loss == BoostingLoss::squared ? w : w * std::max(q[c] * (1 - q[c]), flattest);
      }
    }
  }

  void probabilities(const float* f, float* q) const {
    if (p_.loss == BoostingLoss::logistic) {
      for (int c = 0; c < p_.outputs; ++c) q[c] = 1 / (1 + std::exp(-f[c]));
      return;
    }
    const float most = *std::max_element(f, f + p_.outputs);
    float total = 0;
    for (int c = 0; c < p_.outputs; ++c) total += q[c] = std::exp(f[c] - most);
    for (int c = 0; c < p_.outputs; ++c) q[c] /= total;
  }

  // The rows that the next tree sees. Slopes of others become zero, and those of the drawn ones are
  // copied side by side.
  void draw() {
    drawn_.clear();
    const auto limit = std::uint64_t(std::min(double(s_.rows), 1.0) * 0x1p32);
    if (s_.rows < 1)
      for (std::ptrdiff_t i : inside_)
        if ((random_() >> 32) < limit) drawn_.push_back(i);
    if (drawn_.empty()) drawn_ = inside_;
    const std::size_t m = drawn_.size();
    drawn_gradient_.resize(m * p_.outputs);
    drawn_curvature_.resize(m * p_.outputs);
    drawn_leaf_.resize(m);
    for (int c = 0; c < p_.outputs; ++c) {
      float *g = gradient_.data() + c * p_.n, *h = curvature_.data() + c * p_.n;
      for (std::size_t j = 0; j < m; ++j) {
        drawn_gradient_[c * m + j] = g[drawn_[j]];
        drawn_curvature_[c * m + j] = h[drawn_[j]];
      }
      std::fill_n(g, p_.n, 0.0f);
      std::fill_n(h, p_.n, 0.0f);
      for (std::size_t j = 0; j < m; ++j) {
        g[drawn_[j]] = drawn_gradient_[c * m + j];
        h[drawn_[j]] = drawn_curvature_[c * m + j];
      }
    }
  }

  void grow(BoostedTrees& found) {
    std::fill(leaf_.begin(), leaf_.end(), std::uint8_t(0));
    for (int level = 0; level < s_.depth; ++level) {
      set_totals(1 << level);
      const Split split = best_split(1 << level);
      found.features.push_back(split.feature);
      found.cuts.push_back(split.cut);
      const std::uint8_t* code = p_.codes + split.feature * p_.n;
      for (std::ptrdiff_t i = 0; i < p_.n; ++i)
        leaf_[i] = std::uint8_t(leaf_[i] | (int(code[i]) > split.cut) << level);
    }
    const int leaves = 1 << s_.depth, C = p_.outputs;
    set_totals(leaves);
    const std::size_t begin = found.values.size();
    found.values.resize(begin + std::size_t(leaves) * C);
    float* values = found.values.data() + begin;
    for (int c = 0; c < C; ++c)
      for (int l = 0; l < leaves; ++l) {
        const float* sum = totals_.data() + 2 * (c * leaves + l);
        values[l * C + c] = sum[1] > 0 ? s_.rate * sum[0] / (sum[1] + s_.l2) : 0.0f;
      }
    for (std::ptrdiff_t i = 0; i < p_.n; ++i)
      for (int c = 0; c < C; ++c) scores_[i * C + c] += values[leaf_[i] * C + c];
  }

  // Sums of gradients and curvatures in each leaf, (outputs, leaves, 2).
  void set_totals(int leaves) {
    const std::size_t m = drawn_.size();
    totals_.assign(std::size_t(2) * leaves * p_.outputs, 0.0f);
    for (std::size_t j = 0; j < m; ++j) drawn_leaf_[j] = leaf_[drawn_[j]];
    for (int c = 0; c < p_.outputs; ++c)
      for (std::size_t j = 0; j < m; ++j) {
        float* sum = totals_.data() + 2 * (c * leaves + drawn_leaf_[j]);
        sum[0] += drawn_gradient_[c * m + j];
        sum[1] += drawn_curvature_[c * m + j];
      }
  }

  struct Split {
    std::int32_t feature, cut;
  };

  Split best_split(int leaves) {
    Split best{useful_[0], p_.n_codes[useful_[0]]};
    float most = 0;
    const std::size_t all = useful_.size();
    const auto share = std::size_t(std::lround(std::min(double(s_.columns), 1.0) * double(all)));
    const std::size_t wanted = std::clamp<std::size_t>(share, 1, all);
    for (std::size_t j = 0; j < wanted; ++j) {
      std::swap(useful_[j], useful_[j + random_() % (all - j)]);
      const std::int32_t k = useful_[j];
      std::fill(gains_.begin(), gains_.end(), 0.0f);
      for (int c = 0; c < p_.outputs; ++c) add_gains(k, leaves, c);
      for (int b = 0; b + 1 < p_.n_codes[k]; ++b)
        if (gains_[b] > most) most = gains_[b], best = {k, b};
    }
    return best;
  }

  // What each cut of feature k leaves in one output: the sum of G² / (H + l2) over the new leaves.
  void add_gains(std::int32_t k, int leaves, int c) {
    const int bins = p_.n_codes[k];
    set_sums(k, leaves, c);
    for (int l = 0; l < leaves; ++l) {
      float* sum = sums_.data() + std::size_t(2) * l * bins;
      for (int b = 1; b < bins; ++b) {
        sum[2 * b] += sum[2 * b - 2];
        sum[2 * b + 1] += sum[2 * b - 1];
      }
      const float g = sum[2 * bins - 2], h = sum[2 * bins - 1], l2 = s_.l2;
      if (!(h > 0)) continue;
      for (int b = 0; b + 1 < bins; ++b) {
        const float g0 = sum[2 * b], h0 = sum[2 * b + 1], g1 = g - g0;
        const float h1 = std::max(h - h0, 0.0f);
        gains_[b] += g0 * g0 / (h0 + l2) + g1 * g1 / (h1 + l2);
      }
    }
  }

  // Sums of gradients and curvatures by leaf and interval, (leaves, bins, 2).
  void set_sums(std::int32_t k, int leaves, int c) {
    const int bins = p_.n_codes[k];
    const std::uint8_t* code = p_.codes + k * p_.n;
    float* sums = sums_.data();
    std::fill_n(sums, std::size_t(2) * leaves * bins, 0.0f);
    const auto add = [&](std::size_t leaf, std::ptrdiff_t i, float g, float h) {
      float* sum = sums + 2 * (leaf * bins + code[i]);
      sum[0] += g;
      sum[1] += h;
    };
    if (common_[k] < 0) {
      const std::size_t m = drawn_.size();
      const float *g = drawn_gradient_.data() + c * m, *h = drawn_curvature_.data() + c * m;
      for (std::size_t j = 0; j < m; ++j) add(drawn_leaf_[j], drawn_[j], g[j], h[j]);
      return;
    }
    const float *g = gradient_.data() + c * p_.n, *h = curvature_.data() + c * p_.n;
    for (std::ptrdiff_t i : rare_[k]) add(leaf_[i], i, g[i], h[i]);
    for (int l = 0; l < leaves; ++l) {
      float* sum = sums + std::size_t(2) * l * bins;
      float rest[2] = {totals_[2 * (c * leaves + l)], totals_[2 * (c * leaves + l) + 1]};
      for (int b = 0; b < bins; ++b) rest[0] -= sum[2 * b], rest[1] -= sum[2 * b + 1];
      sum[2 * common_[k]] = rest[0];
      sum[2 * common_[k] + 1] = std::max(rest[1], 0.0f);
    }
  }

  double judged_loss() const {
    const int C = p_.outputs;
    double sum = 0, weight = 0;
    for (std::ptrdiff_t i = 0; i < p_.n; ++i) {
      if (!(p_.judges[i] > 0)) continue;
      sum += double(p_.judges[i]) * row_loss(scores_ + i * C, p_.targets + i * C);
      weight += p_.judges[i];
    }
    return sum / std::max(weight, std::numeric_limits<double>::min());
  }

  double row_loss(const float* f, const float* y) const {
    double loss = 0;
    if (p_.loss == BoostingLoss::softmax) {
      const float most = *std::max_element(f, f + p_.outputs);
      double total = 0;
      for (int c = 0; c < p_.outputs; ++c) {
        total += std::exp(double(f[c] - most));
        loss -= double(y[c]) * (f[c] - most);
      }
      return loss + std::log(total);
    }
    for (int c = 0; c < p_.outputs; ++c) {
      const double g = f[c], t = y[c];
      loss += p_.loss == BoostingLoss::squared
                  ? (t - g) * (t - g)
                  : std::max(g, 0.0) + std::log1p(std::exp(-std::abs(g))) - t * g;
    }
    return loss;
  }

  BoostingProblem p_;
  BoostingSettings s_;
  float* scores_;
  SplitMix random_;
  std::vector<float> gradient_, curvature_, drawn_gradient_, drawn_curvature_;
  std::vector<float> totals_, sums_, gains_;
  std::vector<std::uint8_t> leaf_, drawn_leaf_;
  std::vector<std::int32_t> useful_;
  std::vector<int> common_;
  std::vector<std::ptrdiff_t> inside_, drawn_;
  std::vector<std::vector<std::ptrdiff_t>> rare_;
};

// Trees that ask whether feature features[t, l] is above thresholds[t, l], and set bit l if so.
struct Questions {
  const std::int32_t* features;
  const float* thresholds;
  std::ptrdiff_t trees;
  int depth;

  std::size_t leaf(const float* point, std::ptrdiff_t t) const {
    std::size_t found = 0;
    for (int l = 0; l < depth; ++l)
      found |= std::size_t(point[features[t * depth + l]] > thresholds[t * depth + l]) << l;
    return found;
  }
};

}  // namespace mercer
