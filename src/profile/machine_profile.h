// What is known of a machine: who it is, its rates, and the times of ops that were measured on it.
// As a file, it is believed instead of measuring again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "device/device.h"
#include "model/graph.h"
#include "plan/cost_model.h"
#include "profile/machine_rates.h"
#include "profile/op_times.h"

namespace lazytrain {

// Measurements hold for machines that agree in all of it.
struct MachineDescription {
  std::string device;     // "NVIDIA H200"
  std::string driver;     // its version; empty: there is none
  std::string libraries;  // KernelTable::libraries
  int64_t cores = 0;      // that this process may use
  std::string host;       // "AMD EPYC, 26 GB"

  static MachineDescription Of(const Device& device);
  // What names its file among others: a digest.
  std::string Hex() const;
  bool operator==(const MachineDescription&) const = default;
};

struct MachineProfile {
  // Of the file; other versions are not read.
  static constexpr int64_t kVersion = 2;

  MachineDescription machine;
  MachineRates rates;
  std::vector<OpTime> ops;

  // The measurement of an op for the sizes most like `rows`; null: there is none.
  const OpTime* Find(std::string_view signature, Direction direction, const RowCounts& rows) const;
  // Adds measurements, each in place of one of the same op and sizes.
  void Add(const std::vector<OpTime>& times);

  // Rates, and the times of the model's ops as far as they are known, for sizes most like these.
  CostModel Costs(const ModelGraph& model, const std::vector<RowCounts>& sizes) const;

  Json ToJson() const;
  // Throws Error "<place>: ..." for what is no profile, or one of another version.
  static MachineProfile FromJson(const Json& json, std::string_view place);
};

// Whether a measurement was made with these sizes.
bool SameSizes(const OpTime& time, const RowCounts& rows);

}  // namespace lazytrain
