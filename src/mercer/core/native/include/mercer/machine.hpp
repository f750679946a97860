// What the processor of this machine can do: its level of the x86-64 psABI, and more. Asked by cpuid,
// since what __builtin_cpu_supports refers to is missing where Windows links.
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>

#include <cstdint>
#include <initializer_list>
#endif

namespace mercer {

#if defined(__x86_64__)
// Whether the bits in these places are all set.
constexpr bool has_bits(std::uint32_t word, std::initializer_list<int> places) {
  for (const int place : places)
    if (!(word >> place & 1)) return false;
  return true;
}

// Whether the system saves these registers when it changes processes; without, using them faults.
inline bool saves_registers(std::initializer_list<int> parts) {
  std::uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return has_bits(low, parts);
}

// The highest level this machine runs: "baseline", "x86-64-v3" or "x86-64-v4". It goes by single
// features, since not every compiler knows the levels by name.
inline const char* machine_level() {
  unsigned a, b, basic = 0, extended = 0, d, amd = 0, unused;
  if (!__get_cpuid(1, &a, &b, &basic, &d)) return "baseline";
  if (!__get_cpuid_count(7, 0, &a, &extended, &unused, &d)) return "baseline";
  if (!__get_cpuid(0x80000001u, &a, &b, &amd, &d)) return "baseline";
  // SSE3, SSSE3, FMA, CMPXCHG16B, SSE4.1, SSE4.2, MOVBE, POPCNT, OSXSAVE, AVX, F16C; BMI1, AVX2,
  // BMI2; LAHF, LZCNT; registers of 128 and 256 bits.
  if (!has_bits(basic, {0, 9, 12, 13, 19, 20, 22, 23, 27, 28, 29}) ||
      !has_bits(extended, {3, 5, 8}) || !has_bits(amd, {0, 5}) || !saves_registers({1, 2}))
    return "baseline";
  // AVX-512 F, DQ, CD, BW, VL; masks, and both parts of the registers of 512 bits.
  if (!has_bits(extended, {16, 17, 28, 30, 31}) || !saves_registers({5, 6, 7})) return "x86-64-v3";
  return "x86-64-v4";
}

// Whether AMD made the processor.
inline bool is_amd() {
  unsigned a, b, c, d;
  return __get_cpuid(0, &a, &b, &c, &d) && b == 0x68747541 && d == 0x69746e65 && c == 0x444d4163;
}

// Whether one instruction counts the bits of each lane of a vector (AVX-512 VPOPCNTDQ).
inline bool counts_bits_of_lanes() {
  unsigned a, b, extended = 0, d;
  return __get_cpuid_count(7, 0, &a, &b, &extended, &d) && has_bits(extended, {14});
}
#else
inline const char* machine_level() { return "baseline"; }
inline bool is_amd() { return false; }
inline bool counts_bits_of_lanes() { return false; }
#endif

}  // namespace mercer
