#include "train/profile_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "core/error.h"
#include "core/units.h"
#include "ops/kernel.h"
#include "plan/capacity.h"
#include "profile/nvme.h"
#include "profile/profile_cache.h"
#include "train/device_choice.h"
#include "train/model_folder.h"
#include "train/trained_graph.h"

namespace lazytrain {
namespace {

// A layer whose products are as large as a usual model's, or as a slow device can do at once.
Json UsualModel(bool slow) {
  const int64_t hidden = slow ? 512 : 4096;
  return {{"model_type", "llama"},
          {"vocab_size", 8 * hidden},
          {"hidden_size", hidden},
          {"intermediate_size", 3 * hidden},
          {"num_hidden_layers", 8},
          {"num_attention_heads", hidden / 128},
          {"max_position_embeddings", 1 << 20},
          {"tie_word_embeddings", false}};
}

void Check(const ProfileOptions& options) {
  if (options.tokens < 16 || options.tokens > 1 << 20) {
    throw UsageError("--tokens: is {}; it has to be from 16 to 1048576", options.tokens);
  }
  if (options.sequence < 2 || options.sequence > options.tokens) {
    throw UsageError("--seq: is {}; it has to be from 2 to --tokens ({})", options.sequence,
                     options.tokens);
  }
  if (!(options.device_memory_gb >= 0 && options.device_memory_gb <= 1e6)) {
    throw UsageError("--device-memory-gb: is {}; it has to be from 0 to 1000000",
                     options.device_memory_gb);
  }
  if (!(options.nvme_gb > 0 && options.nvme_gb <= 1e6)) {
    throw UsageError("--nvme-gb: is {}; it has to be above 0, at most 1000000", options.nvme_gb);
  }
}

ModelGraph GraphOf(const ProfileOptions& options, bool slow) {
  const DType dtype = DTypeFromName(options.dtype, "--dtype");
  if (dtype != DType::kF32 && dtype != DType::kBF16) {
    throw UsageError("--dtype is {}; use float32 or bfloat16", options.dtype);
  }
  const HubConfig config = options.model.empty()
                               ? HubConfig(UsualModel(slow), "usual model")
                               : HubConfig::FromFolder(FindModelFolder(options.model, "--model"));
  return BuildTrainedGraph(config, dtype);
}

RowCounts MicroBatch(const ProfileOptions& options) {
  Capacity capacity;
  capacity.micro_batch_tokens = options.tokens;
  capacity.longest_document = options.sequence;
  capacity.documents = CeilDiv(options.tokens, options.sequence);
  return capacity.MicroBatchRows();
}

void PrintRate(const char* what, double rate, double unit, const char* name,
               const std::string& beside = "") {
  if (rate <= 0) return;
  fmt::print("{:<22} {:>10.2f} {}{}\n", what, rate / unit, name, beside);
}

void PrintRates(const MachineProfile& profile) {
  const MachineDescription& machine = profile.machine;
  fmt::print("{}{}, {}; {} cores of {}\n", machine.device,
             machine.driver.empty() ? "" : ", " + machine.driver, machine.libraries, machine.cores,
             machine.host);
  const MachineRates& rates = profile.rates;
  const auto gb = [](double rate, const char* when) {
    return fmt::format("  ({:.2f} {})", rate / 1e9, when);
  };
  PrintRate("host to device", rates.h2d, 1e9, "GB/s", gb(rates.h2d_both, "both ways at once"));
  PrintRate("device to host", rates.d2h, 1e9, "GB/s", gb(rates.d2h_both, "both ways at once"));
  PrintRate("host memory", rates.host, 1e9, "GB/s",
            gb(rates.host_beside_links, "beside both links"));
  PrintRate("host updates", rates.host_update, 1e9, "G parameters/s",
            gb(rates.host_update_beside_links, "beside both links"));
  PrintRate("  all at once", rates.host_shared, 1e9, "GB/s of host memory");
  PrintRate("device memory", rates.device_copy, 1e9, "GB/s");
  PrintRate("device updates", rates.device_update, 1e9, "G parameters/s");
  PrintRate("matrix products", rates.gemm_flops, 1e12, "TFLOP/s");
  PrintRate("NVMe write", rates.nvme_write, 1e9, "GB/s");
  PrintRate("NVMe read", rates.nvme_read, 1e9, "GB/s");
}

void PrintOps(const ModelGraph& model, const MachineProfile& profile) {
  if (profile.ops.empty()) return;
  fmt::print("\n{} tokens in documents of {}\n", profile.ops[0].rows.tokens,
             profile.ops[0].rows.longest_document);
  fmt::print("{:<22} {:<9} {:>10} {:>10} {:>10}\n", "op", "", "time", "TFLOP/s", "GB/s");
  std::set<std::string> seen;
  for (const Segment& segment : model.loss) {
    for (const OpNode& node : segment.graph->nodes) {
      if (!seen.insert(node.op->Signature()).second) continue;
      for (const OpTime& time : profile.ops) {
        if (time.signature != node.op->Signature()) continue;
        const OpCost cost = node.op->Cost(time.direction, time.rows);
        const bool forward = time.direction == Direction::kForward;
        fmt::print("{:<22} {:<9} {:>10} {:>10.3f} {:>10.1f}\n", node.name,
                   forward ? "forward" : "backward", FormatSeconds(time.seconds),
                   cost.flops / time.seconds / 1e12, cost.bytes / time.seconds / 1e9);
      }
    }
  }
}

// What the cache knows of other models stays.
void Keep(const MachineProfile& profile) {
  const Path path = CachedProfilePath(profile.machine);
  MachineProfile kept = profile;
  if (const auto cached = ReadCachedProfile(path, profile.machine)) {
    kept.ops = cached->ops;
    kept.Add(profile.ops);
    if (profile.rates.nvme_read == 0) {
      kept.rates.nvme_read = cached->rates.nvme_read;
      kept.rates.nvme_write = cached->rates.nvme_write;
    }
  }
  if (WriteCachedProfile(path, kept)) fmt::print("\nkept in {}\n", path.string());
}

}  // namespace

MachineProfile RunProfile(const ProfileOptions& options) {
  Check(options);
  const std::unique_ptr<Device> device = OpenDevice(options.device, false);
  const bool slow = device->backend() == "cpu";
  const ModelGraph model = GraphOf(options, slow);
  const double gb = options.device_memory_gb > 0 ? options.device_memory_gb : (slow ? 2 : 16);
  const int64_t room = BytesFromGB(gb) - device->UsedBytes();
  const RowCounts rows = RowsToMeasure(*device, model, MicroBatch(options), room);
  if (rows.tokens == 0) {
    throw UsageError("--device-memory-gb: {} GB are too little for this model's operands; raise it",
                     gb);
  }
  // The disk first: whether its folder can be used is known at once.
  NvmeRates nvme;
  if (!options.nvme_dir.empty()) {
    nvme = MeasureNvme(options.nvme_dir, BytesFromGB(options.nvme_gb));
  }
  MachineProfile profile;
  profile.machine = MachineDescription::Of(*device);
  profile.rates = MeasureRates(*device, room);
  profile.rates.nvme_write = nvme.write;
  profile.rates.nvme_read = nvme.read;
  std::vector<OpTime> times = MeasureOps(*device, model, rows, OpTimingFor(*device));
  profile.rates.gemm_flops = GemmRate(model, times);
  if (!options.model.empty()) profile.ops = std::move(times);
  PrintRates(profile);
  PrintOps(model, profile);
  Keep(profile);
  return profile;
}

}  // namespace lazytrain
