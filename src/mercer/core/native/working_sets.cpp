// The binding of working sets: checks what comes from Python, converts it, and nothing more.
#include "mercer/class_pairs.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "binding.hpp"
#include "mercer/threads.hpp"

namespace {

template <class T>
using InOut = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// A programme and the arrays it works on, which it keeps alive; a and F are changed in place.
class Problem {
 public:
  Problem(InOut<double> a, InOut<double> F, In<double, 1> p, In<double, 1> lo, In<double, 1> hi,
          In<std::int32_t, 1> group, int groups, In<std::int64_t, 1> column,
          std::optional<In<double, 1>> sign, std::int64_t q, double tol, double flat)
      : a_(a), F_(F), p_(p), lo_(lo), hi_(hi), group_(group), column_(column), sign_(sign) {
    const std::size_t n = a.shape(0), points = column.shape(0);
    require(points > 0 && n > 0 && n % points == 0, "a whole number of variables per point");
    require(n <= std::size_t(std::numeric_limits<std::int32_t>::max()), "positions are 32 bits");
    require(F.shape(0) == n && p.shape(0) == n && lo.shape(0) == n && hi.shape(0) == n && group.shape(0) == n,
            "one entry per variable");
    require(!sign || sign->shape(0) == n, "one sign per variable");
    require(groups >= 0 && groups <= 64, "between 0 and 64 groups");
    require(q >= 2, "at least two variables at a time");
    for (std::size_t v = 0; v < n; ++v)
      require(groups == 0 || (group(v) >= 0 && group(v) < groups), "groups that exist");
    for (std::size_t k = 0; k < points; ++k) {
      require(column(k) >= 0, "columns that exist");
      last_column_ = std::max(last_column_, column(k));
    }
    problem_.box = {std::ptrdiff_t(n), a.data(),     F.data(), lo.data(),
                    hi.data(),         group.data(), groups};
    problem_.p = p.data();
    problem_.points = std::ptrdiff_t(points);
    problem_.column = column.data();
    problem_.sign = sign ? sign_->data() : nullptr;
    problem_.q = std::ptrdiff_t(q);
    problem_.tol = tol;
    problem_.flat = flat;
  }
  Problem(const Problem&) = delete;

  double violation() const { return problem_.violation; }
  double tol() const { return problem_.tol; }
  void set_tol(double tol) { problem_.tol = tol; }
  Out<std::int32_t, 1> set() { return copied(read(problem_.set)); }
  Out<std::int64_t, 1> needed() { return copied(read(problem_.needed)); }

  // Whether there is anything to do, and the next working set.
  bool select() {
    bool more = false;
    without_gil(busy_, [&] { return more = problem_.select(), true; }, true);
    return more;
  }

  // Solve over the working set with its part of K; steps, stuck, unbounded and the net moves.
  template <class T>
  std::tuple<std::int64_t, bool, bool, Out<double, 1>> work(In<T, 2> tile, std::int64_t steps) {
    std::vector<double> net;
    mercer::Outcome outcome;
    const auto solve = [&] {
      const std::size_t size = problem_.set.size();
      require(tile.shape(0) == size && tile.shape(1) == size, "the tile of the working set");
      mercer::Small<T> small;
      outcome = problem_.work(
          small, [&](std::ptrdiff_t i) { return tile.data() + i * std::ptrdiff_t(size); },
          [](std::ptrdiff_t j) { return j; }, steps, net);
      return true;
    };
    without_gil(busy_, solve, true);
    return {outcome.steps, outcome.stuck, outcome.unbounded, copied(net)};
  }

  void follow(In<double, 1> change) {
    require(std::ptrdiff_t(change.shape(0)) == problem_.points, "one change per point");
    without_gil(busy_, [&] { return problem_.follow(change.data()), true; }, true);
  }

  // The certificate of the point with its gradient as it stands.
  std::tuple<Out<double, 1>, double, double, double, double> measure() {
    mercer::Measured m;
    without_gil(busy_, [&] { return m = mercer::measured(problem_.box, problem_.p), true; });
    return {copied(m.multipliers), m.objective, m.squared_norm, m.violation, m.gap};
  }

  // Before `advance`, with the GIL.
  void renew() { busy_.renew(); }

  template <class T>
  mercer::Progress advance(const mercer::Rows<T>& kept, double work, std::int64_t max_steps,
                           int threads) {
    Turn turn(busy_, true);
    return mercer::advance<T>(problem_, kept, work, max_steps, threads);
  }

  std::int64_t last_column() const { return last_column_; }

 private:
  // As another thread may be changing the vector.
  template <class T>
  std::vector<T> read(const std::vector<T>& values) {
    std::vector<T> found;
    without_gil(busy_, [&] { return found = values, true; });
    return found;
  }

  InOut<double> a_, F_;
  In<double, 1> p_, lo_, hi_;
  In<std::int32_t, 1> group_;
  In<std::int64_t, 1> column_;
  std::optional<In<double, 1>> sign_;
  std::int64_t last_column_ = 0;
  mercer::Problem problem_;
  Busy busy_;
};

// Work on each problem until it is done or waits for rows; the state and steps of each.
template <class T>
std::tuple<Out<std::int32_t, 1>, Out<std::int64_t, 1>> advance(
    std::vector<Problem*> problems, In<T, 2> rows, std::vector<In<std::int64_t, 1>> slots,
    double work, std::vector<std::int64_t> max_steps, int threads) {
  require(max_steps.size() == problems.size(), "a number of steps per problem");
  require(slots.size() == problems.size(), "slots per problem");
  std::vector<mercer::Rows<T>> kept;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    require(problems[i] != nullptr, "problems");
    problems[i]->renew();
    require(problems[i]->last_column() < std::int64_t(rows.shape(1)), "columns that exist");
    kept.push_back({rows.data(), std::ptrdiff_t(rows.shape(1)), slots[i].data()});
    require(slots[i].shape(0) == rows.shape(1), "a slot per column");
    if (i && slots[i].data() == slots[i - 1].data()) continue;
    for (std::size_t k = 0; k < slots[i].shape(0); ++k)
      require(slots[i](k) >= -1 && slots[i](k) < std::int64_t(rows.shape(0)),
              "slots of rows that exist");
  }
  std::vector<std::int32_t> states(problems.size());
  std::vector<std::int64_t> steps(problems.size());
  {
    nb::gil_scoped_release released;
    // Threads take a problem each; those of a single one share its loops.
    const bool alone = problems.size() == 1;
    mercer::share(
        std::ptrdiff_t(problems.size()), alone ? 0 : threads,
        [&](std::ptrdiff_t i, const mercer::Stop&) {
          const mercer::Progress progress =
              problems[i]->advance<T>(kept[i], work, max_steps[i], alone ? threads : 0);
          states[i] = std::int32_t(progress.state);
          steps[i] = progress.steps;
        },
        [] { return false; });
  }
  return {copied(states), copied(steps)};
}

// All pairs of classes: variables, gradients, multiplier, objective, squared norm, violation, gap,
// steps and state.
template <class T>
nb::tuple solve_pairs(In<T, 2> K, In<std::int64_t, 1> starts, In<std::int64_t, 1> column,
                      In<double, 1> C, In<std::int64_t, 1> q, bool intercept, double tol, double largest_gap,
                      std::int64_t max_steps, int threads) {
  require_aligned(K), require_aligned(column), require_aligned(C), require_aligned(q);
  const std::size_t n = K.shape(0);
  require(K.shape(1) == n && C.shape(0) == n && n > 0, "a square matrix, and C of each point");
  require_starts(starts, column.shape(0));
  for (std::size_t v = 0; v < column.shape(0); ++v)
    require(column(v) >= 0 && column(v) < std::int64_t(n), "columns that exist");
  require(starts.shape(0) >= 3 && starts.shape(0) <= 46'000, "two classes or more");
  const std::size_t classes = starts.shape(0) - 1, pairs = classes * (classes - 1) / 2;
  for (std::size_t c = 0; c < classes; ++c) require(starts(c) < starts(c + 1), "points of each class");
  require(q.shape(0) == pairs, "a number of variables per pair");
  for (std::size_t k = 0; k < pairs; ++k) require(q(k) >= 2, "at least two variables at a time");
  for (std::size_t v = 0; v < column.shape(0); ++v)
    require(C(column(v)) > 0 && std::isfinite(C(column(v))), "C above zero");
  require(n <= std::size_t(std::numeric_limits<std::int32_t>::max()), "positions are 32 bits");
  const std::size_t variables = column.shape(0) * (classes - 1);
  auto a = new_array<double, 1>({variables}), F = new_array<double, 1>({variables});
  auto multiplier = new_array<double, 1>({pairs}), objective = new_array<double, 1>({pairs});
  auto squared_norm = new_array<double, 1>({pairs}), violation = new_array<double, 1>({pairs});
  auto gap = new_array<double, 1>({pairs});
  auto steps = new_array<std::int64_t, 1>({pairs});
  auto state = new_array<std::int32_t, 1>({pairs});
  const mercer::ClassPairs all{starts.data(), std::ptrdiff_t(classes), column.data(), std::ptrdiff_t(n),
                               C.data(), q.data(), intercept, tol, largest_gap, max_steps};
  const mercer::PairsFound found{a.data(), F.data(), multiplier.data(), objective.data(),
                                 squared_norm.data(), violation.data(), gap.data(), steps.data(),
                                 state.data()};
  without_gil([&] { return mercer::solve_pairs<T>(all, K.data(), found, threads, interrupted); });
  return nb::make_tuple(a, F, multiplier, objective, squared_norm, violation, gap, steps, state);
}

}  // namespace

void bind_working_sets(nb::module_& module) {
  const auto exactly = [](const char* argument) { return nb::arg(argument).noconvert(); };
  nb::class_<Problem>(module, "Problem")
      .def(nb::init<InOut<double>, InOut<double>, In<double, 1>, In<double, 1>, In<double, 1>,
                    In<std::int32_t, 1>, int, In<std::int64_t, 1>, std::optional<In<double, 1>>,
                    std::int64_t, double, double>(),
           exactly("a"), exactly("F"), exactly("p"), exactly("lo"), exactly("hi"), exactly("group"),
           nb::arg("groups"), exactly("column"), exactly("sign").none(), nb::arg("q"),
           nb::arg("tol"), nb::arg("flat"))
      .def_prop_ro("violation", &Problem::violation)
      .def_prop_rw("tol", &Problem::tol, &Problem::set_tol)
      .def_prop_ro("set", &Problem::set, nb::rv_policy::move)
      .def_prop_ro("needed", &Problem::needed, nb::rv_policy::move)
      .def("select", &Problem::select)
      .def("measure", &Problem::measure)
      .def("work", &Problem::work<float>, exactly("tile"), nb::arg("steps"))
      .def("work", &Problem::work<double>, exactly("tile"), nb::arg("steps"))
      .def("follow", &Problem::follow, exactly("change"));
  const auto bind_pairs = [&](auto routine) {
    module.def("solve_pairs", routine, exactly("K"), exactly("starts"), exactly("column"), exactly("C"), exactly("q"),
               nb::arg("intercept"), nb::arg("tol"), nb::arg("largest_gap"), nb::arg("max_steps"),
               nb::arg("threads"));
  };
  bind_pairs(&solve_pairs<float>);
  bind_pairs(&solve_pairs<double>);
  module.def("advance", &advance<float>, nb::arg("problems"), exactly("rows"), nb::arg("slots"),
             nb::arg("work"), nb::arg("max_steps"), nb::arg("threads"));
  module.def("advance", &advance<double>, nb::arg("problems"), exactly("rows"), nb::arg("slots"),
             nb::arg("work"), nb::arg("max_steps"), nb::arg("threads"));
}
