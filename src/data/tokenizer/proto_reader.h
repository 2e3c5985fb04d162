// Protocol buffers, read from the wire format (protobuf.dev/programming-guides/encoding).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lazytrain {

// Goes over the fields of one message. Getters throw Error, beginning with `place`, if the field
// has another wire type; Next throws if the bytes are no message.
class ProtoReader {
 public:
  ProtoReader(std::string_view bytes, const std::string& place) : bytes_(bytes), place_(place) {}

  // Moves to the next field; false at the end.
  bool Next();
  uint64_t number() const { return number_; }

  std::string_view Bytes() const;
  int64_t Integer() const;
  bool Bool() const { return Integer() != 0; }
  float Float() const;

  [[noreturn]] void Fail(std::string_view what) const;

 private:
  enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };
  uint64_t Varint();
  std::string_view Take(uint64_t size);
  void Expect(WireType type) const;

  std::string_view bytes_;
  const std::string& place_;
  uint64_t number_ = 0;
  uint64_t type_ = 0;
  uint64_t integer_ = 0;
  std::string_view content_;
};

}  // namespace lazytrain
