// Digests of bits: two runs agree exactly if and only if (but for a 2^-128 chance) these agree.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace lazytrain {

// XXH3, 128 bits.
class Digest {
 public:
  Digest();
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void Add(const void* data, size_t bytes);
  void Add(std::string_view text) { Add(text.data(), text.size()); }
  // 32 lower-case hexadecimal digits; more may be added afterwards.
  std::string Hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lazytrain
