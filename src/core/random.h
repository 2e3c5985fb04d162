// Random numbers that are the same on every platform and library version, unlike <random>'s
// distributions and std::shuffle.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>
#include <vector>

namespace lazytrain {

// SplitMix64 (Steele, Lea, Flood 2014): small state, any seed is good, streams by seed.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }

  // Uniform in [0, bound), bound > 0; without the modulo's bias (rejection).
  uint64_t Below(uint64_t bound) {
    const uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    uint64_t x = Next();
    while (x >= limit) x = Next();
    return x % bound;
  }

  int64_t Between(int64_t low, int64_t high) {  // both ends included
    return low + static_cast<int64_t>(Below(static_cast<uint64_t>(high - low) + 1));
  }

  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }  // [0, 1)

  // Standard normal (Box-Muller).
  double Normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - Uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * Uniform());
  }

  template <typename T>
  void Shuffle(std::vector<T>& items) {  // Fisher-Yates
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[Below(i)]);
  }

 private:
  uint64_t state_;
};

// A seed for stream number `stream` of a run's seed; streams are independent of each other.
inline uint64_t StreamSeed(uint64_t seed, uint64_t stream) {
  Random mix(seed ^ (stream * 0xd1342543de82ef95ull));
  return mix.Next();
}

}  // namespace lazytrain
