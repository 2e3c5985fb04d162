#include "plan/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "model/family.h"
#include "plan/capacity.h"
#include "plan/sweeps.h"

namespace lazytrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ModelGraph SmallModel(int64_t layers = 4) {
  const Json config = {{"model_type", "llama"},       {"vocab_size", 50},
                       {"hidden_size", 16},           {"intermediate_size", 24},
                       {"num_hidden_layers", layers}, {"num_attention_heads", 2},
                       {"tie_word_embeddings", true}};
  return BuildModelGraph(HubConfig(config, "config"), {});
}

Capacity SmallCapacity() {
  Capacity capacity;
  capacity.micro_batches = 3;
  capacity.micro_batch_tokens = 32;
  capacity.documents = 16;
  capacity.longest_document = 16;
  return capacity;
}

TEST(Capacity, MaxMicroBatches) {
  EXPECT_EQ(MaxMicroBatches(72, 0, 1024, 8192), 9);
  EXPECT_EQ(MaxMicroBatches(7, 0, 1000, 2999), 4);  // two full documents at least
  EXPECT_EQ(MaxMicroBatches(0, 100, 10, 10), 19);   // 6 + 5 do not fit together
  EXPECT_EQ(MaxMicroBatches(0, 100, 1, 10), 10);
}

TEST(Schedule, JsonRoundTrip) {
  const ModelGraph model = SmallModel();
  const Capacity capacity = SmallCapacity();
  Schedule schedule = IntervalSchedule(model, capacity, 2);
  schedule.passes = {2, 1};
  schedule.units[1].weights_resident = true;
  schedule.units[2].update = UpdatePlace::kDevice;
  schedule.units[2].states = Tier::kDevice;
  schedule.segments[2].tiers[0] = Tier::kHost;
  Schedule read = ScheduleFromJson(ScheduleToJson(schedule, model), model, capacity, "s.json");
  read.name = schedule.name;
  EXPECT_EQ(read, schedule);
}

std::string ErrorOf(const Json& json, const ModelGraph& model) {
  try {
    ScheduleFromJson(json, model, SmallCapacity(), "s.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_status(), 2);
    return error.what();
  }
  return "";
}

TEST(Schedule, BrokenFilesNameThePlace) {
  const ModelGraph model = SmallModel();
  const Json good = ScheduleToJson(ResidentSchedule(model, SmallCapacity()), model);
  EXPECT_EQ(ErrorOf(good, model), "");

  Json json = good;
  json["layers"]["layers.2"]["qkv"] = "gpu";
  EXPECT_THAT(ErrorOf(json, model),
              AllOf(HasSubstr("s.json: layers: layers.2: qkv"), HasSubstr("'gpu'")));
  json["layers"]["layers.2"]["qkv"] = "nvme";
  EXPECT_THAT(ErrorOf(json, model), AllOf(HasSubstr("layers.2.qkv"), HasSubstr("nvme")));
  json = good;
  json["layers"]["layers.9"] = Json::object();
  EXPECT_THAT(ErrorOf(json, model), HasSubstr("nothing here is called 'layers.9'"));
  json = good;
  json["layers"].erase("layers.1");
  EXPECT_THAT(ErrorOf(json, model), HasSubstr("'layers.1' is missing"));
  json = good;
  json["units"]["head"]["weights"] = "sometimes";
  EXPECT_THAT(ErrorOf(json, model), HasSubstr("neither resident nor streamed"));
  json = good;
  json["units"]["head"]["states"] = "device";
  EXPECT_THAT(ErrorOf(json, model), HasSubstr("update: device"));
  json = good;
  json["passes"] = {1, 1};
  EXPECT_THAT(ErrorOf(json, model), HasSubstr("up to 3"));
  json["passes"] = {4, -1};  // adds up, but not like this
  EXPECT_THAT(ErrorOf(json, model), HasSubstr("a pass of 4"));
  json = good;
  json["micro_batch_tokens"] = 64;
  EXPECT_THAT(ErrorOf(json, model), HasSubstr("memory.micro_batch_tokens"));
  json = good;
  json["version"] = 2;
  EXPECT_THAT(ErrorOf(json, model), HasSubstr("version 2"));
  EXPECT_THAT(ErrorOf(good, SmallModel(5)), HasSubstr("another shape"));
  EXPECT_THAT(ErrorOf(Json::array(), model), HasSubstr("has to be an object"));
}

TEST(Sweeps, IntervalMakesBlocks) {
  const ModelGraph model = SmallModel();
  const Sweeps sweeps =
      PlanTraining(model.loss, model.units, IntervalSchedule(model, SmallCapacity(), 2).segments);
  // Segments: embedding, four layers, head. Kept: the inputs of layers 0 and 2, and of the head.
  ASSERT_EQ(sweeps.blocks.size(), 4u);
  EXPECT_EQ(sweeps.blocks[0].first, 5);
  EXPECT_EQ(sweeps.blocks[1].first, 3);
  EXPECT_EQ(sweeps.blocks[1].last, 4);
  EXPECT_EQ(sweeps.blocks[2].first, 1);
  EXPECT_EQ(sweeps.blocks[3].last, 0);
  EXPECT_EQ(sweeps.kept.size(), 3u);
  // The upper layer of a block is recomputed but for its last product, whose output nobody reads.
  EXPECT_FALSE(sweeps.blocks[1].recomputed.contains(
      NodeId{4, static_cast<int>(model.loss[4].graph->nodes.size()) - 1}));
  EXPECT_TRUE(sweeps.blocks[1].recomputed.contains(
      NodeId{3, static_cast<int>(model.loss[3].graph->nodes.size()) - 1}));
}

TEST(Sweeps, NothingKeptIsOneBlockWithoutAForwardSweep) {
  const ModelGraph model = SmallModel();
  Schedule schedule = ResidentSchedule(model, SmallCapacity());
  for (SegmentPlan& segment : schedule.segments) {
    for (Tier& tier : segment.tiers) tier = Tier::kRecompute;
  }
  const Sweeps sweeps = PlanTraining(model.loss, model.units, schedule.segments);
  ASSERT_EQ(sweeps.blocks.size(), 1u);
  for (const std::vector<bool>& runs : sweeps.forward) {
    EXPECT_EQ(std::count(runs.begin(), runs.end(), true), 0);
  }
}

TEST(Sweeps, FrozenLowerLayersRunNoBackward) {
  ModelGraph model = SmallModel();
  // All but layer 3 (unit 4) are frozen.
  for (size_t u = 0; u < model.units.size(); ++u) {
    if (u == 4) continue;
    for (ParameterSpec& parameter : model.units[u].parameters) parameter.trainable = false;
  }
  const Sweeps sweeps =
      PlanTraining(model.loss, model.units, ResidentSchedule(model, SmallCapacity()).segments);
  for (size_t s = 0; s < model.loss.size(); ++s) {
    const std::vector<bool>& runs = sweeps.flow.node_runs_backward[s];
    EXPECT_EQ(std::count(runs.begin(), runs.end(), true) > 0, s >= 4) << model.loss[s].name;
  }
}

}  // namespace
}  // namespace lazytrain
