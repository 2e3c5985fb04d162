// Configurations in files of a test's own folder.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "train/config/config.h"

namespace lazytrain {

// What every configuration must say, and nothing else: three sections on the lines 1, 3 and 5.
inline constexpr const char* kMinimal =
    "model:\n  name: models/tiny\ndataset:\n  name: gsm8k\ntraining:\n  num_steps: 10\n";

class ConfigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = Path(::testing::TempDir()) / fmt::format("config_{}_{}", info->name(), ::getpid());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    file_ = folder_ / "run.yaml";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // The configuration of a file with this text; what is told to the user is left in notes_.
  Config Load(const std::string& text, const std::vector<std::string>& overrides = {}) {
    std::ofstream(file_, std::ios::binary) << text;  // WriteFile would sync each time
    ::testing::internal::CaptureStderr();
    try {
      Config config = LoadConfig(file_, overrides);
      notes_ = Local(::testing::internal::GetCapturedStderr());
      return config;
    } catch (...) {
      notes_ = Local(::testing::internal::GetCapturedStderr());
      throw;
    }
  }

  // The message of the error that this text must lead to; the file is called run.yaml in it.
  std::string ErrorOf(const std::string& text, const std::vector<std::string>& overrides = {}) {
    try {
      Load(text, overrides);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
      return Local(error.what());
    }
    ADD_FAILURE() << "no error for:\n" << text;
    return "";
  }

  // Of kMinimal and one override.
  std::string OverrideError(const std::string& setting) { return ErrorOf(kMinimal, {setting}); }

  std::string Local(std::string text) const {
    const std::string prefix = folder_.string() + "/";
    for (size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix)) {
      text.erase(at, prefix.size());
    }
    return text;
  }

  Path folder_;
  Path file_;
  std::string notes_;
};

}  // namespace lazytrain
