// Attention in double precision, pair by pair.
#pragma once

#include "ops/attention.h"
#include "tests/ops/harness.h"

namespace lazytrain::testing {

class AttentionReference {
 public:
  AttentionReference(const Attention& op, std::vector<int32_t> cu_seqlens)
      : op_(op),
        cu_seqlens_(std::move(cu_seqlens)),
        d_(op.head_dim),
        cols_((op.q_heads + 2 * op.kv_heads) * op.head_dim) {}

  Arrays Forward(const Arrays& inputs) const {
    const std::vector<double>& qkv = inputs[0];
    Arrays outputs = {std::vector<double>(tokens() * op_.q_heads * d_, 0.0),
                      std::vector<double>(tokens() * op_.q_heads, 0.0)};
    ForRows(qkv, [&](int64_t t, int64_t head, int64_t first, const std::vector<double>& p,
                     double lse) {
      outputs[1][t * op_.q_heads + head] = lse;
      for (int64_t s = first; s <= t; ++s) {
        for (int64_t i = 0; i < d_; ++i) {
          outputs[0][(t * op_.q_heads + head) * d_ + i] += p[s - first] * qkv[Value(s, head) + i];
        }
      }
    });
    return outputs;
  }

  ReferenceGradients Backward(const Arrays& inputs, const Arrays& d_outputs) const {
    const std::vector<double>& qkv = inputs[0];
    std::vector<double> d_qkv(qkv.size(), 0.0);
    ForRows(qkv, [&](int64_t t, int64_t head, int64_t first, const std::vector<double>& p, double) {
      const double* d_attn = d_outputs[0].data() + (t * op_.q_heads + head) * d_;
      std::vector<double> d_p(p.size(), 0.0);
      const double mean = DotWithStoredOutput(qkv, p, d_attn, head, first);
      for (int64_t s = first; s <= t; ++s) {
        for (int64_t i = 0; i < d_; ++i) {
          d_p[s - first] += d_attn[i] * qkv[Value(s, head) + i];
          d_qkv[Value(s, head) + i] += p[s - first] * d_attn[i];
        }
      }
      for (int64_t s = first; s <= t; ++s) {
        const double d_score = p[s - first] * (d_p[s - first] - mean) * op_.scale;
        for (int64_t i = 0; i < d_; ++i) {
          d_qkv[Query(t, head) + i] += d_score * qkv[Key(s, head) + i];
          d_qkv[Key(s, head) + i] += d_score * qkv[Query(t, head) + i];
        }
      }
    });
    return {{d_qkv}, {}};
  }

 private:
  // d_attn times attn as the backward finds it: rounded to the op's dtype.
  double DotWithStoredOutput(const std::vector<double>& qkv, const std::vector<double>& p,
                             const double* d_attn, int64_t head, int64_t first) const {
    double dot = 0.0;
    for (int64_t i = 0; i < d_; ++i) {
      double attn = 0.0;
      for (size_t k = 0; k < p.size(); ++k) {
        attn += p[k] * qkv[Value(first + static_cast<int64_t>(k), head) + i];
      }
      if (op_.dtype == DType::kBF16) attn = ToFloat(ToBFloat16(static_cast<float>(attn)));
      dot += d_attn[i] * attn;
    }
    return dot;
  }

  int64_t tokens() const { return cu_seqlens_.back(); }
  int64_t Query(int64_t t, int64_t head) const { return t * cols_ + head * d_; }
  int64_t Key(int64_t t, int64_t head) const {
    return t * cols_ + (op_.q_heads + head / (op_.q_heads / op_.kv_heads)) * d_;
  }
  int64_t Value(int64_t t, int64_t head) const { return Key(t, head) + op_.kv_heads * d_; }

  // Calls body(t, head, first visible token, probabilities from there to t, log-sum-exp).
  template <typename Body>
  void ForRows(const std::vector<double>& qkv, const Body& body) const {
    for (size_t document = 0; document + 1 < cu_seqlens_.size(); ++document) {
      for (int64_t t = cu_seqlens_[document]; t < cu_seqlens_[document + 1]; ++t) {
        int64_t first = cu_seqlens_[document];
        if (op_.window > 0) first = std::max(first, t - op_.window + 1);
        for (int64_t head = 0; head < op_.q_heads; ++head) {
          std::vector<double> p(static_cast<size_t>(t - first + 1), 0.0);
          for (int64_t s = first; s <= t; ++s) {
            for (int64_t i = 0; i < d_; ++i) {
              p[s - first] += qkv[Query(t, head) + i] * qkv[Key(s, head) + i] * op_.scale;
            }
            if (!op_.slopes.empty()) p[s - first] += double{op_.slopes[head]} * (s - t);
          }
          const double max = *std::max_element(p.begin(), p.end());
          double sum = 0.0;
          for (double& score : p) sum += score = std::exp(score - max);
          for (double& score : p) score /= sum;
          body(t, head, first, p, max + std::log(sum));
        }
      }
    }
  }

  Attention op_;
  std::vector<int32_t> cu_seqlens_;
  int64_t d_;
  int64_t cols_;
};

}  // namespace lazytrain::testing
