// The binding of sorted suffixes and of sums over substrings.
#include "mercer/suffixes.hpp"

#include <nanobind/stl/tuple.h>

#include <memory>
#include <tuple>

#include "binding.hpp"
#include "mercer/substring_sums.hpp"

namespace {

using mercer::Place;
using Symbols = In<std::uint32_t, 1>;
using Starts = In<std::int64_t, 1>;

// Run tasks on threads of their own, without the GIL; a signal ends them.
template <class Task>
void run(Busy& busy, std::ptrdiff_t count, int threads, Task task) {
  without_gil(busy, [&] {
    return mercer::share(
        count, threads,
        [&](std::ptrdiff_t i, const mercer::Stop& stop) {
          try {
            task(i, stop);
          } catch (const mercer::Stopped&) {
          }
        },
        interrupted);
  });
}

void require_sequences(const Symbols& symbols, const Starts& starts, std::uint32_t letters) {
  require_aligned(symbols);
  require_starts(starts, symbols.shape(0));
  require(starts.shape(0) >= 2, "at least one sequence");
  constexpr std::size_t most = std::size_t(1) << 30;
  require(symbols.shape(0) + starts.shape(0) + letters < most, "less than 2^30 symbols");
}

void require_weight(const In<double, 1>& weight) {
  require_aligned(weight);
  require(weight.shape(0) >= 1, "at least one weight");
}

class Suffixes {
 public:
  Suffixes(Symbols symbols, Starts starts, std::uint32_t letters, std::int64_t depth) {
    require_sequences(symbols, starts, letters);
    for (std::size_t i = 0; i < symbols.shape(0); ++i)
      require(symbols(i) < letters, "symbols of the alphabet");
    require(depth >= 0, "a depth");
    depth_ = Place(std::min<std::int64_t>(depth, std::int64_t(symbols.shape(0))));
    run(busy_, 1, 1, [&](std::ptrdiff_t, const mercer::Stop& stop) {
      suffixes_ = std::make_unique<mercer::Suffixes>(symbols.data(), starts.data(),
                                                     Place(starts.shape(0)) - 1, Place(letters),
                                                     depth_, stop);
    });
  }

  Out<double, 2> rows(In<std::int64_t, 1> which, In<double, 1> weight, bool presence,
                      int threads) {
    require_aligned(which);
    require_weight(weight);
    require(std::int64_t(weight.shape(0)) > depth_, "a weight for each length");
    const std::size_t n = std::size_t(suffixes_->sequences());
    for (std::size_t i = 0; i < which.shape(0); ++i)
      require(which(i) >= 0 && which(i) < std::int64_t(n), "sequences that exist");
    Out<double, 2> out = new_array<double, 2>({which.shape(0), n});
    run(busy_, std::ptrdiff_t(which.shape(0)), threads,
        [&](std::ptrdiff_t i, const mercer::Stop& stop) {
          if (presence)
            suffixes_->presence(Place(which(i)), weight.data(), out.data() + i * n, stop);
          else
            suffixes_->occurrences(Place(which(i)), weight.data(), out.data() + i * n, stop);
        });
    return out;
  }

 private:
  std::unique_ptr<mercer::Suffixes> suffixes_;
  Place depth_;
  Busy busy_;
};

class SubstringSum {
 public:
  SubstringSum(Symbols symbols, Starts starts, std::uint32_t letters, In<double, 2> alpha,
               In<double, 1> weight, bool presence) {
    require_sequences(symbols, starts, letters);
    require(symbols.shape(0) < (std::size_t(1) << 29), "less than 2^29 symbols");
    for (std::size_t i = 0; i < symbols.shape(0); ++i)
      require(symbols(i) < letters, "symbols of the alphabet");
    require_aligned(alpha);
    require_weight(weight);
    require(alpha.shape(0) + 1 == starts.shape(0), "coefficients for each sequence");
    require(alpha.shape(1) <= most_columns, "no more columns than fit in memory");
    run(busy_, 1, 1, [&](std::ptrdiff_t, const mercer::Stop& stop) {
      sum_ = std::make_unique<mercer::SubstringSum>(
          symbols.data(), starts.data(), Place(starts.shape(0)) - 1, letters, alpha.data(),
          int(alpha.shape(1)), weight.data(), Place(weight.shape(0)) - 1, presence, stop);
    });
  }

  Out<double, 2> values(Symbols symbols, Starts starts, int threads) {
    require_sequences(symbols, starts, 0);
    const std::size_t n = starts.shape(0) - 1, columns = std::size_t(sum_->columns());
    Out<double, 2> out = new_array<double, 2>({n, columns});
    run(busy_, std::ptrdiff_t(n), threads, [&](std::ptrdiff_t i, const mercer::Stop& stop) {
      (*sum_)(symbols.data() + starts(i), starts(i + 1) - starts(i), out.data() + i * columns,
              stop);
    });
    return out;
  }

  Out<double, 2> along(Symbols symbols, int threads) {
    require_aligned(symbols);
    const std::size_t n = symbols.shape(0), columns = std::size_t(sum_->columns());
    require(n < (std::size_t(1) << 30), "less than 2^30 symbols");
    Out<double, 2> out = new_array<double, 2>({n, columns});
    run(busy_, 1, threads, [&](std::ptrdiff_t, const mercer::Stop& stop) {
      sum_->along(symbols.data(), std::int64_t(n), out.data(), stop);
    });
    return out;
  }

  // Ends, lengths and weights of the heaviest substrings.
  std::tuple<Out<std::int64_t, 1>, Out<std::int64_t, 1>, Out<double, 1>> heaviest(
      int column, std::size_t count) {
    require(column >= 0 && column < sum_->columns(), "a column that exists");
    std::vector<mercer::SubstringSum::Heavy> found;
    run(busy_, 1, 1,
        [&](std::ptrdiff_t, const mercer::Stop&) { found = sum_->heaviest(column, count); });
    std::vector<std::int64_t> ends, lengths;
    std::vector<double> weights;
    for (const auto& heavy : found) {
      ends.push_back(heavy.end);
      lengths.push_back(heavy.length);
      weights.push_back(heavy.weight);
    }
    return {copied(ends), copied(lengths), copied(weights)};
  }

 private:
  std::unique_ptr<mercer::SubstringSum> sum_;
  Busy busy_;
};

}  // namespace

void bind_suffixes(nb::module_& module) {
  const auto exactly = [](const char* argument) { return nb::arg(argument).noconvert(); };
  nb::class_<Suffixes>(module, "Suffixes")
      .def(nb::init<Symbols, Starts, std::uint32_t, std::int64_t>(), exactly("symbols"),
           exactly("starts"), nb::arg("letters"), nb::arg("depth"))
      .def("rows", &Suffixes::rows, exactly("which"), exactly("weight"), nb::arg("presence"),
           nb::arg("threads"));
  nb::class_<SubstringSum>(module, "SubstringSum")
      .def(nb::init<Symbols, Starts, std::uint32_t, In<double, 2>, In<double, 1>, bool>(),
           exactly("symbols"), exactly("starts"), nb::arg("letters"), exactly("alpha"),
           exactly("weight"), nb::arg("presence"))
      .def("values", &SubstringSum::values, exactly("symbols"), exactly("starts"),
           nb::arg("threads"))
      .def("along", &SubstringSum::along, exactly("symbols"), nb::arg("threads"))
      .def("heaviest", &SubstringSum::heaviest, nb::arg("column"), nb::arg("count"));
}
