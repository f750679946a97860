// An expression as a short program over tiles of pairs that stay in the first-level cache.
#pragma once

#include <vector>

#include "mercer/functions.hpp"

namespace mercer {

enum class Op : int {
  row,           // out = f(x), a one-sided term of the row's point
  column,        // out = f(z)
  constant,      // out = c
  add,           // out = a + b
  multiply,      // out = a * b
  affine,        // out = c * a + d
  divide,        // out = a / b, c where b = 0
  integer_power, // out = a ** int(c)
  real_power,    // out = a ** c for a >= 0
  exp,           // out = exp(c * a)
  exp_negative,  // the same, known to be at most 1
  sqrt,
  tanh,
  log,
  inverse_sqrt,  // 1 / sqrt(a), 0 where a = 0
};

// out, a, b are registers: tiles of rows x columns. The first registers hold the statistics.
struct Instruction {
  Op op;
  int out, a, b;
  double c, d;
};

struct Program {
  std::vector<Instruction> instructions;
  int registers = 0;
  int result = 0;
};

template <class T, class F>
MERCER_INLINE void each(T* out, const T* a, int size, F f) {
  for (int i = 0; i < size; i += Simd<T>::width) store<T>(out + i, f(load<T>(a + i)));
}

template <class T, class F>
MERCER_INLINE void both(T* out, const T* a, const T* b, int size, F f) {
  for (int i = 0; i < size; i += Simd<T>::width)
    store<T>(out + i, f(load<T>(a + i), load<T>(b + i)));
}

template <class T>
inline void raise(T* out, const T* a, int size, int power) {
  each<T>(out, a, size, [power](Vector<T> base) {
    Vector<T> result = broadcast<T>(T(1));
    for (int left = power < 0 ? -power : power; left; left >>= 1) {
      if (left & 1) result = result * base;
      base = base * base;
    }
    return power < 0 ? T(1) / result : result;
  });
}

// Run the program on one tile. registers: [program.registers][rows * columns].
// rows_of[k], columns_of[k]: the k-th one-sided term, at the tile's first row or column.
template <class T>
inline void run(const Program& program, T* registers, int rows, int columns,
                const T* const* rows_of, const T* const* columns_of) {
  const int size = rows * columns;
  using V = Vector<T>;
  for (const Instruction& i : program.instructions) {
    T* out = registers + std::ptrdiff_t(i.out) * size;
    const T* a = registers + std::ptrdiff_t(i.a) * size;
    const T* b = registers + std::ptrdiff_t(i.b) * size;
    const T c = T(i.c), d = T(i.d);
    switch (i.op) {
      case Op::row:
        for (int r = 0; r < rows; ++r)
          for (int j = 0; j < columns; ++j) out[r * columns + j] = rows_of[i.a][r];
        break;
      case Op::column:
        for (int r = 0; r < rows; ++r)
          std::memcpy(out + r * columns, columns_of[i.a], columns * sizeof(T));
        break;
      case Op::constant:
        for (int j = 0; j < size; ++j) out[j] = c;
        break;
      case Op::add:
        both<T>(out, a, b, size, [](V x, V y) { return x + y; });
        break;
      case Op::multiply:
        both<T>(out, a, b, size, [](V x, V y) { return x * y; });
        break;
      case Op::affine:
        each<T>(out, a, size, [c, d](V x) { return c * x + d; });
        break;
      case Op::divide:
        both<T>(out, a, b, size, [c](V x, V y) {
          const V quotient = x / y;
          return y == T(0) ? broadcast<T>(c) : quotient;
        });
        break;
      case Op::integer_power:
        raise<T>(out, a, size, int(i.c));
        break;
      case Op::real_power:
        each<T>(out, a, size, [c](V x) { return exp<T>(c * log<T>(x)); });
        break;
      case Op::exp:
        each<T>(out, a, size, [c](V x) { return exp<T>(c * x); });
        break;
      case Op::exp_negative:
        each<T>(out, a, size, [c](V x) { return exp_nonpositive<T>(c * x); });
        break;
      case Op::sqrt:
        each<T>(out, a, size, [](V x) { return sqrt<T>(x); });
        break;
      case Op::tanh:
        each<T>(out, a, size, [](V x) { return tanh<T>(x); });
        break;
      case Op::log:
        each<T>(out, a, size, [](V x) { return log<T>(x); });
        break;
      case Op::inverse_sqrt:
        each<T>(out, a, size, [](V x) {
          const V y = T(1) / sqrt<T>(x);
          return x == T(0) ? V{} : y;
        });
        break;
    }
  }
}

}  // namespace mercer
