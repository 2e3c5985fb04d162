#include "ops/qk_norm.h"

#include "tests/ops/reference.h"

namespace lazytrain::testing {
namespace {

QkNorm MakeOp(bool per_head, DType dtype) {
  QkNorm op;
  op.q_heads = 4;
  op.kv_heads = 2;
  op.head_dim = 6;
  op.per_head = per_head;
  op.eps = 1e-3f;
  op.dtype = dtype;
  return op;
}

// Calls body(first channel, first channel of its scale, which) for every group of a row.
template <typename Body>
void ForGroups(const QkNorm& op, const Body& body) {
  const int64_t q = op.q_heads * op.head_dim;
  for (int64_t at = 0; at < q; at += op.group(0)) body(at, 0);
  for (int64_t at = q; at < q + op.kv_heads * op.head_dim; at += op.group(1)) body(at, 1);
}

Reference QkNormReference(const QkNorm& op) {
  const int64_t cols = (op.q_heads + 2 * op.kv_heads) * op.head_dim;
  const auto inverse = [=](const double* x, int64_t n) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
    return 1.0 / std::sqrt(sum / static_cast<double>(n) + op.eps);
  };
  return {[=](const Arrays& inputs, const Arrays& weights) -> Arrays {
            Array y = inputs[0];
            for (int64_t row = 0; row < RowsOf(y, cols); ++row) {
              ForGroups(op, [&](int64_t at, int which) {
                const double* x = inputs[0].data() + row * cols + at;
                const double r = inverse(x, op.group(which));
                for (int64_t i = 0; i < op.group(which); ++i) {
                  y[row * cols + at + i] = x[i] * r * (weights[which][i] + op.scale_offset);
                }
              });
            }
            return {y};
          },
          [=](const Arrays& inputs, const Arrays& weights, const Arrays& d_outputs) {
            ReferenceGradients d{{d_outputs[0]}, {Zeros(op.group(0)), Zeros(op.group(1))}};
            for (int64_t row = 0; row < RowsOf(inputs[0], cols); ++row) {
              ForGroups(op, [&](int64_t at, int which) {
                const int64_t n = op.group(which);
                const double* x = inputs[0].data() + row * cols + at;
                const double* d_y = d_outputs[0].data() + row * cols + at;
                const double r = inverse(x, n);
                double dot = 0.0;
                for (int64_t i = 0; i < n; ++i) {
                  dot += d_y[i] * (weights[which][i] + op.scale_offset) * x[i];
                  d.weights[which][i] += d_y[i] * x[i] * r;
                }
                for (int64_t i = 0; i < n; ++i) {
                  d.inputs[0][row * cols + at + i] =
                      r * d_y[i] * (weights[which][i] + op.scale_offset) -
                      r * r * r / static_cast<double>(n) * dot * x[i];
                }
              });
            }
            return d;
          }};
}

OpCase MakeCase(const QkNorm& op, int64_t rows, DType scale_dtype) {
  std::mt19937 random(static_cast<uint32_t>(rows));
  const int64_t cols = (op.q_heads + 2 * op.kv_heads) * op.head_dim;
  OpCase test;
  test.op = &op;
  test.inputs = {Buffer::Random(op.dtype, rows, cols, random, 2.0)};
  test.weights = {Buffer::Random(scale_dtype, 1, op.group(0), random),
                  Buffer::Random(scale_dtype, 1, op.group(1), random)};
  test.outputs = {{op.dtype, rows, cols}};
  test.d_outputs = {Buffer::Random(op.dtype, rows, cols, random)};
  test.reference = QkNormReference(op);
  return test;
}

TEST(QkNormKernel, MatchesReference) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const bool per_head : {true, false}) {
      for (const int64_t rows : {0, 1, 130}) {
        const QkNorm op = MakeOp(per_head, dtype);
        CheckOp(MakeCase(op, rows, dtype));
      }
    }
  }
}

TEST(QkNormKernel, ScaleMayBeTheDistanceFromOne) {
  QkNorm op = MakeOp(true, DType::kBF16);
  op.scale_offset = 1.0f;
  CheckOp(MakeCase(op, 9, DType::kF32));
}

TEST(QkNormKernel, ReferenceGradients) {
  for (const bool per_head : {true, false}) {
    const QkNorm op = MakeOp(per_head, DType::kF32);
    CheckReference(MakeCase(op, 3, DType::kF32));
  }
}

}  // namespace
}  // namespace lazytrain::testing
