// Sums of a falling function of the distance by a tree of boxes, within a tolerance that is kept.
//
// For a few queries that lie together, a box of points contributes between its weight times k at
// its farthest corner and at its nearest. Where half the difference fits into what the box may err,
// by its share of the weight, the middle is taken; else the box is opened, nearest half first.
#include "mercer/tree.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace mercer {

namespace {

constexpr int tree_columns = 64, tree_rows = 16;

// Points in an order in which boxes are ranges, leaves of so many points each.
class Boxes {
 public:
  struct Box {
    std::ptrdiff_t first, last;
    int left = -1, right = -1;
  };
  std::vector<std::ptrdiff_t> order;
  std::vector<Box> boxes;
  std::vector<double> corners;  // low (d) and high (d) of each box

  Boxes(const double* points, std::ptrdiff_t n, std::ptrdiff_t d, std::ptrdiff_t leaf)
      : order(n), points_(points), d_(d), leaf_(leaf) {
    std::iota(order.begin(), order.end(), 0);
    split(0, n);
  }
  const double* low(int box) const { return corners.data() + std::ptrdiff_t(box) * 2 * d_; }
  const double* high(int box) const { return low(box) + d_; }

 private:
  int split(std::ptrdiff_t first, std::ptrdiff_t last) {
    const int here = int(boxes.size());
    boxes.push_back({first, last});
    corners.resize(corners.size() + 2 * d_);
    std::vector<double> low(d_, std::numeric_limits<double>::infinity()), high(d_, -low[0]);
    for (std::ptrdiff_t i = first; i < last; ++i)
      for (std::ptrdiff_t k = 0; k < d_; ++k) {
        low[k] = std::min(low[k], points_[order[i] * d_ + k]);
        high[k] = std::max(high[k], points_[order[i] * d_ + k]);
      }
    std::copy(low.begin(), low.end(), corners.begin() + std::ptrdiff_t(here) * 2 * d_);
    std::copy(high.begin(), high.end(), corners.begin() + std::ptrdiff_t(here) * 2 * d_ + d_);
    if (last - first <= leaf_) return here;
    std::ptrdiff_t widest = 0;
    for (std::ptrdiff_t k = 1; k < d_; ++k)
      if (high[k] - low[k] > high[widest] - low[widest]) widest = k;
    // Halves of whole leaves, so that only the last leaf is not full.
    const std::ptrdiff_t leaves = (last - first + leaf_ - 1) / leaf_, middle = first + leaves / 2 * leaf_;
    std::nth_element(order.begin() + first, order.begin() + middle, order.begin() + last,
                     [&](std::ptrdiff_t a, std::ptrdiff_t b) {
                       const double x = points_[a * d_ + widest], y = points_[b * d_ + widest];
                       return x < y || (x == y && a < b);
                     });
    const int left = split(first, middle), right = split(middle, last);
    boxes[here].left = left, boxes[here].right = right;
    return here;
  }

  const double* points_;
  std::ptrdiff_t d_, leaf_;
};

}  // namespace

bool tree_sums(const Program& program, const double* U, const double* V, const double* weight,
               std::ptrdiff_t n, std::ptrdiff_t m, std::ptrdiff_t d, double rtol, double atol,
               double* out, int threads, Interrupted interrupted) {
  constexpr int R = tree_rows, C = tree_columns, W = Simd<double>::width;
  // A hundredth is left to rounding, which is far smaller.
  rtol *= 0.99, atol *= 0.99;
  const Boxes columns(V, m, d, C), rows(U, n, d, R);
  std::vector<double> packed, weights, mass(columns.boxes.size());
  std::vector<std::ptrdiff_t> place(columns.boxes.size());
  for (std::size_t b = columns.boxes.size(); b-- > 0;) {  // children come after their parent
    const auto& box = columns.boxes[b];
    if (box.left >= 0) {
      mass[b] = mass[box.left] + mass[box.right];
      continue;
    }
    place[b] = std::ptrdiff_t(weights.size());
    packed.resize(packed.size() + C * d);
    double* to = packed.data() + place[b] * d;
    for (int j = 0; j < C; ++j) {
      const bool real = box.first + j < box.last;
      const std::ptrdiff_t from = columns.order[real ? box.first + j : box.last - 1];
      for (std::ptrdiff_t k = 0; k < d; ++k) to[k * C + j] = V[from * d + k];
      weights.push_back(real ? weight[from] : 0.0);
      mass[b] += weights.back();
    }
  }
  const double whole = mass[0];
  std::vector<int> blocks;
  for (std::size_t b = 0; b < rows.boxes.size(); ++b)
    if (rows.boxes[b].left < 0) blocks.push_back(int(b));

  return share(
      std::ptrdiff_t(blocks.size()), threads,
      [&](std::ptrdiff_t task, const Stop& stop) {
        const int block = blocks[task];
        const auto& queries = rows.boxes[block];
        const int count = int(queries.last - queries.first);
        constexpr int row = Runner<double>::C;
        static_assert(R * C % row == 0 && row >= 4);
        Runner<double> leaf(program, R * C / row, 0, 0), bounds(program, 1, 0, 0);
        std::vector<double> sums(R, 0.0);
        double low_total = 0, middle_total = 0;  // of the boxes taken as a whole, the same for all
        double used = 0, seen = 0;               // shares of the tolerance, of the weight
        struct Candidate {
          int box;
          double nearest, most, least;
        };
        const auto squared_range = [&](int box, double& nearest, double& farthest) {
          nearest = farthest = 0;
          for (std::ptrdiff_t k = 0; k < d; ++k) {
            const double below = columns.low(box)[k] - rows.high(block)[k],
                         above = rows.low(block)[k] - columns.high(box)[k];
            const double gap = std::max({below, above, 0.0});
            const double reach = std::max(columns.high(box)[k] - rows.low(block)[k],
                                          rows.high(block)[k] - columns.low(box)[k]);
            nearest += gap * gap;
            farthest += reach * reach;
          }
          nearest *= 1 - 1e-14, farthest *= 1 + 1e-14;
        };
        const auto candidates = [&](int first, int second, Candidate* found) {
          const int boxes_of[] = {first, second};
          std::fill_n(bounds.at(0), row, 0.0);
          for (int b = 0; b < 2; ++b) {
            double* at = bounds.at(0) + 2 * b;
            squared_range(boxes_of[b], at[0], at[1]);
            found[b].nearest = at[0];
          }
          const double* values = bounds.run();
          for (int b = 0; b < 2; ++b)
            found[b] = {boxes_of[b], found[b].nearest, values[2 * b], values[2 * b + 1]};
        };
        std::vector<Candidate> stack;
        Candidate both[2];
        candidates(0, 0, both);
        stack.push_back(both[0]);
        while (!stack.empty()) {
          if (stop) return;
          const Candidate here = stack.back();
          stack.pop_back();
          const double least_sum =
              low_total + *std::min_element(sums.begin(), sums.begin() + count);
          const double tolerance = atol + rtol * least_sum;
          const double error = 0.5 * (here.most - here.least) * mass[here.box];
          const double part = error == 0 ? 0 : error / tolerance;
          if (used + part <= (seen + mass[here.box]) / whole) {
            used += part;
            seen += mass[here.box];
            low_total += here.least * mass[here.box];
            middle_total += 0.5 * (here.most + here.least) * mass[here.box];
            continue;
          }
          const auto& box = columns.boxes[here.box];
          if (box.left >= 0) {
            candidates(box.left, box.right, both);
            if (both[0].nearest < both[1].nearest) std::swap(both[0], both[1]);
            stack.push_back(both[0]);
            stack.push_back(both[1]);
            continue;
          }
          seen += mass[here.box];
          const double* Z = packed.data() + place[here.box] * d;
          double* distances = leaf.at(0);
          for (int r = 0; r < R; ++r) {
            const double* x = U + rows.order[std::min(queries.first + r, queries.last - 1)] * d;
            for (int j = 0; j < C; j += W) {
              Vector<double> sum{};
              for (std::ptrdiff_t k = 0; k < d; ++k) {
                const Vector<double> difference = x[k] - load<double>(Z + k * C + j);
                sum += difference * difference;
              }
              store<double>(distances + r * C + j, sum);
            }
          }
          const double* values = leaf.run();
          const double* w = weights.data() + place[here.box];
          for (int r = 0; r < R; ++r) {
            Vector<double> sum{};
            for (int j = 0; j < C; j += W)
              sum += load<double>(values + r * C + j) * load<double>(w + j);
            sums[r] += total<double>(sum);
          }
        }
        for (int r = 0; r < count; ++r)
          out[rows.order[queries.first + r]] = sums[r] + middle_total;
      },
      interrupted);
}

}  // namespace mercer
