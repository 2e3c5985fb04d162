// Profiles as files and in the cache: read back as written, refused or measured anew where they are
// of another machine, version, or broken.
#include "profile/machine_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "device/cpu/virtual_accelerator.h"
#include "model/family.h"
#include "profile/profile_cache.h"
#include "tests/temp_folder.h"

namespace lazytrain {
namespace {

using testing::HasSubstr;

RowCounts Rows(int64_t tokens, int64_t longest) {
  RowCounts rows;
  rows.tokens = tokens;
  rows.longest_document = longest;
  rows.documents = tokens / longest;
  rows.squared_lengths = static_cast<double>(tokens) * static_cast<double>(longest);
  return rows;
}

MachineProfile Sample() {
  MachineProfile profile;
  profile.machine = {"NVIDIA H200", "CUDA 13.0", "cuBLASLt 13.1", 16, "a processor, 128 GB"};
  profile.rates.h2d = 54e9;
  profile.rates.d2h = 55e9;
  profile.rates.h2d_both = 43e9;
  profile.rates.d2h_both = 44e9;
  profile.rates.host = 74e9;
  profile.rates.host_beside_links = 53e9;
  profile.rates.host_shared = 140e9;
  profile.rates.host_update = 3.5e9;
  profile.rates.host_update_beside_links = 2.7e9;
  profile.rates.device_copy = 4e12;
  profile.rates.device_update = 1.5e11;
  profile.rates.gemm_flops = 665e12;
  profile.ops = {{"a", Direction::kForward, Rows(8192, 1024), 1e-3},
                 {"a", Direction::kForward, Rows(8192, 128), 2e-3},
                 {"a", Direction::kBackward, Rows(8192, 1024), 3e-3}};
  return profile;
}

std::string ErrorOf(const Json& json) {
  try {
    MachineProfile::FromJson(json, "p.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(MachineProfile, IsReadAsItWasWritten) {
  const Json json = Sample().ToJson();
  const MachineProfile read = MachineProfile::FromJson(json, "p.json");
  EXPECT_EQ(read.machine, Sample().machine);
  EXPECT_EQ(read.ToJson(), json);
  EXPECT_DOUBLE_EQ(read.rates.h2d, 54e9);
  EXPECT_EQ(read.rates.nvme_read, 0);
  ASSERT_EQ(read.ops.size(), 3u);
  EXPECT_EQ(read.ops[2].direction, Direction::kBackward);
}

TEST(MachineProfile, PlansWithWhatIsLeftBesideOthers) {
  const HardwareRates rates = Sample().rates.ForPlanning();
  EXPECT_EQ(rates.h2d_bytes, 43e9);
  EXPECT_EQ(rates.d2h_bytes, 44e9);
  EXPECT_EQ(rates.host_bytes, 140e9);
  EXPECT_EQ(rates.host_update, 3.5e9);
  EXPECT_EQ(rates.gemm_flops, 665e12);
  EXPECT_EQ(rates.device_bytes, 4e12);
  // What was not measured keeps its guess.
  EXPECT_EQ(MachineRates().ForPlanning().h2d_bytes, HardwareRates().h2d_bytes);
}

TEST(MachineProfile, FindsTheMeasurementMostLikeTheSizes) {
  MachineProfile profile = Sample();
  const auto seconds = [&](Direction direction, int64_t tokens, int64_t longest) {
    const OpTime* time = profile.Find("a", direction, Rows(tokens, longest));
    return time == nullptr ? 0.0 : time->seconds;
  };
  EXPECT_EQ(seconds(Direction::kForward, 8192, 1024), 1e-3);
  EXPECT_EQ(seconds(Direction::kForward, 4096, 256), 2e-3);
  EXPECT_EQ(seconds(Direction::kForward, 4096, 4096), 1e-3);
  EXPECT_EQ(profile.Find("b", Direction::kForward, Rows(8192, 1024)), nullptr);
  profile.Add({{"a", Direction::kForward, Rows(8192, 1024), 5e-3}});
  EXPECT_EQ(profile.ops.size(), 3u);
  EXPECT_EQ(seconds(Direction::kForward, 8192, 1024), 5e-3);
}

TEST(MachineProfile, GivesCostsThatScale) {
  const Json config = {{"model_type", "llama"},
                       {"vocab_size", 60},
                       {"hidden_size", 32},
                       {"intermediate_size", 64},
                       {"num_hidden_layers", 1},
                       {"num_attention_heads", 2},
                       {"max_position_embeddings", 64},
                       {"tie_word_embeddings", false}};
  const ModelGraph model = BuildModelGraph(HubConfig(config, "config.json"), {});
  const Op& op = *model.loss[1].graph->nodes[1].op;
  ASSERT_EQ(op.type(), "linear");
  MachineProfile profile = Sample();
  profile.ops = {{op.Signature(), Direction::kForward, Rows(64, 32), 2.0}};
  const CostModel cost = profile.Costs(model, {Rows(64, 32)});
  EXPECT_DOUBLE_EQ(cost.OpSeconds(op, Direction::kForward, Rows(64, 32)), 2.0);
  EXPECT_DOUBLE_EQ(cost.OpSeconds(op, Direction::kForward, Rows(128, 32)), 4.0);
  EXPECT_DOUBLE_EQ(cost.rates().gemm_flops, op.Cost(Direction::kForward, Rows(64, 32)).flops / 2.0);
}

TEST(MachineProfile, RefusesWhatIsNone) {
  EXPECT_THAT(ErrorOf(Json::array()), HasSubstr("p.json: not a machine's profile"));
  EXPECT_THAT(ErrorOf({{"version", MachineProfile::kVersion}}), HasSubstr("'machine' not found"));
  Json other = Sample().ToJson();
  other["version"] = 99;
  EXPECT_THAT(ErrorOf(other), HasSubstr("version 99"));
  Json zero = Sample().ToJson();
  zero["rates"]["h2d_gbps"] = 0;
  EXPECT_THAT(ErrorOf(zero), HasSubstr("rates.h2d_gbps is 0"));
  Json sideways = Sample().ToJson();
  sideways["ops"][0]["direction"] = "sideways";
  EXPECT_THAT(ErrorOf(sideways), HasSubstr("'sideways'"));
  Json negative = Sample().ToJson();
  negative["ops"][0]["seconds"] = -1;
  EXPECT_THAT(ErrorOf(negative), HasSubstr("above 0"));
}

TEST(MachineDescription, TellsMachinesApart) {
  const std::unique_ptr<Device> device = MakeVirtualAccelerator({});
  const MachineDescription here = MachineDescription::Of(*device);
  EXPECT_THAT(here.device, HasSubstr("virtual accelerator"));
  EXPECT_GT(here.cores, 0);
  EXPECT_THAT(here.host, HasSubstr(" GB"));
  MachineDescription other = here;
  EXPECT_EQ(other.Hex(), here.Hex());
  other.driver = "CUDA 14.0";
  EXPECT_NE(other.Hex(), here.Hex());
}

class ProfileCache : public testing::Test {
 protected:
  TempFolder temp_;
  const Path folder_ = temp_.path();
};

TEST_F(ProfileCache, KeepsAProfile) {
  const Path path = folder_ / "a" / "profile.json";
  EXPECT_FALSE(ReadCachedProfile(path, Sample().machine));
  ASSERT_TRUE(WriteCachedProfile(path, Sample()));
  const auto read = ReadCachedProfile(path, Sample().machine);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->ToJson(), Sample().ToJson());
  // Nothing but the file itself.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_ / "a"), {}), 1);
}

TEST_F(ProfileCache, IsStaleForAnotherMachineOrVersion) {
  const Path path = folder_ / "profile.json";
  ASSERT_TRUE(WriteCachedProfile(path, Sample()));
  MachineDescription machine = Sample().machine;
  machine.cores = 8;
  EXPECT_FALSE(ReadCachedProfile(path, machine));
  Json old = Sample().ToJson();
  old["version"] = 0;
  WriteFile(path, old.dump());
  testing::internal::CaptureStderr();
  EXPECT_FALSE(ReadCachedProfile(path, Sample().machine));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(ProfileCache, NotesABrokenOrUnwritableOne) {
  const Path path = folder_ / "profile.json";
  const std::string no_machine = Json{{"version", MachineProfile::kVersion}}.dump();
  for (const std::string& text :
       {std::string("{"), std::string("[]"), no_machine, std::string("\xff")}) {
    WriteFile(path, text);
    testing::internal::CaptureStderr();
    EXPECT_FALSE(ReadCachedProfile(path, Sample().machine)) << text;
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("note: "));
  }
  testing::internal::CaptureStderr();
  EXPECT_FALSE(WriteCachedProfile(path / "below a file" / "profile.json", Sample()));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("not kept"));
}

}  // namespace
}  // namespace lazytrain
