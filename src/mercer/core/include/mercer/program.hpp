// An expression as a short program over tiles of pairs that stay in the first-level cache.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "mercer/buffers.hpp"
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
constexpr bool combines(Op op) { return op >= Op::affine && op <= Op::accumulate; }
constexpr bool is_power(Op op) { return op == Op::integer_power || op == Op::real_power; }
constexpr bool is_exp(Op op) { return op == Op::exp || op == Op::exp_negative; }

// One pass over a tile: an operation, with what is done to its operand before and to its value after
// it, if nobody else needs to know either. Reading and writing registers costs more than most
// arithmetic.
struct Pass {
  std::optional<Instruction> before;  // affine before a power, add or sqrt before an exponential
  Instruction main;
  std::optional<Instruction> after;  // affine, add, multiply or accumulate; its a is the value
  // What a Matern kernel multiplies the exponential of the root r by: c r + d, from the first of
  // these, or c r (c' r + d') + d with the c and d of the second.
  std::vector<Instruction> bracket;
};

class Program {
 public:
  int registers = 0, result = 0;

  Program() = default;
  Program(std::vector<Instruction> instructions, int registers, int result)
      : registers(registers), result(result), instructions_(std::move(instructions)) {
    for (std::size_t k = 0; k < instructions_.size(); ++k) {
      if (const std::size_t length = matern_at(k)) {
        const auto first = instructions_.begin() + k, last = first + length - 1;
        passes_.push_back({*first, *(last - 1), of_value(*last), {first + 1, last - 1}});
        k += length - 1;
        continue;
      }
      Pass pass{{}, instructions_[k], {}, {}};
      if (goes_before(k)) {
        pass.before = instructions_[k];
        pass.main = instructions_[++k];
      }
      if (goes_after(k)) pass.after = with_value_first(instructions_[++k], pass.main.out);
      if (pass.main.op == Op::accumulate) pass.after = pass.main;
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
    return instructions_[k + 1].out == index || !needed_after(k + 1, index);
  }

  // How many instructions from the k-th on are a root, a bracket of it, its exponential, and their
  // product, none of which is needed again; 0 if they are anything else.
  std::size_t matern_at(std::size_t k) const {
    const auto at = [&](std::size_t i, Op op) {
      return i < instructions_.size() && instructions_[i].op == op ? &instructions_[i] : nullptr;
    };
    const Instruction *root = at(k, Op::sqrt), *line = at(k + 1, Op::affine);
    if (!root || !line || line->a != root->out || line->out == root->out) return 0;
    const auto multiplies_both = [&](const Instruction* i) {
      return i && i->source == Source::tile &&
             std::minmax(i->a, i->b) == std::minmax(root->out, line->out);
    };
    std::size_t next = k + 2;
    const Instruction* quadratic = at(next, Op::multiply);
    if (multiplies_both(quadratic) && quadratic->out == line->out) ++next;
    const Instruction* power = at(next++, Op::exp_negative);
    if (!power || power->a != root->out || power->out != root->out) return 0;
    if (!(std::abs(power->c) >= std::numeric_limits<float>::min())) return 0;  // it is divided by
    const Instruction *product = at(next, Op::multiply), *sum = at(next, Op::accumulate);
    if (!multiplies_both(product) && !multiplies_both(sum)) return 0;
    const int out = instructions_[next].out;
    for (const int index : {root->out, line->out})
      if (index == out ? bool(sum) : needed_after(next, index)) return 0;
    return next + 1 - k;
  }

  // Whether anything after instruction k reads what is in a register then.
  bool needed_after(std::size_t k, int index) const {
    for (std::size_t later = k + 1; later < instructions_.size(); ++later) {
      if (reads(instructions_[later], index)) return true;
      if (instructions_[later].out == index) return false;
    }
    return index == result;
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
  // What multiply or accumulate does with the product of its operands, where that is the value.
  static Instruction of_value(Instruction i) {
    if (i.op == Op::multiply) return {Op::affine, i.out, i.a, 0, Source::tile, i.c, i.d};
    return {Op::add, i.out, i.a, i.out, Source::tile, i.c, 1.0};
  }

  std::vector<Instruction> instructions_;
  std::vector<Pass> passes_;
};

// Vectors in a row of a tile, whatever their width.
constexpr int row_vectors = 4;
// Rows that one step does before the next one's turn: so many that constants are seldom read, and so
// few that a division of one step goes on beside the arithmetic of the next.
constexpr int rows_together = 6;

// What a step reads: row r begins at *base + r * stride, and its vectors follow each other by `step`,
// which is 0 for the terms of rows, each spread over one vector.
template <class T>
struct Operand {
  const T* const* base;
  int stride, step;

  MERCER_INLINE const T* row(int r) const { return *base + std::ptrdiff_t(r) * stride; }
};

// A pass with its places in memory, which does some rows of a tile at a time. So the passes over a
// row follow each other closely enough for the processor to work on several at once, and divisions
// and roots take their time beside the arithmetic of others.
template <class T>
struct Step {
  void (*apply)(const Step&, int first, int last);
  Operand<T> a, b, other;  // of the first operation; the second operand of what comes after
  T* out;
  double power;  // of the main operation, if it is one
  // c and d of what is before, of the main operation, of what comes after, and of the bracket.
  Spread<T, 10> numbers;

  MERCER_INLINE Vector<T> c() const { return numbers[2]; }
  MERCER_INLINE Vector<T> d() const { return numbers[3]; }
};

// Whether numbers in an operation are such that it needs no multiplication by them.
constexpr bool is_plain(const Instruction& i) {
  return i.c == 1 && i.d == (i.op == Op::add ? 1 : 0);
}

// Some rows of a pass. Make turns the step into its operation, of one operand (b is ignored) or two;
// with `Plain`, the numbers in what comes after are.
template <class T, Op Before, Op After, bool Plain, class Make>
void step_over(const Step<T>& step, int first, int last) {
  using V = Vector<T>;
  constexpr int W = Simd<T>::width;
  const auto f = Make()(step);
  const V c0 = step.numbers[0], d0 = step.numbers[1], c1 = step.numbers[4], d1 = step.numbers[5];
  const Operand<T> A = step.a, B = step.b, O = step.other;
  T* const to = step.out;
  for (int row = first; row < last; ++row)
#pragma GCC unroll 4
    for (int j = 0; j < row_vectors; ++j) {
      const T *y = B.row(row) + j * B.step, *w = O.row(row) + j * O.step;
      T* out = to + (row * row_vectors + j) * W;
      V value = load<T>(A.row(row) + j * A.step);
      if constexpr (Before == Op::affine) value = c0 * value + d0;
      if constexpr (Before == Op::add) value = c0 * value + d0 * load<T>(y);
      if constexpr (Before == Op::sqrt) value = sqrt<T>(value);
      if constexpr (std::is_invocable_v<decltype(f), V>)
        value = f(value);
      else
        value = f(value, load<T>(y));
      if constexpr (After != Op::constant && !Plain) value = c1 * value;
      if constexpr (After == Op::affine) value = value + d1;
      if constexpr (After == Op::add) value = value + (Plain ? load<T>(w) : d1 * load<T>(w));
      if constexpr (After == Op::multiply)
        value = Plain ? value * load<T>(w) : value * load<T>(w) + d1;
      if constexpr (After == Op::accumulate) value = load<T>(out) + value * load<T>(w);
      store<T>(out, value);
    }
}

template <class T>
using Apply = void (*)(const Step<T>&, int, int);

// out = f(a) or f(a, b), and what comes after it.
template <class T, Op Before = Op::constant, class Make>
Apply<T> each(const Pass& pass, Make) {
  const auto with = [&]<Op After>(std::integral_constant<Op, After>) -> Apply<T> {
    if (is_plain(*pass.after)) return &step_over<T, Before, After, true, Make>;
    return &step_over<T, Before, After, false, Make>;
  };
  switch (pass.after ? pass.after->op : Op::constant) {
    case Op::affine:
      return &step_over<T, Before, Op::affine, false, Make>;
    case Op::add:
      return with(std::integral_constant<Op, Op::add>());
    case Op::multiply:
      return with(std::integral_constant<Op, Op::multiply>());
    case Op::accumulate:
      return with(std::integral_constant<Op, Op::accumulate>());
    default:
      return &step_over<T, Before, Op::constant, false, Make>;
  }
}

// The same with nothing before or after it.
template <class T, class Make>
Apply<T> alone(Make) {
  return &step_over<T, Op::constant, Op::constant, false, Make>;
}

// The same of an affine function of a, if that is what is before it.
template <class T, class Make>
Apply<T> each_of_affine(const Pass& pass, Make make) {
  return pass.before ? each<T, Op::affine>(pass, make) : each<T>(pass, make);
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
Apply<T> integer_power(const Pass& pass) {
  using V = Vector<T>;
  switch (int(pass.main.c)) {
    case 2:
      return each_of_affine<T>(pass, [](const Step<T>&) { return [](V x) { return x * x; }; });
    case 3:
      return each_of_affine<T>(pass, [](const Step<T>&) { return [](V x) { return x * x * x; }; });
    default:
      return each_of_affine<T>(pass, [](const Step<T>& step) {
        return [power = int(step.power)](V x) { return raised<T>(x, power); };
      });
  }
}

// a ** c for a >= 0; multiples of one half need no logarithm.
template <class T>
Apply<T> real_power(const Pass& pass) {
  using V = Vector<T>;
  const double power = pass.main.c;
  if (std::abs(power) >= 32 || std::fmod(std::abs(power), 1.0) != 0.5)
    return each_of_affine<T>(pass, [](const Step<T>& step) {
      return [c = step.c(), exp_two = ExpTwo<T, true>()](V x) {
        return exp_two(c * log<T>(x));
      };
    });
  if (guesses_roots<T> && power == -1.5)
    return each_of_affine<T>(pass, [](const Step<T>&) {
      return [](V x) {
        const V y = inverse_sqrt<T>(x);
        return y * y * y;
      };
    });
  return each_of_affine<T>(pass, [](const Step<T>& step) {
    return [whole = int(std::abs(step.power)), below = step.power < 0](V x) {
      const V y = raised<T>(x, whole) * sqrt<T>(x);
      return below ? T(1) / y : y;
    };
  });
}

// exp(c a), or of the sum or the root before it; with `Any`, for any a.
template <class T, bool Any>
Apply<T> exponential(const Pass& pass) {
  const auto make = [](const Step<T>& step) {
    return [c = step.c(), exp_two = ExpTwo<T, Any>()](Vector<T> x) {
      return exp_two(c * x);
    };
  };
  if (!pass.before) return each<T>(pass, make);
  return pass.before->op == Op::sqrt ? each<T, Op::sqrt>(pass, make)
                                     : each<T, Op::add>(pass, make);
}

// exp(c r) times its bracket, for the root r of a. The bracket is taken of the exponent, whose clamp
// keeps it finite where the root is not, and the product zero.
template <class T, bool Quadratic>
Apply<T> matern(const Pass& pass) {
  return each<T, Op::sqrt>(pass, [](const Step<T>& step) {
    return [c = step.c(), c1 = step.numbers[6], d1 = step.numbers[7], c2 = step.numbers[8],
            d2 = step.numbers[9], exp_two = ExpTwo<T>()](Vector<T> r) {
      const Vector<T> y = exp_two.clamped(c * r), line = c1 * y + d1;
      return exp_two.of_clamped(y) * (Quadratic ? c2 * y * line + d2 : line);
    };
  });
}

// The function that does some rows of the pass.
template <class T>
Apply<T> apply_for(const Pass& pass) {
  using V = Vector<T>;
  using S = Step<T>;
  if (pass.bracket.size() == 1) return matern<T, false>(pass);
  if (pass.bracket.size() == 2) return matern<T, true>(pass);
  switch (pass.main.op) {
    case Op::row:
    case Op::column:
      return alone<T>([](const S&) { return [](V, V y) { return y; }; });
    case Op::constant:
      return alone<T>([](const S& s) { return [c = s.c()](V) { return c; }; });
    case Op::affine:
      return each<T>(pass, [](const S& s) {
        return [c = s.c(), d = s.d()](V x) { return c * x + d; };
      });
    case Op::add:
      if (T(pass.main.d) == T(1))
        return each<T>(pass, [](const S& s) { return [c = s.c()](V x, V y) { return c * x + y; }; });
      return each<T>(pass, [](const S& s) {
        return [c = s.c(), d = s.d()](V x, V y) { return c * x + d * y; };
      });
    case Op::multiply:
      if (is_plain(pass.main))
        return each<T>(pass, [](const S&) { return [](V x, V y) { return x * y; }; });
      return each<T>(pass, [](const S& s) {
        return [c = s.c(), d = s.d()](V x, V y) { return c * x * y + d; };
      });
    case Op::accumulate:
      return each<T>(pass, [](const S&) { return [](V x) { return x; }; });
    case Op::divide:
      return each<T>(pass, [](const S& s) {
        return [c = s.c()](V x, V y) {
          const V quotient = x / y;
          return y == T(0) ? c : quotient;
        };
      });
    case Op::integer_power:
      return integer_power<T>(pass);
    case Op::real_power:
      return real_power<T>(pass);
    case Op::exp:
      return exponential<T, true>(pass);
    case Op::exp_negative:
      return exponential<T, false>(pass);
    case Op::sqrt:
      return each<T>(pass, [](const S&) { return [](V x) { return sqrt<T>(x); }; });
    case Op::tanh:
      return each<T>(pass, [](const S& s) {
        return [c = s.c(), d = s.d(), tanh = Tanh<T>()](V x) { return tanh(c * x + d); };
      });
    case Op::log:
      return alone<T>([](const S&) { return [](V x) { return log<T>(x); }; });
    case Op::inverse_sqrt:
      return alone<T>([](const S&) {
        return [](V x) {
          const V y = T(1) / sqrt<T>(x);
          return x == T(0) ? V{} : y;
        };
      });
    case Op::positive:
      return alone<T>([](const S&) { return [](V x) { return x < T(0) ? V{} : x; }; });
    case Op::step:
      return alone<T>([](const S&) {
        return [](V x) { return x > T(0) ? broadcast<T>(T(1)) : V{}; };
      });
  }
  __builtin_unreachable();
}

// A program over tiles of so many rows, of row_vectors vectors each, with its registers. The terms of
// the tile's rows, each number spread over a vector, and of its columns are set before a run.
template <class T>
class Runner {
 public:
  static constexpr int W = Simd<T>::width, C = row_vectors * W;

  Runner(const Program& program, int rows, std::size_t row_terms, std::size_t column_terms)
      : row_terms(row_terms), column_terms(column_terms), rows_(rows), result_(program.result),
        registers_(allocate<T>(std::ptrdiff_t(program.registers) * rows * C)) {
    for (int k = 0; k < program.registers; ++k) places_.push_back(at(k));
    for (const Pass& pass : program.passes()) {
      const Instruction& first = pass.before ? *pass.before : pass.main;
      const Instruction& last = pass.after ? *pass.after : pass.main;
      const bool powers = is_exp(pass.main.op) || pass.main.op == Op::real_power;
      const T c = powers ? factor_of_two<T>(pass.main.c) : T(pass.main.c);
      T numbers[10] = {T(first.c), T(first.d), c, T(pass.main.d), T(last.c), T(last.d)};
      for (std::size_t k = 0; k < pass.bracket.size(); ++k) {
        numbers[6 + 2 * k] = T(pass.bracket[k].c / double(c));  // of c r, not of r
        numbers[7 + 2 * k] = T(pass.bracket[k].d);
      }
      const Operand<T> own = tile(last.out);
      Step<T> step{apply_for<T>(pass), own, own, own, at(last.out), pass.main.c,
                   Spread<T, 10>(numbers)};
      if (first.op == Op::row) step.b = term(Source::row, first.a);
      if (first.op == Op::column) step.b = term(Source::column, first.a);
      if (first.op > Op::constant) step.a = tile(first.a);
      if (takes_two(first.op)) step.b = term(first.source, first.b);
      if (pass.after && takes_two(last.op)) step.other = term(last.source, last.b);
      steps_.push_back(step);
    }
  }

  T* at(int index) const { return registers_.get() + std::ptrdiff_t(index) * rows_ * C; }

  // The values of the tile whose statistics are in the first registers.
  T* run() const {
    for (int r = 0; r < rows_; r += rows_together)
      for (const Step<T>& step : steps_) step.apply(step, r, std::min(rows_, r + rows_together));
    return at(result_);
  }

  std::vector<const T*> row_terms, column_terms;

 private:
  Operand<T> tile(int index) const { return {&places_[index], C, W}; }
  Operand<T> term(Source source, int index) const {
    if (source == Source::tile) return tile(index);
    if (source == Source::row) return {&row_terms[index], W, 0};
    return {&column_terms[index], 0, W};
  }

  int rows_, result_;
  Buffer<T> registers_;
  std::vector<const T*> places_;
  std::vector<Step<T>> steps_;
};

}  // namespace mercer
