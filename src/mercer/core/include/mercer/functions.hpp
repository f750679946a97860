// exp, log, tanh and their kin on vectors, to about one unit in the last place.
//
// Only + - * /, comparisons and bit operations: no tables, no calls. These rely on every addition
// being done as written, so the file must not be compiled with -ffast-math.
#pragma once

#include <cmath>
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
  static constexpr float lowest = -87.3365f, highest = 88.7228f;
  static constexpr int log_terms = 5;
  // Of r^0, r^1, ...; relative error 3e-9.
  static constexpr float exp_coefficients[] = {1.0f,
                                               1.0f,
                                               0.499999934476f,
                                               0.166665206294f,
                                               0.0416683880927f,
                                               0.00836871709086f,
                                               0.00138145963823f};
};

template <>
struct FloatFormat<double> {
  static constexpr int mantissa_bits = 52;
  static constexpr double magic = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr double ln2_high = 0x1.62e42fefa3800p-1, ln2_low = 0x1.ef35793c76730p-45;
  static constexpr double lowest = -708.396, highest = 709.7827;
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
};

template <class T>
MERCER_INLINE Vector<T> absolute(const Vector<T>& x) {
  using Int = typename Simd<T>::Int;
  return from_bits<T>(bits<T>(x) & std::numeric_limits<Int>::max());
}

// The rounded quotient n = x / ln 2 and the remainder r = x - n ln 2, |r| <= ln(2) / 2.
template <class T>
MERCER_INLINE Vector<T> reduce(const Vector<T>& x, Vector<T>& n) {
  using F = FloatFormat<T>;
  n = x * T(1.4426950408889634) + F::magic - F::magic;
#if defined(__FMA__) && !defined(__SANITIZE_ADDRESS__)
  // The float next to ln 2 is 2e-9 off, and n at most 128: with one rounding a single step will do.
  // The sanitizers' build is not optimised enough for the compiler to fuse the two operations.
  if constexpr (sizeof(T) == 4) return x - n * T(0.69314718);
#endif
  return (x - n * F::ln2_high) - n * F::ln2_low;
}

// exp(r) for |r| <= ln(2) / 2, by the polynomial 1 + r + ... of least relative error there.
template <class T>
MERCER_INLINE Vector<T> exp_reduced(const Vector<T>& r) {
  constexpr auto& c = FloatFormat<T>::exp_coefficients;
  constexpr int last = int(sizeof c / sizeof *c) - 1;
  Vector<T> p = broadcast<T>(c[last]);
#pragma GCC unroll 16
  for (int k = last - 1; k >= 0; --k) p = p * r + c[k];
  return p;
}

// y 2^n for integers n, where the result is a normal number; NaN stays NaN.
template <class T>
MERCER_INLINE Vector<T> times_power_of_two(const Vector<T>& y, const Vector<T>& n) {
  using F = FloatFormat<T>;
  if constexpr (sizeof(T) == 4) {
    return from_bits<T>(bits<T>(y) + (__builtin_convertvector(n, Mask<T>) << F::mantissa_bits));
  } else {
    // Few machines convert doubles to integers by the vector. The low bits of n + magic hold n
    // itself; shifting them up leaves the exponent.
    constexpr auto bias = std::numeric_limits<T>::max_exponent - 1;
    return y * from_bits<T>(bits<T>(n + (F::magic + T(bias))) << F::mantissa_bits);
  }
}

// exp(x) for x <= 0 or not far above it; 0 below the least normal number; NaN stays NaN.
template <class T>
MERCER_INLINE Vector<T> exp_nonpositive(const Vector<T>& x) {
  using F = FloatFormat<T>;
  const Vector<T> lowest = broadcast<T>(F::lowest);
  const Mask<T> tiny = x < lowest;
  const Vector<T> clamped = tiny ? lowest : x;
  Vector<T> n;
  const Vector<T> r = reduce<T>(clamped, n);
  const Vector<T> y = times_power_of_two<T>(exp_reduced<T>(r), n);
  return tiny ? Vector<T>{} : y;
}

// exp(x) for any x; infinity where it overflows.
template <class T>
MERCER_INLINE Vector<T> exp(const Vector<T>& x) {
  using F = FloatFormat<T>;
  const Vector<T> lowest = broadcast<T>(F::lowest), highest = broadcast<T>(F::highest);
  const Mask<T> tiny = x < lowest, huge = x > highest;
  const Vector<T> above = tiny ? lowest : x;
  Vector<T> n;
  const Vector<T> r = reduce<T>(huge ? highest : above, n);
  // The largest power of two itself is out of range, so one of its factors is kept apart.
  const Vector<T> one = broadcast<T>(T(1)), apart = n > T(0) ? one + one : one;
  const Vector<T> y = times_power_of_two<T>(exp_reduced<T>(r), n - (apart - one)) * apart;
  const Vector<T> infinity = broadcast<T>(std::numeric_limits<T>::infinity());
  const Vector<T> low = tiny ? Vector<T>{} : y;
  return huge ? infinity : low;
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

// p[0] + p[1] u + p[2] u^2 + ...
template <class T, std::size_t N>
MERCER_INLINE Vector<T> polynomial(const T (&p)[N], const Vector<T>& u) {
  Vector<T> y = broadcast<T>(p[N - 1]);
#pragma GCC unroll 16
  for (int k = int(N) - 2; k >= 0; --k) y = y * u + p[k];
  return y;
}

// tanh(a) for a >= 0. In float one rational function does for all a up to 9, beyond which tanh is 1
// (relative error 1.3e-9, fitted); in double a continued fraction near zero and (1 - e) / (1 + e)
// with e = exp(-2a) elsewhere.
template <class T>
MERCER_INLINE Vector<T> tanh_positive(const Vector<T>& a) {
  if constexpr (sizeof(T) == 4) {
    constexpr float p[] = {0.9999999987f,   0.136808483f,     0.003869497494f,
                           2.803108246e-5f, 3.064191952e-8f, -1.224575055e-11f};
    constexpr float q[] = {1.0f, 0.4701418039f, 0.02725011895f, 0.0003940694262f, 1.289018314e-6f};
    const Vector<T> limit = broadcast<T>(9.0f), one = broadcast<T>(1.0f);
    const Vector<T> capped = a > limit ? limit : a, u = capped * capped;
    const Vector<T> y = capped * polynomial<T>(p, u) / polynomial<T>(q, u);
    return (y > one) | (a > limit) ? one : y;
  } else {
    constexpr double p[] = {135135, 17325, 378, 1}, q[] = {135135, 62370, 3150, 28};
    const Vector<T> limit = broadcast<T>(22.0), u = a * a;
    const Vector<T> e = exp_nonpositive<T>(-2.0 * (a > limit ? limit : a));
    const Mask<T> near = a < 0.3;
    const Vector<T> above = 1.0 - e, below = 1.0 + e, numerator = a * polynomial<T>(p, u);
    return (near ? numerator : above) / (near ? polynomial<T>(q, u) : below);
  }
}

template <class T>
MERCER_INLINE Vector<T> tanh(const Vector<T>& x) {
  const Vector<T> y = tanh_positive<T>(absolute<T>(x));
  return x < T(0) ? -y : y;
}

template <class T>
MERCER_INLINE Vector<T> sqrt(const Vector<T>& x) {
  Vector<T> y;
  for (int i = 0; i < Simd<T>::width; ++i) y[i] = std::sqrt(x[i]);
  return y;
}

}  // namespace mercer
