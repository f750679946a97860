// The binding of online learners: checks what comes from Python, converts it, and nothing more.
#include "mercer/online.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <tuple>

#include "binding.hpp"

namespace {

template <class T, int D>
using InOut = nb::ndarray<T, nb::ndim<D>, nb::c_contig, nb::device::cpu>;

template <class T>
std::tuple<Out<std::uint8_t, 2>, Out<std::int64_t, 1>> visit(
    In<T, 2> K, In<double, 2> Y, InOut<double, 2> F, InOut<double, 2> coef,
    std::optional<InOut<double, 1>> bias, In<std::int64_t, 1> target, In<std::int64_t, 1> source,
    In<double, 1> threshold, bool inclusive, In<std::int64_t, 1> queue, std::int64_t budget) {
  const std::size_t sources = K.shape(0), targets = K.shape(1), machines = Y.shape(1);
  const std::size_t steps = target.shape(0);
  require(Y.shape(0) == targets, "a row of labels per target");
  require(F.shape(0) == machines && F.shape(1) == targets, "scores are (machines, targets)");
  require(coef.shape(0) == machines && coef.shape(1) == sources,
          "coefficients are (machines, sources)");
  require(!bias || bias->shape(0) == machines, "a bias per machine");
  require(source.shape(0) == steps && threshold.shape(0) == steps,
          "a source and a threshold per step");
  require_aligned(K), require_aligned(Y), require_aligned(F), require_aligned(coef);
  require_aligned(target), require_aligned(source), require_aligned(threshold);
  require_aligned(queue);
  if (bias) require_aligned(*bias);
  for (std::size_t i = 0; i < steps; ++i) {
    require(target(i) >= 0 && std::size_t(target(i)) < targets, "targets that exist");
    require(source(i) >= 0 && std::size_t(source(i)) < sources, "sources that exist");
  }
  require(budget != 0, "a budget of at least one");
  mercer::Online<T> online;
  online.sources = std::ptrdiff_t(sources), online.targets = std::ptrdiff_t(targets);
  online.machines = std::ptrdiff_t(machines);
  online.K = K.data(), online.Y = Y.data(), online.F = F.data(), online.coef = coef.data();
  online.bias = bias ? bias->data() : nullptr;
  online.inclusive = inclusive, online.budget = std::ptrdiff_t(budget);
  if (budget >= 0) online.queued.assign(sources, 0);
  for (std::size_t i = 0; budget >= 0 && i < queue.shape(0); ++i) {
    require(queue(i) >= 0 && std::size_t(queue(i)) < sources, "sources that exist");
    require(!online.queued[queue(i)], "a source is queued once");
    online.queued[queue(i)] = 1;
    online.queue.push_back(queue(i));
  }
  auto changed = new_array<std::uint8_t, 2>({steps, machines});
  {
    nb::gil_scoped_release released;
    for (std::size_t i = 0; i < steps; ++i)
      online.visit(target.data()[i], source.data()[i], threshold.data()[i],
                   changed.data() + i * machines);
  }
  auto left = new_array<std::int64_t, 1>({online.queue.size()});
  std::copy(online.queue.begin(), online.queue.end(), left.data());
  return {changed, left};
}

template <class T>
void bind(nb::module_& module) {
  const auto exactly = [](const char* argument) { return nb::arg(argument).noconvert(); };
  module.def("visit", &visit<T>, exactly("K"), exactly("Y"), exactly("F"), exactly("coef"),
             exactly("bias").none(), exactly("target"), exactly("source"), exactly("threshold"),
             nb::arg("inclusive"), exactly("queue"), nb::arg("budget"));
}

}  // namespace

void bind_online(nb::module_& module) {
  bind<float>(module);
  bind<double>(module);
}
