// Tokens a second of encoding and decoding English text, on one core.
//   tokenizer_bench TOKENIZER_FILE TEXT_FILE [benchmark options]
// TOKENIZER_FILE is a tokenizer.json or a SentencePiece model.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "data/tokenizer/tokenizer.h"

namespace lazytrain {
namespace {

struct Fixture {
  Tokenizer tokenizer;
  std::string text;
  std::vector<std::string> paragraphs;  // the text, cut at empty lines
  std::vector<int32_t> ids;
};

std::vector<std::string> CutParagraphs(const std::string& text) {
  std::vector<std::string> paragraphs;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find("\n\n", begin), text.size());
    if (end > begin) paragraphs.push_back(text.substr(begin, end - begin));
    begin = end + 2;
  }
  return paragraphs;
}

void EncodeWhole(benchmark::State& state, const Fixture& fixture) {
  for ([[maybe_unused]] auto _ : state)
    benchmark::DoNotOptimize(fixture.tokenizer.Encode(fixture.text, false));
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(fixture.ids.size()));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(fixture.text.size()));
}

void EncodeParagraphs(benchmark::State& state, const Fixture& fixture) {
  int64_t tokens = 0;
  for ([[maybe_unused]] auto _ : state) {
    for (const std::string& paragraph : fixture.paragraphs) {
      tokens += static_cast<int64_t>(fixture.tokenizer.Encode(paragraph, false).size());
    }
  }
  state.SetItemsProcessed(tokens);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(fixture.text.size()));
}

void DecodeWhole(benchmark::State& state, const Fixture& fixture) {
  for ([[maybe_unused]] auto _ : state)
    benchmark::DoNotOptimize(fixture.tokenizer.Decode(fixture.ids, false));
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(fixture.ids.size()));
}

// A word without end, at growing lengths: the time a letter should hardly grow.
void EncodeOneWord(benchmark::State& state, const Fixture& fixture) {
  const std::string word(static_cast<size_t>(state.range(0)), 'a');
  for ([[maybe_unused]] auto _ : state)
    benchmark::DoNotOptimize(fixture.tokenizer.Encode(word, false));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

int Run(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: tokenizer_bench TOKENIZER_FILE TEXT_FILE [benchmark options]\n");
    return 2;
  }
  Fixture fixture{Tokenizer::FromFile(argv[1]), ReadFile(argv[2]), {}, {}};
  fixture.paragraphs = CutParagraphs(fixture.text);
  fixture.ids = fixture.tokenizer.Encode(fixture.text, false);
  benchmark::RegisterBenchmark("EncodeWhole", [&](auto& state) { EncodeWhole(state, fixture); });
  benchmark::RegisterBenchmark("EncodeParagraphs",
                               [&](auto& state) { EncodeParagraphs(state, fixture); });
  benchmark::RegisterBenchmark("DecodeWhole", [&](auto& state) { DecodeWhole(state, fixture); });
  benchmark::RegisterBenchmark("EncodeOneWord", [&](auto& state) { EncodeOneWord(state, fixture); })
      ->RangeMultiplier(10)
      ->Range(1000, 1000000);
  argv[2] = argv[0];
  int rest = argc - 2;
  benchmark::Initialize(&rest, argv + 2);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace lazytrain

int main(int argc, char** argv) {
  try {
    return lazytrain::Run(argc, argv);
  } catch (const lazytrain::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.exit_status();
  }
}
