// What a pass over a tile runs: one function per operation and what is joined to it.
//
// Each is compiled for each type of numbers at each level, and together they are a good part of what
// building the core takes. So only cheap operations, whose reading and writing would show, have
// others joined to them (see joins_before and joins_after in program.hpp).
#pragma once

#include <cmath>
#include <type_traits>

#include "mercer/program.hpp"

namespace mercer {

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

// out = f(a) or f(a, b), with nothing after it.
template <class T, Op Before = Op::constant, class Make>
Apply<T> alone(Make) {
  return &step_over<T, Before, Op::constant, false, Make>;
}

// The same, and what comes after it.
template <class T, Op Before = Op::constant, class Make>
Apply<T> each(const Pass& pass, Make) {
  switch (pass.after ? pass.after->op : Op::constant) {
    case Op::affine:
      return &step_over<T, Before, Op::affine, false, Make>;
    case Op::add:
      return &step_over<T, Before, Op::add, false, Make>;
    case Op::multiply:
      return &step_over<T, Before, Op::multiply, false, Make>;
    case Op::accumulate:
      return &step_over<T, Before, Op::accumulate, false, Make>;
    default:
      return &step_over<T, Before, Op::constant, false, Make>;
  }
}

// The same, without multiplications by one where it is added to or multiplied by another value.
template <class T, Op Before = Op::constant, class Make>
Apply<T> each_plainly(const Pass& pass, Make make) {
  if (pass.after && is_plain(*pass.after)) {
    if (pass.after->op == Op::add) return &step_over<T, Before, Op::add, true, Make>;
    if (pass.after->op == Op::multiply) return &step_over<T, Before, Op::multiply, true, Make>;
  }
  return each<T, Before>(pass, make);
}

// Of a, or of an affine function of it, if that is what is before.
template <class T, class Make>
Apply<T> alone_of_affine(const Pass& pass, Make make) {
  return pass.before ? alone<T, Op::affine>(make) : alone<T>(make);
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
  if (int(pass.main.c) == 2) {
    const auto square = [](const Step<T>&) { return [](V x) { return x * x; }; };
    return pass.before ? each<T, Op::affine>(pass, square) : each<T>(pass, square);
  }
  if (int(pass.main.c) == 3)
    return alone_of_affine<T>(pass, [](const Step<T>&) { return [](V x) { return x * x * x; }; });
  return alone_of_affine<T>(pass, [](const Step<T>& step) {
    return [power = int(step.power)](V x) { return raised<T>(x, power); };
  });
}

// a ** c for a >= 0.
template <class T>
Apply<T> real_power(const Pass& pass) {
  using V = Vector<T>;
  if (!is_half(pass.main))
    return alone_of_affine<T>(pass, [](const Step<T>& step) {
      return [c = step.c(), exp_two = ExpTwo<T, true>()](V x) { return exp_two(c * log<T>(x)); };
    });
  if constexpr (guesses_roots<T>)
    if (pass.main.c == -1.5)
      return alone_of_affine<T>(pass, [](const Step<T>&) {
        return [](V x) {
          const V y = inverse_sqrt<T>(x);
          return y * y * y;
        };
      });
  return alone_of_affine<T>(pass, [](const Step<T>& step) {
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
    return [c = step.c(), exp_two = ExpTwo<T, Any>()](Vector<T> x) { return exp_two(c * x); };
  };
  const Op before = pass.before ? pass.before->op : Op::constant;
  if constexpr (Any) {
    if (before == Op::sqrt) return alone<T, Op::sqrt>(make);
    return before == Op::add ? alone<T, Op::add>(make) : alone<T>(make);
  } else {
    if (before == Op::sqrt) return each_plainly<T, Op::sqrt>(pass, make);
    return before == Op::add ? each_plainly<T, Op::add>(pass, make) : each_plainly<T>(pass, make);
  }
}

// exp(c r) times its bracket, for the root r of a, alone or added to a value. The bracket is taken of
// the exponent, whose clamp keeps it finite where the root is not, and the product zero.
template <class T, bool Quadratic>
Apply<T> matern(const Pass& pass) {
  const auto make = [](const Step<T>& step) {
    return [c = step.c(), c1 = step.numbers[6], d1 = step.numbers[7], c2 = step.numbers[8],
            d2 = step.numbers[9], exp_two = ExpTwo<T>()](Vector<T> r) {
      const Vector<T> y = exp_two.clamped(c * r), line = c1 * y + d1;
      return exp_two.of_clamped(y) * (Quadratic ? c2 * y * line + d2 : line);
    };
  };
  using Make = std::remove_const_t<decltype(make)>;
  return pass.after->op == Op::add ? &step_over<T, Op::sqrt, Op::add, false, Make>
                                   : &step_over<T, Op::sqrt, Op::affine, false, Make>;
}

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
      return each<T>(pass, [](const S& s) {
        return [c = s.c(), d = s.d()](V x, V y) { return c * x + d * y; };
      });
    case Op::multiply:
      return each<T>(pass, [](const S& s) {
        return [c = s.c(), d = s.d()](V x, V y) { return c * x * y + d; };
      });
    case Op::accumulate: {
      const auto itself = [](const S&) { return [](V x) { return x; }; };
      return &step_over<T, Op::constant, Op::accumulate, false, std::remove_const_t<decltype(itself)>>;
    }
    case Op::divide:
      return alone<T>([](const S& s) {
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
      return alone<T>([](const S&) { return [](V x) { return sqrt<T>(x); }; });
    case Op::tanh:
      return alone<T>([](const S& s) {
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

}  // namespace mercer
