// The binding of kernels of sequences.
#include "mercer/sequences.hpp"

#include "binding.hpp"

namespace {

Out<double, 1> common_subsequences(In<double, 1> symbols, In<std::int64_t, 1> starts,
                                   In<std::int64_t, 1> left, In<std::int64_t, 1> right, int length,
                                   double decay, int threads) {
  require_aligned(symbols);
  require_starts(starts, symbols.shape(0));
  require_aligned(left);
  require_aligned(right);
  require(left.shape(0) == right.shape(0), "a right sequence for each left one");
  require(length >= 1, "subsequences of at least one symbol");
  const auto exists = [&](std::int64_t i) {
    return i >= 0 && std::size_t(i) + 1 < starts.shape(0);
  };
  for (std::size_t p = 0; p < left.shape(0); ++p)
    require(exists(left(p)) && exists(right(p)), "sequences that exist");
  Out<double, 1> out = new_array<double, 1>({left.shape(0)});
  without_gil([&] {
    return mercer::common_subsequences({symbols.data(), starts.data()}, left.data(), right.data(),
                                       std::ptrdiff_t(left.shape(0)), length, decay, out.data(),
                                       threads, interrupted);
  });
  return out;
}

Out<double, 2> weighted_degree(In<double, 2> S, In<double, 2> T, double degree,
                               In<double, 1> shifts, int threads) {
  require_aligned(S);
  require_aligned(T);
  require_aligned(shifts);
  require(S.shape(1) == T.shape(1), "sequences of equal length");
  require(degree >= 1, "words of at least one symbol");
  require(shifts.shape(0) >= 1 && shifts.shape(0) <= std::max<std::size_t>(S.shape(1), 1),
          "shifts shorter than the sequences");
  Out<double, 2> out = new_array<double, 2>({S.shape(0), T.shape(0)});
  without_gil([&] {
    return mercer::weighted_degree(S.data(), std::ptrdiff_t(S.shape(0)), T.data(),
                                   std::ptrdiff_t(T.shape(0)), std::int64_t(S.shape(1)), degree,
                                   shifts.data(), std::int64_t(shifts.shape(0)) - 1, out.data(),
                                   threads, interrupted);
  });
  return out;
}

}  // namespace

void bind_sequences(nb::module_& module) {
  const auto exactly = [](const char* argument) { return nb::arg(argument).noconvert(); };
  module.def("common_subsequences", &common_subsequences, exactly("symbols"), exactly("starts"),
             exactly("left"), exactly("right"), nb::arg("length"), nb::arg("decay"),
             nb::arg("threads"), nb::rv_policy::move);
  module.def("weighted_degree", &weighted_degree, exactly("S"), exactly("T"), nb::arg("degree"),
             exactly("shifts"), nb::arg("threads"), nb::rv_policy::move);
}
