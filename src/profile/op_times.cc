#include "profile/op_times.h"

#include <algorithm>
#include <memory>
#include <set>

#include "core/clock.h"
#include "core/units.h"
#include "profile/op_calls.h"

namespace lazytrain {
namespace {

constexpr int64_t kLeastTokens = 16;
// A micro-batch that is one long document passes through most ops in chunks that are no larger.
constexpr int64_t kMostTokens = 16384;

// Runs calls one right after the other and takes the time of each.
class Stopwatch {
 public:
  Stopwatch(Device& device, const std::vector<OpCall>& calls)
      : device_(device), calls_(calls), lane_(device.MakeLane(LaneKind::kCompute, "compute")) {}

  // Seconds of each call of `sequence`.
  std::vector<double> Run(const std::vector<int>& sequence) {
    while (events_.size() <= sequence.size()) events_.push_back(device_.MakeEvent());
    for (size_t i = 0; i <= sequence.size(); ++i) device_.Reset(*events_[i]);
    lane_->Record(*events_[0]);
    for (size_t i = 0; i < sequence.size(); ++i) {
      const OpCall& call = calls_[static_cast<size_t>(sequence[i])];
      lane_->Run([&call](LaneContext& context) { call.kernel(*call.op, call.args, context); }, {});
      lane_->Record(*events_[i + 1]);
    }
    device_.Synchronize();
    std::vector<double> seconds;
    for (size_t i = 0; i < sequence.size(); ++i) {
      seconds.push_back(events_[i + 1]->seconds() - events_[i]->seconds());
    }
    return seconds;
  }

 private:
  Device& device_;
  const std::vector<OpCall>& calls_;
  std::vector<std::unique_ptr<Event>> events_;
  std::unique_ptr<Lane> lane_;  // first to end: its work passes the events
};

double FlopsOf(const OpCall& call) {
  return call.op->Cost(call.direction, call.args.batch.rows).flops;
}

// Keeps the device at its largest products for a while.
void KeepBusy(Stopwatch& watch, const std::vector<OpCall>& calls, double seconds) {
  if (calls.empty() || seconds <= 0) return;
  double most = 0;
  for (const OpCall& call : calls) {
    if (call.op->type() == "linear") most = std::max(most, FlopsOf(call));
  }
  std::vector<int> largest;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].op->type() == "linear" && FlopsOf(calls[i]) > 0.4 * most) {
      largest.push_back(static_cast<int>(i));
    }
  }
  std::vector<int> sequence;
  constexpr int kTimes = 20;
  for (int t = 0; t < kTimes; ++t) sequence.insert(sequence.end(), largest.begin(), largest.end());
  const double end = SecondsNow() + seconds;
  while (!sequence.empty() && SecondsNow() < end) watch.Run(sequence);
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

OpTiming OpTimingFor(const Device& device) {
  if (device.backend() == "cpu") return {};
  OpTiming timing;
  timing.busy_seconds = 2;
  timing.seconds = 3;
  timing.most_rounds = 1000;
  // So often that the layers outweigh the head, as they do in a step.
  timing.most_repeats = 8;
  return timing;
}

std::vector<OpTime> MeasureOps(Device& device, const ModelGraph& model, const RowCounts& rows,
                               const OpTiming& timing) {
  const OpCalls calls(device, model, rows, timing.most_repeats);
  Stopwatch watch(device, calls.calls());
  watch.Run(calls.round());  // loads what is loaded at the first call
  KeepBusy(watch, calls.calls(), timing.busy_seconds);
  std::vector<std::vector<double>> seconds(calls.calls().size());
  const double end = SecondsNow() + timing.seconds;
  for (int64_t round = 0; round < timing.most_rounds; ++round) {
    if (round >= timing.least_rounds && SecondsNow() >= end) break;
    const std::vector<double> taken = watch.Run(calls.round());
    for (size_t i = 0; i < taken.size(); ++i) {
      seconds[static_cast<size_t>(calls.round()[i])].push_back(taken[i]);
    }
  }
  std::vector<OpTime> times;
  for (size_t i = 0; i < seconds.size(); ++i) {
    const OpCall& call = calls.calls()[i];
    times.push_back({call.op->Signature(), call.direction, rows,
                     std::max(Median(std::move(seconds[i])), 1e-9)});
  }
  return times;
}

void LoadOps(Device& device, const ModelGraph& model, const RowCounts& rows) {
  const OpCalls calls(device, model, rows, 1);
  Stopwatch(device, calls.calls()).Run(calls.round());
}

RowCounts RowsToMeasure(const Device& device, const ModelGraph& model, const RowCounts& micro_batch,
                        int64_t device_bytes) {
  int64_t largest = 1;
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& p : unit.parameters) largest = std::max(largest, p.elements());
  }
  // FLOPs of the largest product: a few hundredths of a second on a slow device.
  const double product = device.backend() == "cpu" ? 2e9 : 1e14;
  const auto most =
      std::min(kMostTokens, static_cast<int64_t>(product / (2.0 * static_cast<double>(largest))));
  const auto with_tokens = [&](int64_t tokens) {
    RowCounts rows = micro_batch;
    rows.tokens = tokens;
    rows.longest_document = std::min(rows.longest_document, tokens);
    rows.documents = CeilDiv(tokens, std::max<int64_t>(rows.longest_document, 1));
    rows.squared_lengths = static_cast<double>(tokens) * static_cast<double>(rows.longest_document);
    return rows;
  };
  const int64_t least = std::min(kLeastTokens, micro_batch.tokens);
  for (int64_t tokens = std::clamp(most, least, micro_batch.tokens);; tokens /= 2) {
    const RowCounts rows = with_tokens(std::max(tokens, least));
    if (OpCalls::Bytes(device, model, rows) <= device_bytes) return rows;
    if (tokens <= least) return with_tokens(0);
  }
}

double GemmRate(const ModelGraph& model, const std::vector<OpTime>& times) {
  double flops = 0;
  double seconds = 0;
  std::set<std::string> seen;
  for (const Segment& segment : model.loss) {
    for (const OpNode& node : segment.graph->nodes) {
      if (node.op->type() != "linear" || !seen.insert(node.op->Signature()).second) continue;
      for (const OpTime& time : times) {
        if (time.signature != node.op->Signature()) continue;
        flops += node.op->Cost(time.direction, time.rows).flops;
        seconds += time.seconds;
      }
    }
  }
  return seconds > 0 ? flops / seconds : 0;
}

}  // namespace lazytrain
