#include "data/tokenizer/proto_reader.h"

#include <cstring>

#include "core/error.h"

namespace lazytrain {

void ProtoReader::Fail(std::string_view what) const {
  throw RunError("{}: not a SentencePiece model: {}; use an intact file", place_, what);
}

uint64_t ProtoReader::Varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (bytes_.empty()) break;
    const auto byte = static_cast<unsigned char>(bytes_[0]);
    bytes_.remove_prefix(1);
    value |= uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
  Fail("a number has no end");
}

std::string_view ProtoReader::Take(uint64_t size) {
  if (size > bytes_.size()) Fail("the file ends within a field");
  const std::string_view taken = bytes_.substr(0, size);
  bytes_.remove_prefix(size);
  return taken;
}

bool ProtoReader::Next() {
  if (bytes_.empty()) return false;
  const uint64_t key = Varint();
  number_ = key >> 3;
  type_ = key & 7;
  if (type_ == kVarint) {
    integer_ = Varint();
  } else if (type_ == kFixed64) {
    content_ = Take(8);
  } else if (type_ == kFixed32) {
    content_ = Take(4);
  } else if (type_ == kLength) {
    content_ = Take(Varint());
  } else {
    Fail(fmt::format("a field has the unknown wire type {}", type_));
  }
  return true;
}

void ProtoReader::Expect(WireType type) const {
  if (type_ != type) Fail(fmt::format("field {} has the wrong wire type {}", number_, type_));
}

std::string_view ProtoReader::Bytes() const {
  Expect(kLength);
  return content_;
}

int64_t ProtoReader::Integer() const {
  Expect(kVarint);
  return static_cast<int64_t>(integer_);
}

float ProtoReader::Float() const {
  Expect(kFixed32);
  float value = 0;
  std::memcpy(&value, content_.data(), 4);
  return value;
}

}  // namespace lazytrain
