// How an estimate reads, on the terminal and as JSON.
#include <fmt/format.h>

#include "core/units.h"
#include "train/estimate.h"

namespace lazytrain {
namespace {

std::string Bytes(double bytes) { return FormatBytes(static_cast<int64_t>(bytes)); }

std::string BatchTable(const std::vector<BatchBound>& batches) {
  if (batches.empty()) return "";
  std::string text =
      fmt::format("\n{:>8} {:>12} {:>14}\n", "batch", "step, best", "tokens/s, most");
  for (const BatchBound& bound : batches) {
    text += fmt::format("{:>8} {:>12} {:>14.0f}{}\n", bound.batch, FormatSeconds(bound.seconds),
                        bound.tokens_per_second, bound.one_pass ? "" : "  more than one pass");
  }
  return text;
}

std::string StepText(const Estimate& estimate) {
  const EstimatedStep& step = *estimate.step;
  std::string text = fmt::format(
      "batch {} of {} tokens: a step of {} predicted, {:.0f} tokens/s; {} pass{} of {} "
      "micro-batches of {} tokens\n",
      step.batch, estimate.sequence, FormatSeconds(step.seconds), step.tokens_per_second,
      step.passes, step.passes == 1 ? "" : "es", step.micro_batches, step.micro_batch_tokens);
  if (step.bound_seconds > 0) {
    text += fmt::format("no schedule is faster than {}\n", FormatSeconds(step.bound_seconds));
  }
  text += fmt::format(
      "device memory {} of {}, host memory {} of {} ({} weights and states, {} activations)\n",
      Bytes(static_cast<double>(step.device_bytes) + estimate.driver_bytes),
      Bytes(estimate.device_cap),
      Bytes(static_cast<double>(estimate.store_bytes + step.activation_bytes)),
      Bytes(estimate.host_budget), FormatBytes(estimate.store_bytes),
      FormatBytes(step.activation_bytes));
  return text;
}

std::string LargestText(const char* how, const LargestBatch& largest) {
  if (!largest.bounded && largest.batch == largest.at_most) {
    return fmt::format("{}: memory does not limit the batch (looked at up to {})\n", how,
                       largest.batch);
  }
  if (largest.at_most == 0) return fmt::format("{}: nothing fits\n", how);
  std::string text = fmt::format("{}: {} examples can be planned, more than {} do not fit", how,
                                 largest.batch, largest.at_most);
  for (size_t i = 0; i < largest.blocked_by.size(); ++i) {
    const auto& [resource, bytes] = largest.blocked_by[i];
    text += fmt::format("{}{} more {}", i == 0 ? "; for twice as many: " : " or ",
                        FormatBytes(bytes), resource);
  }
  if (largest.bounded && largest.blocked_by.empty())
    text += "; device and host memory both block more";
  return text + "\n";
}

Json ToJson(const LargestBatch& largest) {
  Json json = {{"batch", largest.batch},
               {"at_most", largest.at_most},
               {"limited_by_memory", largest.bounded},
               {"bytes_for_twice_as_many", Json::object()}};
  for (const auto& [resource, bytes] : largest.blocked_by) {
    json["bytes_for_twice_as_many"][resource] = bytes;
  }
  return json;
}

}  // namespace

std::string EstimateText(const Estimate& estimate) {
  std::string text =
      fmt::format("{}: {:.2f} B parameters in {} of device memory and {} of host memory\n",
                  estimate.model, static_cast<double>(estimate.parameters) / 1e9,
                  Bytes(estimate.device_cap), Bytes(estimate.host_budget));
  if (estimate.driver_bytes > 0) {
    text += fmt::format("of the device's {} are the driver's\n", Bytes(estimate.driver_bytes));
  }
  text += fmt::format(
      "weights, gradients and optimizer states: {} of host memory; {} are left for "
      "activations\n",
      FormatBytes(estimate.store_bytes), FormatBytes(estimate.host_activation_bytes));
  for (const std::string& assumption : estimate.assumptions) {
    text += fmt::format("assumed: {}\n", assumption);
  }
  text += BatchTable(estimate.batches);
  text += "\n";
  if (estimate.step) {
    text += "fits: yes\n" + StepText(estimate);
  } else {
    text += fmt::format("fits: no; {}\n", estimate.shortage);
    for (const std::string& change : estimate.changes) text += "would do: " + change + "\n";
  }
  if (estimate.one_pass) text += LargestText("in one pass", *estimate.one_pass);
  const bool same = estimate.one_pass && !estimate.one_pass->bounded;
  if (estimate.more_passes && !same) {
    text += LargestText("in more passes", *estimate.more_passes);
  }
  return text;
}

Json EstimateToJson(const Estimate& estimate) {
  Json json = {{"model", estimate.model},
               {"parameters", estimate.parameters},
               {"sequence", estimate.sequence},
               {"fits", estimate.step.has_value()},
               {"device_bytes_budget", estimate.device_cap},
               {"driver_bytes", estimate.driver_bytes},
               {"host_bytes_budget", estimate.host_budget},
               {"store_bytes", estimate.store_bytes},
               {"host_activation_bytes_budget", estimate.host_activation_bytes},
               {"assumptions", estimate.assumptions}};
  if (estimate.step) {
    const EstimatedStep& step = *estimate.step;
    json["step"] = {{"batch", step.batch},
                    {"step_seconds", step.seconds},
                    {"bound_seconds", step.bound_seconds},
                    {"tokens_per_second", step.tokens_per_second},
                    {"passes", step.passes},
                    {"micro_batches", step.micro_batches},
                    {"micro_batch_tokens", step.micro_batch_tokens},
                    {"device_bytes", step.device_bytes},
                    {"activation_bytes", step.activation_bytes}};
  } else {
    json["shortage"] = estimate.shortage;
    json["changes"] = estimate.changes;
  }
  if (estimate.one_pass) json["largest_batch_in_one_pass"] = ToJson(*estimate.one_pass);
  if (estimate.more_passes) json["largest_batch_in_more_passes"] = ToJson(*estimate.more_passes);
  for (const BatchBound& bound : estimate.batches) {
    json["batches"].push_back({{"batch", bound.batch},
                               {"one_pass", bound.one_pass},
                               {"bound_seconds", bound.seconds},
                               {"tokens_per_second_at_most", bound.tokens_per_second}});
  }
  return json;
}

}  // namespace lazytrain
