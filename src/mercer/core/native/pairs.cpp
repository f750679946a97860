// The binding of expressions over pairs: checks what comes from Python, and nothing more.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "binding.hpp"
#include "mercer/instances.hpp"
#include "mercer/tree.hpp"

namespace {

using Operations = nb::ndarray<const std::int32_t, nb::shape<-1, 5>, nb::c_contig, nb::device::cpu>;
using Constants = nb::ndarray<const double, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;

// operations: (op, out, a, b, source of b) per row; constants: (c, d) per row.
mercer::Program read_program(const Operations& operations, const Constants& constants,
                             int registers, int result, std::size_t leaves, std::size_t row_terms,
                             std::size_t column_terms) {
  require_aligned(operations);
  require_aligned(constants);
  require(operations.shape(0) == constants.shape(0), "one pair of constants per operation");
  require(registers > 0 && registers <= 65536, "between 1 and 65536 registers");
  require(int(leaves) <= registers, "a register for each statistic");
  std::vector<mercer::Instruction> instructions;
  std::vector<bool> written(registers);
  std::fill_n(written.begin(), leaves, true);
  const auto holds = [&](int index) { return index >= 0 && index < registers && written[index]; };
  for (std::size_t i = 0; i < operations.shape(0); ++i) {
    const int op = operations(i, 0), out = operations(i, 1), a = operations(i, 2),
              b = operations(i, 3), source = operations(i, 4);
    require(op >= 0 && op <= int(mercer::Op::step), "an operation that exists");
    require(out >= 0 && out < registers, "operations write to registers");
    require(source >= 0 && source <= int(mercer::Source::column), "a source that exists");
    const mercer::Op what = mercer::Op(op);
    const mercer::Source from = mercer::Source(source);
    if (what == mercer::Op::row)
      require(a >= 0 && a < int(row_terms), "a row term that exists");
    else if (what == mercer::Op::column)
      require(a >= 0 && a < int(column_terms), "a column term that exists");
    else if (what != mercer::Op::constant)
      require(holds(a), "operations read registers that hold something");
    if (what >= mercer::Op::add && what <= mercer::Op::divide) {
      if (from == mercer::Source::row)
        require(b >= 0 && b < int(row_terms), "a row term that exists");
      else if (from == mercer::Source::column)
        require(b >= 0 && b < int(column_terms), "a column term that exists");
      else
        require(holds(b), "operations read registers that hold something");
    }
    if (what == mercer::Op::accumulate) require(holds(out), "a sum to add to");
    written[out] = true;
    require(what != mercer::Op::integer_power ||
                std::abs(constants(i, 0)) <= std::numeric_limits<int>::max(),
            "an integer power is an int");
    instructions.push_back({what, out, a, b, from, constants(i, 0), constants(i, 1)});
  }
  require(holds(result), "the result is a register that holds something");
  return mercer::Program(std::move(instructions), registers, result);
}

// An expression over two sets of points; keeps the arrays it was given alive.
template <class T>
class Pairs {
 public:
  using Matrix = In<T, 2>;
  using Row = In<T, 1>;
  // kind, X, Y, X as given, Y as given, squared norms of X and Y, block
  using LeafArguments = std::tuple<int, Matrix, Matrix, Matrix, Matrix, std::optional<Row>,
                                   std::optional<Row>, std::optional<Matrix>>;

  Pairs(const Pairs&) = delete;
  Pairs(const Operations& operations, const Constants& constants, int registers, int result,
        std::vector<LeafArguments> leaves, std::vector<Row> row_terms,
        std::vector<Row> column_terms, std::size_t n, std::size_t m)
      : leaves_(std::move(leaves)),
        row_terms_(std::move(row_terms)),
        column_terms_(std::move(column_terms)) {
    require(n > 0 && m > 0, "at least one point on each side");
    require(n <= most_points && m <= most_points, "no more points than fit in memory");
    pairs_.program = read_program(operations, constants, registers, result, leaves_.size(),
                                  row_terms_.size(), column_terms_.size());
    pairs_.n = std::ptrdiff_t(n);
    pairs_.m = std::ptrdiff_t(m);
    for (const auto& [kind, X, Y, X_given, Y_given, X_norms, Y_norms, block] : leaves_) {
      require(kind >= 0 && kind <= int(mercer::Statistic::given), "a statistic that exists");
      const std::size_t d = X.shape(1);
      require(X.shape(0) == n && Y.shape(0) == m && Y.shape(1) == d, "X is (n, d) and Y (m, d)");
      require(X_given.shape(0) == n && X_given.shape(1) == d && Y_given.shape(0) == m &&
                  Y_given.shape(1) == d,
              "points as given have the shapes of X and Y");
      for (const Matrix* points : {&X, &Y, &X_given, &Y_given}) require_aligned(*points);
      for (const auto* norms : {&X_norms, &Y_norms})
        if (*norms) require_aligned(**norms);
      if (block) require_aligned(*block);
      require(!block || (block->shape(0) == n && block->shape(1) == m), "a block is (n, m)");
      require(block || mercer::Statistic(kind) != mercer::Statistic::given, "a block is needed");
      const bool tangent = mercer::Statistic(kind) == mercer::Statistic::difference_product ||
                           mercer::Statistic(kind) == mercer::Statistic::sign_product;
      require(!tangent || d % 2 == 0, "points with their tangents");
      mercer::Leaf<T> leaf;
      leaf.kind = mercer::Statistic(kind);
      leaf.X = X.data(), leaf.Y = Y.data();
      leaf.X_given = X_given.data(), leaf.Y_given = Y_given.data();
      leaf.X_norms = X_norms ? X_norms->data() : nullptr;
      leaf.Y_norms = Y_norms ? Y_norms->data() : nullptr;
      leaf.block = block ? block->data() : nullptr;
      leaf.n = pairs_.n, leaf.m = pairs_.m, leaf.d = std::ptrdiff_t(d);
      require(!leaf.needs_norms() || (X_norms && Y_norms && X_norms->shape(0) == n &&
                                      Y_norms->shape(0) == m),
              "squared distances need the norms of X (n,) and Y (m,)");
      pairs_.leaves.push_back(leaf);
    }
    for (const Row& term : row_terms_) {
      require_aligned(term);
      require(term.shape(0) == n, "a row term has n entries");
      pairs_.row_terms.push_back(term.data());
    }
    for (const Row& term : column_terms_) {
      require_aligned(term);
      require(term.shape(0) == m, "a column term has m entries");
      pairs_.column_terms.push_back(term.data());
    }
  }

  void gram(nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu> out, bool symmetric,
            int threads) {
    require_aligned(out);
    require(std::ptrdiff_t(out.shape(0)) == pairs_.n && std::ptrdiff_t(out.shape(1)) == pairs_.m,
            "out is (n, m)");
    require(!symmetric || pairs_.n == pairs_.m, "a symmetric matrix is square");
    without_gil(busy_, [&] {
      return mercer::gram<T>(pairs_, out.data(), symmetric, threads, interrupted);
    });
  }

  // out[places, first:last] = K[rows, first:last]
  void some_rows(In<std::int64_t, 1> rows, In<std::int64_t, 1> places, std::size_t first,
                 std::size_t last, nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu> out,
                 int threads) {
    for (const auto* index : {&rows, &places}) require_aligned(*index);
    require_aligned(out);
    require(rows.shape(0) == places.shape(0), "a place for each row");
    require(std::ptrdiff_t(out.shape(1)) == pairs_.m, "out has m columns");
    require(first <= last && std::ptrdiff_t(last) <= pairs_.m, "a range of the columns");
    for (std::size_t i = 0; i < rows.shape(0); ++i)
      require(rows(i) >= 0 && rows(i) < pairs_.n && places(i) >= 0 &&
                  std::size_t(places(i)) < out.shape(0),
              "rows and places that exist");
    if (first == last || rows.shape(0) == 0) return;
    without_gil(busy_, [&] {
      return mercer::some_rows<T>(pairs_, rows.data(), places.data(), std::ptrdiff_t(rows.shape(0)),
                                  std::ptrdiff_t(first), std::ptrdiff_t(last), out.data(), threads,
                                  interrupted);
    });
  }

  Out<double, 2> product(Matrix V, int threads) {
    check_columns(V, pairs_.m);
    auto out = new_array<double, 2>({std::size_t(pairs_.n), V.shape(1)});
    without_gil(busy_, [&] {
      return mercer::product<T>(pairs_, V.data(), int(V.shape(1)), out.data(), nullptr, 0, nullptr,
                                false, threads, interrupted);
    });
    return out;
  }

  std::tuple<Out<double, 2>, Out<double, 2>> products(Matrix V, Matrix U, int threads) {
    check_columns(V, pairs_.m);
    check_columns(U, pairs_.n);
    auto out = new_array<double, 2>({std::size_t(pairs_.n), V.shape(1)});
    auto side = new_array<double, 2>({std::size_t(pairs_.m), U.shape(1)});
    without_gil(busy_, [&] {
      return mercer::product<T>(pairs_, V.data(), int(V.shape(1)), out.data(), U.data(),
                                int(U.shape(1)), side.data(), false, threads, interrupted);
    });
    return {out, side};
  }

  // K V for n other rows, with the leaves' X, X as given and squared norms of X. The columns are
  // packed by the first call and kept; calls of several threads go on side by side.
  using RowArguments = std::tuple<Matrix, Matrix, std::optional<Row>>;
  Out<double, 2> product_at(std::vector<RowArguments> rows, std::vector<Row> terms, std::size_t n,
                            Matrix V, int threads) {
    check_columns(V, pairs_.m);
    require(n > 0 && n <= most_points, "at least one row, and no more than fit in memory");
    require(rows.size() == pairs_.leaves.size(), "points for each statistic");
    require(terms.size() == pairs_.row_terms.size(), "as many terms of rows");
    std::vector<mercer::Leaf<T>> leaves = pairs_.leaves;
    for (std::size_t l = 0; l < leaves.size(); ++l) {
      const auto& [X, X_given, X_norms] = rows[l];
      mercer::Leaf<T>& leaf = leaves[l];
      require(!leaf.block, "statistics that the core computes");
      for (const Matrix* points : {&X, &X_given}) {
        require_aligned(*points);
        require(points->shape(0) == n && std::ptrdiff_t(points->shape(1)) == leaf.d,
                "X is (n, d)");
      }
      if (X_norms) require_aligned(*X_norms);
      require(!leaf.needs_norms() || (X_norms && X_norms->shape(0) == n),
              "squared distances need the norms of X (n,)");
      leaf.X = X.data(), leaf.X_given = X_given.data();
      leaf.X_norms = X_norms ? X_norms->data() : nullptr;
      leaf.n = std::ptrdiff_t(n);
    }
    std::vector<const T*> numbers;
    for (const Row& term : terms) {
      require_aligned(term);
      require(term.shape(0) == n, "a row term has n entries");
      numbers.push_back(term.data());
    }
    auto out = new_array<double, 2>({n, V.shape(1)});
    mercer::Pairs<T> some;
    without_gil(busy_, [&] {
      if (!pairs_.prepared() && !pairs_.prepare(threads, interrupted)) return false;
      some = pairs_.with_rows(std::move(leaves), std::move(numbers), std::ptrdiff_t(n));
      return true;
    });
    without_gil([&] {
      return mercer::product<T>(some, V.data(), int(V.shape(1)), out.data(), nullptr, 0, nullptr,
                                false, threads, interrupted);
    });
    return out;
  }

  // K V where both sides have the same points and the expression is the same both ways round.
  Out<double, 2> symmetric_product(Matrix V, int threads) {
    require(pairs_.n == pairs_.m, "a symmetric matrix is square");
    check_columns(V, pairs_.m);
    const int c = int(V.shape(1));
    auto out = new_array<double, 2>({std::size_t(pairs_.n), V.shape(1)});
    std::vector<double> side(std::size_t(pairs_.m) * c);
    without_gil(busy_, [&] {
      return mercer::product<T>(pairs_, V.data(), c, out.data(), V.data(), c, side.data(), true,
                                threads, interrupted);
    });
    for (std::size_t i = 0; i < side.size(); ++i) out.data()[i] += side[i];
    return out;
  }

  // K^T S (T - K V), or K^T S K V without targets, and the sums over rows of what K^T multiplies.
  std::tuple<Out<double, 2>, Out<double, 1>> normal_product(Matrix V, std::optional<Matrix> targets,
                                                            std::optional<Row> weight,
                                                            int threads) {
    check_columns(V, pairs_.m);
    if (targets) check_columns(*targets, pairs_.n);
    require(!targets || targets->shape(1) == V.shape(1), "as many targets as columns of V");
    if (weight) require_aligned(*weight);
    require(!weight || std::ptrdiff_t(weight->shape(0)) == pairs_.n, "weight has n entries");
    auto side = new_array<double, 2>({std::size_t(pairs_.m), V.shape(1)});
    auto total = new_array<double, 1>({V.shape(1)});
    without_gil(busy_, [&] {
      return mercer::normal_product<T>(pairs_, V.data(), int(V.shape(1)),
                                       targets ? targets->data() : nullptr,
                                       weight ? weight->data() : nullptr, side.data(),
                                       total.data(), threads, interrupted);
    });
    return {side, total};
  }

  Out<double, 1> log_sum_exp(std::optional<Row> log_weight, int threads) {
    if (log_weight) require_aligned(*log_weight);
    require(!log_weight || std::ptrdiff_t(log_weight->shape(0)) == pairs_.m,
            "log_weight has m entries");
    auto out = new_array<double, 1>({std::size_t(pairs_.n)});
    without_gil(busy_, [&] {
      return mercer::log_sum_exp<T>(pairs_, log_weight ? log_weight->data() : nullptr, out.data(),
                                    threads, interrupted);
    });
    return out;
  }

  std::tuple<Out<T, 1>, Out<std::int64_t, 1>> arg_min(int threads) {
    auto least = new_array<T, 1>({std::size_t(pairs_.n)});
    auto where = new_array<std::int64_t, 1>({std::size_t(pairs_.n)});
    without_gil(busy_, [&] {
      return mercer::arg_min<T>(pairs_, least.data(), where.data(), threads, interrupted);
    });
    return {least, where};
  }

  // Sums over the columns within a tolerance; for a program that falls with its one statistic.
  Out<double, 1> tree_sums(In<double, 1> weight, double rtol, double atol, int threads)
    requires(sizeof(T) == 8)
  {
    require_aligned(weight);
    require(std::ptrdiff_t(weight.shape(0)) == pairs_.m, "weight has m entries");
    require(pairs_.leaves.size() == 1 && pairs_.leaves[0].kind == mercer::Statistic::sqdist &&
                !pairs_.leaves[0].block && row_terms_.empty() && column_terms_.empty(),
            "a function of the squared distance alone");
    require(pairs_.leaves[0].d > 0, "at least one feature");
    require(rtol >= 0 && atol >= 0, "tolerances are not negative");
    auto out = new_array<double, 1>({std::size_t(pairs_.n)});
    without_gil(busy_, [&] {
      const mercer::Leaf<double>& leaf = pairs_.leaves[0];
      return mercer::tree_sums(pairs_.program, leaf.X_given, leaf.Y_given, weight.data(), pairs_.n,
                               pairs_.m, leaf.d, rtol, atol, out.data(), threads, interrupted);
    });
    return out;
  }

 private:
  static void check_columns(const Matrix& columns, std::ptrdiff_t rows) {
    require_aligned(columns);
    require(std::ptrdiff_t(columns.shape(0)) == rows, "V has m rows, and U has n");
    require(columns.shape(1) <= most_columns, "no more than a million columns");
  }

  std::vector<LeafArguments> leaves_;
  std::vector<Row> row_terms_, column_terms_;
  mercer::Pairs<T> pairs_;
  Busy busy_;
};

template <class T>
void bind_pairs(nb::module_& module, const char* name) {
  using P = Pairs<T>;
  // noconvert: an array of another dtype or layout is refused rather than quietly copied.
  const auto exactly = [](const char* argument) { return nb::arg(argument).noconvert(); };
  auto bound = nb::class_<P>(module, name);
  if constexpr (sizeof(T) == 8)
    bound.def("tree_sums", &P::tree_sums, exactly("weight"), nb::arg("rtol"), nb::arg("atol"),
              nb::arg("threads"));
  bound
      .def(nb::init<const Operations&, const Constants&, int, int,
                    std::vector<typename P::LeafArguments>, std::vector<typename P::Row>,
                    std::vector<typename P::Row>, std::size_t, std::size_t>(),
           exactly("operations"), exactly("constants"), nb::arg("registers"), nb::arg("result"),
           exactly("leaves"), exactly("row_terms"), exactly("column_terms"), nb::arg("n"),
           nb::arg("m"))
      .def("gram", &P::gram, exactly("out"), nb::arg("symmetric"), nb::arg("threads"))
      .def("some_rows", &P::some_rows, exactly("rows"), exactly("places"), nb::arg("first"),
           nb::arg("last"), exactly("out"), nb::arg("threads"))
      .def("product", &P::product, exactly("V"), nb::arg("threads"))
      .def("product_at", &P::product_at, exactly("rows"), exactly("terms"), nb::arg("n"), exactly("V"),
           nb::arg("threads"))
      .def("symmetric_product", &P::symmetric_product, exactly("V"), nb::arg("threads"))
      .def("products", &P::products, exactly("V"), exactly("U"), nb::arg("threads"))
      .def("normal_product", &P::normal_product, exactly("V"), exactly("targets").none(),
           exactly("weight").none(), nb::arg("threads"))
      .def("log_sum_exp", &P::log_sum_exp, exactly("log_weight").none(), nb::arg("threads"))
      .def("arg_min", &P::arg_min, nb::arg("threads"));
}

}  // namespace

void bind_pairs(nb::module_& module) {
  bind_pairs<float>(module, "Pairs32");
  bind_pairs<double>(module, "Pairs64");
}
