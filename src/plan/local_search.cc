#include "plan/local_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace lazytrain {
namespace {

// Temperatures and prices as shares of the step's time: changes that cost so much are taken at
// first, and at last. The relaxed solution is a good start, so that it is never hot. All of a
// budget too many costs more than all of it can bring.
constexpr double kHot = 0.0001;
constexpr double kCold = 0.00001;
constexpr double kExcess = 1.5;

// How much of a slot's options a relaxed solution takes. Options without columns in common are
// taken by their values; others as if one random number decided about all columns.
std::vector<double> Shares(const std::vector<std::vector<int>>& options,
                           const std::vector<double>& values) {
  std::set<double> steps = {0.0, 1.0};
  bool apart = true;
  std::set<int> seen;
  for (const std::vector<int>& option : options) {
    for (const int column : option) {
      apart = apart && option.size() == 1 && seen.insert(column).second;
      steps.insert(std::clamp(values[column], 0.0, 1.0));
    }
  }
  std::vector<double> shares(options.size(), 0.0);
  if (apart) {
    double rest = 1;
    for (size_t o = 1; o < options.size(); ++o) {
      rest -= shares[o] = std::clamp(values[options[o][0]], 0.0, 1.0);
    }
    shares[0] = rest;
    return shares;
  }
  for (auto step = steps.begin(); std::next(step) != steps.end(); ++step) {
    const double above = *std::next(step);
    size_t best = 0;
    for (size_t o = 0; o < options.size(); ++o) {
      const bool all = std::all_of(options[o].begin(), options[o].end(),
                                   [&](int column) { return values[column] >= above - 1e-9; });
      if (all && options[o].size() >= options[best].size()) best = o;
    }
    shares[best] += above - *step;
  }
  return shares;
}

}  // namespace

LocalSearch::LocalSearch(const ScheduleMip& mip) : mip_(mip), score_(mip) {
  AddGroups();
  AddUnits();
}

void LocalSearch::AddSlot(Slot slot) {
  if (slot.options.size() < 2) return;
  const auto kind = static_cast<size_t>(slot.kind);
  if (kinds_.size() <= kind) kinds_.resize(kind + 1);
  kinds_[kind].slots.push_back(static_cast<int>(slots_.size()));
  slots_.push_back(std::move(slot));
}

void LocalSearch::AddGroups() {
  std::map<std::pair<const SegmentGraph*, size_t>, int> kinds;
  for (size_t s = 0; s < mip_.groups_.size(); ++s) {
    for (size_t g = 0; g < mip_.groups_[s].size(); ++g) {
      const ScheduleMip::GroupChoice& choice = mip_.groups_[s][g];
      Slot slot;
      slot.options.emplace_back();
      for (const int column : {choice.device, choice.host, choice.nvme}) {
        if (column != ScheduleMip::kNone) slot.options.push_back({column});
      }
      const std::pair key{mip_.chain_[s].graph.get(), g};
      slot.kind = kinds.emplace(key, static_cast<int>(kinds.size())).first->second;
      AddSlot(std::move(slot));
    }
  }
}

void LocalSearch::AddUnits() {
  const auto first = static_cast<int>(kinds_.size());
  std::map<std::pair<int64_t, bool>, int> kinds;
  std::set<int> seen;  // columns of units that are planned alike
  for (size_t u = 0; u < mip_.units_.size(); ++u) {
    const ScheduleMip::UnitChoice& choice = mip_.units_[u];
    if (choice.weights == ScheduleMip::kNone || !seen.insert(choice.weights).second) continue;
    const int64_t bytes = mip_.costs_.units[u].weight_bytes;
    const auto kind = [&](bool accumulator) {
      const std::pair key{bytes, accumulator};
      return first + kinds.emplace(key, static_cast<int>(kinds.size())).first->second;
    };
    std::vector<std::vector<int>> updates;
    if (mip_.problem_.space.host_updates || choice.device_update == ScheduleMip::kNone) {
      updates.emplace_back();
    }
    if (choice.device_update != ScheduleMip::kNone) {
      updates.push_back({choice.device_update});
      updates.push_back({choice.device_update, choice.states});
    }
    Slot slot;
    slot.kind = kind(false);
    for (const std::vector<int>& update : updates) {
      slot.options.push_back(update);
      slot.options.push_back(update);
      slot.options.back().push_back(choice.weights);
    }
    AddSlot(std::move(slot));
    if (choice.accumulator == ScheduleMip::kNone) continue;
    AddSlot({{{}, {choice.accumulator}}, kind(true)});
  }
}

// Along the layers what rounding took or gave is carried on, so that sums over layers stay what
// they are: a third of each layer becomes every third layer.
void LocalSearch::Round(const LinearSolution& relaxed) {
  taken_.assign(slots_.size(), 0);
  used_.clear();
  for (Kind& kind : kinds_) {
    std::vector<double> carried;
    std::set<int> taken;
    for (const int s : kind.slots) {
      const std::vector<double> shares = Shares(slots_[s].options, relaxed.values);
      carried.resize(shares.size(), 0.0);
      for (size_t o = 0; o < shares.size(); ++o) carried[o] += shares[o];
      const auto most = std::max_element(carried.begin(), carried.end());
      *most -= 1;
      taken_[s] = static_cast<int>(most - carried.begin());
      for (size_t o = 0; o < shares.size(); ++o) {
        if (shares[o] > 1e-3) taken.insert(static_cast<int>(o));
      }
    }
    kind.used = taken.size() > 1;
    if (kind.used) used_.insert(used_.end(), kind.slots.begin(), kind.slots.end());
  }
  columns_.assign(static_cast<size_t>(mip_.program_.columns()), 0.0);
  for (size_t s = 0; s < slots_.size(); ++s) {
    for (const int column : slots_[s].options[taken_[s]]) columns_[column] = 1;
  }
}

// Mostly where the relaxed solution is of two minds.
LocalSearch::Change LocalSearch::Alter() {
  const bool anywhere = used_.empty() || random_.Below(8) == 0;
  const size_t count = anywhere ? slots_.size() : used_.size();
  const auto at = static_cast<size_t>(random_.Below(count));
  const int slot = anywhere ? static_cast<int>(at) : used_[at];
  const auto options = static_cast<int>(slots_[slot].options.size());
  const int shift = 1 + static_cast<int>(random_.Below(static_cast<uint64_t>(options - 1)));
  return {slot, (taken_[slot] + shift) % options};
}

std::vector<LocalSearch::Change> LocalSearch::Propose() {
  const uint64_t what = random_.Below(10);
  if (what < 3) return {Alter()};
  const Change first = Alter();
  if (what < 6) {
    const Change second = Alter();
    if (second.slot == first.slot) return {first};
    return {first, second};
  }
  // One layer as another, and the other as this one.
  const std::vector<int>& others = kinds_[slots_[first.slot].kind].slots;
  const int other = others[random_.Below(others.size())];
  if (taken_[other] == taken_[first.slot]) return {first};
  return {{first.slot, taken_[other]}, {other, taken_[first.slot]}};
}

void LocalSearch::Apply(const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    const std::vector<std::vector<int>>& options = slots_[change.slot].options;
    for (const int column : options[taken_[change.slot]]) columns_[column] = 0;
    for (const int column : options[change.option]) columns_[column] = 1;
    taken_[change.slot] = change.option;
  }
}

double LocalSearch::Cost() {
  const ScheduleScore::Score score = score_.Of(columns_);
  excess_ = score.excess;
  return score.seconds + excess_price_ * score.excess;
}

std::vector<double> LocalSearch::Run(const LinearSolution& relaxed, int64_t rounds) {
  constexpr double kFits = 1e-9;
  if (slots_.empty()) return {};
  Round(relaxed);
  excess_price_ =
      kExcess * relaxed.objective * ScheduleMip::kGB / mip_.problem_.budget.device_bytes;
  double cost = Cost();
  double best = excess_ < kFits ? cost : kInfinity;
  std::vector<int> best_taken = taken_;
  for (int64_t round = 0; round < rounds; ++round) {
    const double cooled = static_cast<double>(round) / static_cast<double>(rounds);
    const double heat = relaxed.objective * kHot * std::pow(kCold / kHot, cooled);
    const std::vector<Change> changes = Propose();
    std::vector<Change> back;
    back.reserve(changes.size());
    for (const Change& change : changes) back.push_back({change.slot, taken_[change.slot]});
    Apply(changes);
    const double changed = Cost();
    if (changed > cost && random_.Uniform() >= std::exp((cost - changed) / heat)) {
      Apply(back);
      continue;
    }
    cost = changed;
    if (excess_ < kFits && cost < best) {
      best = cost;
      best_taken = taken_;
    }
  }
  if (best == kInfinity) return {};
  std::vector<double> choices(columns_.size(), 0.0);
  for (size_t s = 0; s < slots_.size(); ++s) {
    for (const int column : slots_[s].options[best_taken[s]]) choices[column] = 1;
  }
  return choices;
}

}  // namespace lazytrain
