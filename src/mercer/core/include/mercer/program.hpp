// An expression as a short program over tiles of pairs that stay in the first-level cache.
#pragma once

#include <algorithm>
#include <cmath>
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

struct Program {
  std::vector<Instruction> instructions;
  int registers = 0;
  int result = 0;
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

// out = f(a).
template <class T, class F>
MERCER_INLINE void each(const Tile<T>& tile, const Instruction& i, F f) {
  T* out = tile.at(i.out);
  const T* a = tile.at(i.a);
  for (int j = 0; j < tile.rows * tile.columns; j += Simd<T>::width)
    store<T>(out + j, f(load<T>(a + j)));
}

// out = f(a, b, out).
template <class T, class F>
MERCER_INLINE void both(const Tile<T>& tile, const Instruction& i, F f) {
  constexpr int W = Simd<T>::width;
  T* out = tile.at(i.out);
  const T* a = tile.at(i.a);
  if (i.source == Source::tile) {
    const T* b = tile.at(i.b);
    for (int j = 0; j < tile.rows * tile.columns; j += W)
      store<T>(out + j, f(load<T>(a + j), load<T>(b + j), load<T>(out + j)));
    return;
  }
  for (int r = 0; r < tile.rows; ++r, out += tile.columns, a += tile.columns)
    if (i.source == Source::row) {
      const Vector<T> b = broadcast<T>(tile.row_terms[i.b][r]);
      for (int j = 0; j < tile.columns; j += W)
        store<T>(out + j, f(load<T>(a + j), b, load<T>(out + j)));
    } else {
      const T* b = tile.column_terms[i.b];
      for (int j = 0; j < tile.columns; j += W)
        store<T>(out + j, f(load<T>(a + j), load<T>(b + j), load<T>(out + j)));
    }
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

// a ** c for a >= 0; multiples of one half need no logarithm.
template <class T>
inline void real_power(const Tile<T>& tile, const Instruction& i) {
  using V = Vector<T>;
  if (std::abs(i.c) < 32 && std::fmod(std::abs(i.c), 1.0) == 0.5) {
    const int whole = int(std::abs(i.c));
    const bool below = i.c < 0;
    each<T>(tile, i, [=](V x) {
      const V y = raised<T>(x, whole) * sqrt<T>(x);
      return below ? T(1) / y : y;
    });
  } else {
    const T c = T(i.c);
    each<T>(tile, i, [c](V x) { return exp<T>(c * log<T>(x)); });
  }
}

template <class T>
inline void run(const Program& program, const Tile<T>& tile) {
  const int size = tile.rows * tile.columns;
  using V = Vector<T>;
  for (const Instruction& i : program.instructions) {
    const T c = T(i.c), d = T(i.d);
    switch (i.op) {
      case Op::row:
        for (int r = 0; r < tile.rows; ++r)
          std::fill_n(tile.at(i.out) + r * tile.columns, tile.columns, tile.row_terms[i.a][r]);
        break;
      case Op::column:
        for (int r = 0; r < tile.rows; ++r)
          std::copy_n(tile.column_terms[i.a], tile.columns, tile.at(i.out) + r * tile.columns);
        break;
      case Op::constant:
        std::fill_n(tile.at(i.out), size, c);
        break;
      case Op::affine:
        each<T>(tile, i, [c, d](V x) { return c * x + d; });
        break;
      case Op::add:
        both<T>(tile, i, [c, d](V x, V y, V) { return c * x + d * y; });
        break;
      case Op::multiply:
        both<T>(tile, i, [c, d](V x, V y, V) { return c * x * y + d; });
        break;
      case Op::accumulate:
        both<T>(tile, i, [c](V x, V y, V sum) { return sum + c * x * y; });
        break;
      case Op::divide:
        both<T>(tile, i, [c](V x, V y, V) {
          const V quotient = x / y;
          return y == T(0) ? broadcast<T>(c) : quotient;
        });
        break;
      case Op::integer_power:
        if (i.c == 2)
          each<T>(tile, i, [](V x) { return x * x; });
        else if (i.c == 3)
          each<T>(tile, i, [](V x) { return x * x * x; });
        else
          each<T>(tile, i, [power = int(i.c)](V x) { return raised<T>(x, power); });
        break;
      case Op::real_power:
        real_power<T>(tile, i);
        break;
      case Op::exp:
        each<T>(tile, i, [c](V x) { return exp<T>(c * x); });
        break;
      case Op::exp_negative:
        each<T>(tile, i, [c](V x) { return exp_nonpositive<T>(c * x); });
        break;
      case Op::sqrt:
        each<T>(tile, i, [](V x) { return sqrt<T>(x); });
        break;
      case Op::tanh:
        each<T>(tile, i, [c, d](V x) { return tanh<T>(c * x + d); });
        break;
      case Op::log:
        each<T>(tile, i, [](V x) { return log<T>(x); });
        break;
      case Op::inverse_sqrt:
        each<T>(tile, i, [](V x) {
          const V y = T(1) / sqrt<T>(x);
          return x == T(0) ? V{} : y;
        });
        break;
      case Op::positive:
        each<T>(tile, i, [](V x) { return x < T(0) ? V{} : x; });
        break;
      case Op::step:
        each<T>(tile, i, [](V x) { return x > T(0) ? broadcast<T>(T(1)) : V{}; });
        break;
    }
  }
}

}  // namespace mercer
