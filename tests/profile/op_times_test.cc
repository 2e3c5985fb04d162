// Op times: on operands like real ones, every op of a step, within the memory that is allowed.
#include "profile/op_times.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "device/cpu/virtual_accelerator.h"
#include "model/family.h"
#include "profile/op_calls.h"

namespace lazytrain {
namespace {

ModelGraph Model(DType dtype = DType::kBF16) {
  const Json config = {
      {"model_type", "llama"},         {"vocab_size", 300},           {"hidden_size", 64},
      {"intermediate_size", 128},      {"num_hidden_layers", 3},      {"num_attention_heads", 2},
      {"max_position_embeddings", 64}, {"tie_word_embeddings", false}};
  GraphOptions options;
  options.dtype = dtype;
  return BuildModelGraph(HubConfig(config, "config.json"), options);
}

RowCounts Rows(int64_t tokens) {
  RowCounts rows;
  rows.tokens = tokens;
  rows.longest_document = 32;
  rows.documents = tokens / 32;
  rows.squared_lengths = static_cast<double>(tokens) * 32;
  return rows;
}

std::unique_ptr<Device> Accelerator() {
  VirtualAcceleratorOptions options;
  options.poison = true;
  options.threads = 1;
  return MakeVirtualAccelerator(options);
}

double At(const TensorView& view, int64_t i) {
  return view.dtype == DType::kBF16 ? ToFloat(view.as<const BFloat16>()[i])
                                    : view.as<const float>()[i];
}

double Deviation(const TensorView& view) {
  double squares = 0;
  for (int64_t i = 0; i < view.size(); ++i) squares += At(view, i) * At(view, i);
  return std::sqrt(squares / static_cast<double>(view.size()));
}

class Operands : public testing::TestWithParam<DType> {};

TEST_P(Operands, AreRandomAndOfRealSize) {
  const std::unique_ptr<Device> device = Accelerator();
  const ModelGraph model = Model(GetParam());
  const OpCalls calls(*device, model, Rows(256), 2);
  int checked = 0;
  for (const OpCall& call : calls.calls()) {
    for (const TensorView& input : call.args.inputs) {
      if (input.dtype == DType::kI32 || input.size() < 4096) continue;
      EXPECT_NEAR(Deviation(input), 1.0, 0.1) << call.op->Signature();
      EXPECT_NE(At(input, 1), At(input, 2));
      ++checked;
    }
    for (const TensorView& weight : call.args.weights) {
      if (weight.size() < 4096) continue;
      EXPECT_NEAR(Deviation(weight), 0.02, 0.002) << call.op->Signature();
      ++checked;
    }
  }
  EXPECT_GT(checked, 10);
}

INSTANTIATE_TEST_SUITE_P(DTypes, Operands, testing::Values(DType::kBF16, DType::kF32));

TEST(OpCalls, ReadIdsOfTheVocabularyAndPositionsOfTheDocument) {
  const std::unique_ptr<Device> device = Accelerator();
  const ModelGraph model = Model();
  const OpCalls calls(*device, model, Rows(256), 1);
  bool found = false;
  for (const OpCall& call : calls.calls()) {
    for (const TensorView& input : call.args.inputs) {
      if (input.dtype != DType::kI32) continue;
      std::set<int32_t> different;
      for (int64_t i = 0; i < input.size(); ++i) {
        const int32_t id = input.as<const int32_t>()[i];
        ASSERT_GE(id, 0);
        ASSERT_LT(id, call.op->type() == "rope" ? 32 : model.vocab_size);
        different.insert(id);
      }
      EXPECT_GE(different.size(), 32u) << call.op->Signature();
      found = true;
    }
    EXPECT_EQ(call.args.batch.cu_seqlens_device[8], 256);
  }
  EXPECT_TRUE(found);
}

// A round after a round finds what it reads as it was: nothing that is only read is written over.
TEST(OpCalls, LeaveWhatIsReadAsItWas) {
  const std::unique_ptr<Device> device = Accelerator();
  const ModelGraph model = Model();
  const OpCalls calls(*device, model, Rows(128), 1);
  const auto sums = [&] {
    std::vector<double> all;
    for (const OpCall& call : calls.calls()) {
      std::vector<TensorView> read = call.args.weights;
      for (size_t i = call.op->in_place() ? 1 : 0; i < call.args.inputs.size(); ++i) {
        read.push_back(call.args.inputs[i]);
      }
      for (const TensorView& view : read) {
        if (view.dtype != DType::kI32) all.push_back(Deviation(view));
      }
    }
    return all;
  };
  const std::vector<double> before = sums();
  const std::unique_ptr<Lane> lane = device->MakeLane(LaneKind::kCompute, "compute");
  for (int round = 0; round < 2; ++round) {
    for (const int i : calls.round()) {
      const OpCall& call = calls.calls()[static_cast<size_t>(i)];
      lane->Run([&](LaneContext& context) { call.kernel(*call.op, call.args, context); }, {});
    }
    device->Synchronize();
  }
  EXPECT_EQ(sums(), before);
}

TEST(OpCalls, RunAsAStepDoes) {
  const std::unique_ptr<Device> device = Accelerator();
  const ModelGraph model = Model();
  const OpCalls once(*device, model, Rows(128), 1);
  const OpCalls thrice(*device, model, Rows(128), 9);
  EXPECT_GT(thrice.round().size(), 2 * once.round().size());
  std::set<int> run(once.round().begin(), once.round().end());
  EXPECT_EQ(run.size(), once.calls().size());
  bool backward = false;
  for (const int i : once.round()) {
    const bool is_backward = once.calls()[static_cast<size_t>(i)].direction == Direction::kBackward;
    EXPECT_GE(is_backward, backward);
    backward = is_backward;
  }
  // First the embedding, last its gradient.
  EXPECT_EQ(once.calls()[static_cast<size_t>(once.round().front())].op->type(), "embedding");
  EXPECT_EQ(once.calls()[static_cast<size_t>(once.round().back())].op->type(), "embedding");
}

TEST(OpTimes, AreThereForEveryOpInBothDirections) {
  const std::unique_ptr<Device> device = Accelerator();
  const ModelGraph model = Model();
  OpTiming timing;
  timing.seconds = 0;
  const std::vector<OpTime> times = MeasureOps(*device, model, Rows(64), timing);
  std::set<std::string> ops;
  std::set<std::pair<std::string, Direction>> measured;
  for (const Segment& segment : model.loss) {
    for (const OpNode& node : segment.graph->nodes) ops.insert(node.op->Signature());
  }
  for (const OpTime& time : times) {
    EXPECT_GT(time.seconds, 0);
    EXPECT_EQ(time.rows.tokens, 64);
    measured.insert({time.signature, time.direction});
  }
  EXPECT_EQ(measured.size(), 2 * ops.size());
  EXPECT_EQ(times.size(), measured.size());
  EXPECT_GT(GemmRate(model, times), 0);
}

// More rows take longer: what is timed is the work.
TEST(OpTimes, GrowWithTheRows) {
  const std::unique_ptr<Device> device = Accelerator();
  const ModelGraph model = Model();
  const auto total = [&](int64_t tokens) {
    double seconds = 0;
    for (const OpTime& time : MeasureOps(*device, model, Rows(tokens), {})) seconds += time.seconds;
    return seconds;
  };
  EXPECT_GT(total(1024), 3 * total(64));
}

TEST(OpTimes, TakeFewerRowsWhereMemoryIsShort) {
  const std::unique_ptr<Device> device = Accelerator();
  const ModelGraph model = Model();
  const RowCounts wanted = Rows(1024);
  const int64_t all = OpCalls::Bytes(*device, model, wanted);
  EXPECT_EQ(RowsToMeasure(*device, model, wanted, all).tokens, 1024);
  const RowCounts fewer = RowsToMeasure(*device, model, wanted, all - 1);
  EXPECT_LT(fewer.tokens, 1024);
  EXPECT_GE(fewer.tokens, 16);
  EXPECT_LE(OpCalls::Bytes(*device, model, fewer), all - 1);
  EXPECT_LE(fewer.longest_document, fewer.tokens);
  EXPECT_EQ(RowsToMeasure(*device, model, wanted, 1000).tokens, 0);
}

}  // namespace
}  // namespace lazytrain
