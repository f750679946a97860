// The binding of feature tables.
#include "mercer/tables.hpp"

#include <nanobind/stl/tuple.h>

#include <tuple>

#include "binding.hpp"

namespace {

using mercer::KeyTable;
using Number = KeyTable::Number;
using Rows = std::tuple<Out<std::int64_t, 1>, Out<std::int64_t, 1>, Out<double, 1>>;

// So few keys are done before another thread had started.
constexpr std::size_t few = std::size_t(1) << 14;

class Table {
 public:
  explicit Table(int width) : table_(width) {
    require(width >= 1 && width <= 4096, "a width between 1 and 4096");
  }

  int width() const { return table_.width(); }
  std::int64_t size() {
    std::int64_t found = 0;
    without_gil(busy_, [&] { return found = table_.size(), true; });
    return found;
  }

  // How far from its place the farthest key lies: the most comparisons that finding one takes.
  std::int64_t longest_probe() {
    std::int64_t found = 0;
    without_gil(busy_, [&] { return found = table_.longest_probe(), true; });
    return found;
  }

  Out<Number, 2> keys() {
    std::vector<Number> found;
    without_gil(busy_, [&] {
      found.assign(table_.keys(), table_.keys() + table_.size() * table_.width());
      return true;
    });
    const std::size_t width = table_.width();
    Out<Number, 2> out = new_array<Number, 2>({found.size() / width, width});
    std::copy(found.begin(), found.end(), out.data());
    return out;
  }

  Rows count_keys(In<Number, 2> keys, In<std::int64_t, 1> starts, bool grow) {
    require_aligned(keys);
    require(int(keys.shape(1)) == table_.width(), "keys as wide as the table");
    require_starts(starts, keys.shape(0));
    return counted(keys.shape(0) < few, grow, [&](const mercer::Stop& stop) {
      return mercer::count_keys(table_, keys.data(), starts.data(),
                                std::ptrdiff_t(starts.shape(0)) - 1, grow, stop);
    });
  }

  Rows count_words(In<Number, 1> symbols, In<std::int64_t, 1> starts, In<std::int64_t, 2> offsets,
                   int mismatches, Number letters, bool grow) {
    require_aligned(symbols);
    require_aligned(offsets);
    require_starts(starts, symbols.shape(0));
    require(int(offsets.shape(1)) == table_.width(), "offsets as wide as the table");
    require(mismatches >= 0 && mismatches <= table_.width(), "no more mismatches than symbols");
    for (std::size_t p = 0; p < offsets.shape(0); ++p)
      for (std::size_t k = 0; k < offsets.shape(1); ++k)
        require(k == 0 ? offsets(p, 0) == 0
                       : offsets(p, k) > offsets(p, k - 1) && offsets(p, k) < std::int64_t(most_points),
                "offsets increase from 0");
    for (std::size_t i = 0; mismatches > 0 && i < symbols.shape(0); ++i)
      require(symbols(i) < letters, "symbols of the alphabet");
    const mercer::Words words{offsets.data(), std::ptrdiff_t(offsets.shape(0)), mismatches, letters};
    return counted(symbols.shape(0) < few, grow, [&](const mercer::Stop& stop) {
      return mercer::count_words(table_, symbols.data(), starts.data(),
                                 std::ptrdiff_t(starts.shape(0)) - 1, words, grow, stop);
    });
  }

 private:
  template <class Count>
  Rows counted(bool small, bool grow, Count count) {
    mercer::Counts counts;
    const auto work = [&] {
      return mercer::share(
          1, small ? 0 : 1,
          [&](std::ptrdiff_t, const mercer::Stop& stop) { counts = count(stop); },
          interrupted);
    };
    without_gil(busy_, work, grow);
    return {copied(counts.starts), copied(counts.columns), copied(counts.values)};
  }

  KeyTable table_;
  Busy busy_;
};

}  // namespace

void bind_tables(nb::module_& module) {
  const auto exactly = [](const char* argument) { return nb::arg(argument).noconvert(); };
  nb::class_<Table>(module, "KeyTable")
      .def(nb::init<int>(), nb::arg("width"))
      .def_prop_ro("width", &Table::width)
      .def_prop_ro("size", &Table::size)
      .def_prop_ro("longest_probe", &Table::longest_probe)
      .def("keys", &Table::keys)
      .def("count_keys", &Table::count_keys, exactly("keys"), exactly("starts"), nb::arg("grow"))
      .def("count_words", &Table::count_words, exactly("symbols"), exactly("starts"),
           exactly("offsets"), nb::arg("mismatches"), nb::arg("letters"), nb::arg("grow"));
}
