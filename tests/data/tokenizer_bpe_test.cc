// Byte pair encoding: merging, the word cache, and a whole tokenizer used by several threads.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>

#include "core/file.h"
#include "data/tokenizer/bpe_merge.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/word_cache.h"

namespace lazytrain {
namespace {

using Ids = std::vector<int32_t>;

// Merges as the definition says: the lowest rank first, the leftmost of equals.
Ids MergeByDefinition(const std::map<std::pair<int32_t, int32_t>, Merge>& merges, Ids tokens) {
  while (true) {
    const Merge* best = nullptr;
    size_t at = 0;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      const auto found = merges.find({tokens[i], tokens[i + 1]});
      if (found != merges.end() && (best == nullptr || found->second.rank < best->rank)) {
        best = &found->second;
        at = i;
      }
    }
    if (best == nullptr) return tokens;
    tokens[at] = best->merged;
    tokens.erase(tokens.begin() + static_cast<int64_t>(at) + 1);
  }
}

TEST(BpeMergeTest, FollowsTheDefinitionOnRandomVocabularies) {
  std::mt19937 random(5);
  BpeMerger merger;
  for (int round = 0; round < 300; ++round) {
    // Tokens are strings over three letters; a merge makes the token of the joined string.
    std::map<std::string, int32_t> ids = {{"a", 0}, {"b", 1}, {"c", 2}};
    std::vector<std::string> texts = {"a", "b", "c"};
    std::map<std::pair<int32_t, int32_t>, Merge> merges;
    MergeTable table;
    for (uint32_t rank = 0; rank < 40; ++rank) {
      const auto left = static_cast<int32_t>(random() % texts.size());
      const auto right = static_cast<int32_t>(random() % texts.size());
      const std::string joined =
          texts[static_cast<size_t>(left)] + texts[static_cast<size_t>(right)];
      const auto [token, added] = ids.try_emplace(joined, static_cast<int32_t>(texts.size()));
      if (added) texts.push_back(joined);
      merges[{left, right}] = {rank, token->second};
      table.Set(left, right, {rank, token->second});
    }
    // Lengths on both sides of where the algorithm changes.
    for (const size_t length : {0, 1, 2, 7, 31, 32, 33, 90}) {
      Ids tokens(length);
      for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 3);
      const Ids expected = MergeByDefinition(merges, tokens);
      merger.Merge(table, tokens);
      ASSERT_EQ(tokens, expected);
    }
  }
}

TEST(MergeTableTest, FindsWhatWasSetLast) {
  MergeTable table;
  for (int32_t i = 0; i < 1000; ++i) table.Set(i, i + 1, {static_cast<uint32_t>(i), i + 7});
  table.Set(5, 6, {99, 3});
  EXPECT_EQ(table.Find(5, 6)->merged, 3);
  EXPECT_EQ(table.Find(999, 1000)->merged, 1006);
  EXPECT_EQ(table.Find(6, 5), nullptr);
}

TEST(WordCacheTest, KeepsWordsAndForgetsAllWhenFull) {
  WordCache cache;
  std::span<const int32_t> tokens;
  EXPECT_FALSE(cache.Find("w0", tokens));
  cache.Insert("w0", Ids{1, 2});
  cache.Insert("", Ids{});
  ASSERT_TRUE(cache.Find("w0", tokens));
  EXPECT_EQ(Ids(tokens.begin(), tokens.end()), (Ids{1, 2}));
  for (int32_t i = 1; i < 200000; ++i) cache.Insert(fmt::format("w{}", i), Ids{i});
  EXPECT_FALSE(cache.Find("w0", tokens));
  ASSERT_TRUE(cache.Find("w199999", tokens));
  EXPECT_EQ(tokens[0], 199999);
}

TEST(BpeTest, SpellsUnknownTextAsTheModelSays) {
  const auto encode = [](const std::string& options, std::string_view text) {
    return Tokenizer::FromJson(
               R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "<unk>": 2, "<0xC3>": 3,
                   "<0xA9>": 4, "ab": 5, "#b": 6, "b/": 7, "a#b": 8, "a/": 9}, "merges": ["a b"])" +
                   options + "}}",
               "test")
        .Encode(text, false);
  };
  const char* text =
      "a\xC3\xA9\xC3\xAA\xC3\xAB\xC3\xA9"
      "b";
  EXPECT_EQ(encode("", text), (Ids{5}));  // dropped, and what is left are neighbours
  EXPECT_EQ(encode(R"(, "unk_token": "<unk>")", text), (Ids{0, 2, 2, 2, 2, 1}));
  EXPECT_EQ(encode(R"(, "unk_token": "<unk>", "fuse_unk": true)", text), (Ids{0, 2, 1}));
  // Of the four only the first and last have all their bytes. An unknown token comes behind the
  // bytes that follow it.
  EXPECT_EQ(encode(R"(, "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true)", text),
            (Ids{0, 3, 4, 3, 4, 2, 1}));
  EXPECT_EQ(encode(R"(, "ignore_merges": true)", "ab"), (Ids{5}));
  EXPECT_EQ(encode(R"(, "end_of_word_suffix": "/")", "ab"), (Ids{0, 7}));
  EXPECT_EQ(encode(R"(, "end_of_word_suffix": "/")", "a"), (Ids{9}));
}

TEST(BpeTest, MergesWithAPrefixOfContinuingSymbols) {
  const Tokenizer tokenizer = Tokenizer::FromJson(
      R"({"model": {"type": "BPE", "vocab": {"a": 0, "##b": 1, "ab": 2, "##a": 3},
          "merges": [["a", "##b"]], "continuing_subword_prefix": "##"}})",
      "test");
  EXPECT_EQ(tokenizer.Encode("aba", false), (Ids{2, 3}));
}

// Without a pre-tokenizer the whole text is one word. A quadratic merge would need hours here.
TEST(BpeTest, EncodesALongTextInOnePiece) {
  const Tokenizer tokenizer = Tokenizer::FromJson(
      R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "aa": 2, "aaaa": 3},
          "merges": ["a a", "aa aa"]}})",
      "test");
  const size_t length = 4000000;
  EXPECT_EQ(tokenizer.Encode(std::string(length, 'a'), false), Ids(length / 4, 3));
}

TEST(TokenizerThreadsTest, EncodesTheSameInSeveralThreads) {
  const Path shared = LAZYTRAIN_SHARED_DIR;
  const Tokenizer tokenizer =
      Tokenizer::FromFile(shared / "tokenizer_cases" / "synthetic" / "tokenizer.json");
  const std::string text =
      ReadFile(shared / "data" / "tinyshakespeare" / "input.txt").substr(0, 20000);
  const Ids expected = tokenizer.Encode(text, false);
  std::vector<Ids> results(4);
  std::vector<std::thread> threads;
  threads.reserve(results.size());
  for (Ids& result : results) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) result = tokenizer.Encode(text, false);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Ids& result : results) EXPECT_EQ(result, expected);
}

}  // namespace
}  // namespace lazytrain
