// Time of every CUDA kernel at the shapes of one layer of Qwen2.5-7B, 8192 tokens in documents of
// 1024: milliseconds, and what that is in GB/s (each operand once) and TFLOP/s.
#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "bench/kernel_bench.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_lane_context.h"
#include "ops/attention.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/rows.h"
#include "ops/cuda/unit_kernels.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/lm_head_loss.h"
#include "ops/qk_norm.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/swiglu.h"

namespace lazytrain {
namespace {

using cuda::Check;

constexpr int64_t kTokens = 8192;  // where nothing else is said
constexpr int64_t kHidden = 3584;
constexpr int64_t kIntermediate = 18944;
constexpr int64_t kQHeads = 28;
constexpr int64_t kKvHeads = 4;
constexpr int64_t kHeadDim = 128;
constexpr int64_t kQkv = (kQHeads + 2 * kKvHeads) * kHeadDim;
constexpr int64_t kVocab = 152064;

RowCounts RowsOf(int64_t document, int64_t tokens = kTokens) {
  RowCounts rows;
  rows.tokens = tokens;
  rows.documents = tokens / document;
  rows.longest_document = document;
  rows.squared_lengths = static_cast<double>(tokens) * static_cast<double>(document);
  return rows;
}

// Operands of an op whose values are all of `dtype`; integers and statistics are given.
struct Call {
  const Op* op;
  std::vector<TensorView> inputs;
  std::vector<TensorView> weights;
  std::vector<TensorView> outputs;
};

// `adds`: the backward adds to what the first input's gradient holds, as it does in training.
void Run(KernelBench& bench, const std::string& name, const Call& call, const RowCounts& rows,
         bool adds = false) {
  OpArgs args;
  args.inputs = call.inputs;
  args.weights = call.weights;
  args.outputs = call.outputs;
  args.batch.rows = rows;
  std::vector<int32_t> cu;
  for (int64_t d = 0; d <= rows.documents; ++d) {
    cu.push_back(static_cast<int32_t>(d * rows.longest_document));
  }
  args.batch.cu_seqlens_host = cu.data();
  args.batch.cu_seqlens_device = bench.Ids(cu).as<const int32_t>();
  const auto workspace = [&](Direction direction) {
    return bench.Take(cuda::Kernels().WorkspaceBytes(*call.op, direction, rows));
  };
  args.workspace = workspace(Direction::kForward);
  const KernelFunction forward = cuda::Kernels().Find(*call.op, Direction::kForward);
  if (!call.op->backward_computes_outputs()) {
    bench.Report(name, call.op->Cost(Direction::kForward, rows), args,
                 [&](const OpArgs& of, LaneContext& c) { forward(*call.op, of, c); });
  }
  args.workspace = workspace(Direction::kBackward);
  for (const TensorView& output : call.outputs) {
    args.d_outputs.push_back(bench.Random(output.dtype, output.rows, output.cols));
  }
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const TensorView& input = call.inputs[i];
    const bool wanted = call.op->differentiable(static_cast<int>(i));
    args.d_inputs.push_back(wanted ? bench.Random(input.dtype, input.rows, input.cols)
                                   : TensorView{});
    args.accumulate_inputs.push_back(adds && i == 0);
  }
  if (call.op->residual_input() >= 0) {
    args.d_inputs[static_cast<size_t>(call.op->residual_input())] = args.d_outputs[0];
  }
  if (call.op->in_place()) args.d_inputs[0] = args.d_outputs[0];
  for (const TensorView& weight : call.weights) {
    args.d_weights.push_back(bench.Random(DType::kF32, weight.rows, weight.cols));
    args.accumulate_weights.push_back(true);
  }
  const KernelFunction kernel = cuda::Kernels().Find(*call.op, Direction::kBackward);
  bench.Report(name + " backward", call.op->Cost(Direction::kBackward, rows), args,
               [&](const OpArgs& of, LaneContext& c) { kernel(*call.op, of, c); });
}

void RunLinear(KernelBench& bench, const std::string& name, int64_t in, int64_t out, bool bias,
               bool residual) {
  if (!bench.Wants(name)) return;
  bench.Reset();
  Linear op;
  op.in_features = in;
  op.out_features = out;
  op.has_bias = bias;
  op.has_residual = residual;
  op.dtype = op.output_dtype = DType::kBF16;
  Call call{&op, {bench.Random(DType::kBF16, kTokens, in)}, {}, {}};
  if (residual) call.inputs.push_back(bench.Random(DType::kBF16, kTokens, out));
  call.weights.push_back(bench.Random(DType::kBF16, out, in, 0.02f));
  if (bias) call.weights.push_back(bench.Random(DType::kBF16, 1, out));
  call.outputs.push_back(bench.Random(DType::kBF16, kTokens, out));
  Run(bench, name, call, RowsOf(1024));
}

void RunAttention(KernelBench& bench, int64_t document, int64_t q_heads, int64_t kv_heads,
                  int64_t dim, DType dtype) {
  const int64_t tokens = std::max(kTokens, document);
  const std::string name =
      fmt::format("attention {} x {}, {}/{} x {} {}", tokens / document, document, q_heads,
                  kv_heads, dim, dtype == DType::kBF16 ? "bf16" : "fp32");
  if (!bench.Wants(name)) return;
  bench.Reset();
  Attention op;
  op.q_heads = q_heads;
  op.kv_heads = kv_heads;
  op.head_dim = dim;
  op.scale = 1.0f / std::sqrt(static_cast<float>(dim));
  op.dtype = dtype;
  const Call call{
      &op,
      {bench.Random(dtype, tokens, (q_heads + 2 * kv_heads) * dim)},
      {},
      {bench.Random(dtype, tokens, q_heads * dim), bench.Random(DType::kF32, tokens, q_heads)}};
  Run(bench, name, call, RowsOf(document, tokens));
}

std::string SizeOfRun(int64_t tokens) {
  return tokens == kTokens ? "" : fmt::format(", {} rows", tokens);
}

void RunRmsNorm(KernelBench& bench, int64_t tokens, bool residual) {
  const std::string name = fmt::format("rms_norm{}", residual ? " with residual" : "");
  if (!bench.Wants(name)) return;
  const DType dtype = DType::kBF16;
  RmsNorm norm;
  norm.hidden = kHidden;
  norm.dtype = dtype;
  norm.has_residual = residual;
  Call call{&norm,
            {bench.Random(dtype, tokens, kHidden)},
            {bench.Random(dtype, 1, kHidden)},
            {bench.Random(dtype, tokens, kHidden)}};
  if (residual) call.inputs.push_back(bench.Random(dtype, tokens, kHidden));
  // A norm in front of a layer adds to the gradient that x's way around the layer has left.
  Run(bench, name + SizeOfRun(tokens), call, RowsOf(1024, tokens), !residual);
}

void RunQkNorm(KernelBench& bench, int64_t tokens) {
  if (!bench.Wants("qk_norm")) return;
  const DType dtype = DType::kBF16;
  QkNorm norm;
  norm.q_heads = kQHeads;
  norm.kv_heads = kKvHeads;
  norm.head_dim = kHeadDim;
  norm.dtype = dtype;
  Run(bench, "qk_norm" + SizeOfRun(tokens),
      {&norm,
       {bench.Random(dtype, tokens, kQkv)},
       {bench.Random(dtype, 1, kHeadDim), bench.Random(dtype, 1, kHeadDim)},
       {bench.Random(dtype, tokens, kQkv)}},
      RowsOf(1024, tokens));
}

void RunRope(KernelBench& bench, int64_t tokens) {
  if (!bench.Wants("rope")) return;
  Rope rope;
  rope.q_heads = kQHeads;
  rope.kv_heads = kKvHeads;
  rope.head_dim = kHeadDim;
  rope.dtype = DType::kBF16;
  for (int i = 0; i < kHeadDim / 2; ++i) {
    rope.inverse_frequencies.push_back(std::pow(1e6f, -static_cast<float>(i) / 64.0f));
  }
  std::vector<int32_t> positions;
  for (int64_t t = 0; t < tokens; ++t) positions.push_back(static_cast<int32_t>(t % 1024));
  const TensorView qkv = bench.Random(DType::kBF16, tokens, kQkv);
  Run(bench, "rope" + SizeOfRun(tokens), {&rope, {qkv, bench.Ids(positions)}, {}, {qkv}},
      RowsOf(1024, tokens));
}

void RunSwiglu(KernelBench& bench, int64_t tokens) {
  if (!bench.Wants("swiglu")) return;
  const DType dtype = DType::kBF16;
  Swiglu swiglu;
  swiglu.intermediate = kIntermediate;
  swiglu.dtype = dtype;
  Run(bench, "swiglu" + SizeOfRun(tokens),
      {&swiglu,
       {bench.Random(dtype, tokens, 2 * kIntermediate)},
       {},
       {bench.Random(dtype, tokens, kIntermediate)}},
      RowsOf(1024, tokens));
}

void RunEmbedding(KernelBench& bench, int64_t tokens) {
  if (!bench.Wants("embedding")) return;
  const DType dtype = DType::kBF16;
  Embedding embedding;
  embedding.vocab_size = kVocab;
  embedding.hidden = kHidden;
  embedding.dtype = dtype;
  std::mt19937 random(2);
  std::vector<int32_t> ids;
  // Tokens of a text: a few of them fill much of it.
  for (int64_t t = 0; t < tokens; ++t) {
    const double u = static_cast<double>(random() % 1000000 + 1) / 1e6;
    ids.push_back(
        static_cast<int32_t>(std::min(kVocab - 1.0, 30.0 * std::pow(1.0 / u, 1.2) - 30.0)));
  }
  Run(bench, "embedding" + SizeOfRun(tokens),
      {&embedding,
       {bench.Ids(ids)},
       {bench.Random(dtype, kVocab, kHidden)},
       {bench.Random(dtype, tokens, kHidden)}},
      RowsOf(1024, tokens));
}

void RunRows(KernelBench& bench, int64_t tokens) {
  const std::vector<std::function<void()>> runs = {
      [&] { RunRmsNorm(bench, tokens, false); }, [&] { RunRmsNorm(bench, tokens, true); },
      [&] { RunQkNorm(bench, tokens); },         [&] { RunRope(bench, tokens); },
      [&] { RunSwiglu(bench, tokens); },         [&] { RunEmbedding(bench, tokens); }};
  for (const auto& run : runs) {
    bench.Reset();
    run();
  }
}

void RunHead(KernelBench& bench, int64_t chunk_rows) {
  if (!bench.Wants("lm_head_loss")) return;
  bench.Reset();
  LmHeadLoss head;
  head.vocab_size = kVocab;
  head.hidden = kHidden;
  head.chunk_rows = chunk_rows;
  head.dtype = DType::kBF16;
  std::mt19937 random(3);
  std::vector<int32_t> targets;
  for (int64_t t = 0; t < kTokens; ++t) targets.push_back(static_cast<int32_t>(random() % kVocab));
  const TensorView losses = bench.Random(DType::kF32, kTokens, 1);
  Run(bench, fmt::format("lm_head_loss chunks of {}", chunk_rows),
      {&head,
       {bench.Random(DType::kBF16, kTokens, kHidden), bench.Ids(targets),
        bench.Random(DType::kF32, kTokens, 1)},
       {bench.Random(DType::kBF16, kVocab, kHidden, 0.02f)},
       {losses}},
      RowsOf(1024));
}

void RunUnit(KernelBench& bench) {
  if (!bench.Wants("gradient") && !bench.Wants("adamw")) return;
  bench.Reset();
  const int64_t elements = int64_t{kHidden} * 3 * kIntermediate;
  const double count = static_cast<double>(elements);
  const std::vector<UnitParameter> parameters = {{elements, 0, 0, DType::kBF16, true}};
  const TensorView wide = bench.Random(DType::kF32, 1, elements);
  const TensorView narrow = bench.Random(DType::kBF16, 1, elements);
  RoundGradientArgs round;
  round.parameters = &parameters;
  round.accumulator = wide.as<float>();
  round.stored = narrow.data;
  round.dtype = DType::kBF16;
  round.partial_sums = static_cast<double*>(bench.Take(PartialSumCount(parameters) * 8));
  bench.Report("round_gradient", {0, 6 * count},
               [&](LaneContext& c) { cuda::DeviceKernels().round_gradient(round, c); });
  WidenGradientArgs widen;
  widen.parameters = &parameters;
  widen.accumulator = wide.as<float>();
  widen.stored = narrow.data;
  widen.dtype = DType::kBF16;
  widen.add = true;
  bench.Report("widen_gradient, added", {0, 10 * count},
               [&](LaneContext& c) { cuda::DeviceKernels().widen_gradient(widen, c); });
  AdamWArgs adamw;
  adamw.parameters = &parameters;
  adamw.weights = bench.Random(DType::kBF16, 1, elements).as<std::byte>();
  adamw.master_low = static_cast<int16_t*>(bench.Random(DType::kBF16, 1, elements).data);
  adamw.moment1 = wide.as<float>();
  adamw.moment2 = bench.Random(DType::kF32, 1, elements).as<float>();
  adamw.gradient = narrow.data;
  adamw.gradient_dtype = DType::kBF16;
  bench.Report("adamw", {0, 26 * count},
               [&](LaneContext& c) { cuda::DeviceKernels().adamw(adamw, c); });
}

void RunCopy(KernelBench& bench) {
  if (!bench.Wants("copy on the device")) return;
  bench.Reset();
  const int64_t bytes = int64_t{2} << 30;
  void* from = bench.Random(DType::kF32, 1, bytes / 4).data;
  void* to = bench.Take(bytes);
  bench.Report("copy on the device", {0, 2.0 * static_cast<double>(bytes)}, [&](LaneContext& c) {
    Check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault,
                          static_cast<cuda::CudaLaneContext&>(c).stream()),
          "copying");
  });
}

void RunAll(const std::string& only) {
  KernelBench bench(only);
  RunCopy(bench);
  RunRows(bench, kTokens);
  RunRows(bench, 2 * kTokens);
  RunUnit(bench);
  RunLinear(bench, "linear qkv (bias)", kHidden, kQkv, true, false);
  RunLinear(bench, "linear out (residual)", kQHeads * kHeadDim, kHidden, false, true);
  RunLinear(bench, "linear gate_up", kHidden, 2 * kIntermediate, false, false);
  RunLinear(bench, "linear down (residual)", kIntermediate, kHidden, false, true);
  for (const int64_t rows : {1024, 2048, 4096}) RunHead(bench, rows);
  for (const int64_t document : {128, 1024, 8192, 16384, 131072}) {
    RunAttention(bench, document, kQHeads, kKvHeads, kHeadDim, DType::kBF16);
  }
  RunAttention(bench, 1024, 24, 4, 256, DType::kBF16);
  RunAttention(bench, 1024, 32, 8, 64, DType::kBF16);
  RunAttention(bench, 1024, kQHeads, kKvHeads, kHeadDim, DType::kF32);
}

}  // namespace
}  // namespace lazytrain

// Usage: cuda_kernels_bench [PART_OF_A_NAME]: of a kernel's, without its direction and rows.
int main(int argc, char** argv) {
  try {
    lazytrain::RunAll(argc > 1 ? argv[1] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
