// Templates compiled apart from those who use them, once for each type of numbers: those of passes and
// sums in passes_<type>.cpp, the routines over pairs in pairs_<type>.cpp.
#pragma once

#include "mercer/gram.hpp"
#include "mercer/normal.hpp"
#include "mercer/products.hpp"
#include "mercer/reductions.hpp"

// clang-format off
#define MERCER_PAIRS(extern_or_nothing, T)                                                         \
  extern_or_nothing template struct Pairs<T>;                                                      \
  extern_or_nothing template class Runner<T>;                                                      \
  extern_or_nothing template bool gram(Pairs<T>&, T*, bool, int, Interrupted);                     \
  extern_or_nothing template bool some_rows(Pairs<T>&, const std::int64_t*, const std::int64_t*,   \
                                            std::ptrdiff_t, std::ptrdiff_t, std::ptrdiff_t, T*,    \
                                            int, Interrupted);                                     \
  extern_or_nothing template bool product(Pairs<T>&, const T*, int, double*, const T*, int,        \
                                          double*, bool, int, Interrupted);                        \
  extern_or_nothing template bool normal_product(Pairs<T>&, const T*, int, const T*, const T*,     \
                                                 double*, double*, int, Interrupted);              \
  extern_or_nothing template bool log_sum_exp(Pairs<T>&, const T*, double*, int, Interrupted);     \
  extern_or_nothing template bool arg_min(Pairs<T>&, T*, std::int64_t*, int, Interrupted);
// clang-format on

namespace mercer {
MERCER_PAIRS(extern, float)
MERCER_PAIRS(extern, double)
}  // namespace mercer
