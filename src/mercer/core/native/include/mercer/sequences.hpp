// Kernels of sequences, pair by pair, as many pairs at once as a vector has lanes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "mercer/simd.hpp"
#include "mercer/threads.hpp"

namespace mercer {

// Sequences one after the other; symbols are whole numbers, not negative, held as doubles so that
// they share lanes with what is computed from them.
struct Sequences {
  const double* symbols;
  const std::int64_t* starts;

  std::int64_t length(std::int64_t i) const { return starts[i + 1] - starts[i]; }
  const double* operator[](std::int64_t i) const { return symbols + starts[i]; }
};

// The gap-weighted common subsequences of `length` symbols of pairs of sequences s (n) and t (m), a
// pair in each lane, without the decay of matched symbols. Row by row of the table of position
// pairs: above[j][q] is what all common subsequences of q + 1 symbols that end at j in t and above
// the present row in s weigh there, each step below their end counted; before[q] the same for those
// that end before j. `known` is the length where the compiler is to know it, else zero.
template <int known>
void common_subsequences(const double* s, std::int64_t n, const double* t, std::int64_t m,
                         int length, double decay, double* above, double* before, double* out,
                         const Stop& stop) {
  constexpr int W = Simd<double>::width;
  using V = Vector<double>;
  const int levels = (known ? known : length) - 1;
  V sum{}, held[known ? known : 1];
  const auto reach = [&](int q) { return known ? held[q] : load<double>(before + q * W); };
  const V step = kept<double>(decay), one = kept<double>(1.0);
  for (std::int64_t i = 0; i < n && !stop; ++i) {
    const V own = load<double>(s + i * W);
    for (int q = 0; q < levels; ++q) {
      if (known) held[q] = V{};
      else store<double>(before + q * W, V{});
    }
    double* here = above;
    for (std::int64_t j = 0; j < m; ++j, here += levels * W) {
      const Mask<double> same = own == load<double>(t + j * W);
      sum += same ? (levels ? reach(levels - 1) : one) : V{};
#pragma GCC unroll 8
      for (int q = levels - 1; q >= 0; --q) {
        const V old = load<double>(here + q * W), ends = same ? (q ? reach(q - 1) : one) : V{};
        const V next = step * reach(q) + old;
        if (known) held[q] = next;
        else store<double>(before + q * W, next);
        store<double>(here + q * W, step * old + ends);
      }
    }
  }
  store<double>(out, sum);
}

// out[p] = the gap-weighted common subsequences of sequences left[p] and right[p].
inline bool common_subsequences(const Sequences& sequences, const std::int64_t* left,
                                const std::int64_t* right, std::ptrdiff_t pairs, int length, double decay,
                                double* out, int threads, Interrupted interrupted) {
  constexpr int W = Simd<double>::width;
  using Sum = void (*)(const double*, std::int64_t, const double*, std::int64_t, int, double,
                       double*, double*, double*, const Stop&);
  constexpr Sum sums[] = {common_subsequences<0>, common_subsequences<1>, common_subsequences<2>,
                          common_subsequences<3>, common_subsequences<4>, common_subsequences<5>,
                          common_subsequences<6>, common_subsequences<7>, common_subsequences<8>};
  const Sum sum_of = sums[length <= 8 ? length : 0];
  const double scale = std::pow(decay, 2.0 * length);
  return share(
      (pairs + W - 1) / W, threads,
      [&](std::ptrdiff_t group, const Stop& stop) {
        const std::ptrdiff_t first = group * W, last = std::min(first + W, pairs);
        std::int64_t n = 0, m = 0;
        for (std::ptrdiff_t p = first; p < last; ++p) {
          n = std::max(n, sequences.length(left[p]));
          m = std::max(m, sequences.length(right[p]));
        }
        std::vector<double> s(n * W, -1.0), t(m * W, -2.0);  // fillers match nothing
        for (std::ptrdiff_t p = first; p < last; ++p) {
          for (std::int64_t i = 0; i < sequences.length(left[p]); ++i)
            s[i * W + p - first] = sequences[left[p]][i];
          for (std::int64_t j = 0; j < sequences.length(right[p]); ++j)
            t[j * W + p - first] = sequences[right[p]][j];
        }
        std::vector<double> above(std::size_t(length - 1) * m * W), before(std::size_t(length) * W);
        double sum[W];
        sum_of(s.data(), n, t.data(), m, length, decay, above.data(), before.data(), sum, stop);
        for (std::ptrdiff_t p = first; p < last; ++p) out[p] = scale * sum[p - first];
      },
      interrupted);
}

// Words of 1 to `degree` symbols that sequences of whole numbers share at positions r apart,
// weighted by shifts[|r|]. A run of r equal symbols up to a position ends words that weigh
// r (2 degree + 1 - r) together, before normalisation. T is the type of symbols and of sums over
// as many positions as it can hold: int16_t where degree (degree + 1) < 2^15, or double.
template <class T>
class WeightedDegree {
 public:
  static constexpr int W = Simd<T>::width;

  WeightedDegree(std::int64_t length, double degree, const double* shifts, std::int64_t reach)
      : length_(length), reach_(reach), shifts_(shifts), degree_(degree), most_(T(degree)) {
    if constexpr (!std::is_same_v<T, double>)
      step_ = std::numeric_limits<T>::max() / std::int64_t(degree * (degree + 1));
  }

  // out[W]: one sequence s with W others, interleaved in t.
  void operator()(const T* s, const T* t, double* out) const {
    double sum[W] = {};
    add(s, t, length_, shifts_[0], sum);
    for (std::int64_t r = 1; r <= reach_; ++r) {
      double both[W] = {};
      add(s + r, t, length_ - r, 1.0, both);
      add(s, t + r * W, length_ - r, 1.0, both);
      for (int l = 0; l < W; ++l) sum[l] += shifts_[r] * both[l];
    }
    for (int l = 0; l < W; ++l) out[l] = sum[l] / (degree_ * (degree_ + 1));
  }

 private:
  using V = Vector<T>;

  void add(const T* s, const T* t, std::int64_t count, double weight, double* out) const {
    const V most = kept<T>(most_), twice = kept<T>(T(2 * most_ + 1)), one = kept<T>(T(1));
    V run{};
    for (std::int64_t from = 0; from < count; from += step_) {
      V sum{};
      const std::int64_t to = std::min(count, from + step_);
      for (std::int64_t k = from; k < to; ++k) {
        const Mask<T> same = load<T>(t + k * W) == broadcast<T>(s[k]);
        run = same ? run + one : V{};
        run = run > most ? most : run;
        sum += run * (twice - run);
      }
      for (int l = 0; l < W; ++l) out[l] += weight * double(sum[l]);
    }
  }

  std::int64_t length_, reach_, step_ = std::numeric_limits<std::int32_t>::max();
  const double* shifts_;
  double degree_;
  T most_;
};

// out[n, m] for sequences S[i] and R[j], all of `length` symbols; half is computed where they are
// the same.
template <class T>
bool weighted_degree(const WeightedDegree<T>& words, const T* S, std::ptrdiff_t n, const T* R,
                     std::ptrdiff_t m, std::int64_t length, bool symmetric, double* out,
                     int threads, Interrupted interrupted) {
  constexpr int W = WeightedDegree<T>::W;
  constexpr std::ptrdiff_t rows = 8;  // a line of memory, across
  return share(
      (m + W - 1) / W, threads,
      [&](std::ptrdiff_t group, const Stop& stop) {
        const std::ptrdiff_t first = group * W, last = std::min(first + W, m);
        std::vector<T> t(length * W, T(-2));
        for (std::ptrdiff_t j = first; j < last; ++j)
          for (std::int64_t k = 0; k < length; ++k) t[k * W + j - first] = R[j * length + k];
        double tile[rows][W];
        for (std::ptrdiff_t from = 0, end = symmetric ? last : n; from < end; from += rows) {
          if (stop) return;
          const std::ptrdiff_t to = std::min(from + rows, end);
          for (std::ptrdiff_t i = from; i < to; ++i) {
            words(S + i * length, t.data(), tile[i - from]);
            std::copy_n(tile[i - from], last - first, out + i * m + first);
          }
          if (!symmetric) continue;
          for (std::ptrdiff_t j = first; j < last; ++j)
            for (std::ptrdiff_t i = from; i < to; ++i)
              out[j * m + i] = tile[i - from][j - first];
        }
      },
      interrupted);
}

// Sequences of symbols below 254, one after the other.
struct Texts {
  std::ptrdiff_t count;
  const std::uint8_t* symbols;
  const std::int64_t* starts;  // (count + 1,)

  std::int64_t length(std::ptrdiff_t i) const { return starts[i + 1] - starts[i]; }
};

// Pairs of words of k symbols, one of each of two sequences, by how many places they differ in.
// Along a diagonal of the table of position pairs the places where both are equal come and go one
// at a time; rows of the table are vectors.
class CommonWindows {
 public:
  // far: the most places that count, at most k and at most 254
  CommonWindows(int k, int far) : k_(k), far_(far), counts_(far + 1) {}

  // Σ_d weight[d] times the pairs of words that differ in d <= far places.
  double sum(const std::uint8_t* s, std::int64_t n, const std::uint8_t* t, std::int64_t m,
             const double* weight, const Stop& stop) {
    if (n < k_ || m < k_) return 0;
    // Symbols before the first ones and after the last are equal to none.
    const std::int64_t wide = (m + W - 1) / W * W;
    t_.assign(k_ + wide, 255);
    std::copy(t, t + m, t_.begin() + k_);
    outside_.assign(wide, 255);
    std::fill(outside_.begin() + k_ - 1, outside_.begin() + m, 0);
    for (auto& row : equal_) row.assign(1 + wide, 0);
    sums_.assign((far_ + 1) * W, 0);
    std::fill(counts_.begin(), counts_.end(), 0);
    int turn = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      if (stop) return 0;
      const std::uint8_t* before = equal_[i % 2].data();
      std::uint8_t* here = equal_[(i + 1) % 2].data() + 1;
      const V own = broadcast<std::uint8_t>(s[i]);
      const V gone = broadcast<std::uint8_t>(i >= k_ ? s[i - k_] : std::uint8_t(254));
      for (std::int64_t j = 0; j < wide; j += W) {
        const V come = own == load<std::uint8_t>(t_.data() + k_ + j);
        const V go = gone == load<std::uint8_t>(t_.data() + j);
        const V same = load<std::uint8_t>(before + j) - come + go;  // true is -1
        store<std::uint8_t>(here + j, same);
        if (i < k_ - 1) continue;
        const V inside = same | load<std::uint8_t>(outside_.data() + j);
        for (int d = 0; d <= far_; ++d) {
          std::uint8_t* sum = sums_.data() + d * W;
          const V found = inside == broadcast<std::uint8_t>(std::uint8_t(k_ - d));
          store<std::uint8_t>(sum, load<std::uint8_t>(sum) - found);
        }
        if (++turn == 255) turn = collect();
      }
    }
    collect();
    double total = 0;
    for (int d = 0; d <= far_; ++d) total += weight[d] * double(counts_[d]);
    return total;
  }

 private:
  static constexpr int W = vector_bytes;
  typedef std::uint8_t V __attribute__((vector_size(vector_bytes)));

  // From bytes, which would overflow, to whole numbers.
  int collect() {
    for (int d = 0; d <= far_; ++d)
      for (int l = 0; l < W; ++l) counts_[d] += sums_[d * W + l];
    std::fill(sums_.begin(), sums_.end(), 0);
    return 0;
  }

  int k_, far_;
  std::vector<std::uint8_t> t_, outside_, sums_, equal_[2];
  std::vector<std::int64_t> counts_;
};

// out[n, m] for the texts of A and of B; half is computed where they are the same.
inline bool common_windows(const Texts& A, const Texts& B, int k, int far, const double* weight,
                           bool symmetric, double* out, int threads, Interrupted interrupted) {
  return share(
      A.count, threads,
      [&](std::ptrdiff_t i, const Stop& stop) {
        CommonWindows windows(k, far);
        for (std::ptrdiff_t j = symmetric ? i : 0; j < B.count && !stop; ++j) {
          const double sum =
              windows.sum(A.symbols + A.starts[i], A.length(i), B.symbols + B.starts[j],
                          B.length(j), weight, stop);
          out[i * B.count + j] = sum;
          if (symmetric) out[j * B.count + i] = sum;
        }
      },
      interrupted);
}

}  // namespace mercer
