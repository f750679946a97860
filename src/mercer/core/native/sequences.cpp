// The binding of kernels of sequences.
#include "mercer/sequences.hpp"

#include <limits>
#include <type_traits>

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

template <class T>
Out<double, 2> weighted_degree(In<T, 2> S, In<T, 2> R, double degree, In<double, 1> shifts,
                               bool symmetric, int threads) {
  require_aligned(S);
  require_aligned(R);
  require_aligned(shifts);
  require(S.shape(1) == R.shape(1), "sequences of equal length");
  require(!symmetric || S.shape(0) == R.shape(0), "the same sequences twice");
  require(degree >= 1, "words of at least one symbol");
  if constexpr (!std::is_same_v<T, double>)
    require(degree * (degree + 1) <= std::numeric_limits<T>::max(), "words short enough to add up");
  require(shifts.shape(0) >= 1 && shifts.shape(0) <= std::max<std::size_t>(S.shape(1), 1),
          "shifts shorter than the sequences");
  Out<double, 2> out = new_array<double, 2>({S.shape(0), R.shape(0)});
  without_gil([&] {
    const std::int64_t length = std::int64_t(S.shape(1));
    const mercer::WeightedDegree<T> words(length, degree, shifts.data(),
                                          std::int64_t(shifts.shape(0)) - 1);
    return mercer::weighted_degree(words, S.data(), std::ptrdiff_t(S.shape(0)),
                                   symmetric ? S.data() : R.data(), std::ptrdiff_t(R.shape(0)),
                                   length, symmetric, out.data(), threads, interrupted);
  });
  return out;
}

mercer::Texts read_texts(const In<std::uint8_t, 1>& symbols, const In<std::int64_t, 1>& starts) {
  require_starts(starts, symbols.shape(0));
  for (std::size_t i = 0; i < symbols.shape(0); ++i)
    require(symbols(i) < 254, "symbols below 254");
  return {std::ptrdiff_t(starts.shape(0)) - 1, symbols.data(), starts.data()};
}

Out<double, 2> common_windows(In<std::uint8_t, 1> symbols, In<std::int64_t, 1> starts,
                              In<std::uint8_t, 1> symbols2, In<std::int64_t, 1> starts2, int k,
                              In<double, 1> weight, bool symmetric, int threads) {
  const mercer::Texts A = read_texts(symbols, starts), B = read_texts(symbols2, starts2);
  require(k >= 1 && k <= 254, "words of 1 to 254 symbols");
  require_aligned(weight);
  require(weight.shape(0) >= 1 && weight.shape(0) <= std::size_t(k) + 1,
          "a weight for each number of places");
  require(!symmetric || A.count == B.count, "the same sequences twice");
  auto out = new_array<double, 2>({std::size_t(A.count), std::size_t(B.count)});
  without_gil([&] {
    return mercer::common_windows(A, symmetric ? A : B, k, int(weight.shape(0)) - 1, weight.data(),
                                  symmetric, out.data(), threads, interrupted);
  });
  return out;
}

}  // namespace

void bind_sequences(nb::module_& module) {
  const auto exactly = [](const char* argument) { return nb::arg(argument).noconvert(); };
  module.def("common_subsequences", &common_subsequences, exactly("symbols"), exactly("starts"),
             exactly("left"), exactly("right"), nb::arg("length"), nb::arg("decay"),
             nb::arg("threads"));
  module.def("common_windows", &common_windows, exactly("symbols"), exactly("starts"),
             exactly("symbols2"), exactly("starts2"), nb::arg("k"), exactly("weight"),
             nb::arg("symmetric"), nb::arg("threads"));
  const auto bind_words = [&](auto routine) {
    module.def("weighted_degree", routine, exactly("S"), exactly("T"), nb::arg("degree"),
               exactly("shifts"), nb::arg("symmetric"), nb::arg("threads"));
  };
  bind_words(&weighted_degree<std::int16_t>);
  bind_words(&weighted_degree<double>);
}
