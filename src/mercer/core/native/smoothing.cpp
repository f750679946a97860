// The binding of Gaussian sums and of binning: checks what comes from Python, and nothing more.
#include "mercer/smoothing.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "binding.hpp"

namespace {

template <int D>
using Numbers = In<double, D>;

// The points of every routine here, once they are found to fit together.
mercer::Smoothing read(const Numbers<2>& U, const Numbers<2>& V, const Numbers<1>& log_weight,
                       const std::optional<Numbers<1>>& own, const std::optional<Numbers<2>>& Y) {
  const std::size_t n = U.shape(0), m = V.shape(0), d = U.shape(1);
  require(n > 0 && m > 0 && d > 0, "at least one point on each side, and one feature");
  require(V.shape(1) == d, "U is (n, d) and V (m, d)");
  require(log_weight.shape(0) == m, "log_weight has m entries");
  require(!own || (own->shape(0) == n && n == m), "own has n entries, and rows are columns");
  require(!Y || Y->shape(0) == m, "Y has m rows");
  require_aligned(U), require_aligned(V), require_aligned(log_weight);
  if (own) require_aligned(*own);
  if (Y) require_aligned(*Y);
  return mercer::Smoothing(U.data(), V.data(), log_weight.data(), own ? own->data() : nullptr,
                           Y ? Y->data() : nullptr, std::ptrdiff_t(n), std::ptrdiff_t(m),
                           std::ptrdiff_t(d), Y ? std::ptrdiff_t(Y->shape(1)) : 0);
}

Out<double, 1> log_sums(Numbers<2> U, Numbers<2> V, Numbers<1> log_weight, std::optional<Numbers<1>> own, int threads) {
  const mercer::Smoothing points = read(U, V, log_weight, own, {});
  auto out = new_array<double, 1>({U.shape(0)});
  without_gil([&] { return mercer::smooth_log_sums(points, out.data(), threads, interrupted); });
  return out;
}

std::tuple<Out<double, 1>, Out<double, 2>> local_moments(Numbers<2> U, Numbers<2> V, Numbers<1> log_weight,
                                         std::optional<Numbers<1>> own, Numbers<2> Y, bool linear,
                                         int threads) {
  const mercer::Smoothing points = read(U, V, log_weight, own, Y);
  const std::size_t d = U.shape(1), c = Y.shape(1);
  auto log_sum = new_array<double, 1>({U.shape(0)});
  auto out = new_array<double, 2>({U.shape(0), c + (linear ? d + d * (d + 1) / 2 + d * c : 0)});
  without_gil([&] {
    return mercer::smooth_moments(points, linear, log_sum.data(), out.data(), threads,
                                  interrupted);
  });
  return {log_sum, out};
}

Out<double, 2> local_slopes(Numbers<2> U, Numbers<2> V, Numbers<1> log_weight, std::optional<Numbers<1>> own, Numbers<2> Y,
                    Numbers<1> log_sum, Numbers<2> g, Numbers<2> v, Numbers<2> b, int threads) {
  const mercer::Smoothing points = read(U, V, log_weight, own, Y);
  const std::size_t n = U.shape(0), d = U.shape(1), wide = g.shape(1);
  require(wide == 1 || wide == 1 + d, "g is (n, 1) or (n, 1 + d)");
  require(log_sum.shape(0) == n && g.shape(0) == n && b.shape(0) == n && v.shape(0) == n &&
              b.shape(1) == wide && v.shape(1) == Y.shape(1),
          "b as g, v is (n, c), log_sum (n,)");
  require_aligned(log_sum), require_aligned(g), require_aligned(v), require_aligned(b);
  auto out = new_array<double, 2>({n, d});
  without_gil([&] {
    return mercer::smooth_slopes(points, log_sum.data(), g.data(), v.data(), b.data(), wide > 1,
                                 out.data(), threads, interrupted);
  });
  return out;
}

Out<double, 1> bin_linear(Numbers<2> X, std::optional<Numbers<1>> weight, Numbers<1> low, Numbers<1> step, In<std::int64_t, 1> shape) {
  const std::size_t d = X.shape(1);
  require(d >= 1 && d <= 8, "between 1 and 8 features");
  require(low.shape(0) == d && step.shape(0) == d && shape.shape(0) == d,
          "low, step and shape have d entries");
  require(!weight || weight->shape(0) == X.shape(0), "weight has n entries");
  require_aligned(X), require_aligned(low), require_aligned(step), require_aligned(shape);
  if (weight) require_aligned(*weight);
  std::size_t size = 1;
  for (std::size_t k = 0; k < d; ++k) {
    require(shape(k) >= 2 && size <= (std::size_t(1) << 34) / std::size_t(shape(k)),
            "a grid of at least two points along each feature, that fits in memory");
    require(step(k) > 0, "steps are positive");
    size *= std::size_t(shape(k));
  }
  auto out = new_array<double, 1>({size});
  std::fill_n(out.data(), size, 0.0);
  {
    nb::gil_scoped_release released;
    mercer::bin_linear(X.data(), weight ? weight->data() : nullptr, std::ptrdiff_t(X.shape(0)),
                       std::ptrdiff_t(d), low.data(), step.data(), shape.data(), out.data());
  }
  return out;
}

}  // namespace

void bind_smoothing(nb::module_& module) {
  const auto exactly = [](const char* argument) { return nb::arg(argument).noconvert(); };
  module.def("log_sums", &log_sums, exactly("U"), exactly("V"), exactly("log_weight"),
             exactly("own").none(), nb::arg("threads"));
  module.def("local_moments", &local_moments, exactly("U"), exactly("V"), exactly("log_weight"),
             exactly("own").none(), exactly("Y"), nb::arg("linear"), nb::arg("threads"));
  module.def("local_slopes", &local_slopes, exactly("U"), exactly("V"), exactly("log_weight"),
             exactly("own").none(), exactly("Y"), exactly("log_sum"), exactly("g"), exactly("v"),
             exactly("b"), nb::arg("threads"));
  module.def("bin_linear", &bin_linear, exactly("X"), exactly("weight").none(), exactly("low"),
             exactly("step"), exactly("shape"));
}
