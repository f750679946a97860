// The binding of boosted partitions.
#include "mercer/boosting.hpp"

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "binding.hpp"

namespace {

using Found = std::tuple<Out<std::int32_t, 2>, Out<std::int32_t, 2>, Out<float, 3>, Out<double, 1>>;

constexpr int deepest = 8;
constexpr std::ptrdiff_t rows_at_once = 256;

template <class T, int D>
Out<T, D> shaped(const std::vector<T>& values, std::initializer_list<std::size_t> shape) {
  Out<T, D> out = new_array<T, D>(shape);
  std::copy(values.begin(), values.end(), out.data());
  return out;
}

// For each of several folds, with codes, weights and scores of its own: its trees.
std::tuple<std::vector<Found>, Out<float, 3>> boost(
    In<std::uint8_t, 3> codes, In<std::int32_t, 1> n_codes, In<float, 2> targets,
    In<float, 2> weights, In<float, 2> judges, In<float, 3> scores, int loss, int trees, int depth,
    int patience, float rate, float l2, float rows, float columns, std::uint64_t seed,
    int threads) {
  const std::size_t F = codes.shape(0), d = codes.shape(1), n = codes.shape(2);
  const std::size_t C = targets.shape(1);
  require_aligned(n_codes), require_aligned(targets), require_aligned(weights);
  require_aligned(judges), require_aligned(scores);
  require(n_codes.shape(0) == d, "a number of codes for each feature");
  require(targets.shape(0) == n && C >= 1 && C < most_columns, "targets for each row");
  require(weights.shape(0) == F && weights.shape(1) == n, "weights for each fold and row");
  require(judges.shape(0) == F && judges.shape(1) == n, "judges for each fold and row");
  require(scores.shape(0) == F && scores.shape(1) == n && scores.shape(2) == C,
          "scores for each fold, row and output");
  require(loss >= 0 && loss <= 2, "a loss between 0 and 2");
  require(trees >= 0 && depth >= 1 && depth <= deepest && patience >= 1, "trees of depth 1 to 8");
  require(l2 >= 0 && rate > 0 && rows > 0 && columns > 0, "positive settings");
  for (std::size_t k = 0; k < d; ++k) {
    require(n_codes(k) >= 1 && n_codes(k) <= 256, "1 to 256 codes");
    for (std::size_t f = 0; f < F; ++f)
      for (std::size_t i = 0; i < n; ++i)
        require(std::int32_t(codes(f, k, i)) < n_codes(k), "codes below their number");
  }
  Out<float, 3> after = new_array<float, 3>({F, n, C});
  std::copy_n(scores.data(), F * n * C, after.data());
  std::vector<mercer::BoostedTrees> found(F);
  without_gil([&] {
    return mercer::share(
        std::ptrdiff_t(F), threads,
        [&](std::ptrdiff_t f, const mercer::Stop& stop) {
          const mercer::BoostingProblem problem{codes.data() + f * d * n,
                                                n_codes.data(),
                                                std::ptrdiff_t(n),
                                                std::ptrdiff_t(d),
                                                targets.data(),
                                                weights.data() + f * n,
                                                judges.data() + f * n,
                                                int(C),
                                                mercer::BoostingLoss(loss)};
          const mercer::BoostingSettings settings{trees, depth, patience, rate,
                                                  l2,    rows,  columns,  seed + f};
          found[f] = mercer::Boosting(problem, settings, after.data() + f * n * C).run(stop);
        },
        interrupted);
  });
  std::vector<Found> out;
  for (const mercer::BoostedTrees& one : found) {
    const std::size_t kept = one.features.size() / depth;
    out.emplace_back(shaped<std::int32_t, 2>(one.features, {kept, std::size_t(depth)}),
                     shaped<std::int32_t, 2>(one.cuts, {kept, std::size_t(depth)}),
                     shaped<float, 3>(one.values, {kept, std::size_t(1) << depth, C}),
                     copied(one.losses));
  }
  return {std::move(out), after};
}

mercer::Questions questions(const In<float, 2>& points, const In<std::int32_t, 2>& features,
                            const In<float, 2>& thresholds) {
  require_aligned(points), require_aligned(features), require_aligned(thresholds);
  const std::size_t trees = features.shape(0), depth = features.shape(1);
  require(thresholds.shape(0) == trees && thresholds.shape(1) == depth, "a threshold each");
  require(depth >= 1 && depth <= std::size_t(deepest), "trees of depth 1 to 8");
  for (std::size_t t = 0; t < trees; ++t)
    for (std::size_t l = 0; l < depth; ++l)
      require(features(t, l) >= 0 && std::size_t(features(t, l)) < points.shape(1),
              "features that exist");
  return {features.data(), thresholds.data(), std::ptrdiff_t(trees), int(depth)};
}

// visit(i) for all rows, in blocks.
template <class Visit>
void over_rows(std::size_t n, int threads, Visit visit) {
  const std::ptrdiff_t blocks = (std::ptrdiff_t(n) + rows_at_once - 1) / rows_at_once;
  without_gil([&] {
    return mercer::share(
        blocks, threads,
        [&](std::ptrdiff_t b, const mercer::Stop&) {
          const auto last = std::min((b + 1) * rows_at_once, std::ptrdiff_t(n));
          for (std::ptrdiff_t i = b * rows_at_once; i < last; ++i) visit(i);
        },
        interrupted);
  });
}

// The leaf of each tree that each point is in, (m, trees).
Out<std::uint8_t, 2> partition_leaves(In<float, 2> points, In<std::int32_t, 2> features,
                                 In<float, 2> thresholds, int threads) {
  const mercer::Questions asked = questions(points, features, thresholds);
  const std::size_t m = points.shape(0), d = points.shape(1), trees = asked.trees;
  Out<std::uint8_t, 2> out = new_array<std::uint8_t, 2>({m, trees});
  over_rows(m, threads, [&](std::ptrdiff_t i) {
    for (std::size_t t = 0; t < trees; ++t)
      out.data()[i * trees + t] = std::uint8_t(asked.leaf(points.data() + i * d, t));
  });
  return out;
}

// The sum over the trees of the values (trees, leaves, outputs) of each point's leaves.
Out<double, 2> partition_sums(In<float, 2> points, In<std::int32_t, 2> features,
                         In<float, 2> thresholds, In<float, 3> values, int threads) {
  const mercer::Questions asked = questions(points, features, thresholds);
  require_aligned(values);
  const std::size_t m = points.shape(0), d = points.shape(1), C = values.shape(2);
  const std::size_t leaves = std::size_t(1) << asked.depth;
  require(values.shape(0) == std::size_t(asked.trees) && values.shape(1) == leaves,
          "a value for each leaf");
  Out<double, 2> out = new_array<double, 2>({m, C});
  over_rows(m, threads, [&](std::ptrdiff_t i) {
    double* sum = out.data() + i * C;
    std::fill_n(sum, C, 0.0);
    for (std::ptrdiff_t t = 0; t < asked.trees; ++t) {
      const std::size_t leaf = asked.leaf(points.data() + i * d, t);
      const float* value = values.data() + (t * leaves + leaf) * C;
      for (std::size_t c = 0; c < C; ++c) sum[c] += value[c];
    }
  });
  return out;
}

}  // namespace

void bind_boosting(nb::module_& module) {
  const auto exactly = [](const char* argument) { return nb::arg(argument).noconvert(); };
  module.def("boost", &boost, exactly("codes"), exactly("n_codes"), exactly("targets"),
             exactly("weights"), exactly("judges"), exactly("scores"), nb::arg("loss"),
             nb::arg("trees"), nb::arg("depth"), nb::arg("patience"), nb::arg("rate"),
             nb::arg("l2"), nb::arg("rows"), nb::arg("columns"), nb::arg("seed"),
             nb::arg("threads"));
  module.def("partition_leaves", &partition_leaves, exactly("points"), exactly("features"),
             exactly("thresholds"), nb::arg("threads"));
  module.def("partition_sums", &partition_sums, exactly("points"), exactly("features"),
             exactly("thresholds"), exactly("values"), nb::arg("threads"));
}
