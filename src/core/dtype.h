// Element types of tensors, and bfloat16 conversion.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace lazytrain {

enum class DType : uint8_t { kF32, kBF16, kF16, kI32, kI64, kU8 };

// Bytes of one element.
int64_t SizeOf(DType dtype);

// "float32", "bfloat16", ...: the spelling of config.json and of our configuration.
std::string_view Name(DType dtype);

// "F32", "BF16", ...: the spelling of safetensors headers.
std::string_view SafetensorsName(DType dtype);

// Throws Error (kUsage) on an unknown name; `place` says where it stood.
DType DTypeFromName(std::string_view name, std::string_view place);
DType DTypeFromSafetensorsName(std::string_view name, std::string_view place);

// A bfloat16: the upper half of an IEEE float32.
struct BFloat16 {
  uint16_t bits = 0;
};

inline float ToFloat(BFloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

// Round to nearest, ties to even; a NaN stays a NaN.
inline BFloat16 ToBFloat16(float x) {
  const auto u = std::bit_cast<uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

// A float32 as a bfloat16 and 16 more bits, exactly: bits = (high << 16) + low. `high` is the value
// rounded to nearest, halves away from zero, so that `low` always fits (ties to even could not be
// told apart).
struct SplitFloat {
  BFloat16 high;
  int16_t low = 0;
};

inline SplitFloat Split(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t high = (bits + 0x8000u) >> 16;
  return {{static_cast<uint16_t>(high)},
          static_cast<int16_t>(static_cast<uint16_t>(bits - (high << 16)))};
}

inline float Join(const SplitFloat& x) {
  const uint32_t high = uint32_t{x.high.bits} << 16;
  return std::bit_cast<float>(high + static_cast<uint32_t>(int32_t{x.low}));
}

inline float ToFloat(float x) { return x; }

template <typename T>
T FromFloat(float x);
template <>
inline float FromFloat<float>(float x) {
  return x;
}
template <>
inline BFloat16 FromFloat<BFloat16>(float x) {
  return ToBFloat16(x);
}

}  // namespace lazytrain
