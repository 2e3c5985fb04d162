#include "data/tokenizer/pipeline.h"

#include <algorithm>

#include "core/error.h"
#include "data/tokenizer/json_fields.h"

namespace lazytrain {

struct Pipeline::Workspace {
  BpeWorkspace bpe;
  PieceList list;
  std::string normalized;
};

// A workspace for the length of one call.
class Pipeline::Lease {
 public:
  explicit Lease(const Pipeline& owner) : owner_(owner) {
    {
      const std::lock_guard lock(owner_.mutex_);
      if (!owner_.idle_.empty()) {
        work_ = std::move(owner_.idle_.back());
        owner_.idle_.pop_back();
      }
    }
    if (work_ == nullptr) work_ = std::make_unique<Workspace>();
  }
  ~Lease() {
    const std::lock_guard lock(owner_.mutex_);
    try {
      owner_.idle_.push_back(std::move(work_));
    } catch (const std::bad_alloc&) {  // then the workspace is made anew next time
    }
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  Workspace& operator*() const { return *work_; }

 private:
  const Pipeline& owner_;
  std::unique_ptr<Workspace> work_;
};

namespace {

// The model, if it is one that this program has.
TokenizerJson& CheckModel(TokenizerJson& json) {
  const JsonFields root(json.root, json.place);
  const JsonFields model(root.Required("model"), json.place + ": model");
  // Files older than the field "type" name no model; what has merges is BPE.
  if (model.Find("type") == nullptr && json.has_merges) return json;
  if (model.Type() != "BPE") model.RefuseType("model", "BPE");
  return json;
}

}  // namespace

Pipeline::Pipeline(TokenizerJson& json) : place_(json.place), model_(CheckModel(json)) {
  const JsonFields root(json.root, place_);
  if (const Json* part = root.Find("normalizer")) {
    normalizer_ = ParseNormalizer(*part, place_ + ": normalizer");
  }
  if (const Json* part = root.Find("pre_tokenizer")) {
    pre_tokenizer_ = ParsePreTokenizer(*part, place_ + ": pre_tokenizer");
  }
  if (const Json* part = root.Find("decoder")) decoder_ = ParseDecoder(*part, place_ + ": decoder");
  if (const Json* part = root.Find("post_processor")) {
    frame_ = ParsePostProcessor(*part, place_ + ": post_processor");
  }
  id_limit_ = model_.id_limit();
  if (root.Find("added_tokens") != nullptr) ReadAddedTokens(json);
  FillMatchers();
  for (const std::vector<int32_t>* ids : {&frame_.before, &frame_.after}) {
    for (const int32_t id : *ids) {
      if (!IdToToken(id)) {
        throw RunError("{}: post_processor: there is no token with the id {}; use an intact file",
                       place_, id);
      }
    }
  }
}

Pipeline::~Pipeline() = default;

// A token that the vocabulary lacks gets the next free id.
int32_t Pipeline::ExpectedId(const AddedToken& token) const {
  if (const std::optional<int32_t> id = TokenToId(token.content)) return *id;
  int64_t next = model_.size();
  for (const auto& [content, id] : added_ids_) next = std::max<int64_t>(next, id + 1);
  return static_cast<int32_t>(next);
}

void Pipeline::ReadAddedTokens(const TokenizerJson& json) {
  const JsonFields root(json.root, place_);
  for (const Json& entry : root.Array("added_tokens")) {
    AddedToken token = ParseAddedToken(entry, place_ + ": added_tokens");
    if (token.content.empty()) continue;
    if (const int32_t expected = ExpectedId(token); expected != token.id) {
      throw RunError(
          "{}: added_tokens: '{}' has the id {}, but the vocabulary puts it at {}; "
          "correct the id",
          place_, token.content, token.id, expected);
    }
    added_ids_[token.content] = token.id;
    if (token.special) special_.insert(token.content);
    id_limit_ = std::max<int64_t>(id_limit_, int64_t{token.id} + 1);
    const auto same = [&](const AddedToken& other) { return other.content == token.content; };
    if (const auto old = std::find_if(added_.begin(), added_.end(), same); old != added_.end()) {
      *old = std::move(token);
    } else {
      added_.push_back(std::move(token));
    }
  }
}

void Pipeline::FillMatchers() {
  // Special tokens first: of two with one pattern the first counts.
  std::stable_partition(added_.begin(), added_.end(),
                        [](const AddedToken& t) { return t.special; });
  for (const AddedToken& token : added_) {
    std::string pattern = token.content;
    if (token.normalized && normalizer_ != nullptr) normalizer_->Apply(pattern);
    (token.normalized ? normalized_matcher_ : raw_matcher_).Add(pattern, token);
    added_text_[token.id] = std::move(pattern);
    if (token.special) special_ids_.insert(token.id);
  }
}

template <typename TakeToken, typename TakePieces>
void Pipeline::Cut(std::string_view text, Workspace& work, TakeToken take_token,
                   TakePieces take_pieces) const {
  const auto split = [](const TokenMatcher& matcher, std::string_view whole) {
    if (!matcher.empty()) return matcher.Split(whole);
    return std::vector<TextPart>{{whole, std::nullopt}};
  };
  for (const TextPart& raw : split(raw_matcher_, text)) {
    if (raw.token) {
      take_token(raw);
      continue;
    }
    std::string_view normalized = raw.text;
    if (normalizer_ != nullptr) {
      work.normalized.assign(raw.text);
      normalizer_->Apply(work.normalized);
      normalized = work.normalized;
    }
    for (const TextPart& part : split(normalized_matcher_, normalized)) {
      if (part.token) {
        take_token(part);
        continue;
      }
      work.list.pieces.clear();
      work.list.storage.clear();
      work.list.Add(part.text);
      const bool at_start = raw.text.data() == text.data() && part.text.data() == normalized.data();
      work.list.start = at_start ? part.text.data() : nullptr;
      pre_tokenizer_.Apply(work.list);
      take_pieces(work.list);
    }
  }
}

std::vector<int32_t> Pipeline::Encode(std::string_view text, bool add_special_tokens) const {
  const Lease lease(*this);
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 4 + 8);
  if (add_special_tokens) ids = frame_.before;
  const PieceAlphabet alphabet =
      pre_tokenizer_.byte_alphabet ? PieceAlphabet::kByte : PieceAlphabet::kText;
  const bool keep = !pre_tokenizer_.steps.empty();
  Cut(
      text, *lease, [&](const TextPart& part) { ids.push_back(*part.token); },
      [&](const PieceList& list) {
        for (const std::string_view piece : list.pieces) {
          model_.Encode(piece, alphabet, keep, (*lease).bpe, ids);
        }
      });
  if (add_special_tokens) ids.insert(ids.end(), frame_.after.begin(), frame_.after.end());
  return ids;
}

std::vector<std::string> Pipeline::Pieces(std::string_view text) const {
  const Lease lease(*this);
  std::vector<std::string> pieces;
  Cut(
      text, *lease, [&](const TextPart& part) { pieces.emplace_back(part.text); },
      [&](const PieceList& list) {
        pieces.insert(pieces.end(), list.pieces.begin(), list.pieces.end());
      });
  return pieces;
}

std::string Pipeline::Decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const int32_t id : ids) {
    std::optional<std::string> token = IdToToken(id);
    if (!token || (skip_special_tokens && special_.contains(*token))) continue;
    tokens.push_back(std::move(*token));
  }
  std::string text;
  if (decoder_ == nullptr) {
    for (size_t i = 0; i < tokens.size(); ++i) text.append(i == 0 ? 0 : 1, ' ').append(tokens[i]);
    return text;
  }
  decoder_->Apply(tokens);
  for (const std::string& token : tokens) text += token;
  return text;
}

std::optional<int32_t> Pipeline::TokenToId(std::string_view token) const {
  const auto added = added_ids_.find(std::string(token));
  if (added != added_ids_.end()) return added->second;
  return model_.TokenToId(token);
}

std::optional<std::string> Pipeline::IdToToken(int32_t id) const {
  if (const auto added = added_text_.find(id); added != added_text_.end()) return added->second;
  const std::string* token = model_.IdToToken(id);
  if (token == nullptr) return std::nullopt;
  return *token;
}

bool Pipeline::IsSpecial(int32_t id) const { return special_ids_.contains(id); }

}  // namespace lazytrain
