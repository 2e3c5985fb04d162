// Rotary embeddings of neighbouring channels, and with frequencies for long documents.
#include "ops/rope.h"
#include "tests/ops/reference.h"

namespace lazytrain::testing {
namespace {

Rope MakeOp(int64_t head_dim, int64_t rotary, DType dtype) {
  Rope op;
  op.q_heads = 3;
  op.kv_heads = 1;
  op.head_dim = head_dim;
  op.scaling = 1.5f;
  op.dtype = dtype;
  for (int64_t i = 0; i < rotary / 2; ++i) {
    op.inverse_frequencies.push_back(1.0f / static_cast<float>(1 + i));
  }
  return op;
}

OpCase MakeCase(const Rope& op, const std::vector<int32_t>& lengths) {
  std::mt19937 random(static_cast<uint32_t>(op.head_dim));
  OpCase test;
  test.op = &op;
  std::vector<double> positions;
  for (const int32_t length : lengths) {
    for (int32_t t = 0; t < length; ++t) positions.push_back(t);
    test.cu_seqlens.push_back(test.cu_seqlens.back() + length);
  }
  const auto rows = static_cast<int64_t>(positions.size());
  const int64_t cols = (op.q_heads + 2 * op.kv_heads) * op.head_dim;
  test.inputs = {Buffer::Random(op.dtype, rows, cols, random),
                 Buffer::Of(DType::kI32, rows, 1, positions)};
  test.outputs = {{op.dtype, rows, cols}};
  test.d_outputs = {Buffer::Random(op.dtype, rows, cols, random)};
  return test;
}

// Channel i of a head in the order "all first of a pair, then all second".
int64_t Halved(int64_t i, int64_t rotary) {
  if (i >= rotary) return i;
  return i % 2 * (rotary / 2) + i / 2;
}

Array Reorder(const Rope& op, const Array& values, bool to_halves) {
  const auto rotary = static_cast<int64_t>(2 * op.inverse_frequencies.size());
  Array result = values;
  const int64_t cols = (op.q_heads + 2 * op.kv_heads) * op.head_dim;
  for (size_t at = 0; at < values.size(); ++at) {
    const auto col = static_cast<int64_t>(at) % cols;
    if (col >= (op.q_heads + op.kv_heads) * op.head_dim) continue;
    const int64_t channel = col % op.head_dim;
    const size_t other =
        at - static_cast<size_t>(channel) + static_cast<size_t>(Halved(channel, rotary));
    if (to_halves) {
      result[other] = values[at];
    } else {
      result[at] = values[other];
    }
  }
  return result;
}

Reference InterleavedReference(const Rope& op) {
  return {[=](const Arrays& inputs, const Arrays&) -> Arrays {
            const Array x = Reorder(op, inputs[0], true);
            return {Reorder(op, TurnReference(op, x, inputs[1], 1.0), false)};
          },
          [=](const Arrays& inputs, const Arrays&, const Arrays& d_outputs) {
            const Array d = Reorder(op, d_outputs[0], true);
            return ReferenceGradients{
                {Reorder(op, TurnReference(op, d, inputs[1], -1.0), false), {}}, {}};
          }};
}

TEST(RopeLayouts, NeighboursTurn) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [head_dim, rotary] : {std::pair{8, 8}, {16, 8}, {160, 140}}) {
      Rope op = MakeOp(head_dim, rotary, dtype);
      op.interleaved = true;
      OpCase test = MakeCase(op, {5, 12});
      test.reference = InterleavedReference(op);
      CheckOp(test);
    }
  }
}

TEST(RopeLayouts, OnePairByHand) {
  Rope op = MakeOp(4, 2, DType::kF32);
  op.q_heads = 1;
  op.scaling = 1.0f;
  op.interleaved = true;
  OpCase test = MakeCase(op, {2});
  test.inputs[0] = Buffer::Of(DType::kF32, 2, 12, {1, 0, 5, 6, 1, 2, 7, 8, 9, 9, 9, 9,  //
                                                   1, 0, 5, 6, 1, 2, 7, 8, 9, 9, 9, 9});
  const std::vector<double> y = RunForward(test, 1).outputs[0].values();
  // Position 0 stays; position 1 turns by one radian: (1, 0) to (cos 1, sin 1).
  EXPECT_EQ(y[0], 1.0);
  EXPECT_NEAR(y[12], 0.5403023, 1e-6);
  EXPECT_NEAR(y[13], 0.8414710, 1e-6);
  EXPECT_EQ(y[14], 5.0);
  EXPECT_NEAR(y[16], 1 * 0.5403023 - 2 * 0.8414710, 1e-6);
  EXPECT_EQ(y[20], 9.0);
}

// A case whose documents turn with the frequencies that `frequencies_of` has for their lengths.
template <typename FrequenciesOf>
OpCase MakeCaseByLength(const Rope& op, const std::vector<int32_t>& lengths,
                        const FrequenciesOf& frequencies_of) {
  OpCase test = MakeCase(op, lengths);
  const auto cols = static_cast<int64_t>((op.q_heads + 2 * op.kv_heads) * op.head_dim);
  const auto turn = [=](const Array& values, const Array& positions, double direction) {
    Array result;
    for (const int32_t length : lengths) {
      Rope own = op;
      own.inverse_frequencies = frequencies_of(length);
      const Array turned = TurnReference(own, values, positions, direction);
      const auto begin = static_cast<int64_t>(result.size());
      result.insert(result.end(), turned.begin() + begin, turned.begin() + begin + length * cols);
    }
    return result;
  };
  test.reference = {[=](const Arrays& inputs, const Arrays&) -> Arrays {
                      return {turn(inputs[0], inputs[1], 1.0)};
                    },
                    [=](const Arrays& inputs, const Arrays&, const Arrays& d_outputs) {
                      return ReferenceGradients{{turn(d_outputs[0], inputs[1], -1.0), {}}, {}};
                    }};
  return test;
}

TEST(RopeLayouts, LongDocumentsHaveTheirOwnFrequencies) {
  Rope op = MakeOp(8, 8, DType::kF32);
  op.long_inverse_frequencies = {0.5f, 0.25f, 0.125f, 0.0625f};
  op.long_beyond = 6;
  // Six tokens are not long yet.
  CheckOp(MakeCaseByLength(op, {6, 7, 2}, [&](int32_t length) {
    return length > 6 ? op.long_inverse_frequencies : op.inverse_frequencies;
  }));
}

// Against the formula as transformers has it, from a base that grows with the document.
TEST(RopeLayouts, DynamicFrequenciesFollowTheLength) {
  constexpr double kTheta = 100.0;
  const auto with_base = [](double base) {
    std::vector<float> inverse;
    for (int i = 0; i < 4; ++i) inverse.push_back(static_cast<float>(std::pow(base, -2 * i / 8.0)));
    return inverse;
  };
  for (const bool interleaved : {false, true}) {
    Rope op = MakeOp(10, 8, DType::kF32);
    op.interleaved = interleaved;
    op.inverse_frequencies = with_base(kTheta);
    op.dynamic_factor = 2.5;
    op.long_beyond = 6;
    const auto frequencies_of = [&](int32_t length) {
      if (length <= 6) return with_base(kTheta);
      const double stretch = 2.5 * length / 6.0 - (2.5 - 1.0);
      return with_base(kTheta * std::pow(stretch, 8.0 / 6.0));
    };
    for (const int32_t length : {1, 6, 7, 40}) {
      const std::vector<float> actual = op.FrequenciesFor(length);
      const std::vector<float> expected = frequencies_of(length);
      for (size_t i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(actual[i], expected[i]) << length << " " << i;
    }
    OpCase test = MakeCaseByLength(op, {6, 9, 9, 2, 40, 7}, frequencies_of);
    if (interleaved) {
      const Reference halves = test.reference;
      test.reference = {
          [=](const Arrays& inputs, const Arrays& weights) -> Arrays {
            const Arrays y = halves.forward({Reorder(op, inputs[0], true), inputs[1]}, weights);
            return {Reorder(op, y[0], false)};
          },
          [=](const Arrays& inputs, const Arrays& weights, const Arrays& d_outputs) {
            const ReferenceGradients d =
                halves.backward(inputs, weights, {Reorder(op, d_outputs[0], true)});
            return ReferenceGradients{{Reorder(op, d.inputs[0], false), {}}, {}};
          }};
    }
    CheckOp(test);
  }
}

// Whether keys that were turned in a shorter document are those of a longer one.
TEST(RopeLayouts, WhereTextMayGoOnFromKeptKeys) {
  Rope op = MakeOp(8, 8, DType::kF32);
  EXPECT_TRUE(op.Continues(6, 7));
  op.long_beyond = 6;
  op.long_inverse_frequencies = op.inverse_frequencies;
  EXPECT_TRUE(op.Continues(5, 6));
  EXPECT_FALSE(op.Continues(6, 7));
  EXPECT_TRUE(op.Continues(7, 8));
  op.long_inverse_frequencies.clear();
  op.dynamic_factor = 2.0;
  EXPECT_TRUE(op.Continues(5, 6));
  EXPECT_FALSE(op.Continues(6, 7));
  EXPECT_FALSE(op.Continues(7, 8));
}

TEST(RopeLayouts, SignatureTellsDynamicScaling) {
  Rope op = MakeOp(8, 8, DType::kF32);
  const std::string without = op.Signature();
  op.dynamic_factor = 2.0;
  const std::string with = op.Signature();
  op.dynamic_factor = 4.0;
  EXPECT_NE(without, with);
  EXPECT_NE(op.Signature(), with);
}

}  // namespace
}  // namespace lazytrain::testing
