// An expression as a short program over tiles of pairs that stay in the first-level cache.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "mercer/functions.hpp"

namespace mercer {

enum class Op : int {
  row,           // out = f(x), a one-sided term of the row's point
  column,        // out = f(z)
  constant,      // out = c
  affine,        // out = c a + d
  add,           // out = c a + d b
  multiply,      // out = c a b + d
  accumulate,    // out = out + c a b
  divide,        // out = a / b, c where b = 0
  integer_power, // out = a ** int(c)
  real_power,    // out = a ** c for a >= 0
  exp,           // out = exp(c a)
  exp_negative,  // the same, known to be at most 1
  sqrt,
  tanh,          // out = tanh(c a + d)
  log,
  inverse_sqrt,  // 1 / sqrt(a), 0 where a = 0
  positive,      // max(a, 0)
  step,          // 1 where a > 0, else 0
};

// Where an operation finds its b: in a register, or as a one-sided term.
enum class Source : int { tile, row, column };

// out, a and b are registers: tiles of rows x columns. The first registers hold the statistics.
// In row, column, and where the source says so, a or b is the number of a one-sided term instead.
struct Instruction {
  Op op;
  int out, a, b;
  Source source;
  double c, d;
};

constexpr bool takes_two(Op op) { return op >= Op::add && op <= Op::divide; }
constexpr bool combines(Op op) { return op >= Op::add && op <= Op::accumulate; }
constexpr bool is_power(Op op) { return op == Op::integer_power || op == Op::real_power; }
constexpr bool is_exp(Op op) { return op == Op::exp || op == Op::exp_negative; }

// One pass over a tile: an operation, with what is done to its operand before and to its value after
// it, if nobody else needs to know either. Reading and writing registers costs more than most
// arithmetic.
struct Pass {
  std::optional<Instruction> before;  // affine before a power, add or sqrt before an exponential
  Instruction main;
  std::optional<Instruction> after;  // add, multiply or accumulate; its a is the value
};

class Program {
 public:
  int registers = 0, result = 0;

  Program() = default;
  Program(std::vector<Instruction> instructions, int registers, int result)
      : registers(registers), result(result), instructions_(std::move(instructions)) {
    for (std::size_t k = 0; k < instructions_.size(); ++k) {
      Pass pass{{}, instructions_[k], {}};
      if (goes_before(k)) {
        pass.before = instructions_[k];
        pass.main = instructions_[++k];
      }
      if (goes_after(k)) pass.after = with_value_first(instructions_[++k], pass.main.out);
      passes_.push_back(pass);
    }
  }

  const std::vector<Instruction>& instructions() const { return instructions_; }
  const std::vector<Pass>& passes() const { return passes_; }

 private:
  static int reads(const Instruction& i, int index) {
    if (i.op <= Op::constant) return 0;
    return int(i.a == index) + int(takes_two(i.op) && i.source == Source::tile && i.b == index) +
           2 * int(i.op == Op::accumulate && i.out == index);
  }

  // Whether the value of instruction k is read once, by the next one, and never again.
  bool joins(std::size_t k) const {
    const int index = instructions_[k].out;
    if (k + 1 == instructions_.size() || reads(instructions_[k + 1], index) != 1) return false;
    if (instructions_[k + 1].out == index) return true;
    for (std::size_t later = k + 2; later < instructions_.size(); ++later) {
      if (reads(instructions_[later], index)) return false;
      if (instructions_[later].out == index) return true;
    }
    return index != result;
  }
  bool goes_before(std::size_t k) const {
    if (!joins(k)) return false;
    const Op op = instructions_[k].op, next = instructions_[k + 1].op;
    return (op == Op::affine && is_power(next)) ||
           ((op == Op::add || op == Op::sqrt) && is_exp(next));
  }
  bool goes_after(std::size_t k) const {
    const Op op = instructions_[k].op;
    const bool may = op >= Op::affine && op <= Op::tanh && op != Op::accumulate;
    return may && joins(k) && combines(instructions_[k + 1].op);
  }
  static Instruction with_value_first(Instruction i, int value) {
    if (i.a == value) return i;
    std::swap(i.a, i.b);
    if (i.op == Op::add) std::swap(i.c, i.d);
    return i;
  }

  std::vector<Instruction> instructions_;
  std::vector<Pass> passes_;
};

// One tile of a program at work: its registers, and its one-sided terms from the tile's first row
// and column on.
template <class T>
struct Tile {
  T* registers;
  int rows, columns;
  const T* const* row_terms;
  const T* const* column_terms;

  T* at(int index) const { return registers + std::ptrdiff_t(index) * rows * columns; }
};

// What an operation reads: a register or a one-sided term. Vectors follow each other by `step`, which
// is 0 for the terms of rows, and rows by `stride`, which is 0 for those of columns.
template <class T>
struct Operand {
  static constexpr int W = Simd<T>::width;
  const T* first;
  int step = W, stride;
  T spread[tile_rows * W];

  MERCER_INLINE Operand(const Tile<T>& tile, int index, Source source) {
    if (source == Source::row) {
      for (int r = 0; r < tile.rows; ++r)
        store<T>(spread + r * W, broadcast<T>(tile.row_terms[index][r]));
      first = spread, step = 0, stride = W;
    } else {
      first = source == Source::tile ? tile.at(index) : tile.column_terms[index];
      stride = source == Source::tile ? tile.columns : 0;
    }
  }
};

// Whether numbers in an operation are such that it needs no multiplication by them.
constexpr bool is_plain(const Instruction& i) {
  return i.c == 1 && i.d == (i.op == Op::add ? 1 : 0);
}

// One pass, with its operation f of one operand (b is ignored) or two; with `Plain`, the numbers in
// what comes after are.
template <class T, Op Before, Op After, bool Plain, class F>
MERCER_INLINE void pass_over(const Tile<T>& tile, const Pass& pass, F f) {
  using V = Vector<T>;
  const Instruction& first = Before == Op::constant ? pass.main : *pass.before;
  const Instruction& last = After == Op::constant ? pass.main : *pass.after;
  const T c0 = T(first.c), d0 = T(first.d), c1 = T(last.c), d1 = T(last.d);
  const bool two = takes_two(first.op);
  const T* a = tile.at(first.a);
  T* out = tile.at(last.out);
  const Operand<T> b(tile, two ? first.b : first.a, two ? first.source : Source::tile);
  const Operand<T> other(tile, After == Op::constant ? first.a : last.b,
                         After == Op::constant ? Source::tile : last.source);
  const bool flat = b.stride == tile.columns && other.stride == tile.columns;
  const int rows = flat ? 1 : tile.rows, columns = flat ? tile.rows * tile.columns : tile.columns;
  for (int r = 0; r < rows; ++r, a += columns, out += columns) {
    const T *y = b.first + r * b.stride, *w = other.first + r * other.stride;
    for (int j = 0; j < columns; j += Simd<T>::width, y += b.step, w += other.step) {
      V value = load<T>(a + j);
      if constexpr (Before == Op::affine) value = c0 * value + d0;
      if constexpr (Before == Op::add) value = c0 * value + d0 * load<T>(y);
      if constexpr (Before == Op::sqrt) value = sqrt<T>(value);
      if constexpr (std::is_invocable_v<F, V>)
        value = f(value);
      else
        value = f(value, load<T>(y));
      if constexpr (After != Op::constant && After != Op::add && !Plain) value = c1 * value;
      if constexpr (After == Op::add)
        value = Plain ? value + load<T>(w) : c1 * value + d1 * load<T>(w);
      if constexpr (After == Op::multiply) value = value * load<T>(w) + (Plain ? T(0) : d1);
      if constexpr (After == Op::accumulate) value = load<T>(out + j) + value * load<T>(w);
      store<T>(out + j, value);
    }
  }
}

// out = f(a) or f(a, b), and what comes after it.
template <class T, Op Before = Op::constant, class F>
MERCER_INLINE void each(const Tile<T>& tile, const Pass& pass, F f) {
  const auto with = [&]<Op After>(std::integral_constant<Op, After>) {
    if (is_plain(*pass.after))
      pass_over<T, Before, After, true>(tile, pass, f);
    else
      pass_over<T, Before, After, false>(tile, pass, f);
  };
  switch (pass.after ? pass.after->op : Op::constant) {
    case Op::add:
      return with(std::integral_constant<Op, Op::add>());
    case Op::multiply:
      return with(std::integral_constant<Op, Op::multiply>());
    case Op::accumulate:
      return with(std::integral_constant<Op, Op::accumulate>());
    default:
      return pass_over<T, Before, Op::constant, false>(tile, pass, f);
  }
}

// The same with nothing before or after it.
template <class T, class F>
MERCER_INLINE void alone(const Tile<T>& tile, const Pass& pass, F f) {
  pass_over<T, Op::constant, Op::constant, false>(tile, pass, f);
}

// The same, of a sum or of an affine function.
template <class T, Op Before, class F>
MERCER_INLINE void each_after(const Tile<T>& tile, const Pass& pass, F f) {
  pass.before ? each<T, Before>(tile, pass, f) : each<T>(tile, pass, f);
}

template <class T>
MERCER_INLINE Vector<T> raised(Vector<T> base, int power) {
  Vector<T> result = broadcast<T>(T(1));
  for (unsigned left = power < 0 ? 0u - unsigned(power) : unsigned(power); left; left >>= 1) {
    if (left & 1) result = result * base;
    base = base * base;
  }
  return power < 0 ? T(1) / result : result;
}

// a ** int(c).
template <class T>
void integer_power(const Tile<T>& tile, const Pass& pass) {
  using V = Vector<T>;
  const int power = int(pass.main.c);
  if (power == 2)
    each_after<T, Op::affine>(tile, pass, [](V x) { return x * x; });
  else if (power == 3)
    each_after<T, Op::affine>(tile, pass, [](V x) { return x * x * x; });
  else
    each_after<T, Op::affine>(tile, pass, [power](V x) { return raised<T>(x, power); });
}

// a ** c for a >= 0; multiples of one half need no logarithm.
template <class T>
void real_power(const Tile<T>& tile, const Pass& pass) {
  using V = Vector<T>;
  const double power = pass.main.c;
  if (std::abs(power) < 32 && std::fmod(std::abs(power), 1.0) == 0.5) {
    const int whole = int(std::abs(power));
    const bool below = power < 0;
    if (guesses_roots<T> && power == -1.5)
      return each_after<T, Op::affine>(tile, pass, [](V x) {
        const V y = inverse_sqrt<T>(x);
        return y * y * y;
      });
    each_after<T, Op::affine>(tile, pass, [=](V x) {
      const V y = raised<T>(x, whole) * sqrt<T>(x);
      return below ? T(1) / y : y;
    });
  } else {
    each_after<T, Op::affine>(
        tile, pass, [c = factor_of_two<T>(power), exp_two = ExpTwo<T, true>()](V x) {
          return exp_two(c * log<T>(x));
        });
  }
}

// exp(c a), or of the sum before it; with `Any`, for any a.
template <class T, bool Any>
void exponential(const Tile<T>& tile, const Pass& pass) {
  each_after<T, Op::add>(
      tile, pass, [c = factor_of_two<T>(pass.main.c), exp_two = ExpTwo<T, Any>()](Vector<T> x) {
        return exp_two(c * x);
      });
}

// exp(c sqrt(a)). By itself, lest the numbers of the one above be read from memory.
template <class T>
void exponential_of_root(const Tile<T>& tile, const Pass& pass) {
  each<T, Op::sqrt>(
      tile, pass, [c = factor_of_two<T>(pass.main.c), exp_two = ExpTwo<T, true>()](Vector<T> x) {
        return exp_two(c * x);
      });
}

template <class T>
inline void run(const Program& program, const Tile<T>& tile) {
  const int size = tile.rows * tile.columns;
  using V = Vector<T>;
  for (const Pass& pass : program.passes()) {
    const Instruction& i = pass.main;
    const T c = T(i.c), d = T(i.d);
    T* out = tile.at(i.out);
    switch (i.op) {
      case Op::row:
        for (int r = 0; r < tile.rows; ++r)
          std::fill_n(out + r * tile.columns, tile.columns, tile.row_terms[i.a][r]);
        break;
      case Op::column:
        for (int r = 0; r < tile.rows; ++r)
          std::copy_n(tile.column_terms[i.a], tile.columns, out + r * tile.columns);
        break;
      case Op::constant:
        std::fill_n(out, size, c);
        break;
      case Op::affine:
        each<T>(tile, pass, [c, d](V x) { return c * x + d; });
        break;
      case Op::add:
        if (d == T(1))
          each<T>(tile, pass, [c](V x, V y) { return c * x + y; });
        else
          each<T>(tile, pass, [c, d](V x, V y) { return c * x + d * y; });
        break;
      case Op::multiply:
        if (is_plain(i))
          each<T>(tile, pass, [](V x, V y) { return x * y; });
        else
          each<T>(tile, pass, [c, d](V x, V y) { return c * x * y + d; });
        break;
      case Op::accumulate:
        each<T>(tile, {{}, i, i}, [](V x) { return x; });
        break;
      case Op::divide:
        each<T>(tile, pass, [c](V x, V y) {
          const V quotient = x / y;
          return y == T(0) ? broadcast<T>(c) : quotient;
        });
        break;
      case Op::integer_power:
        integer_power<T>(tile, pass);
        break;
      case Op::real_power:
        real_power<T>(tile, pass);
        break;
      case Op::exp:
      case Op::exp_negative:
        if (pass.before && pass.before->op == Op::sqrt)
          exponential_of_root<T>(tile, pass);
        else if (i.op == Op::exp)
          exponential<T, true>(tile, pass);
        else
          exponential<T, false>(tile, pass);
        break;
      case Op::sqrt:
        each<T>(tile, pass, [](V x) { return sqrt<T>(x); });
        break;
      case Op::tanh:
        each<T>(tile, pass, [c, d](V x) { return tanh<T>(c * x + d); });
        break;
      case Op::log:
        alone<T>(tile, pass, [](V x) { return log<T>(x); });
        break;
      case Op::inverse_sqrt:
        alone<T>(tile, pass, [](V x) {
          const V y = T(1) / sqrt<T>(x);
          return x == T(0) ? V{} : y;
        });
        break;
      case Op::positive:
        alone<T>(tile, pass, [](V x) { return x < T(0) ? V{} : x; });
        break;
      case Op::step:
        alone<T>(tile, pass, [](V x) { return x > T(0) ? broadcast<T>(T(1)) : V{}; });
        break;
    }
  }
}

}  // namespace mercer
