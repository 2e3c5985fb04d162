#include "data/tokenizer/sentencepiece_bpe.h"

#include "data/tokenizer/utf8.h"

namespace lazytrain {

void SentencePieceBpe::Push(int64_t left, int64_t right) {
  if (left < 0 || right < 0) return;
  const Symbol& first = symbols_[static_cast<size_t>(left)];
  const Symbol& second = symbols_[static_cast<size_t>(right)];
  if (first.frozen || second.frozen) return;
  // Neighbours lie side by side in the text.
  const std::string_view both(first.text.data(), first.text.size() + second.text.size());
  const auto found = index_.find(both);
  if (found == index_.end()) return;
  const SentencePiece& piece = pieces_[static_cast<size_t>(found->second)];
  queue_.push({piece.score, left, right, both.size()});
  if (piece.type == PieceType::kUnused) halves_[both] = {first.text, second.text};
}

void SentencePieceBpe::Merge(const Candidate& candidate) {
  Symbol& left = symbols_[static_cast<size_t>(candidate.left)];
  Symbol& right = symbols_[static_cast<size_t>(candidate.right)];
  if (left.text.empty() || right.text.empty() ||
      left.text.size() + right.text.size() != candidate.size) {
    return;  // one of the two has changed since
  }
  left.text = std::string_view(left.text.data(), candidate.size);
  left.next = right.next;
  if (right.next >= 0) symbols_[static_cast<size_t>(right.next)].previous = candidate.left;
  right.text = {};
  Push(left.previous, candidate.left);
  Push(candidate.left, left.next);
}

void SentencePieceBpe::AddSegments(std::string_view text,
                                   std::vector<std::string_view>& segments) const {
  std::vector<std::string_view> rest = {text};  // the next one last
  while (!rest.empty()) {
    const std::string_view part = rest.back();
    rest.pop_back();
    const auto found = halves_.find(part);
    if (found == halves_.end()) {
      segments.push_back(part);
    } else {
      rest.push_back(found->second.second);
      rest.push_back(found->second.first);
    }
  }
}

std::vector<std::string_view> SentencePieceBpe::Encode(std::string_view text) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t user_defined = user_defined_.Longest(text.substr(begin)).length;
    const size_t length = user_defined > 0 ? user_defined : Utf8Length(text[begin]);
    const auto index = static_cast<int64_t>(symbols_.size());
    const bool last = begin + length == text.size();
    symbols_.push_back(
        {text.substr(begin, length), index - 1, last ? -1 : index + 1, user_defined > 0});
    begin += length;
  }
  for (int64_t i = 1; i < static_cast<int64_t>(symbols_.size()); ++i) Push(i - 1, i);
  while (!queue_.empty()) {
    const Candidate candidate = queue_.top();
    queue_.pop();
    Merge(candidate);
  }
  std::vector<std::string_view> segments;
  for (const Symbol& symbol : symbols_) {
    if (!symbol.text.empty()) AddSegments(symbol.text, segments);
  }
  return segments;
}

}  // namespace lazytrain
