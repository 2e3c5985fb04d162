// Wrong command lines and inputs of the commands beside sft.
#include <functional>
#include <utility>

#include "tests/e2e/program.h"

namespace lazytrain {
namespace {

class CommandErrors : public ProgramTest {
 protected:
  Outcome Generate(Words words) const {
    words.insert(words.begin(), {"generate", "--model", kStoryModel.string()});
    return Run(words);
  }
};

TEST_F(CommandErrors, CommandLines) {
  const std::vector<std::pair<Words, Words>> wrong = {
      {{}, {"lazytrain --help"}},
      {{"snt"}, {"'snt'", "'sft'", "lazytrain --help"}},
      {{"--frobnicate"}, {"'--frobnicate'", "lazytrain --help"}},
      {{"sft"}, {"config", "lazytrain sft --help"}},
      {{"sft", "--resume", "config.yaml"}, {"'--resume'", "lazytrain sft --help"}},
      {{"generate", "--modle", "m", "--prompt", "a"}, {"'--modle'", "'--model'"}},
      {{"generate", "--model", "m"}, {"--prompt", "required"}},
      {{"generate", "--model", "m", "--prompt"}, {"--prompt"}},
      {{"generate", "--model", "m", "--prompt", "Once", "upon"}, {"'upon'", "quotes"}},
      {{"generate", "--model", "m", "--prompt", "a", "--max-new-tokens", "few"},
       {"--max-new-tokens", "few"}},
      {{"export", "run"}, {"--out", "required"}},
      {{"tokenize", "x.jsonl"}, {"--model", "required"}},
      {{"bench", "--model", "m", "--batch", "1"}, {"--seq", "required"}},
  };
  for (const auto& [words, parts] : wrong) {
    SCOPED_TRACE(testing::PrintToString(words));
    ExpectError(Run(words), 2, parts);
  }
}

TEST_F(CommandErrors, HelpAndVersion) {
  for (const Words& words : {Words{"--help"}, Words{"sft", "--help"}, Words{"--version"}}) {
    const Outcome outcome = Run(words);
    ExpectDone(outcome);
    EXPECT_FALSE(outcome.out.empty());
  }
}

TEST_F(CommandErrors, Generate) {
  ExpectError(Generate({"--prompt", "a", "--max-new-tokens", "0"}), 2, {"--max-new-tokens", "0"});
  ExpectError(Generate({"--prompt", "a", "--max-new-tokens", "-3"}), 2, {"--max-new-tokens", "-3"});
  ExpectError(Generate({"--prompt", "a", "--device", "cuda:99"}), kNoGpuStatus, {"cpu"});
  for (const char* gb : {"nan", "-1", "1e300"}) {
    ExpectError(Generate({"--prompt", "a", "--device-memory-gb", gb}), 2, {"--device-memory-gb"});
  }
  std::string longer;
  for (int i = 0; i < 600; ++i) longer += "zebra ";
  ExpectError(Generate({"--prompt", longer}), 2, {"--prompt", "context is 512", "shorten"});
  ExpectError(Run({"generate", "--model", "Qwen/Qwen2.5-7B", "--prompt", "a"}), 2,
              {"--model", "not downloaded"});
  ExpectError(Run({"generate", "--model", "no\nwhere", "--prompt", "a"}), 2, {"'no where'"});
}

TEST_F(CommandErrors, Tokenize) {
  const auto tokenize = [this](const std::string& lines, Words options) {
    Write("in.jsonl", lines);
    options.insert(options.begin(), {"tokenize", "--model", kStoryModel.string(), "in.jsonl"});
    return Run(options);
  };
  ExpectError(tokenize("{\"text\": \"a\"}\n{\"text\": \n", {}), 1, {"in.jsonl:2: malformed JSON"});
  ExpectError(tokenize("{\"txt\": \"a\"}\n", {}), 1, {"in.jsonl:1:", "'text'"});
  ExpectError(tokenize("{\"text\": 5}\n", {}), 1, {"in.jsonl:1:", "'text'", "string"});
  ExpectError(tokenize("{\"ids\": [1.5]}\n", {"--decode"}), 1, {"in.jsonl:1:", "'ids'"});
  ExpectError(tokenize("{\"ids\": [1e400]}\n", {"--decode"}), 1, {"in.jsonl:1:", "1e400"});
  ExpectError(tokenize("{\"ids\": [1]}\n", {"--decode", "--pieces"}), 2, {"--decode", "--pieces"});
  ExpectError(Run({"tokenize", "--model", kStoryModel.string(), "nothere.jsonl"}), 1,
              {"nothere.jsonl"});
  ExpectError(Run({"tokenize", "--model", "nothere", "in.jsonl"}), 1, {"nothere"});
}

TEST_F(CommandErrors, Export) {
  std::filesystem::create_directory(*this / "empty");
  ExpectError(Run({"export", "empty", "--out", "out"}), 1, {"empty", "export"});
  ExpectError(Run({"export", "nothere", "--out", "out"}), 1, {"nothere", "export"});
  std::filesystem::create_directories(*this / "run" / "export");
  Write("run/export/config.json", "{}");
  ExpectError(Run({"export", "run", "--out", "empty"}), 1, {"empty", "another folder"});
  ExpectError(Run({"export", "run", "--out", "data.txt"}), 1, {"data.txt", "another folder"});
  ExpectError(Run({"export", "run", "--out", "data.txt/x"}), 1, {"data.txt:", "Not a directory"});
  ExpectError(Run({"export", "run", "--out", "/proc/x"}), 1, {"/proc/x", "another"});
  ExpectError(Run({"export", "run", "--out", ""}), 2, {"--out"});
  EXPECT_TRUE(Snapshot(*this / "empty").empty());
  EXPECT_FALSE(std::filesystem::exists(*this / "out"));
  ExpectNothingPartial();
  ExpectDone(Run({"export", "run", "--out", "new/out/"}));
  EXPECT_EQ(Snapshot(*this / "new" / "out"), Snapshot(*this / "run" / "export"));
}

TEST_F(CommandErrors, SimulateAndBench) {
  ExpectError(Run({"simulate", "config.yaml", "--schedule", "bogus"}), 2, {"'bogus'", "interval"});
  ExpectError(Run({"simulate", "config.yaml", "--trace", "data.txt/x"}), 1, {"data.txt/x"});
  ExpectError(Run({"bench", "--model", kStoryModel.string(), "--batch", "1", "--seq", "32",
                   "--steps", "0"}),
              2, {"--steps", "0"});
  ExpectError(Run({"bench", "--model", kStoryModel.string(), "--batch", "1", "--seq", "513"}), 2,
              {"513", "512"});
  ExpectError(Run({"bench", "--model", "nothere", "--batch", "1", "--seq", "32"}), 2, {"nothere"});
}

// A reference case with one thing wrong in it.
class VerifyErrors : public ProgramTest {
 protected:
  void Refuse(const Words& parts) const {
    ExpectError(Run({"verify", "case"}), 1, parts);
    Copy();
  }
  void Copy() const {
    std::filesystem::remove_all(*this / "case");
    std::filesystem::create_directory(*this / "case");
    const Path golden = Path(LAZYTRAIN_SHARED_DIR) / "golden" / "llama2";
    for (const auto& entry : std::filesystem::directory_iterator(golden)) {
      WriteFile(*this / "case" / entry.path().filename(), ReadFile(entry.path()));
    }
  }
  void Damage(const std::string& file, const std::function<void(Weights&)>& damage) const {
    Weights weights = Weights::Read(*this / "case" / file);
    damage(weights);
    weights.Write(*this / "case" / file);
  }
  void SetId(const std::string& name, size_t index, int64_t id) const {
    Damage("io.safetensors", [&](Weights& w) {
      w.data.replace(w.Begin(name) + 8 * index, 8, reinterpret_cast<const char*>(&id), 8);
    });
  }
  void SetExpected(const std::function<void(Json&)>& damage) const {
    Json expected = ReadJsonFile(*this / "case" / "expected.json");
    damage(expected);
    Write("case/expected.json", expected.dump());
  }
};

TEST_F(VerifyErrors, Files) {
  Copy();
  ExpectError(Run({"verify", "case", "--dtype", "float99"}), 2, {"--dtype", "'float99'"});
  ExpectError(Run({"verify", "case", "--schedule", "interval:0"}), 2, {"0", "1 or more"});
  ExpectError(Run({"verify", "case", "--schedule", "interval:x"}), 2, {"'interval:x'"});
  ExpectError(Run({"verify", "nothere"}), 1, {"nothere"});
  for (const char* file : {"config.json", "expected.json", "grads.safetensors", "io.safetensors"}) {
    SCOPED_TRACE(file);
    std::filesystem::remove(*this / "case" / file);
    Refuse({"case", file});
    Write(std::string("case/") + file, "{");
    Refuse({file});
  }
}

TEST_F(VerifyErrors, Contents) {
  Copy();
  SetId("input_ids", 3, 1000000);
  Refuse({"1000000", "vocabulary"});
  SetId("input_ids", 3, -1);
  Refuse({"-1", "vocabulary"});
  SetId("cu_seqlens", 1, -3);
  Refuse({"io.safetensors", "cu_seqlens"});
  SetId("cu_seqlens", 1, 1000000);
  Refuse({"io.safetensors", "cu_seqlens"});
  SetExpected([](Json& e) { e["adamw"]["losses"] = Json::array(); });
  Refuse({"expected.json", "losses"});
  SetExpected([](Json& e) { e["adamw"]["grad_norms"].erase(0); });
  Refuse({"expected.json", "grad_norms"});
  SetExpected([](Json& e) { e["loss"] = "low"; });
  Refuse({"expected.json"});
  Damage("grads.safetensors", [](Weights& w) {
    Json& shape = w.header["model.layers.0.mlp.up_proj.weight"]["shape"];
    std::swap(shape[0], shape[1]);
  });
  Refuse({"grads.safetensors", "model.layers.0.mlp.up_proj.weight"});
}

TEST_F(VerifyErrors, WrongReference) {
  Copy();
  SetExpected([](Json& e) { e["loss"] = e["loss"].get<double>() * 1.001; });
  Refuse({"case: loss", "tolerance"});
  ExpectDone(Run({"verify", "case"}));
}

TEST_F(CommandErrors, FullStandardOutput) {
  // Not through Run, which keeps standard output.
  const std::string command =
      std::string(LAZYTRAIN_BINARY) + " generate --model '" + kStoryModel.string() +
      "' --prompt a --max-new-tokens 1 >/dev/full 2>'" + (*this / "err.txt").string() + "'";
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  ExpectError({WEXITSTATUS(status), "", ReadFile(*this / "err.txt")}, 1, {"standard output"});
}

}  // namespace
}  // namespace lazytrain
