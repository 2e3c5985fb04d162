#include "train/gemm_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "core/error.h"
#include "tests/temp_folder.h"

namespace lazytrain {
namespace {

using ::testing::HasSubstr;

// A device on which a library chooses.
class ChoosingDevice final : public Device {
 public:
  explicit ChoosingDevice(std::string name) : name_(std::move(name)) {}

  LibraryChoices choices;

  std::string_view backend() const override { return "cuda"; }
  std::string description() const override { return name_; }
  LibraryChoices library_choices() const override { return choices; }
  void UseLibraryChoices(LibraryChoices taken) override { choices = std::move(taken); }

  std::unique_ptr<MemoryBlock> AllocateDevice(int64_t) override { return nullptr; }
  std::unique_ptr<MemoryBlock> AllocateHost(int64_t) override { return nullptr; }
  bool models_time() const override { return false; }
  std::unique_ptr<Lane> MakeLane(LaneKind, std::string) override { return nullptr; }
  std::unique_ptr<Event> MakeEvent() override { return nullptr; }
  void Reset(Event&) override {}
  void Synchronize() override {}

 private:
  std::string name_;
};

class GemmTableTest : public ::testing::Test {
 protected:
  TempFolder temp_;
  const Path folder_ = temp_.path();
  const Path table_ = folder_ / kGemmTable;
  const LibraryChoices some_ = {{"[8, 8] bf16 = ...", "algorithm 66, tile 20: 42"},
                                {"[4, 4] fp32 = ...", "algorithm 11, tile 3: 7"}};
};

TEST_F(GemmTableTest, ComesBackAsItWas) {
  ChoosingDevice made("GPU A");
  made.choices = some_;
  WriteGemmTable(table_, made, "library 1");
  ChoosingDevice other("GPU A");
  UseGemmTable(table_, other, "library 1");
  EXPECT_EQ(other.choices, some_);
}

TEST_F(GemmTableTest, IsLeftAloneOnAnotherGpuOrWithAnotherLibrary) {
  ChoosingDevice made("GPU A");
  made.choices = some_;
  WriteGemmTable(table_, made, "library 1");
  ChoosingDevice other("GPU B");
  ::testing::internal::CaptureStderr();
  UseGemmTable(table_, other, "library 1");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("the library chooses anew"));
  UseGemmTable(table_, made, "library 2");
  EXPECT_TRUE(other.choices.empty());
  EXPECT_EQ(made.choices, some_);
}

TEST_F(GemmTableTest, NoFileWhereNothingIsChosen) {
  WriteGemmTable(table_, ChoosingDevice("GPU A"), "library 1");
  EXPECT_FALSE(std::filesystem::exists(table_));
}

TEST_F(GemmTableTest, AnotherFileIsRefusedByName) {
  ChoosingDevice device("GPU A");
  for (const char* text : {"{}", "[]", R"({"device": "GPU A", "libraries": 1, "products": {}})",
                           R"({"device": "GPU A", "libraries": "", "products": {"a": 1}})"}) {
    WriteFile(table_, text);
    try {
      UseGemmTable(table_, device, "");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(table_.string()));
    }
  }
}

}  // namespace
}  // namespace lazytrain
