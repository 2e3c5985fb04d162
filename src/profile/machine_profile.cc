#include "profile/machine_profile.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/hash.h"
#include "core/thread_pool.h"
#include "ops/kernel.h"

namespace lazytrain {
namespace {

// The processor's name and the memory there is.
std::string DescribeHost() {
  std::string processor = "unknown processor";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (!line.starts_with("model name") || colon == std::string::npos) continue;
    processor = line.substr(colon + 2);
    break;
  }
  const double bytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return fmt::format("{}, {:.0f} GB", processor, bytes / 1e9);
}

// How far apart two numbers of tokens are.
double Distance(int64_t a, int64_t b) {
  const auto log = [](int64_t x) { return std::log(static_cast<double>(std::max<int64_t>(x, 1))); };
  return std::abs(log(a) - log(b));
}

// The rates by their keys in the file and the unit there.
struct RateField {
  const char* key;
  double MachineRates::*rate;
  double unit;
};
constexpr RateField kRates[] = {
    {"h2d_gbps", &MachineRates::h2d, 1e9},
    {"d2h_gbps", &MachineRates::d2h, 1e9},
    {"h2d_gbps_both_ways", &MachineRates::h2d_both, 1e9},
    {"d2h_gbps_both_ways", &MachineRates::d2h_both, 1e9},
    {"host_gbps", &MachineRates::host, 1e9},
    {"host_gbps_beside_links", &MachineRates::host_beside_links, 1e9},
    {"host_shared_gbps", &MachineRates::host_shared, 1e9},
    {"host_update_parameters_per_second", &MachineRates::host_update, 1},
    {"host_update_beside_links_parameters_per_second", &MachineRates::host_update_beside_links, 1},
    {"device_copy_gbps", &MachineRates::device_copy, 1e9},
    {"device_update_parameters_per_second", &MachineRates::device_update, 1},
    {"gemm_tflops", &MachineRates::gemm_flops, 1e12},
    {"nvme_write_gbps", &MachineRates::nvme_write, 1e9},
    {"nvme_read_gbps", &MachineRates::nvme_read, 1e9},
};

const char* ToText(Direction direction) {
  return direction == Direction::kForward ? "forward" : "backward";
}

Json OpToJson(const OpTime& time) {
  return {{"op", time.signature},
          {"direction", ToText(time.direction)},
          {"tokens", time.rows.tokens},
          {"documents", time.rows.documents},
          {"longest_document", time.rows.longest_document},
          {"squared_lengths", time.rows.squared_lengths},
          {"seconds", time.seconds}};
}

OpTime OpFromJson(const Json& json, std::string_view place) {
  OpTime time;
  time.signature = json.at("op").get<std::string>();
  const auto direction = json.at("direction").get<std::string>();
  if (direction != "forward" && direction != "backward") {
    throw UsageError("{}: direction '{}' of an op; use forward or backward", place, direction);
  }
  time.direction = direction == "forward" ? Direction::kForward : Direction::kBackward;
  time.rows.tokens = json.at("tokens").get<int64_t>();
  time.rows.documents = json.at("documents").get<int64_t>();
  time.rows.longest_document = json.at("longest_document").get<int64_t>();
  time.rows.squared_lengths = json.at("squared_lengths").get<double>();
  time.seconds = json.at("seconds").get<double>();
  if (time.rows.tokens < 1 || !(time.seconds > 0)) {
    throw UsageError("{}: {} tokens of op {} in {} seconds; both have to be above 0", place,
                     time.rows.tokens, time.signature, time.seconds);
  }
  return time;
}

MachineDescription MachineFromJson(const Json& json) {
  return {json.at("device").get<std::string>(), json.at("driver").get<std::string>(),
          json.at("libraries").get<std::string>(), json.at("cores").get<int64_t>(),
          json.at("host").get<std::string>()};
}

void ReadRates(const Json& json, std::string_view place, MachineRates& rates) {
  for (const RateField& field : kRates) {
    if (!json.contains(field.key)) continue;
    const double value = json.at(field.key).get<double>();
    if (!(value > 0 && std::isfinite(value))) {
      throw UsageError("{}: rates.{} is {}; it has to be above 0, or left out", place, field.key,
                       value);
    }
    rates.*field.rate = value * field.unit;
  }
}

}  // namespace

MachineDescription MachineDescription::Of(const Device& device) {
  return {device.description(), device.driver(), KernelsFor(device).libraries(), AvailableCores(),
          DescribeHost()};
}

std::string MachineDescription::Hex() const {
  Digest digest;
  digest.Add(fmt::format("{}\n{}\n{}\n{}\n{}", device, driver, libraries, cores, host));
  return digest.Hex().substr(0, 16);
}

bool SameSizes(const OpTime& time, const RowCounts& rows) {
  return time.rows.tokens == rows.tokens && time.rows.documents == rows.documents &&
         time.rows.longest_document == rows.longest_document;
}

const OpTime* MachineProfile::Find(std::string_view signature, Direction direction,
                                   const RowCounts& rows) const {
  const OpTime* best = nullptr;
  const auto distance = [&](const OpTime& time) {
    return Distance(time.rows.longest_document, rows.longest_document) +
           Distance(time.rows.tokens, rows.tokens);
  };
  for (const OpTime& time : ops) {
    if (time.signature != signature || time.direction != direction) continue;
    if (best == nullptr || distance(time) < distance(*best)) best = &time;
  }
  return best;
}

void MachineProfile::Add(const std::vector<OpTime>& times) {
  for (const OpTime& time : times) {
    std::erase_if(ops, [&](const OpTime& old) {
      return old.signature == time.signature && old.direction == time.direction &&
             SameSizes(old, time.rows);
    });
    ops.push_back(time);
  }
}

CostModel MachineProfile::Costs(const ModelGraph& model,
                                const std::vector<RowCounts>& sizes) const {
  std::vector<std::pair<const Op*, const OpTime*>> known;
  std::vector<OpTime> times;
  std::set<std::string> seen;
  for (const Segment& segment : model.loss) {
    for (const OpNode& node : segment.graph->nodes) {
      const std::string signature = node.op->Signature();
      if (!seen.insert(signature).second) continue;
      for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
        for (const RowCounts& rows : sizes) {
          const OpTime* time = Find(signature, direction, rows);
          if (time == nullptr) continue;
          known.emplace_back(node.op.get(), time);
          times.push_back(*time);
        }
      }
    }
  }
  // What was measured scales by estimates, so these begin with what this model's products reach.
  CostModel cost(rates.ForPlanning());
  if (const double rate = GemmRate(model, times); rate > 0) cost.rates().gemm_flops = rate;
  for (const auto& [op, time] : known) {
    cost.SetMeasured(*op, time->direction, time->rows, time->seconds);
  }
  return cost;
}

Json MachineProfile::ToJson() const {
  Json json = {{"version", kVersion},
               {"machine",
                {{"device", machine.device},
                 {"driver", machine.driver},
                 {"libraries", machine.libraries},
                 {"cores", machine.cores},
                 {"host", machine.host}}},
               {"rates", Json::object()},
               {"ops", Json::array()}};
  for (const RateField& field : kRates) {
    if (rates.*field.rate > 0) json["rates"][field.key] = rates.*field.rate / field.unit;
  }
  for (const OpTime& time : ops) json["ops"].push_back(OpToJson(time));
  return json;
}

MachineProfile MachineProfile::FromJson(const Json& json, std::string_view place) {
  try {
    MachineProfile profile;
    if (const auto version = json.at("version").get<int64_t>(); version != kVersion) {
      throw UsageError(
          "{}: a profile of version {}, and this program reads version {}; make it "
          "again with lazytrain profile",
          place, version, kVersion);
    }
    profile.machine = MachineFromJson(json.at("machine"));
    ReadRates(json.at("rates"), place, profile.rates);
    for (const Json& op : json.at("ops")) profile.ops.push_back(OpFromJson(op, place));
    return profile;
  } catch (const Json::exception& error) {
    throw UsageError("{}: not a machine's profile ({}); make one with lazytrain profile", place,
                     error.what());
  }
}

}  // namespace lazytrain
