// Gaussian sums around points, in the log domain: densities, local means, local lines, and how they
// move with the bandwidths. Points come on the kernel's own scale, so that k = exp(-|u - v|^2 / 2).
//
// Each row keeps the exponent of the largest term it has met (more or less) as its reference, and
// sums 2^(y - reference): nothing underflows that counts, however far a row is from all points.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "mercer/functions.hpp"
#include "mercer/threads.hpp"

namespace mercer {

// Rows worked on together, and columns of a tile: its exponents stay in the first-level cache.
constexpr int smooth_rows = 4, smooth_columns = 64;
// Exponents this far above the reference move it: seldom, and before what they multiply overflows.
constexpr double smooth_headroom = 32;
// Tiles of columns in one part: rows that are few share out the columns as well. By the shape alone,
// so that sums do not depend on the number of threads.
constexpr std::ptrdiff_t smooth_enough = 64, smooth_tiles_per_part = 64;

// Points and what is asked of them. Columns are packed in tiles, feature by feature.
class Smoothing {
 public:
  static constexpr int R = smooth_rows, T = smooth_columns, W = Simd<double>::width;
  using V = Vector<double>;

  std::ptrdiff_t n, m, d, c;

  // rows (n, d), columns (m, d), log_weight (m,), targets (m, c).
  // own (n,): rows are columns, and this is the log weight of each in its own row; or null.
  Smoothing(const double* rows, const double* columns, const double* log_weight, const double* own,
            const double* targets, std::ptrdiff_t n, std::ptrdiff_t m, std::ptrdiff_t d,
            std::ptrdiff_t c)
      : n(n), m(m), d(d), c(c), own_(own) {
    rows_.resize((n + R - 1) / R * R * d);
    for (std::ptrdiff_t i = 0; i < std::ptrdiff_t(rows_.size()) / d; ++i)
      for (std::ptrdiff_t k = 0; k < d; ++k)
        rows_[i * d + k] = rows[std::min(i, n - 1) * d + k];
    const std::ptrdiff_t size = tiles() * T;
    columns_.resize(size * d);
    weights_.assign(size, -std::numeric_limits<double>::infinity());
    targets_.assign(size * c, 0.0);
    for (std::ptrdiff_t j = 0; j < size; ++j) {
      const std::ptrdiff_t from = std::min(j, m - 1), tile = j / T, lane = j % T;
      for (std::ptrdiff_t k = 0; k < d; ++k)
        columns_[(tile * d + k) * T + lane] = columns[from * d + k];
      if (j >= m) continue;
      weights_[j] = log2_e * log_weight[j];
      for (std::ptrdiff_t k = 0; k < c; ++k)
        targets_[(tile * c + k) * T + lane] = targets[j * c + k];
    }
  }

  static constexpr double log2_e = 1.4426950408889634;

  std::ptrdiff_t tiles() const { return (m + T - 1) / T; }
  std::ptrdiff_t groups() const { return (n + R - 1) / R; }
  const double* row(std::ptrdiff_t i) const { return rows_.data() + i * d; }
  const double* column(std::ptrdiff_t tile, std::ptrdiff_t k) const {
    return columns_.data() + (tile * d + k) * T;
  }
  const double* target(std::ptrdiff_t tile, std::ptrdiff_t k) const {
    return targets_.data() + (tile * c + k) * T;
  }

  // out[R][T]: exponents of two, of one tile for the rows of a group.
  MERCER_INLINE void exponents(std::ptrdiff_t group, std::ptrdiff_t tile, double* out) const {
    switch (d) {
      case 1: return fill<1>(group, tile, out);
      case 2: return fill<2>(group, tile, out);
      case 3: return fill<3>(group, tile, out);
      case 4: return fill<4>(group, tile, out);
      default: return fill<0>(group, tile, out);
    }
  }

 private:
  template <int D>
  MERCER_INLINE void fill(std::ptrdiff_t group, std::ptrdiff_t tile, double* out) const {
    const std::ptrdiff_t features = D ? D : d;
    const double* X = row(group * R);
    const double* Z = column(tile, 0);
    const double* weight = weights_.data() + tile * T;
    if constexpr (D > 0) {
      V x[R][D];
      for (int r = 0; r < R; ++r)
        for (int k = 0; k < D; ++k) x[r][k] = broadcast<double>(X[r * D + k]);
      for (int j = 0; j < T; j += W)
        for (int r = 0; r < R; ++r) {
          V squared{};
          for (int k = 0; k < D; ++k) {
            const V difference = x[r][k] - load<double>(Z + k * T + j);
            squared += difference * difference;
          }
          store<double>(out + r * T + j, load<double>(weight + j) - 0.5 * log2_e * squared);
        }
    } else {
      for (int j = 0; j < T; j += 2 * W) {
        V squared[R][2] = {};
        for (std::ptrdiff_t k = 0; k < features; ++k)
          for (int v = 0; v < 2; ++v) {
            const V z = load<double>(Z + k * T + j + v * W);
            for (int r = 0; r < R; ++r) {
              const V difference = X[r * d + k] - z;
              squared[r][v] += difference * difference;
            }
          }
        for (int r = 0; r < R; ++r)
          for (int v = 0; v < 2; ++v)
            store<double>(out + r * T + j + v * W,
                          load<double>(weight + j + v * W) - 0.5 * log2_e * squared[r][v]);
      }
    }
    if (!own_) return;
    for (int r = 0; r < R; ++r) {
      const std::ptrdiff_t i = group * R + r, place = i - tile * T;
      if (i < n && place >= 0 && place < T) out[r * T + place] = log2_e * own_[i];
    }
  }

  const double* own_;
  std::vector<double> rows_, columns_, weights_, targets_;
};

// A row's sums so far, in units of 2^reference.
struct Referenced {
  double reference = -std::numeric_limits<double>::infinity();

  // Make the reference fit a tile of exponents; returns what sums so far are to be multiplied by.
  MERCER_INLINE double admit(const double* exponents) {
    constexpr int T = Smoothing::T, W = Smoothing::W;
    using V = Vector<double>;
    V top = load<double>(exponents);
    for (int j = W; j < T; j += W) {
      const V y = load<double>(exponents + j);
      top = y > top ? y : top;
    }
    if (!any<double>(top > broadcast<double>(reference + smooth_headroom))) return 1.0;
    double peak = top[0];
    for (int i = 1; i < W; ++i) peak = std::max(peak, top[i]);
    const double shrink = std::exp2(reference - peak);  // 0 for the first
    reference = peak;
    return shrink;
  }
};

// Groups of rows times parts of columns.
struct SmoothTasks {
  std::ptrdiff_t groups, tiles, per_task, parts;
  explicit SmoothTasks(const Smoothing& s) : groups(s.groups()), tiles(s.tiles()), per_task(4) {
    const std::ptrdiff_t tasks = (groups + per_task - 1) / per_task;
    parts = std::clamp<std::ptrdiff_t>(tiles / smooth_tiles_per_part, 1,
                                       (smooth_enough + tasks - 1) / tasks);
  }
  std::ptrdiff_t count() const { return (groups + per_task - 1) / per_task * parts; }
};

// Adds up what `add(row, tile, terms, sums so far)` gathers: A sums for each row, and its reference;
// the parts of a row are put together in order. The sums come in units of 2^reference. With `Plain`
// there is one sum, that of the terms, and `add` is not called.
template <bool Plain, class Add>
bool referenced_sums(const Smoothing& s, std::ptrdiff_t A, double* reference, double* out, Add add,
                     int threads, Interrupted interrupted) {
  constexpr int R = Smoothing::R, T = Smoothing::T, W = Smoothing::W;
  const SmoothTasks tasks(s);
  std::vector<double> references(tasks.parts * tasks.groups * R), sums(references.size() * A);
  const bool done = share(
      tasks.count(), threads,
      [&](std::ptrdiff_t task, const Stop& stop) {
        const std::ptrdiff_t part = task % tasks.parts, first = task / tasks.parts * tasks.per_task;
        const std::ptrdiff_t from = tasks.tiles * part / tasks.parts,
                             to = tasks.tiles * (part + 1) / tasks.parts;
        std::vector<double> lanes(R * A * W);
        alignas(64) double y[R * T];
        const ExpTwo<double> exp_two;  // whose exponents are at most the headroom above 0
        for (std::ptrdiff_t g = first; g < std::min(first + tasks.per_task, tasks.groups); ++g) {
          Referenced rows[R];
          std::fill(lanes.begin(), lanes.end(), 0.0);
          for (std::ptrdiff_t t = from; t < to; ++t) {
            if (stop) return;
            s.exponents(g, t, y);
            for (int r = 0; r < R; ++r) {
              const double shrink = rows[r].admit(y + r * T);
              double* lane = lanes.data() + r * A * W;
              if (shrink != 1.0)
                for (std::ptrdiff_t a = 0; a < A * W; ++a) lane[a] *= shrink;
              if (std::isinf(rows[r].reference)) continue;
              Vector<double> sum = load<double>(lane);
#pragma GCC unroll 4
              for (int j = 0; j < T; j += W) {
                double* at = y + r * T + j;
                const Vector<double> term = exp_two(load<double>(at) - rows[r].reference);
                if constexpr (Plain)
                  sum += term;
                else
                  store<double>(at, term);
              }
              if constexpr (Plain)
                store<double>(lane, sum);
              else
                add(g * R + r, t, y + r * T, lane);
            }
          }
          for (int r = 0; r < R; ++r) {
            const std::ptrdiff_t at = part * tasks.groups * R + g * R + r;
            references[at] = rows[r].reference;
            for (std::ptrdiff_t a = 0; a < A; ++a)
              sums[at * A + a] = total<double>(load<double>(lanes.data() + (r * A + a) * W));
          }
        }
      },
      interrupted);
  if (!done) return false;
  for (std::ptrdiff_t i = 0; i < s.n; ++i) {
    double top = -std::numeric_limits<double>::infinity();
    for (std::ptrdiff_t part = 0; part < tasks.parts; ++part)
      top = std::max(top, references[part * tasks.groups * R + i]);
    reference[i] = top;
    for (std::ptrdiff_t a = 0; a < A; ++a) out[i * A + a] = 0;
    for (std::ptrdiff_t part = 0; part < tasks.parts && std::isfinite(top); ++part) {
      const std::ptrdiff_t at = part * tasks.groups * R + i;
      const double shrink = std::exp2(references[at] - top);
      for (std::ptrdiff_t a = 0; a < A; ++a) out[i * A + a] += shrink * sums[at * A + a];
    }
  }
  return true;
}

// out[n] = log sum_j w_j exp(-|u_i - v_j|^2 / 2).
inline bool smooth_log_sums(const Smoothing& s, double* out, int threads, Interrupted interrupted) {
  std::vector<double> reference(s.n);
  if (!referenced_sums<true>(s, 1, reference.data(), out, nullptr, threads, interrupted))
    return false;
  for (std::ptrdiff_t i = 0; i < s.n; ++i)
    out[i] = (reference[i] + std::log2(out[i])) / Smoothing::log2_e;
  return true;
}

// Weighted means around each row, w_j k(u_i - v_j) as weights: of the targets (c), and if `linear`,
// of D = v_j - u_i (d), D_k D_l for l <= k, and D_k y_c (d c). And log sum of the weights.
inline bool smooth_moments(const Smoothing& s, bool linear, double* log_sum, double* out, int threads,
                           Interrupted interrupted) {
  constexpr int T = Smoothing::T, W = Smoothing::W, steps = T / W;
  using V = Vector<double>;
  const std::ptrdiff_t d = s.d, c = s.c, extra = linear ? d + d * (d + 1) / 2 + d * c : 0;
  const std::ptrdiff_t A = 1 + c + extra;
  std::vector<double> sums(s.n * A);
  const auto gather = [](const V* terms, const double* values, double* lane) {
    V sum = load<double>(lane);
#pragma GCC unroll 8
    for (int j = 0; j < steps; ++j) sum += terms[j] * load<double>(values + j * W);
    store<double>(lane, sum);
  };
  const auto add = [&](std::ptrdiff_t i, std::ptrdiff_t t, const double* terms, double* lane) {
    V e[steps], sum = load<double>(lane);
    for (int j = 0; j < steps; ++j) sum += e[j] = load<double>(terms + j * W);
    store<double>(lane, sum);
    lane += W;
    for (std::ptrdiff_t k = 0; k < c; ++k, lane += W) gather(e, s.target(t, k), lane);
    if (!linear) return;
    double* first = lane;
    double* second = first + d * W;
    double* crossed = second + d * (d + 1) / 2 * W;
    const double* x = s.row(std::min(i, s.n - 1));
    for (std::ptrdiff_t k = 0; k < d; ++k) {
      const double* z = s.column(t, k);
      V along[steps], total_k = load<double>(first + k * W);
      for (int j = 0; j < steps; ++j) {
        along[j] = e[j] * (load<double>(z + j * W) - x[k]);
        total_k += along[j];
      }
      store<double>(first + k * W, total_k);
      for (std::ptrdiff_t l = 0; l <= k; ++l, second += W) {
        const double* other = s.column(t, l);
        V sum_kl = load<double>(second);
        for (int j = 0; j < steps; ++j) sum_kl += along[j] * (load<double>(other + j * W) - x[l]);
        store<double>(second, sum_kl);
      }
      for (std::ptrdiff_t q = 0; q < c; ++q, crossed += W) gather(along, s.target(t, q), crossed);
    }
  };
  if (!referenced_sums<false>(s, A, log_sum, sums.data(), add, threads, interrupted)) return false;
  for (std::ptrdiff_t i = 0; i < s.n; ++i) {
    const double* sum = sums.data() + i * A;
    log_sum[i] = (log_sum[i] + std::log2(sum[0])) / Smoothing::log2_e;
    double* mean = out + i * (A - 1);
    for (std::ptrdiff_t a = 1; a < A; ++a) mean[a - 1] = sum[a] / sum[0];
  }
  return true;
}

// out[n, d] = sum_j p_ij D_k^2 (g_i0 + g_i D) (v_i y_j - b_i0 - b_i D), D = v_j - u_i, with
// p_ij = w_j k(u_i - v_j) / exp(log_sum_i): how local fits move with the bandwidths.
// g and b are (n, 1 + d), or (n, 1) where there are no slopes; v is (n, c).
inline bool smooth_slopes(const Smoothing& s, const double* log_sum, const double* g, const double* v,
                          const double* b, bool linear, double* out, int threads,
                          Interrupted interrupted) {
  constexpr int R = Smoothing::R, T = Smoothing::T, W = Smoothing::W, steps = T / W;
  using V = Vector<double>;
  const std::ptrdiff_t d = s.d, c = s.c, wide = linear ? 1 + d : 1;
  constexpr std::ptrdiff_t per_task = 4;
  return share(
      (s.groups() + per_task - 1) / per_task, threads,
      [&](std::ptrdiff_t task, const Stop& stop) {
        alignas(64) double y[R * T];
        const ExpTwo<double> exp_two;  // whose exponents are at most the headroom above 0
        std::vector<double> lanes(R * d * W);
        const std::ptrdiff_t last = std::min((task + 1) * per_task, s.groups());
        for (std::ptrdiff_t group = task * per_task; group < last; ++group) {
          std::fill(lanes.begin(), lanes.end(), 0.0);
          const int rows = int(std::min<std::ptrdiff_t>(R, s.n - group * R));
          for (std::ptrdiff_t t = 0; t < s.tiles(); ++t) {
            if (stop) return;
            s.exponents(group, t, y);
            for (int r = 0; r < rows; ++r) {
              const std::ptrdiff_t i = group * R + r;
              if (std::isinf(log_sum[i])) continue;
              const double* x = s.row(i);
              V q[steps];  // exactly nothing where a point has no weight
#pragma GCC unroll 4
              for (int j = 0; j < steps; ++j)
                q[j] = exp_two(load<double>(y + r * T + j * W) - Smoothing::log2_e * log_sum[i]);
              const double* gi = g + i * wide;
              const double* bi = b + i * wide;
              for (int j = 0; j < steps; ++j) {
                V left = broadcast<double>(gi[0]), right = broadcast<double>(-bi[0]);
                for (std::ptrdiff_t k = 0; k < c; ++k)
                  right += load<double>(s.target(t, k) + j * W) * v[i * c + k];
                if (linear)
                  for (std::ptrdiff_t k = 0; k < d; ++k) {
                    const V D = load<double>(s.column(t, k) + j * W) - x[k];
                    left += D * gi[1 + k];
                    right -= D * bi[1 + k];
                  }
                q[j] *= left * right;
              }
              for (std::ptrdiff_t k = 0; k < d; ++k) {
                const double* z = s.column(t, k);
                V sum = load<double>(lanes.data() + (r * d + k) * W);
#pragma GCC unroll 8
                for (int j = 0; j < steps; ++j) {
                  const V D = load<double>(z + j * W) - x[k];
                  sum += q[j] * D * D;
                }
                store<double>(lanes.data() + (r * d + k) * W, sum);
              }
            }
          }
          for (int r = 0; r < rows; ++r)
            for (std::ptrdiff_t k = 0; k < d; ++k)
              out[(group * R + r) * d + k] =
                  total<double>(load<double>(lanes.data() + (r * d + k) * W));
        }
      },
      interrupted);
}

// Linear binning: each point shares its weight out among the corners of its cell of a grid.
// grid[shape...] in C order; low and step (d,). Points outside go to the nearest edge, and one that
// is not a number to the first: the caller has checked.
inline void bin_linear(const double* X, const double* weight, std::ptrdiff_t n, std::ptrdiff_t d,
                       const double* low, const double* step, const std::int64_t* shape,
                       double* grid) {
  double per_step[8];
  for (std::ptrdiff_t k = 0; k < d; ++k) per_step[k] = 1 / step[k];
  const auto place = [&](double x, std::ptrdiff_t k) {
    const double at = (x - low[k]) * per_step[k], last = double(shape[k] - 1);
    return at > 0 ? std::min(at, last) : 0.0;
  };
  if (d == 1) {
    for (std::ptrdiff_t i = 0; i < n; ++i) {
      const double at = place(X[i], 0), whole = weight ? weight[i] : 1.0;
      const std::int64_t cell = std::min(std::int64_t(at), shape[0] - 2);
      const double up = whole * (at - double(cell));
      grid[cell] += whole - up;
      grid[cell + 1] += up;
    }
    return;
  }
  std::int64_t stride[8];
  stride[d - 1] = 1;
  for (std::ptrdiff_t k = d - 1; k > 0; --k) stride[k - 1] = stride[k] * shape[k];
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    std::int64_t corner = 0;
    double part[8];
    for (std::ptrdiff_t k = 0; k < d; ++k) {
      const double at = place(X[i * d + k], k);
      const std::int64_t cell = std::min(std::int64_t(at), shape[k] - 2);
      part[k] = at - double(cell);
      corner += cell * stride[k];
    }
    for (int which = 0; which < (1 << d); ++which) {
      double share = weight ? weight[i] : 1.0;
      std::int64_t to = corner;
      for (std::ptrdiff_t k = 0; k < d; ++k) {
        const bool up = which >> k & 1;
        share *= up ? part[k] : 1 - part[k];
        to += up ? stride[k] : 0;
      }
      grid[to] += share;
    }
  }
}

}  // namespace mercer
