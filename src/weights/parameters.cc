#include "weights/parameters.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>
#include <string>

#include "core/error.h"
#include "core/hash.h"
#include "core/random.h"

namespace lazytrain {
namespace {

// IEEE half precision, exactly.
float HalfToFloat(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0) {
    const float value = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -value : value;
  }
  const uint32_t wide = exponent == 31 ? 0xffu : exponent + 112;
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

template <typename T>
T LoadAt(const std::byte* data, int64_t i) {
  T value;
  std::memcpy(&value, data + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

float LoadFloat(const StoredTensor& tensor, int64_t i) {
  switch (tensor.dtype) {
    case DType::kF32:
      return LoadAt<float>(tensor.data, i);
    case DType::kBF16:
      return ToFloat(BFloat16{LoadAt<uint16_t>(tensor.data, i)});
    default:
      return HalfToFloat(LoadAt<uint16_t>(tensor.data, i));
  }
}

// Writes element `i` of a parameter, and what makes it exact.
void StoreElement(const ParameterSpec& parameter, const UnitMemory& memory, int64_t i,
                  float value) {
  std::byte* weights = memory.weights + parameter.byte_offset;
  if (parameter.dtype == DType::kF32) {
    reinterpret_cast<float*>(weights)[i] = value;
    return;
  }
  const SplitFloat split = Split(value);
  reinterpret_cast<BFloat16*>(weights)[i] = split.high;
  if (memory.master_low != nullptr && parameter.trainable) {
    memory.master_low[parameter.element_offset + i] = split.low;
  }
}

void ReadTensor(const Checkpoint& checkpoint, const ParameterSpec& parameter, const HubTensor& hub,
                const UnitMemory& memory) {
  const StoredTensor& stored = checkpoint.Find(hub.name);
  const std::string place = checkpoint.FileOf(hub.name).string() + ": " + hub.name;
  if (stored.shape != hub.shape) {
    throw RunError("{}: its shape is {}; config.json asks for {}", place, ToString(stored.shape),
                   ToString(hub.shape));
  }
  if (stored.dtype != DType::kF32 && stored.dtype != DType::kBF16 && stored.dtype != DType::kF16) {
    throw RunError("{}: its dtype is {}; weights are float32, bfloat16 or float16", place,
                   Name(stored.dtype));
  }
  const int64_t count = NumElements(hub.shape);
  for (int64_t i = 0; i < count; ++i) {
    const float value = LoadFloat(stored, i);
    if (!std::isfinite(value)) {
      throw RunError(
          "{}: element {} is not a finite number; the file is damaged or the training "
          "that wrote it diverged",
          place, i);
    }
    StoreElement(parameter, memory, hub.offset + i, value);
  }
}

}  // namespace

void ReadUnit(const Checkpoint& checkpoint, const UnitSpec& unit, const UnitMemory& memory) {
  for (const ParameterSpec& parameter : unit.parameters) {
    for (const HubTensor& hub : parameter.tensors) {
      ReadTensor(checkpoint, parameter, hub, memory);
    }
  }
}

void CheckNothingLeftOver(const Checkpoint& checkpoint, const ModelGraph& model) {
  std::set<std::string, std::less<>> known = {"lm_head.weight"};
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      for (const HubTensor& hub : parameter.tensors) known.insert(hub.name);
    }
  }
  for (const std::string& name : checkpoint.names()) {
    if (known.contains(name) || name.ends_with("rotary_emb.inv_freq")) continue;
    throw RunError("{}: {}: config.json's architecture '{}' has no such tensor",
                   checkpoint.FileOf(name).string(), name, model.architecture);
  }
}

void InitializeUnit(const UnitSpec& unit, uint64_t seed, double standard_deviation,
                    const UnitMemory& memory) {
  for (const ParameterSpec& parameter : unit.parameters) {
    for (const HubTensor& hub : parameter.tensors) {
      Digest digest;
      digest.Add(hub.name);
      Random random(StreamSeed(seed, std::stoull(digest.Hex().substr(0, 16), nullptr, 16)));
      for (int64_t i = 0; i < NumElements(hub.shape); ++i) {
        double value = parameter.init == Init::kOnes ? 1.0 : 0.0;
        if (parameter.init == Init::kNormal) value = random.Normal() * standard_deviation;
        StoreElement(parameter, memory, hub.offset + i, static_cast<float>(value));
      }
    }
  }
}

void AddModelTensors(const ModelGraph& model,
                     const std::function<const std::byte*(size_t unit)>& weights,
                     SafetensorsWriter& writer) {
  for (size_t u = 0; u < model.units.size(); ++u) {
    for (const ParameterSpec& parameter : model.units[u].parameters) {
      for (const HubTensor& hub : parameter.tensors) {
        const std::byte* data =
            weights(u) + parameter.byte_offset + hub.offset * SizeOf(parameter.dtype);
        writer.Add({hub.name, parameter.dtype, hub.shape, data, {}});
      }
    }
  }
}

}  // namespace lazytrain
