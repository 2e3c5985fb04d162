// Kernels built on matrix products: linear, output projections and losses.
#include <array>

#include "core/error.h"
#include "ops/linear.h"
#include "ops/lm_head_loss.h"
#include "ops/normalized_head.h"
#include "tests/ops/cuda_harness.h"

namespace lazytrain::testing {
namespace {

// Products of float32 sums over up to a thousand elements.
constexpr Tolerance kFloat = {1e-5, 2e-5, 1e-5};
constexpr Tolerance kShort = {6e-3, 4e-3, 0x1p-7};

const Tolerance* ToleranceOf(DType dtype) { return dtype == DType::kBF16 ? &kShort : &kFloat; }

class CudaMatmul : public ::testing::TestWithParam<DType> {
 protected:
  Buffer Random(int64_t rows, int64_t cols, double scale = 1.0) {
    return Buffer::Random(GetParam(), rows, cols, random_, scale);
  }

  std::mt19937 random_{2};
};

INSTANTIATE_TEST_SUITE_P(DTypes, CudaMatmul, ::testing::Values(DType::kF32, DType::kBF16),
                         DTypeName);

TEST_P(CudaMatmul, Linear) {
  for (const auto& [rows, in, out] : std::vector<std::array<int64_t, 3>>{{1, 8, 16},
                                                                         {37, 64, 96},
                                                                         {130, 256, 512},
                                                                         {257, 896, 1152},
                                                                         {19, 33, 7},
                                                                         {64, 1000, 24}}) {
    for (const int variant : {0, 1, 2, 3}) {
      Linear op;
      op.in_features = in;
      op.out_features = out;
      op.has_bias = variant % 2 == 1;
      op.has_residual = variant >= 2;
      op.dtype = GetParam();
      op.output_dtype = GetParam();
      OpCase test;
      test.op = &op;
      test.inputs.push_back(Random(rows, in));
      if (op.has_residual) test.inputs.push_back(Random(rows, out));
      test.weights.push_back(Random(out, in, 0.3));
      if (op.has_bias) test.weights.push_back(Random(1, out));
      test.outputs.push_back({GetParam(), rows, out});
      test.d_outputs.push_back(Random(rows, out));
      CompareOp(test, ToleranceOf(GetParam()));
    }
  }
}

TEST_P(CudaMatmul, LinearToFloat) {
  for (const bool has_bias : {false, true}) {
    Linear op;
    op.in_features = 128;
    op.out_features = 1000;
    op.has_bias = has_bias;
    op.dtype = GetParam();
    op.output_dtype = DType::kF32;
    op.extent = Extent::kSelected;
    OpCase test;
    test.op = &op;
    test.inputs.push_back(Random(9, 128));
    test.weights.push_back(Random(1000, 128, 0.3));
    if (has_bias) test.weights.push_back(Random(1, 1000));
    test.outputs.push_back({DType::kF32, 9, 1000});
    CompareForward(test, &kFloat);
  }
}

// Hidden rows, targets (some not trained) and loss weights.
std::vector<Buffer> LossInputs(DType dtype, int64_t rows, int64_t hidden, int64_t vocab,
                               std::mt19937& random) {
  std::vector<double> targets;
  std::vector<double> weights;
  for (int64_t row = 0; row < rows; ++row) {
    const bool trained = random() % 4 != 0;
    targets.push_back(trained ? static_cast<double>(random() % vocab) : -1.0);
    weights.push_back(trained ? 1.0 / static_cast<double>(rows) : 0.0);
  }
  std::vector<Buffer> inputs;
  inputs.push_back(Buffer::Random(dtype, rows, hidden, random));
  inputs.push_back(Buffer::Of(DType::kI32, rows, 1, targets));
  inputs.push_back(Buffer::Of(DType::kF32, rows, 1, weights));
  return inputs;
}

TEST_P(CudaMatmul, LmHeadLoss) {
  for (const auto& [rows, hidden, vocab, chunk] :
       std::vector<std::array<int64_t, 4>>{{1, 8, 16, 4},
                                           {37, 64, 100, 16},
                                           {90, 128, 5000, 32},
                                           {40, 32, 151, 64},
                                           {70, 48, 9001, 64},
                                           {1300, 32, 72, 700},
                                           {600, 32, 72, 4096}}) {
    LmHeadLoss op;
    op.vocab_size = vocab;
    op.hidden = hidden;
    op.chunk_rows = chunk;
    op.dtype = GetParam();
    OpCase test;
    test.op = &op;
    test.inputs = LossInputs(GetParam(), rows, hidden, vocab, random_);
    test.weights.push_back(Random(vocab, hidden, 0.3));
    test.outputs.push_back({DType::kF32, rows, 1});
    CompareForward(test, &kFloat);
    CompareBackward(test, ToleranceOf(GetParam()));
  }
}

TEST_P(CudaMatmul, NormalizedHead) {
  for (const auto& [rows, hidden, vocab] :
       std::vector<std::array<int64_t, 3>>{{37, 64, 100}, {90, 128, 5000}, {21, 33, 151}}) {
    NormalizedLmHeadLoss op;
    op.loss.vocab_size = vocab;
    op.loss.hidden = hidden;
    op.loss.chunk_rows = 32;
    op.loss.dtype = GetParam();
    OpCase test;
    test.op = &op;
    test.inputs = LossInputs(GetParam(), rows, hidden, vocab, random_);
    test.weights.push_back(Random(vocab, hidden, 2.0));
    test.outputs.push_back({DType::kF32, rows, 1});
    // A row of the head may round the other way where the sums of its squares differ.
    CompareForward(test, GetParam() == DType::kBF16 ? &kShort : &kFloat);
    CompareBackward(test, ToleranceOf(GetParam()));

    NormalizedLinear linear;
    linear.linear.in_features = hidden;
    linear.linear.out_features = vocab;
    linear.linear.dtype = GetParam();
    linear.linear.output_dtype = DType::kF32;
    linear.linear.extent = Extent::kSelected;
    test.op = &linear;
    test.inputs.resize(1);
    test.outputs = {{DType::kF32, rows, vocab}};
    CompareForward(test, ToleranceOf(GetParam()));
  }
}

TEST(CudaMatmulShapes, TheGradientOfAWeightWithoutRowsIsZero) {
  Linear op;
  op.in_features = 16;
  op.out_features = 8;
  std::mt19937 random(1);
  Gpu& gpu = TheGpu();
  gpu.Clear();
  std::vector<Buffer> weights = {Buffer::Random(DType::kF32, 8, 16, random)};
  std::vector<Buffer> d_weights = {Buffer(DType::kF32, 8, 16)};
  OpArgs args;
  args.weights = gpu.Place(weights);
  args.d_weights = gpu.Place(d_weights);
  const TensorView none{gpu.Take(256), DType::kF32, 0, 16};
  args.inputs = {none};
  args.d_inputs = {TensorView{}};
  args.d_outputs = {TensorView{none.data, DType::kF32, 0, 8}};
  args.outputs = {TensorView{}};
  args.accumulate_inputs = {false};
  args.accumulate_weights = {false};
  args.workspace = gpu.Take(cuda::Kernels().WorkspaceBytes(op, Direction::kBackward, {}));
  Gpu::AwaitPlaced();
  gpu.lane().Run([&](LaneContext& c) { cuda::LinearBackward(op, args, c); }, {});
  gpu.Fetch();
  for (const double value : d_weights[0].values()) EXPECT_EQ(value, 0.0);
}

// A product on a GPU of its own, with choices made before, if there are any.
std::vector<double> ProductWith(const LibraryChoices& before, LibraryChoices& after) {
  Linear op;
  op.in_features = 512;
  op.out_features = 256;
  op.dtype = op.output_dtype = DType::kBF16;
  std::mt19937 random(1);
  std::vector<Buffer> operands;
  operands.push_back(Buffer::Random(DType::kBF16, 130, 512, random));
  operands.push_back(Buffer::Random(DType::kBF16, 256, 512, random));
  operands.emplace_back(DType::kBF16, 130, 256);
  Gpu gpu(int64_t{1} << 24);
  gpu.device().UseLibraryChoices(before);
  gpu.Clear();
  const std::vector<TensorView> views = gpu.Place(operands);
  OpArgs args;
  args.inputs = {views[0]};
  args.weights = {views[1]};
  args.outputs = {views[2]};
  RowCounts rows;
  rows.tokens = 130;
  args.workspace = gpu.Take(cuda::Kernels().WorkspaceBytes(op, Direction::kForward, rows));
  Gpu::AwaitPlaced();
  gpu.lane().Run([&](LaneContext& c) { cuda::LinearForward(op, args, c); }, {});
  gpu.Fetch();
  after = gpu.device().library_choices();
  return operands[2].values();
}

TEST(CudaMatmulShapes, AlgorithmsAreKeptAndTakenAgain) {
  LibraryChoices chosen;
  const std::vector<double> first = ProductWith({}, chosen);
  ASSERT_EQ(chosen.size(), 1u);
  EXPECT_EQ(chosen.begin()->first.substr(0, 19), "[130, 256] bfloat16") << chosen.begin()->first;
  LibraryChoices again;
  EXPECT_EQ(ProductWith(chosen, again), first);
  EXPECT_EQ(again, chosen);
}

TEST(CudaMatmulShapes, AnAlgorithmThatIsNoneIsRefused) {
  LibraryChoices chosen;
  ProductWith({}, chosen);
  for (const char* text : {"", "something", "algorithm 999: ffffffff-0-0-0-0-0-0-0"}) {
    chosen.begin()->second = text;
    LibraryChoices after;
    try {
      ProductWith(chosen, after);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("gemm_table.json"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace lazytrain::testing
