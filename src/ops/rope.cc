#include "ops/rope.h"

#include <fmt/core.h>

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
  return fmt::format("rope({},{},{},{},{},{},{:a},{})", q_heads, kv_heads, head_dim,
                     digest.Hex().substr(0, 16), long_beyond, interleaved, scaling, Name(dtype));
}

}  // namespace lazytrain
