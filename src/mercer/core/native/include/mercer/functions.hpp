// exp, log, tanh and their kin on vectors: exp to about one unit in the last place, log to three,
// tanh to four in double and six in float.
//
// Only + - * /, comparisons, bit operations, and tables that fit two registers: no calls. These rely
// on every addition being done as written, so the file must not be compiled with -ffast-math.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>

#include "mercer/simd.hpp"

namespace mercer {

template <class T>
struct FloatFormat;

template <>
struct FloatFormat<float> {
  static constexpr int mantissa_bits = 23;
  static constexpr float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  static constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
  static constexpr int log_terms = 5;
  // Of r^0, r^1, ...; relative error 3e-9.
  static constexpr float exp_coefficients[] = {1.0f,
                                               1.0f,
                                               0.499999934476f,
                                               0.166665206294f,
                                               0.0416683880927f,
                                               0.00836871709086f,
                                               0.00138145963823f};
  // Of (2^r - 1) / r for r up to 1 / 64 in size; relative error of 2^r 5.8e-10.
  static constexpr float rest_coefficients[] = {0.69314718056f, 0.24022650696f, 0.055504108665f};
};

template <>
struct FloatFormat<double> {
  static constexpr int mantissa_bits = 52;
  static constexpr double magic = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr double ln2_high = 0x1.62e42fefa3800p-1, ln2_low = 0x1.ef35793c76730p-45;
  static constexpr int log_terms = 11;
  // Relative error 4e-18.
  static constexpr double exp_coefficients[] = {1.0,
                                                1.0,
                                                0.5000000000000010628,
                                                0.1666666666666641251,
                                                0.04166666666653015177,
                                                0.008333333333494464670,
                                                0.001388888894363180264,
                                                0.0001984126950657842679,
                                                0.00002480149309726126396,
                                                0.000002755758637033838729,
                                                2.763024893189953030e-7,
                                                2.500006354925759723e-8};
  // For r up to 1 / 32 in size; relative error 7.1e-18.
  static constexpr double rest_coefficients[] = {0.69314718055994688866,  0.24022650695910167029,
                                                 0.055504108651954586090, 0.0096181291020536239683,
                                                 0.0013333820232815162885,
                                                 0.00015404211699335224095};
};

template <class T>
MERCER_INLINE Vector<T> absolute(const Vector<T>& x) {
  using Int = typename Simd<T>::Int;
  return from_bits<T>(bits<T>(x) & std::numeric_limits<Int>::max());
}

// x between low and high.
template <class T>
MERCER_INLINE Vector<T> within(const Vector<T>& x, const Vector<T>& low, const Vector<T>& high) {
  const Vector<T> below = high < x ? high : x;
  return low > below ? low : below;
}

// x with the low bits of n, moved up by `shift`, added to its own: to its exponent and, if the shift
// is less than the mantissa, below. Of a NaN they may be anything, and the sum wraps round.
template <class T>
MERCER_INLINE Vector<T> scaled(const Vector<T>& x, const Vector<T>& n, int shift) {
  using Unsigned = typename Simd<T>::Unsigned;
  return from_bits<T>(Mask<T>(Unsigned(bits<T>(x)) + (Unsigned(bits<T>(n)) << shift)));
}

// p[0] + p[1] u + p[2] u^2 + ..., with its numbers in registers.
template <class T, int N>
class Polynomial {
 public:
  MERCER_INLINE explicit Polynomial(const Spread<T, N>& numbers) {
#pragma GCC unroll 16
    for (int k = 0; k < N; ++k) p_[k] = numbers[k];
  }
  MERCER_INLINE Vector<T> operator()(const Vector<T>& u) const {
    Vector<T> y = p_[N - 1];
#pragma GCC unroll 16
    for (int k = N - 2; k >= 0; --k) y = y * u + p_[k];
    return y;
  }

 private:
  Vector<T> p_[N];
};

// 2^y for y <= 0 or not far above it; with `Any`, for any y, and infinity where it overflows. Of what
// is below the least normal number nothing is known but that, and that it is zero in the end.
// `clamped` moves y to where that end is, and `of_clamped` is the power itself.
template <class T, bool Any = false>
class ExpTwo {
 public:
  MERCER_INLINE Vector<T> operator()(const Vector<T>& y) const { return of_clamped(clamped(y)); }
  // At both ends r is 0 and p is 1, of which the power of two makes the bits of zero and infinity.
  MERCER_INLINE Vector<T> clamped(const Vector<T>& y) const {
    const Vector<T> above = y < lowest_ ? lowest_ : y;
    return Any ? (above > highest_ ? highest_ : above) : above;
  }
  MERCER_INLINE Vector<T> of_clamped(const Vector<T>& a) const {
    const Vector<T> n = a + magic_, r = a - (n - magic_);  // the low bits of n hold the integer
    const Vector<T> power = scaled<T>(power_(r), n, F::mantissa_bits);
    return from_bits<T>(bits<T>(power) | (a != a));  // the low bits of a NaN may be anything
  }

 private:
  using F = FloatFormat<T>;
  static constexpr Spread<T, 3> numbers{{F::magic, T(std::numeric_limits<T>::min_exponent - 2),
                                         T(std::numeric_limits<T>::max_exponent)}};
  static constexpr int terms = int(std::size(F::exp_coefficients));
  static constexpr Spread<T, terms> coefficients = [] {
    T scaled[terms];
    double power = 1;  // exp(r ln 2) = 2^r
    for (int k = 0; k < terms; ++k, power *= 0.6931471805599453)
      scaled[k] = T(double(F::exp_coefficients[k]) * power);
    return Spread<T, terms>(scaled);
  }();
  Polynomial<T, terms> power_{coefficients};
  Vector<T> magic_ = numbers[0], lowest_ = numbers[1], highest_ = numbers[2];
};

#if defined(__AVX512F__)
// a[index], or b[index] of what comes after a: the low bits of the index say where.
template <class T>
MERCER_INLINE Vector<T> looked_up(Mask<T> index, const Vector<T>& a, const Vector<T>& b) {
  if constexpr (sizeof(T) == 4)
    asm("vpermi2ps %2, %1, %0" : "+v"(index) : "v"(a), "v"(b));
  else
    asm("vpermi2pd %2, %1, %0" : "+v"(index) : "v"(a), "v"(b));
  return from_bits<T>(index);
}

// With two vectors to look numbers up in, 2^y is 2^(n / size) 2^r with a smaller r, for which a
// shorter polynomial does.
template <class T>
class ExpTwo<T, false> {
 public:
  MERCER_INLINE Vector<T> operator()(const Vector<T>& y) const { return of_clamped(clamped(y)); }
  MERCER_INLINE Vector<T> clamped(const Vector<T>& y) const { return y < lowest_ ? lowest_ : y; }
  MERCER_INLINE Vector<T> of_clamped(const Vector<T>& a) const {
    const Vector<T> n = a + magic_, r = a - (n - magic_);  // the low bits of n hold n
    const Vector<T> power = scaled<T>(looked_up<T>(bits<T>(n), roots_[0], roots_[1]), n, shift);
    return r * rest_(r) * power + power;
  }

 private:
  using F = FloatFormat<T>;
  using Int = typename Simd<T>::Int;
  static constexpr int W = Simd<T>::width, size = 2 * W;
  static constexpr int shift = F::mantissa_bits + 1 - std::bit_width(unsigned(size));

  // 2^(k / size), less what its own bits of n will add to the exponent and below.
  struct Roots {
    alignas(vector_bytes) T lanes[size];
    constexpr Roots() {
      for (int k = 0; k < size; ++k) {
        long double x = k * 0.693147180559945309417232121458176568L / size, sum = 1, term = 1;
        for (int i = 1; i < 30; ++i) sum += term *= x / i;
        lanes[k] = std::bit_cast<T>(Int(std::bit_cast<Int>(T(sum)) - (Int(k) << shift)));
      }
    }
  };
  static constexpr Roots roots{};
  static constexpr Spread<T, 2> numbers{{F::magic / size, T(std::numeric_limits<T>::min_exponent - 2)}};
  static constexpr int terms = int(std::size(F::rest_coefficients));
  static constexpr Spread<T, terms> coefficients{F::rest_coefficients};
  Polynomial<T, terms> rest_{coefficients};
  Vector<T> magic_ = numbers[0], lowest_ = numbers[1];
  Vector<T> roots_[2] = {load<T>(anew(roots.lanes)), load<T>(anew(roots.lanes + W))};
};
#endif

constexpr double log2_e = 1.4426950408889634;

// exp(c x) is 2^(factor x).
template <class T>
T factor_of_two(double c) {
  constexpr double most = std::numeric_limits<T>::max();
  return T(std::clamp(c * log2_e, -most, most));
}

// log(x) for x >= 0.
template <class T>
MERCER_INLINE Vector<T> log(const Vector<T>& x) {
  using F = FloatFormat<T>;
  using Int = typename Simd<T>::Int;
  constexpr Int one = Int(std::numeric_limits<T>::max_exponent - 1) << F::mantissa_bits;
  // Split x = 2^e m with m in [sqrt(1/2), sqrt(2)).
  constexpr T root = T(1.4142135623730951);
  constexpr Int lift = F::mantissa_bits + 2;  // brings subnormal numbers into the normal range
  const Mask<T> low = x < std::numeric_limits<T>::min();
  const Vector<T> lifted = x * T(std::int64_t(1) << lift);
  const Mask<T> raw = bits<T>(low ? lifted : x);
  Mask<T> e = (raw >> F::mantissa_bits) - Int(std::numeric_limits<T>::max_exponent - 1);
  e = e - (low & lift);
  Vector<T> m = from_bits<T>((raw & ((Int(1) << F::mantissa_bits) - 1)) | one);
  const Mask<T> big = m > root;
  m = big ? m * T(0.5) : m;
  e = e - big;  // a true comparison is -1
  // log m = 2 atanh(s), s = (m - 1) / (m + 1), by its series.
  const Vector<T> s = (m - T(1)) / (m + T(1)), s2 = s * s;
  Vector<T> p = broadcast<T>(T(1) / T(2 * F::log_terms + 1));
#pragma GCC unroll 16
  for (int k = F::log_terms - 1; k >= 0; --k) p = p * s2 + T(1) / T(2 * k + 1);
  const Vector<T> exponent = __builtin_convertvector(e, Vector<T>);
  const Vector<T> y = exponent * F::ln2_high + (exponent * F::ln2_low + T(2) * s * p);
  const Vector<T> below = broadcast<T>(-std::numeric_limits<T>::infinity());
  const Mask<T> zero = x == T(0);
  const Mask<T> odd = (x < T(0)) | (x != x) | (x > std::numeric_limits<T>::max());
  const Vector<T> none = x > T(0) ? x : broadcast<T>(std::numeric_limits<T>::quiet_NaN());
  return zero ? below : (odd ? none : y);
}

template <class T>
struct TanhNumbers;

// One rational function does for all x up to 9 in size (relative error 1.3e-9, fitted), and what is
// beyond is moved to where it rounds to 1.
template <>
struct TanhNumbers<float> {
  static constexpr Spread<float, 6> above{{0.9999999987f, 0.136808483f, 0.003869497494f,
                                           2.803108246e-5f, 3.064191952e-8f, -1.224575055e-11f}};
  static constexpr Spread<float, 5> below{
      {1.0f, 0.4701418039f, 0.02725011895f, 0.0003940694262f, 1.289018314e-6f}};
  static constexpr Spread<float, 2> limits{{9.125f, 1.0f}};
};

// A continued fraction near zero, and (1 - e) / (1 + e) with e = exp(-2|x|) elsewhere.
template <>
struct TanhNumbers<double> {
  static constexpr Spread<double, 4> above{{135135, 17325, 378, 1}};
  static constexpr Spread<double, 4> below{{135135, 62370, 3150, 28}};
  static constexpr Spread<double, 2> limits{{22.0, 1.0}};
};

template <class T>
class Tanh {
 public:
  MERCER_INLINE Vector<T> operator()(const Vector<T>& x) const {
    if constexpr (sizeof(T) == 4) {
      const Vector<T> a = within<T>(x, -limit_, limit_), u = a * a;
      return within<T>(a * above_(u) / below_(u), -one_, one_);
    } else {
      const Vector<T> a = absolute<T>(within<T>(x, -limit_, limit_)), u = a * a;
      const Vector<T> e = ExpTwo<T>()(factor_of_two<T>(-2.0) * a);
      const Mask<T> near = a < 0.3;
      const Vector<T> above = one_ - e, below = one_ + e, numerator = a * above_(u);
      const Vector<T> y = (near ? numerator : above) / (near ? below_(u) : below);
      return x < T(0) ? -y : y;
    }
  }

 private:
  using N = TanhNumbers<T>;
  Polynomial<T, N::above.size> above_{N::above};
  Polynomial<T, N::below.size> below_{N::below};
  Vector<T> limit_ = N::limits[0], one_ = N::limits[1];
};

template <class T>
MERCER_INLINE Vector<T> sqrt(const Vector<T>& x) {
  Vector<T> y = x;
  for (int i = 0; i < Simd<T>::width; ++i) y[i] = std::sqrt(y[i]);
  return y;
}

// Whether the processor has a first guess at 1 / sqrt(x), which saves the division and the root.
#if defined(__AVX512F__)
template <class T>
constexpr bool guesses_roots = sizeof(T) == 4;
#else
template <class T>
constexpr bool guesses_roots = false;
#endif

// 1 / sqrt(x) for x >= 0.
template <class T>
MERCER_INLINE Vector<T> inverse_sqrt(const Vector<T>& x) {
#if defined(__AVX512F__)
  if constexpr (guesses_roots<T>) {
    Vector<T> y;
    asm("vrsqrt14ps %1, %0" : "=v"(y) : "v"(x));
    // One step of Newton's. Where x is 0 or infinite, and the error NaN, the guess is right.
    const Vector<T> error = T(1) - x * y * y, half = T(0.5) * y, better = y + half * error;
    return error == error ? better : y;
  }
#endif
  return T(1) / sqrt<T>(x);
}

}  // namespace mercer
