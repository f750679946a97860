// The binding of coordinate descent.
#include "mercer/coordinate_descent.hpp"

#include <nanobind/stl/optional.h>

#include <cmath>
#include <memory>
#include <optional>

#include "binding.hpp"

namespace {

using Column = In<double, 1>;
using InOut = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Keeps the arrays it works on alive; a is changed in place.
class CoordinateDescent {
 public:
  CoordinateDescent(In<std::int64_t, 1> starts, In<std::int32_t, 1> columns, Column values,
                    std::int32_t width, InOut a, Column p, Column lo, Column hi,
                    std::optional<Column> sign, std::optional<In<std::int32_t, 1>> group,
                    Column totals, double tol, std::uint64_t seed)
      : starts_(starts), columns_(columns), values_(values), a_(a), p_(p), lo_(lo), hi_(hi),
        sign_(sign), group_(group), totals_(totals) {
    require_aligned(columns);
    require_starts(starts, columns.shape(0));
    require(values.shape(0) == columns.shape(0), "a value per entry");
    for (std::size_t k = 0; k < columns.shape(0); ++k)
      require(columns(k) >= 0 && columns(k) < width, "columns that exist");
    const std::size_t n = a.shape(0), points = starts.shape(0) - 1;
    require(points > 0 && n > 0 && n % points == 0, "a whole number of variables per point");
    require(p.shape(0) == n && lo.shape(0) == n && hi.shape(0) == n, "one entry per variable");
    require((!sign || sign->shape(0) == n) && (!group || group->shape(0) == n),
            "one entry per variable");
    require(bool(group) == (totals.shape(0) > 0), "groups where there are totals");
    for (std::size_t v = 0; v < n; ++v) {
      require(!group || ((*group)(v) >= 0 && (*group)(v) < std::int32_t(totals.shape(0))),
              "groups that exist");
      require(std::isfinite(lo(v)) && std::isfinite(hi(v)) && lo(v) <= a(v) && a(v) <= hi(v),
              "a point within finite bounds");
    }
    const mercer::FeatureProgram program{
        {std::ptrdiff_t(points), starts.data(), columns.data(), values.data()},
        width,
        std::int64_t(n),
        a.data(),
        p.data(),
        lo.data(),
        hi.data(),
        sign ? sign->data() : nullptr,
        group ? group->data() : nullptr,
        totals.data(),
        int(totals.shape(0))};
    descent_ = std::make_unique<mercer::CoordinateDescent>(program, tol, seed);
  }

  std::int64_t rounds() const { return descent_->rounds(); }
  std::int64_t steps() const { return descent_->steps(); }
  double violation() const { return descent_->violation(); }

  void run(std::int64_t rounds, double seconds) {
    const auto work = [&] {
      return mercer::share(
          1, 1,
          [&](std::ptrdiff_t, const mercer::Stop& stop) { descent_->run(rounds, seconds, stop); },
          interrupted);
    };
    without_gil(busy_, work, true);
  }

 private:
  In<std::int64_t, 1> starts_;
  In<std::int32_t, 1> columns_;
  Column values_;
  InOut a_;
  Column p_, lo_, hi_;
  std::optional<Column> sign_;
  std::optional<In<std::int32_t, 1>> group_;
  Column totals_;
  std::unique_ptr<mercer::CoordinateDescent> descent_;
  Busy busy_;
};

}  // namespace

void bind_coordinate_descent(nb::module_& module) {
  const auto exactly = [](const char* argument) { return nb::arg(argument).noconvert(); };
  nb::class_<CoordinateDescent>(module, "CoordinateDescent")
      .def(nb::init<In<std::int64_t, 1>, In<std::int32_t, 1>, Column, std::int32_t, InOut, Column,
                    Column, Column, std::optional<Column>, std::optional<In<std::int32_t, 1>>,
                    Column, double, std::uint64_t>(),
           exactly("starts"), exactly("columns"), exactly("values"), nb::arg("width"),
           exactly("a"), exactly("p"), exactly("lo"), exactly("hi"), exactly("sign").none(),
           exactly("group").none(), exactly("totals"), nb::arg("tol"), nb::arg("seed"))
      .def_prop_ro("rounds", &CoordinateDescent::rounds)
      .def_prop_ro("steps", &CoordinateDescent::steps)
      .def_prop_ro("violation", &CoordinateDescent::violation)
      .def("run", &CoordinateDescent::run, nb::arg("rounds"), nb::arg("seconds"));
}
