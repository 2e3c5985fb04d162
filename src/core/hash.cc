#include "core/hash.h"

#include <fmt/core.h>
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

namespace lazytrain {

struct Digest::State {
  XXH3_state_t xxh;
};

Digest::Digest() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
Digest::~Digest() = default;

void Digest::Add(const void* data, size_t bytes) { XXH3_128bits_update(&state_->xxh, data, bytes); }

std::string Digest::Hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace lazytrain
