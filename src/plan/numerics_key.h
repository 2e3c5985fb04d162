// What the bits of a run depend on (on the same binary, device model and libraries); a schedule
// decides everything else and never changes a bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"

namespace lazytrain {

struct NumericsKey {
  std::string device;     // backend and, where it matters, model
  std::string libraries;  // versions and code paths of what computes
  std::string ops;        // digest of every op's signature, fusions and chunk rows included
  int64_t micro_batch_tokens = 0;
  int64_t chunk_tokens = 0;     // Capacity::chunk_tokens
  std::string gradients;        // "fp32" or "bf16"
  std::vector<int64_t> passes;  // only with bf16 gradients: they are rounded between passes
  std::string clip;             // "exact", "off"
  std::string optimizer;        // variant and master

  Json ToJson() const;
  static NumericsKey FromJson(const Json& json, const std::string& place);
  bool operator==(const NumericsKey&) const = default;
  // The names of the fields that differ, for messages.
  std::vector<std::string> Differences(const NumericsKey& other) const;
};

}  // namespace lazytrain
