// Sums of a falling function of the distance by a tree of boxes, within a tolerance that is kept.
#pragma once

#include "mercer/program.hpp"
#include "mercer/threads.hpp"

namespace mercer {

// out[n] with |out_i - s_i| <= atol + rtol s_i, s_i = sum_j w_j k(|u_i - v_j|^2), for a program k
// that does not rise with its one statistic, the squared distance, and weights w_j >= 0.
// U (n, d), V (m, d).
bool tree_sums(const Program& program, const double* U, const double* V, const double* weight,
               std::ptrdiff_t n, std::ptrdiff_t m, std::ptrdiff_t d, double rtol, double atol,
               double* out, int threads, Interrupted interrupted);

}  // namespace mercer
