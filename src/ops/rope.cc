#include "ops/rope.h"

#include <fmt/core.h>

#include <cmath>

#include "core/hash.h"

namespace lazytrain {

OpCost Rope::Cost(Direction /*direction*/, const RowCounts& rows) const {
  const double values = static_cast<double>(rows.tokens) *
                        static_cast<double>((q_heads + kv_heads)) *
                        static_cast<double>(2 * inverse_frequencies.size());
  return {3.0 * values, 2.0 * values * static_cast<double>(SizeOf(dtype))};
}

std::string Rope::Signature() const {
  Digest digest;
  digest.Add(inverse_frequencies.data(), inverse_frequencies.size() * sizeof(float));
  digest.Add(long_inverse_frequencies.data(), long_inverse_frequencies.size() * sizeof(float));
  const std::string signature =
      fmt::format("rope({},{},{},{},{},{},{:a},{})", q_heads, kv_heads, head_dim,
                  digest.Hex().substr(0, 16), long_beyond, interleaved, scaling, Name(dtype));
  return dynamic_factor == 0.0 ? signature
                               : fmt::format("{}+dynamic({:a})", signature, dynamic_factor);
}

std::vector<float> Rope::FrequenciesFor(int64_t document_tokens) const {
  const bool is_long = document_tokens > long_beyond;
  if (is_long && !long_inverse_frequencies.empty()) return long_inverse_frequencies;
  if (!is_long || dynamic_factor == 0.0) return inverse_frequencies;
  const double excess =
      static_cast<double>(document_tokens) / static_cast<double>(long_beyond) - 1.0;
  const double stretch = dynamic_factor * excess + 1.0;
  const double last = static_cast<double>(inverse_frequencies.size()) - 1.0;
  std::vector<float> result;
  for (size_t i = 0; i < inverse_frequencies.size(); ++i) {
    const double slower = std::pow(stretch, -static_cast<double>(i) / last);
    result.push_back(static_cast<float>(double{inverse_frequencies[i]} * slower));
  }
  return result;
}

}  // namespace lazytrain
