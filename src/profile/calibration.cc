#include "profile/calibration.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"

namespace lazytrain {
namespace {

// The first run touches memory for the first time and does not count.
constexpr int kRuns = 3;

struct Total {
  double amount = 0;
  double seconds = 0;
  double Rate(double fallback) const {
    return amount > 0 && seconds > 0 ? amount / seconds : fallback;
  }
};

class Calibrator {
 public:
  Calibrator(const Program& program, const CostModel& given) : program_(program), cost_(given) {}

  void Add(const StepTimeline& timeline, const StepRows& rows) {
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      const double seconds = timeline.spans[i].end - timeline.spans[i].start;
      const InstructionRows sizes = RowsOf(instruction, rows);
      if (sizes.skipped) continue;
      if (const auto* op = std::get_if<OpAction>(&instruction.action)) {
        ops_[{op->op->Signature(), op->direction}].push_back({op->op, sizes.rows, seconds});
      } else if (const auto* copy = std::get_if<CopyAction>(&instruction.action)) {
        const double bytes = static_cast<double>(BytesOf(copy->from, sizes.rows));
        AddTo(copies_[program_.lanes[instruction.lane].kind], bytes, seconds);
      } else if (const auto* update = std::get_if<UpdateAction>(&instruction.action)) {
        AddTo(updates_[program_.lanes[instruction.lane].kind], Parameters(update->unit), seconds);
      }
    }
  }

  CostModel Finish() {
    for (auto& [key, calls] : ops_) {
      // The median: a call that another process disturbed says nothing about the op.
      auto middle = calls.begin() + static_cast<int64_t>(calls.size() / 2);
      std::nth_element(calls.begin(), middle, calls.end(),
                       [](const Call& a, const Call& b) { return a.seconds < b.seconds; });
      cost_.SetMeasured(*middle->op, key.second, middle->rows, middle->seconds);
    }
    HardwareRates& rates = cost_.rates();
    rates.h2d_bytes = copies_[LaneKind::kHostToDevice].Rate(rates.h2d_bytes);
    rates.d2h_bytes = copies_[LaneKind::kDeviceToHost].Rate(rates.d2h_bytes);
    rates.host_update = updates_[LaneKind::kHost].Rate(rates.host_update);
    rates.device_update = updates_[LaneKind::kCompute].Rate(rates.device_update);
    return cost_;
  }

 private:
  struct Call {
    const Op* op;
    RowCounts rows;
    double seconds;
  };

  static void AddTo(Total& total, double amount, double seconds) {
    total.amount += amount;
    total.seconds += seconds;
  }

  double Parameters(int unit) const {
    double count = 0;
    for (const UnitParameter& p : program_.unit_parameters[unit]) {
      count += static_cast<double>(p.elements);
    }
    return count;
  }

  const Program& program_;
  CostModel cost_;
  std::map<std::pair<std::string, Direction>, std::vector<Call>> ops_;
  std::map<LaneKind, Total> copies_;
  std::map<LaneKind, Total> updates_;
};

}  // namespace

std::vector<MicroBatch> MakeFullStep(const Capacity& capacity, int64_t vocab_size, uint64_t seed) {
  Random random(seed);
  std::vector<MicroBatch> step;
  for (int64_t m = 0; m < capacity.micro_batches; ++m) {
    std::vector<std::vector<int32_t>> documents;
    std::vector<DocumentView> views;
    int64_t left = capacity.micro_batch_tokens;
    while (left > 0 && static_cast<int64_t>(documents.size()) < capacity.documents) {
      std::vector<int32_t>& ids = documents.emplace_back();
      const int64_t length = std::min(left, capacity.longest_document);
      for (int64_t i = 0; i < length; ++i) {
        ids.push_back(static_cast<int32_t>(random.Below(static_cast<uint64_t>(vocab_size))));
      }
      left -= length;
    }
    for (const std::vector<int32_t>& ids : documents) views.push_back({ids, ids});
    step.push_back(MakeMicroBatch(views));
  }
  FinishStep(step);
  return step;
}

CostModel Calibrate(TrainingEngine& engine, const CostModel& given) {
  const Program& program = engine.programs().training();
  // A step of two micro-batches has every kind of instruction; the others stay empty.
  Capacity capacity = program.capacity;
  capacity.micro_batches = std::min<int64_t>(2, capacity.micro_batches);
  const std::vector<MicroBatch> step =
      MakeFullStep(capacity, engine.programs().model().vocab_size, 0);
  const StepRows rows = RowsOf(step);
  Calibrator calibrator(program, given);
  for (int run = 0; run < kRuns; ++run) {
    // An update that changes nothing takes as long as any other.
    const RunResult result = engine.executor().Run(program, step, AdamWScalars());
    if (run > 0) calibrator.Add(result.timeline, rows);
  }
  return calibrator.Finish();
}

}  // namespace lazytrain
