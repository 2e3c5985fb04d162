// Configurations in files of a test's own folder.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/temp_folder.h"
#include "train/config/config.h"

namespace lazytrain {

// What every configuration must say, and nothing else: three sections on the lines 1, 3 and 5.
inline constexpr const char* kMinimal =
    "model:\n  name: models/tiny\ndataset:\n  name: gsm8k\ntraining:\n  num_steps: 10\n";

class ConfigTest : public ::testing::Test {
 protected:
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

  TempFolder temp_;
  const Path folder_ = temp_.path();
  const Path file_ = folder_ / "run.yaml";
  std::string notes_;
};

}  // namespace lazytrain
