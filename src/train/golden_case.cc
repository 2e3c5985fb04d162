#include "train/golden_case.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>

#include "core/error.h"
#include "core/json.h"

namespace lazytrain {
namespace {

template <typename To, typename From>
std::vector<To> ReadVector(const SafetensorsFile& file, const std::string& name, DType dtype) {
  const StoredTensor& tensor = file.Find(name);
  if (tensor.dtype != dtype) {
    throw RunError("{}: {}: its dtype is {}, not {}", file.path().string(), name,
                   Name(tensor.dtype), Name(dtype));
  }
  std::vector<From> values(static_cast<size_t>(NumElements(tensor.shape)));
  std::memcpy(values.data(), tensor.data, static_cast<size_t>(tensor.bytes));
  return {values.begin(), values.end()};
}

}  // namespace

GoldenCase::GoldenCase(const Path& case_folder)
    : folder(case_folder),
      config(HubConfig::FromFolder(case_folder)),
      checkpoint(case_folder),
      gradients(case_folder / "grads.safetensors") {
  const SafetensorsFile io(folder / "io.safetensors");
  input_ids = ReadVector<int32_t, int64_t>(io, "input_ids", DType::kI64);
  labels = ReadVector<int32_t, int64_t>(io, "labels", DType::kI64);
  cu_seqlens = ReadVector<int64_t, int64_t>(io, "cu_seqlens", DType::kI64);
  logits = ReadVector<float, float>(io, "logits", DType::kF32);
  const bool borders = cu_seqlens.size() >= 2 && cu_seqlens.front() == 0 &&
                       cu_seqlens.back() == static_cast<int64_t>(input_ids.size()) &&
                       std::is_sorted(cu_seqlens.begin(), cu_seqlens.end(), std::less_equal<>());
  const auto vocab = static_cast<size_t>(config.PositiveInt("vocab_size"));
  if (!borders || labels.size() != input_ids.size() || logits.size() != input_ids.size() * vocab) {
    throw RunError("{}: input_ids, labels, cu_seqlens and logits do not fit together",
                   io.path().string());
  }
  const Path path = folder / "expected.json";
  const Json expected = ReadJsonFile(path);
  try {
    loss = expected.at("loss").get<double>();
    const Json& adamw = expected.at("adamw");
    learning_rate = adamw.at("lr").get<double>();
    beta1 = adamw.at("betas").at(0).get<double>();
    beta2 = adamw.at("betas").at(1).get<double>();
    eps = adamw.at("eps").get<double>();
    weight_decay = adamw.at("weight_decay_on_matrices").get<double>();
    max_grad_norm = adamw.at("max_grad_norm").get<double>();
    losses = adamw.at("losses").get<std::vector<double>>();
    grad_norms = adamw.at("grad_norms").get<std::vector<double>>();
  } catch (const Json::exception& error) {
    throw RunError("{}: {}", path.string(), error.what());
  }
  if (losses.empty() || losses.size() != grad_norms.size()) {
    throw RunError("{}: adamw: losses has {} numbers and grad_norms {}; both need one a step",
                   path.string(), losses.size(), grad_norms.size());
  }
}

}  // namespace lazytrain
