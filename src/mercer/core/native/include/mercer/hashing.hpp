// Hashes that differ from process to process, so that no data can be made to collide in a table.
// No result may depend on them.
#pragma once

#include <cstdint>
#include <random>

namespace mercer {

inline std::uint64_t random_number() {
  std::random_device device;
  return std::uint64_t(device()) << 32 | device();
}

inline const std::uint64_t hash_seed = random_number();

// A bijection, each bit of which depends on all bits of x.
inline std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

}  // namespace mercer
