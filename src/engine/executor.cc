#include "engine/executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace lazytrain {
namespace {

// Operands as kernels take them: an address and the rows that are there.
class Resolver {
 public:
  Resolver(const Program& program, const RunMemory& memory, const RowCounts& rows)
      : program_(program), memory_(memory), rows_(rows) {}

  std::byte* Address(const Operand& operand) const {
    if (!operand.present()) return nullptr;
    return memory_.Address(program_.buffers[operand.buffer]) + operand.offset;
  }
  TensorView View(const Operand& operand) const {
    return {Address(operand), operand.dtype, RowsOf(operand, rows_), operand.cols, nullptr};
  }
  std::vector<TensorView> Views(const std::vector<Operand>& operands) const {
    std::vector<TensorView> views;
    views.reserve(operands.size());
    for (const Operand& operand : operands) views.push_back(View(operand));
    return views;
  }
  const RowCounts& rows() const { return rows_; }

 private:
  const Program& program_;
  const RunMemory& memory_;
  RowCounts rows_;
};

template <typename T>
const char* BytesOf(const std::vector<T>& items) {
  return reinterpret_cast<const char*>(items.data());
}

struct NamedInput {
  std::string_view name;
  const char* data;
  size_t bytes;
};

std::vector<NamedInput> InputsOf(const MicroBatch& batch) {
  const auto named = [](std::string_view name, const auto& items) {
    return NamedInput{name, BytesOf(items), items.size() * sizeof(items[0])};
  };
  return {named("input_ids", batch.input_ids),   named("positions", batch.positions),
          named("targets", batch.targets),       named("loss_weights", batch.loss_weights),
          named("cu_seqlens", batch.cu_seqlens), named("selected_rows", batch.selected_rows)};
}

double NormOf(const double* partial_sums, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += partial_sums[i];
  return std::sqrt(sum);
}

}  // namespace

// What a lane does for each kind of action.
class Executor::Dispatcher {
 public:
  Dispatcher(Executor& executor, const Program& program, const Instruction& instruction,
             const RowCounts& rows, const Demand& demand,
             const std::optional<AdamWScalars>& pending, RunResult& result)
      : executor_(executor),
        program_(program),
        instruction_(instruction),
        resolver_(program, executor.memory_, rows),
        demand_(demand),
        pending_(pending),
        result_(result),
        lane_(*executor.lanes_[instruction.lane]) {}

  void operator()(const CopyAction& copy) {
    lane_.Copy(resolver_.Address(copy.to), resolver_.Address(copy.from),
               BytesOf(copy.from, resolver_.rows()), demand_);
  }

  void operator()(const OpAction& action) {
    OpArgs args;
    args.inputs = resolver_.Views(action.inputs);
    args.outputs = resolver_.Views(action.outputs);
    args.weights = resolver_.Views(action.weights);
    args.d_outputs = resolver_.Views(action.d_outputs);
    args.d_inputs = resolver_.Views(action.d_inputs);
    args.d_weights = resolver_.Views(action.d_weights);
    args.accumulate_inputs = action.accumulate_inputs;
    args.accumulate_weights = action.accumulate_weights;
    args.workspace = resolver_.Address(action.workspace);
    args.batch.rows = resolver_.rows();
    args.batch.first_row = instruction_.first_row;
    const int host = program_.inputs[instruction_.micro_batch].at("cu_seqlens");
    args.batch.cu_seqlens_host =
        reinterpret_cast<const int32_t*>(executor_.memory_.Address(program_.buffers[host]));
    args.batch.cu_seqlens_device =
        reinterpret_cast<const int32_t*>(resolver_.Address(action.cu_seqlens));
    const KernelFunction kernel = KernelsFor(executor_.device_).Find(*action.op, action.direction);
    lane_.Run([kernel, op = action.op,
               args = std::move(args)](LaneContext& context) { kernel(*op, args, context); },
              demand_);
  }

  void operator()(const RoundGradientAction& action) {
    RoundGradientArgs args;
    args.parameters = &program_.unit_parameters[action.unit];
    args.accumulator = reinterpret_cast<float*>(resolver_.Address(action.accumulator));
    args.stored = resolver_.Address(action.stored);
    args.dtype = action.stored.dtype;
    args.in_place = action.stored.buffer == action.accumulator.buffer;
    args.partial_sums = reinterpret_cast<double*>(resolver_.Address(action.partial_sums));
    Run([args, kernel = unit_kernels().round_gradient](LaneContext& c) { kernel(args, c); });
  }

  void operator()(const WidenGradientAction& action) {
    WidenGradientArgs args;
    args.parameters = &program_.unit_parameters[action.unit];
    args.accumulator = reinterpret_cast<float*>(resolver_.Address(action.accumulator));
    args.stored = resolver_.Address(action.stored);
    args.dtype = action.stored.dtype;
    args.add = action.add;
    Run([args, kernel = unit_kernels().widen_gradient](LaneContext& c) { kernel(args, c); });
  }

  void operator()(const UpdateAction& action) {
    if (!pending_) return;
    AdamWArgs args;
    args.parameters = &program_.unit_parameters[action.unit];
    args.scalars = *pending_;
    args.weights = resolver_.Address(action.weights);
    args.master_low = reinterpret_cast<int16_t*>(resolver_.Address(action.master_low));
    args.moment1 = reinterpret_cast<float*>(resolver_.Address(action.moment1));
    args.moment2 = reinterpret_cast<float*>(resolver_.Address(action.moment2));
    args.gradient = resolver_.Address(action.gradient);
    args.gradient_dtype = action.gradient.dtype;
    Run([args, kernel = unit_kernels().adamw](LaneContext& c) { kernel(args, c); });
  }

  void operator()(const EndStepAction& action) {
    const auto* sums = reinterpret_cast<const double*>(resolver_.Address(action.partial_sums));
    const int64_t count = action.partial_sums.cols / static_cast<int64_t>(sizeof(double));
    Run([sums, count, &result = result_](LaneContext&) {
      result.gradient_norm = NormOf(sums, count);
    });
  }

 private:
  void Run(std::function<void(LaneContext&)> work) { lane_.Run(std::move(work), demand_); }

  const UnitKernels& unit_kernels() const {
    const bool on_host = program_.lanes[instruction_.lane].kind == LaneKind::kHost;
    return on_host ? HostUnitKernels() : UnitKernelsFor(executor_.device_);
  }

  Executor& executor_;
  const Program& program_;
  const Instruction& instruction_;
  Resolver resolver_;
  Demand demand_;
  const std::optional<AdamWScalars>& pending_;
  RunResult& result_;
  Lane& lane_;
};

Executor::Executor(Device& device, RunMemory& memory, const CostModel& cost, bool check_memory)
    : device_(device), memory_(memory), cost_(cost), check_memory_(check_memory) {}

Executor::~Executor() = default;

void Executor::Prepare(const Program& program) {
  while (lanes_.size() < program.lanes.size()) {
    const LaneSpec& lane = program.lanes[lanes_.size()];
    lanes_.push_back(device_.MakeLane(lane.kind, lane.name));
  }
  for (const Instruction& instruction : program.instructions) {
    if (const auto* op = std::get_if<OpAction>(&instruction.action)) {
      KernelsFor(device_).Find(*op->op, op->direction);
    }
  }
}

Event& Executor::EventAt(std::vector<std::unique_ptr<Event>>& pool, size_t index) {
  while (pool.size() <= index) pool.push_back(device_.MakeEvent());
  return *pool[index];
}

void Executor::FillInputs(const Program& program, std::span<const MicroBatch> step) {
  if (step.size() > program.inputs.size()) {
    throw InternalError("{} micro-batches for a program of {}", step.size(), program.inputs.size());
  }
  for (size_t m = 0; m < step.size(); ++m) {
    for (const NamedInput& input : InputsOf(step[m])) {
      const auto found = program.inputs[m].find(std::string(input.name));
      if (found == program.inputs[m].end()) continue;
      const Buffer& buffer = program.buffers[found->second];
      if (input.bytes > static_cast<size_t>(buffer.bytes)) {
        throw InternalError("the batch's {} is larger than the program's capacity", input.name);
      }
      std::memcpy(memory_.Address(buffer), input.data, input.bytes);
    }
  }
}

void Executor::Enqueue(const Program& program, int index, const StepRows& rows, LiveRanges* ranges,
                       const std::optional<AdamWScalars>& pending, RunResult& result) {
  const Instruction& instruction = program.instructions[index];
  Lane& lane = *lanes_[instruction.lane];
  for (const int w : instruction.waits) lane.Wait(EventAt(ends_, w));
  lane.Record(EventAt(starts_, index));
  if (ranges != nullptr) lane.Run([ranges, index](LaneContext&) { ranges->Begin(index); }, {});
  const InstructionRows sizes = RowsOf(instruction, rows);
  if (!sizes.skipped) {
    const Demand demand =
        device_.models_time() ? DemandOf(program, instruction, rows, cost_) : Demand{};
    std::visit(Dispatcher(*this, program, instruction, sizes.rows, demand, pending, result),
               instruction.action);
  }
  if (ranges != nullptr) lane.Run([ranges, index](LaneContext&) { ranges->End(index); }, {});
  lane.Record(EventAt(ends_, index));
}

RunResult Executor::Run(const Program& program, std::span<const MicroBatch> step,
                        const std::optional<AdamWScalars>& pending) {
  std::optional<LiveRanges> ranges;
  if (check_memory_) ranges.emplace(program, memory_);
  FillInputs(program, step);
  const StepRows rows = RowsOf(step);
  RunResult result;
  const int count = static_cast<int>(program.instructions.size());
  for (int i = 0; i < count; ++i) {
    device_.Reset(EventAt(starts_, i));
    device_.Reset(EventAt(ends_, i));
  }
  for (int i = 0; i < count; ++i) {
    Enqueue(program, i, rows, ranges ? &*ranges : nullptr, pending, result);
  }
  device_.Synchronize();
  if (ranges) ranges->CheckUnused();

  std::vector<TimedSpan> spans;
  spans.reserve(static_cast<size_t>(count));
  double begin = count > 0 ? starts_[0]->seconds() : 0;
  for (int i = 0; i < count; ++i) begin = std::min(begin, starts_[i]->seconds());
  for (int i = 0; i < count; ++i) {
    spans.push_back({starts_[i]->seconds() - begin, ends_[i]->seconds() - begin});
  }
  result.timeline = SummarizeTimeline(program, std::move(spans));
  return result;
}

std::span<const float> Executor::Result(const Program& program, size_t micro_batch,
                                        std::string_view name, int64_t elements) const {
  const Buffer& buffer = program.buffers[program.results[micro_batch].at(std::string(name))];
  return {reinterpret_cast<const float*>(memory_.Address(buffer)), static_cast<size_t>(elements)};
}

}  // namespace lazytrain
