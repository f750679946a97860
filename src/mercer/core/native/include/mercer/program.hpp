// An expression as a short program over tiles of pairs that stay in the first-level cache.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
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
constexpr bool is_exp(Op op) { return op == Op::exp || op == Op::exp_negative; }

// Powers that need no logarithm: multiples of one half.
inline bool is_half(const Instruction& i) {
  return i.op == Op::real_power && std::abs(i.c) < 32 && std::fmod(std::abs(i.c), 1.0) == 0.5;
}

// Whether an operation may be done in one pass with the main one after it, and the main one with
// what comes after. Each such pair is a function more to compile, which pays where it is frequent, or
// the arithmetic little: a division takes much longer than writing its value and reading it again.
inline bool joins_before(Op op, const Instruction& main) {
  if (op == Op::affine) return main.op == Op::integer_power || main.op == Op::real_power;
  return (op == Op::add || op == Op::sqrt) && is_exp(main.op);
}
inline bool takes_after(const Instruction& main) {
  return main.op == Op::affine || main.op == Op::add || main.op == Op::multiply ||
         main.op == Op::exp_negative || (main.op == Op::integer_power && int(main.c) == 2);
}

// One pass over a tile: an operation, with what is done to its operand before and to its value after
// it, if nobody else needs to know either. Reading and writing registers costs more than most
// arithmetic.
struct Pass {
  std::optional<Instruction> before;
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
    return joins(k) && joins_before(instructions_[k].op, instructions_[k + 1]);
  }
  bool goes_after(std::size_t k) const {
    return takes_after(instructions_[k]) && joins(k) && combines(instructions_[k + 1].op);
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
// few that a division of one step overlaps the arithmetic of the next.
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
// and roots overlap the arithmetic of others.
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

template <class T>
using Apply = void (*)(const Step<T>&, int, int);

// The function that does some rows of the pass.
template <class T>
Apply<T> apply_for(const Pass& pass);

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
