// Kernels of sequences, pair by pair, as many pairs at once as a vector has lanes.
#pragma once

#include <algorithm>
#include <cstdint>
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

// out[p] = the gap-weighted common subsequences of `length` symbols of sequences left[p] and
// right[p]. Row by row of the table of position pairs: above[q][j] is what all common subsequences
// of q + 1 symbols that end at j in t and above the present row in s weigh there, each step below
// their end counted.
template <class Interrupted>
bool common_subsequences(const Sequences& sequences, const std::int64_t* left,
                         const std::int64_t* right, std::ptrdiff_t pairs, int length, double decay,
                         double* out, int threads, Interrupted interrupted) {
  constexpr int W = Simd<double>::width;
  using V = Vector<double>;
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
        std::vector<double> above(std::size_t(length - 1) * m * W);
        V sum{};
        for (std::int64_t i = 0; i < n; ++i) {
          if (stop) return;
          const V own = load<double>(s.data() + i * W);
          for (int q = length - 1; q >= 0; --q) {
            const double* shorter = q ? above.data() + std::size_t(q - 1) * m * W : nullptr;
            double* here = q < length - 1 ? above.data() + std::size_t(q) * m * W : nullptr;
            V before{};
            for (std::int64_t j = 0; j < m; ++j) {
              V ends = q ? decay * decay * before : broadcast<double>(decay * decay);
              ends = own == load<double>(t.data() + j * W) ? ends : V{};
              if (shorter) before = decay * before + load<double>(shorter + j * W);
              if (here)
                store<double>(here + j * W, decay * load<double>(here + j * W) + ends);
              else
                sum += ends;
            }
          }
        }
        for (std::ptrdiff_t p = first; p < last; ++p) out[p] = sum[p - first];
      },
      interrupted);
}

// out[n, m]: words of 1 to `degree` symbols that sequences S[i] and T[j], all of `length` symbols,
// share at positions r apart, weighted by shifts[|r|]. A run of r equal symbols up to a position
// ends words that weigh r (2 degree + 1 - r) together, before normalisation.
template <class Interrupted>
bool weighted_degree(const double* S, std::ptrdiff_t n, const double* T, std::ptrdiff_t m,
                     std::int64_t length, double degree, const double* shifts, std::int64_t reach,
                     double* out, int threads, Interrupted interrupted) {
  constexpr int W = Simd<double>::width;
  using V = Vector<double>;
  const double scale = 1 / (degree * (degree + 1));
  const auto words = [&](const double* s, const double* t, std::int64_t count) {
    V run{}, sum{};
    const V most = broadcast<double>(degree);
    for (std::int64_t k = 0; k < count; ++k) {
      const Mask<double> same = load<double>(t + k * W) == s[k];
      run = same ? run + 1.0 : V{};
      run = run > most ? most : run;
      sum += run * (2 * degree + 1 - run);
    }
    return sum;
  };
  return share(
      (m + W - 1) / W, threads,
      [&](std::ptrdiff_t group, const Stop& stop) {
        const std::ptrdiff_t first = group * W, last = std::min(first + W, m);
        std::vector<double> t(length * W, -2.0);
        for (std::ptrdiff_t j = first; j < last; ++j)
          for (std::int64_t k = 0; k < length; ++k) t[k * W + j - first] = T[j * length + k];
        for (std::ptrdiff_t i = 0; i < n; ++i) {
          if (stop) return;
          const double* s = S + i * length;
          V sum = shifts[0] * words(s, t.data(), length);
          for (std::int64_t r = 1; r <= reach; ++r)
            sum += shifts[r] * (words(s + r, t.data(), length - r) +
                                words(s, t.data() + r * W, length - r));
          for (std::ptrdiff_t j = first; j < last; ++j) out[i * m + j] = scale * sum[j - first];
        }
      },
      interrupted);
}

}  // namespace mercer
