// The ops in double precision, as their definitions read: slow, and nothing else.
#pragma once

#include "ops/attention.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/lm_head_loss.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/swiglu.h"
#include "tests/ops/harness.h"

namespace lazytrain::testing {

using Array = std::vector<double>;

inline Array Zeros(int64_t count) { return Array(static_cast<size_t>(count), 0.0); }
inline int64_t RowsOf(const Array& array, int64_t cols) {
  return static_cast<int64_t>(array.size()) / cols;
}

inline Reference EmbeddingReference(const Embedding& op) {
  const int64_t n = op.hidden;
  return {[=](const Arrays& inputs, const Arrays& weights) -> Arrays {
            Array x;
            for (const double id : inputs[0]) {
              const double* row = weights[0].data() + static_cast<int64_t>(id) * n;
              x.insert(x.end(), row, row + n);
            }
            return {x};
          },
          [=](const Arrays& inputs, const Arrays& weights, const Arrays& d_outputs) {
            Array d_table(weights[0].size(), 0.0);
            for (size_t t = 0; t < inputs[0].size(); ++t) {
              for (int64_t i = 0; i < n; ++i) {
                d_table[static_cast<int64_t>(inputs[0][t]) * n + i] += d_outputs[0][t * n + i];
              }
            }
            return ReferenceGradients{{{}}, {d_table}};
          }};
}

inline Reference RmsNormReference(const RmsNorm& op) {
  const int64_t n = op.hidden;
  const double eps = op.eps;
  const auto inverse = [=](const double* x) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
    return 1.0 / std::sqrt(sum / static_cast<double>(n) + eps);
  };
  return {[=](const Arrays& inputs, const Arrays& weights) -> Arrays {
            Array y(inputs[0].size());
            for (size_t k = 0; k < y.size(); ++k) {
              y[k] = inputs[0][k] * inverse(inputs[0].data() + k / n * n) * weights[0][k % n];
            }
            return {y};
          },
          [=](const Arrays& inputs, const Arrays& weights, const Arrays& d_outputs) {
            Array d_x(inputs[0].size());
            Array d_scale = Zeros(n);
            for (int64_t row = 0; row < RowsOf(inputs[0], n); ++row) {
              const double* x = inputs[0].data() + row * n;
              const double* d_y = d_outputs[0].data() + row * n;
              const double r = inverse(x);
              double dot = 0.0;
              for (int64_t i = 0; i < n; ++i) {
                dot += d_y[i] * weights[0][i] * x[i];
                d_scale[i] += d_y[i] * x[i] * r;
              }
              for (int64_t i = 0; i < n; ++i) {
                d_x[row * n + i] = r * d_y[i] * weights[0][i] - r * r * r / n * dot * x[i];
              }
            }
            return ReferenceGradients{{d_x}, {d_scale}};
          }};
}

inline Reference LinearReference(const Linear& op) {
  const int64_t k = op.in_features;
  const int64_t n = op.out_features;
  const bool bias = op.has_bias;
  const bool residual = op.has_residual;
  return {[=](const Arrays& inputs, const Arrays& weights) -> Arrays {
            const int64_t m = RowsOf(inputs[0], k);
            Array y = Zeros(m * n);
            for (int64_t i = 0; i < m * n; ++i) {
              const double* x = inputs[0].data() + i / n * k;
              const double* w = weights[0].data() + i % n * k;
              for (int64_t p = 0; p < k; ++p) y[i] += x[p] * w[p];
              if (bias) y[i] += weights[1][i % n];
              if (residual) y[i] += inputs[1][i];
            }
            return {y};
          },
          [=](const Arrays& inputs, const Arrays& weights, const Arrays& d_outputs) {
            ReferenceGradients gradients{{Zeros(static_cast<int64_t>(inputs[0].size()))},
                                         {Zeros(n * k)}};
            if (residual) gradients.inputs.push_back(d_outputs[0]);
            if (bias) gradients.weights.push_back(Zeros(n));
            const int64_t m = RowsOf(inputs[0], k);
            for (int64_t i = 0; i < m * n; ++i) {
              const double d = d_outputs[0][i];
              if (bias) gradients.weights[1][i % n] += d;
              for (int64_t p = 0; p < k; ++p) {
                gradients.inputs[0][i / n * k + p] += d * weights[0][i % n * k + p];
                gradients.weights[0][i % n * k + p] += d * inputs[0][i / n * k + p];
              }
            }
            return gradients;
          }};
}

// `direction` -1 turns back.
inline Array TurnReference(const Rope& op, const Array& qkv, const Array& positions,
                           double direction) {
  Array turned = qkv;
  const auto half = static_cast<int64_t>(op.inverse_frequencies.size());
  const int64_t cols = (op.q_heads + 2 * op.kv_heads) * op.head_dim;
  for (int64_t row = 0; row < RowsOf(qkv, cols); ++row) {
    for (int64_t head = 0; head < op.q_heads + op.kv_heads; ++head) {
      for (int64_t i = 0; i < half; ++i) {
        // The angle is float32 by definition.
        const float angle = static_cast<float>(positions[row]) * op.inverse_frequencies[i];
        const double c = std::cos(static_cast<double>(angle)) * op.scaling;
        const double s = std::sin(static_cast<double>(angle)) * op.scaling * direction;
        const int64_t low = row * cols + head * op.head_dim + i;
        turned[low] = qkv[low] * c - qkv[low + half] * s;
        turned[low + half] = qkv[low + half] * c + qkv[low] * s;
      }
    }
  }
  return turned;
}

inline Reference RopeReference(const Rope& op) {
  return {[=](const Arrays& inputs, const Arrays&) -> Arrays {
            return {TurnReference(op, inputs[0], inputs[1], 1.0)};
          },
          [=](const Arrays& inputs, const Arrays&, const Arrays& d_outputs) {
            return ReferenceGradients{{TurnReference(op, d_outputs[0], inputs[1], -1.0), {}}, {}};
          }};
}

inline Reference SwigluReference(const Swiglu& op) {
  const int64_t n = op.intermediate;
  const auto sigmoid = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
  return {[=](const Arrays& inputs, const Arrays&) -> Arrays {
            Array act(inputs[0].size() / 2);
            for (size_t k = 0; k < act.size(); ++k) {
              const double* row = inputs[0].data() + k / n * 2 * n;
              const double g = row[k % n];
              act[k] = g * sigmoid(g) * row[n + k % n];
            }
            return {act};
          },
          [=](const Arrays& inputs, const Arrays&, const Arrays& d_outputs) {
            Array d(inputs[0].size());
            for (size_t k = 0; k < d_outputs[0].size(); ++k) {
              const size_t gate = k / n * 2 * n + k % n;
              const double g = inputs[0][gate];
              const double u = inputs[0][gate + n];
              const double s = sigmoid(g);
              d[gate] = d_outputs[0][k] * u * (s + g * s * (1.0 - s));
              d[gate + n] = d_outputs[0][k] * g * s;
            }
            return ReferenceGradients{{d}, {}};
          }};
}

inline Reference LmHeadLossReference(const LmHeadLoss& op) {
  const int64_t k = op.hidden;
  const int64_t v = op.vocab_size;
  // Probabilities of one token, and its loss.
  const auto softmax = [=](const double* hidden, const Array& head, int64_t target, Array& p) {
    double max = -INFINITY;
    for (int64_t j = 0; j < v; ++j) {
      p[j] = 0.0;
      for (int64_t i = 0; i < k; ++i) p[j] += hidden[i] * head[j * k + i];
      max = std::max(max, p[j]);
    }
    double sum = 0.0;
    for (int64_t j = 0; j < v; ++j) sum += std::exp(p[j] - max);
    const double loss = std::log(sum) + max - p[target];
    for (int64_t j = 0; j < v; ++j) p[j] = std::exp(p[j] - max) / sum;
    return loss;
  };
  return {[=](const Arrays& inputs, const Arrays& weights) -> Arrays {
            Array loss(inputs[1].size(), 0.0);
            Array p = Zeros(v);
            for (size_t t = 0; t < loss.size(); ++t) {
              const auto target = static_cast<int64_t>(inputs[1][t]);
              if (target < 0) continue;
              loss[t] = inputs[2][t] * softmax(inputs[0].data() + t * k, weights[0], target, p);
            }
            return {loss};
          },
          [=](const Arrays& inputs, const Arrays& weights, const Arrays&) {
            Array d_hidden(inputs[0].size(), 0.0);
            Array d_head(weights[0].size(), 0.0);
            Array p = Zeros(v);
            for (size_t t = 0; t < inputs[1].size(); ++t) {
              const auto target = static_cast<int64_t>(inputs[1][t]);
              if (target < 0) continue;
              softmax(inputs[0].data() + t * k, weights[0], target, p);
              p[target] -= 1.0;
              for (int64_t j = 0; j < v; ++j) {
                const double g = inputs[2][t] * p[j];
                for (int64_t i = 0; i < k; ++i) {
                  d_hidden[t * k + i] += g * weights[0][j * k + i];
                  d_head[j * k + i] += g * inputs[0][t * k + i];
                }
              }
            }
            return ReferenceGradients{{d_hidden, {}, {}}, {d_head}};
          }};
}

}  // namespace lazytrain::testing
