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
