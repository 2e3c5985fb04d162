#include "data/tokenizer/tokenizer_json.h"

#include <algorithm>

#include "core/error.h"

namespace lazytrain {
namespace {

constexpr size_t kMaxDepth = 200;

// Receives the parser's events; the names are those of the library's SAX interface.
class Reader : public nlohmann::json_sax<Json> {
 public:
  Reader(std::string_view text, TokenizerJson& result) : text_(text), result_(result) {}

  bool null() override { return Scalar(Json()); }
  bool boolean(bool value) override { return Scalar(Json(value)); }
  bool number_float(double value, const std::string& /*text*/) override {
    return Scalar(Json(value));
  }
  bool number_integer(int64_t value) override { return Integer(value); }
  bool number_unsigned(uint64_t value) override {
    return Integer(static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX)));
  }
  bool string(std::string& value) override;
  bool binary(Json::binary_t& /*value*/) override { return false; }
  bool key(std::string& name) override {
    key_ = std::move(name);
    return true;
  }
  bool start_object(size_t /*size*/) override;
  bool end_object() override { return End(); }
  bool start_array(size_t /*size*/) override;
  bool end_array() override;
  bool parse_error(size_t byte, const std::string& token,
                   const nlohmann::detail::exception& error) override;

 private:
  enum class Mode { kTree, kVocab, kMerges, kPair };

  // Whether the value that comes now is model.<name>.
  bool IsModelField(const char* name) const {
    return mode_ == Mode::kTree && path_.size() == 2 && path_[1] == "model" && key_ == name;
  }
  Json* Place(Json value);
  bool Scalar(Json value);
  bool Integer(int64_t value);
  bool End();
  void Open(Json value);
  void AddMerge(std::string_view text);

  std::string_view text_;
  TokenizerJson& result_;
  Mode mode_ = Mode::kTree;
  std::vector<Json*> open_;        // the containers that the next value lies in
  std::vector<std::string> path_;  // their names
  std::string key_;
  std::vector<std::string> pair_;
};

Json* Reader::Place(Json value) {
  if (open_.empty()) {
    result_.root = std::move(value);
    return &result_.root;
  }
  Json& parent = *open_.back();
  if (parent.is_array()) {
    parent.push_back(std::move(value));
    return &parent.back();
  }
  return &(parent[key_] = std::move(value));
}

bool Reader::Scalar(Json value) {
  switch (mode_) {
    case Mode::kVocab:
      throw RunError("{}: model.vocab: the id of '{}' is not a whole number; use an intact file",
                     result_.place, key_);
    case Mode::kMerges:
    case Mode::kPair:
      throw RunError("{}: model.merges: entry {} is not a pair of strings; use an intact file",
                     result_.place, result_.merges.size());
    case Mode::kTree:
      Place(std::move(value));
  }
  return true;
}

bool Reader::Integer(int64_t value) {
  if (mode_ != Mode::kVocab) return Scalar(Json(value));
  result_.vocab.emplace_back(std::move(key_), value);
  return true;
}

bool Reader::string(std::string& value) {
  if (mode_ == Mode::kMerges) {
    AddMerge(value);
  } else if (mode_ == Mode::kPair) {
    pair_.push_back(std::move(value));
  } else {
    return Scalar(Json(std::move(value)));
  }
  return true;
}

void Reader::AddMerge(std::string_view text) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
    throw RunError(
        "{}: model.merges: entry {} ('{}') is not two tokens with one space between; "
        "use an intact file",
        result_.place, result_.merges.size(), text);
  }
  result_.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
}

void Reader::Open(Json value) {
  if (open_.size() >= kMaxDepth) {
    throw RunError("{}: malformed JSON: nested more than {} levels deep", result_.place, kMaxDepth);
  }
  path_.push_back(open_.empty() || open_.back()->is_array() ? std::string() : key_);
  open_.push_back(Place(std::move(value)));
}

bool Reader::start_object(size_t /*size*/) {
  if (IsModelField("vocab")) {
    result_.has_vocab = true;
    result_.vocab.clear();  // a repeated key counts the last time, as elsewhere in JSON
    mode_ = Mode::kVocab;
  } else if (mode_ != Mode::kTree) {
    Scalar(Json());
  } else {
    Open(Json::object());
  }
  return true;
}

bool Reader::start_array(size_t /*size*/) {
  if (IsModelField("merges")) {
    result_.has_merges = true;
    result_.merges.clear();
    mode_ = Mode::kMerges;
  } else if (mode_ == Mode::kMerges) {
    pair_.clear();
    mode_ = Mode::kPair;
  } else if (mode_ != Mode::kTree) {
    Scalar(Json());
  } else {
    Open(Json::array());
  }
  return true;
}

bool Reader::End() {
  if (mode_ == Mode::kVocab) {
    mode_ = Mode::kTree;
  } else {
    open_.pop_back();
    path_.pop_back();
  }
  return true;
}

bool Reader::end_array() {
  if (mode_ == Mode::kPair) {
    if (pair_.size() != 2) Scalar(Json());
    result_.merges.emplace_back(std::move(pair_[0]), std::move(pair_[1]));
    mode_ = Mode::kMerges;
    return true;
  }
  if (mode_ == Mode::kMerges) {
    mode_ = Mode::kTree;
    return true;
  }
  return End();
}

bool Reader::parse_error(size_t byte, const std::string& /*token*/,
                         const nlohmann::detail::exception& error) {
  // The library's text begins with "[json.exception.parse_error.101] parse error at line ...: ".
  std::string_view what = error.what();
  if (const size_t colon = what.find(": "); colon != std::string_view::npos) {
    what.remove_prefix(colon + 2);
  }
  const auto end = text_.begin() + static_cast<int64_t>(std::min(byte, text_.size()));
  throw RunError("{}:{}: malformed JSON: {}", result_.place,
                 1 + std::count(text_.begin(), end, '\n'), what);
}

}  // namespace

TokenizerJson ParseTokenizerJson(std::string_view text, std::string place) {
  TokenizerJson result{std::move(place), Json(), false, {}, false, {}};
  Reader reader(text, result);
  Json::sax_parse(text, &reader);
  return result;
}

TokenizerJson ReadTokenizerJson(const Path& path) {
  return ParseTokenizerJson(ReadFile(path), path.string());
}

}  // namespace lazytrain
