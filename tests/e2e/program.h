// Runs the built program as a user would, each test in a folder of its own, and looks at what it
// printed and left behind.
#pragma once

#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/file.h"
#include "core/json.h"
#include "tests/temp_folder.h"

extern char** environ;

namespace lazytrain {

inline const Path kStoryModel = Path(LAZYTRAIN_SOURCE_DIR) / "examples/tinystories/model";

using Words = std::vector<std::string>;

struct Outcome {
  int status = -1;  // exit status; 128 + the signal's number where one ended the program
  std::string out;
  std::string err;
};

inline Words Lines(const std::string& text) {
  Words lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The program at work.
class Process {
 public:
  Process(Words words, const Path& folder)
      : out_(folder / "stdout.txt"), err_(folder / "stderr.txt") {
    words.insert(words.begin(), LAZYTRAIN_BINARY);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    // Profiles of this machine are cached in the folder, not in the user's home.
    std::vector<std::string> variables = {"HOME=" + folder.string()};
    for (char** variable = environ; *variable != nullptr; ++variable) {
      if (!std::string_view(*variable).starts_with("HOME=")) variables.emplace_back(*variable);
    }
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    environment.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    constexpr int kFresh = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_addopen(&actions, 1, out_.c_str(), kFresh, 0644);
    posix_spawn_file_actions_addopen(&actions, 2, err_.c_str(), kFresh, 0644);
    const int error =
        posix_spawn(&pid_, LAZYTRAIN_BINARY, &actions, nullptr, argv.data(), environment.data());
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw std::runtime_error("cannot start " LAZYTRAIN_BINARY);
  }
  ~Process() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void Signal(int number) const { ::kill(pid_, number); }

  // Whether it ended by itself already.
  bool Ended() {
    int status = 0;
    if (pid_ < 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) return pid_ < 0;
    Keep(status);
    return true;
  }

  Outcome Wait() {
    if (int status = 0; pid_ > 0 && ::waitpid(pid_, &status, 0) == pid_) Keep(status);
    return {status_, ReadFile(out_), ReadFile(err_)};
  }

 private:
  void Keep(int status) {
    pid_ = -1;
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  Path out_;
  Path err_;
  pid_t pid_ = -1;
  int status_ = -1;
};

// Of asking for a GPU that is not there: a build without CUDA refuses the setting, one with it
// finds no driver or no such device.
#ifdef LAZYTRAIN_HAS_CUDA
inline constexpr int kNoGpuStatus = 1;
#else
inline constexpr int kNoGpuStatus = 2;
#endif

// Exactly one `error: ` line, the last one, that holds all of `parts`; before it notes and
// warnings.
inline void ExpectError(const Outcome& outcome, int status, const Words& parts) {
  EXPECT_EQ(outcome.status, status) << outcome.err;
  const Words lines = Lines(outcome.err);
  ASSERT_FALSE(lines.empty());
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    EXPECT_TRUE(lines[i].starts_with("note: ") || lines[i].starts_with("warning: ")) << lines[i];
  }
  EXPECT_TRUE(lines.back().starts_with("error: ")) << outcome.err;
  EXPECT_TRUE(outcome.err.ends_with('\n'));
  for (const std::string& part : parts) EXPECT_THAT(lines.back(), testing::HasSubstr(part));
}

inline void ExpectDone(const Outcome& outcome) {
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const std::string& line : Lines(outcome.err))
    EXPECT_TRUE(line.starts_with("note: ")) << line;
}

// Contents of all files below a folder by their names; an empty map where there is none.
inline std::map<std::string, std::string> Snapshot(const Path& folder) {
  std::map<std::string, std::string> files;
  if (!std::filesystem::exists(folder)) return files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().lexically_relative(folder).string();
    files[name] = entry.is_regular_file() ? ReadFile(entry.path()) : "(folder)";
  }
  return files;
}

// A safetensors file taken apart: the header as it stands, and the data behind it.
struct Weights {
  Json header;
  std::string data;

  static Weights Read(const Path& path) {
    const std::string text = ReadFile(path);
    uint64_t length = 0;
    if (text.size() < 8) throw std::runtime_error(path.string() + ": too short");
    text.copy(reinterpret_cast<char*>(&length), 8);
    return {ParseJson(text.substr(8, length), path.string()), text.substr(8 + length)};
  }

  void Write(const Path& path) const {
    const std::string head = header.dump();
    const auto length = static_cast<uint64_t>(head.size());
    std::string text(reinterpret_cast<const char*>(&length), 8);
    WriteFile(path, text + head + data);
  }

  size_t Begin(const std::string& name) const {
    return header.at(name).at("data_offsets").at(0).get<size_t>();
  }

  // "BF16 [128,64] bytes" by name: equal if and only if the tensors are.
  std::map<std::string, std::string> Tensors() const {
    std::map<std::string, std::string> tensors;
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      const auto end = entry.at("data_offsets").at(1).get<size_t>();
      tensors[name] = entry.at("dtype").get<std::string>() + " " + entry.at("shape").dump() + " " +
                      data.substr(Begin(name), end - Begin(name));
    }
    return tensors;
  }
};

inline std::map<std::string, std::string> TensorsOf(const Path& folder) {
  return Weights::Read(folder / "model.safetensors").Tensors();
}

// A folder with data.txt and config.yaml, which trains the story model for three small steps.
class ProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    std::ifstream plays(kStoryModel.parent_path() / "shakespeare.txt");
    ASSERT_TRUE(plays.good());
    std::string text;
    std::string line;
    for (int i = 0; i < 150 && std::getline(plays, line); ++i) text += line + "\n";
    Write("data.txt", text);
    Write("config.yaml", "model:\n  name: " + kStoryModel.string() +
                             "\n"
                             "dataset:\n  path: data.txt\n  max_seq_len: 64\n"
                             "training:\n  batch_tokens: 192\n  num_steps: 3\n"
                             "  learning_rate: 1.0e-3\n  lr_scheduler: constant\n"
                             "  warmup_ratio: 0\n  output_dir: run\n"
                             "memory:\n  device_memory_gb: 1\n  micro_batch_tokens: 64\n"
                             "  schedule: interval\n  checkpoint_interval: 1\n");
  }

  const Path& folder() const { return folder_; }
  Path operator/(const std::string& name) const { return folder_ / name; }
  void Write(const std::string& name, const std::string& text) const {
    WriteFile(folder_ / name, text);
  }

  Outcome Run(const Words& words) const { return Process(words, folder_).Wait(); }

  Outcome Sft(const Words& overrides) const {
    Words words = {"sft", "config.yaml"};
    words.insert(words.end(), overrides.begin(), overrides.end());
    return Run(words);
  }

  // Refused, and nothing is left of it.
  void ExpectRefused(const Words& overrides, int status, const Words& parts) const {
    ExpectError(Sft(overrides), status, parts);
    EXPECT_TRUE(Snapshot(folder_ / "run").empty());
    ExpectNothingPartial();
  }

  void ExpectNothingPartial() const {
    for (const auto& [name, text] : Snapshot(folder_)) {
      EXPECT_THAT(name, testing::Not(testing::HasSubstr(".partial")));
    }
  }

  // A copy of the story model in the folder `model`, ready to be damaged.
  void CopyModel() const {
    std::filesystem::remove_all(folder_ / "model");
    std::filesystem::create_directory(folder_ / "model");
    for (const auto& entry : std::filesystem::directory_iterator(kStoryModel)) {
      WriteFile(folder_ / "model" / entry.path().filename(), ReadFile(entry.path()));
    }
  }

  // The losses and gradient norms of a run, every digit of them.
  static Words Losses(const Path& run) {
    Words losses;
    for (const std::string& line : Lines(ReadFile(run / "metrics.jsonl"))) {
      const Json metrics = ParseJson(line, "metrics.jsonl");
      losses.push_back(metrics.at("loss").dump() + " " + metrics.at("grad_norm").dump());
    }
    return losses;
  }

 private:
  TempFolder temp_;
  const Path folder_ = temp_.path();
};

}  // namespace lazytrain
