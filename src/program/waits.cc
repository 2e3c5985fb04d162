#include "program/waits.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/units.h"
#include "program/placement.h"

namespace lazytrain {
namespace {

// What happened to a buffer since it was last written.
struct History {
  std::vector<int> writers;  // the last write, with writes to other parts that nobody read between
  std::vector<int> readers;  // since then
};

// Who used each address of a space last.
class AddressOwners {
 public:
  // Returns the earlier owners of [begin, end) and makes `buffer` the owner.
  std::vector<int> Take(int64_t begin, int64_t end, int buffer) {
    std::vector<int> owners;
    auto it = ranges_.upper_bound(begin);
    if (it != ranges_.begin()) --it;
    while (it != ranges_.end() && it->first < end) {
      const auto [from, range] = *it;
      if (range.end <= begin) {
        ++it;
        continue;
      }
      owners.push_back(range.buffer);
      it = ranges_.erase(it);
      if (from < begin) ranges_[from] = {begin, range.buffer};
      if (range.end > end) it = ranges_.insert_or_assign(end, Range{range.end, range.buffer}).first;
    }
    ranges_[begin] = {end, buffer};
    return owners;
  }

 private:
  struct Range {
    int64_t end;
    int buffer;
  };
  std::map<int64_t, Range> ranges_;
};

class WaitBuilder {
 public:
  explicit WaitBuilder(Program& program)
      : program_(program),
        histories_(program.buffers.size()),
        seen_(program.buffers.size(), false),
        owners_(kSpaces),
        clocks_(program.instructions.size()),
        previous_(program.lanes.size(), -1) {}

  void Build() {
    for (size_t i = 0; i < program_.instructions.size(); ++i) BuildOne(static_cast<int>(i));
  }

 private:
  void BuildOne(int i) {
    Instruction& instruction = program_.instructions[i];
    std::vector<int> after;
    for (const int b : instruction.reads) Claim(b, after);
    for (const int b : instruction.writes) Claim(b, after);
    for (const int b : instruction.reads) Append(after, histories_[b].writers);
    for (const int b : instruction.writes) {
      Append(after, histories_[b].writers);
      Append(after, histories_[b].readers);
    }
    SetWaits(i, after);
    for (const int b : instruction.reads) histories_[b].readers.push_back(i);
    for (const int b : instruction.writes) histories_[b] = {{i}, {}};
  }

  // The first use of a buffer comes after every use of what lay there before.
  void Claim(int b, std::vector<int>& after) {
    if (seen_[b] || program_.buffers[b].persistent) return;
    seen_[b] = true;
    const Buffer& buffer = program_.buffers[b];
    for (const int owner :
         owners_[buffer.space].Take(buffer.offset, buffer.offset + buffer.bytes, b)) {
      Append(after, histories_[owner].writers);
      Append(after, histories_[owner].readers);
    }
  }

  static void Append(std::vector<int>& to, const std::vector<int>& from) {
    to.insert(to.end(), from.begin(), from.end());
  }

  void SetWaits(int i, std::vector<int>& after) {
    Instruction& instruction = program_.instructions[i];
    const int before = previous_[instruction.lane];
    std::vector<int> clock =
        before >= 0 ? clocks_[before] : std::vector<int>(program_.lanes.size(), -1);
    if (before >= 0) clock[instruction.lane] = before;
    // The latest first: what it implies need not be waited for as well.
    std::sort(after.begin(), after.end(), std::greater<>());
    for (const int w : after) {
      const int lane = program_.instructions[w].lane;
      if (clock[lane] >= w) continue;
      instruction.waits.push_back(w);
      clock[lane] = w;
      for (size_t l = 0; l < clock.size(); ++l) clock[l] = std::max(clock[l], clocks_[w][l]);
    }
    clocks_[i] = std::move(clock);
    previous_[instruction.lane] = i;
  }

  Program& program_;
  std::vector<History> histories_;
  std::vector<bool> seen_;
  std::vector<AddressOwners> owners_;
  std::vector<std::vector<int>> clocks_;
  std::vector<int> previous_;
};

// For each instruction and lane, the last instruction of that lane that is certainly over when it
// starts (-1: none), given order within lanes and the waits.
using HappensBefore = std::vector<std::vector<int>>;

HappensBefore ComputeHappensBefore(const Program& program) {
  HappensBefore before(program.instructions.size(), std::vector<int>(program.lanes.size(), -1));
  std::vector<int> previous(program.lanes.size(), -1);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    std::vector<int> over = instruction.waits;
    if (previous[instruction.lane] >= 0) over.push_back(previous[instruction.lane]);
    for (const int w : over) {
      if (w >= static_cast<int>(i)) {
        throw InternalError("'{}' waits for a later instruction", instruction.name);
      }
      int& last = before[i][program.instructions[w].lane];
      last = std::max(last, w);
      for (size_t l = 0; l < before[i].size(); ++l) {
        before[i][l] = std::max(before[i][l], before[w][l]);
      }
    }
    previous[instruction.lane] = static_cast<int>(i);
  }
  return before;
}

struct Use {
  int instruction;
  bool writes;
};

// Different buffers in the same memory: one must be over entirely before the other begins, in the
// program's order (or a value would be lost) and in time.
template <typename CheckPair>
void CheckShared(const Buffer& a, const std::vector<Use>& uses_a, const Buffer& b,
                 const std::vector<Use>& uses_b, const CheckPair& check_pair) {
  if (uses_a.empty() || uses_b.empty()) return;
  const bool disjoint = uses_a.back().instruction < uses_b.front().instruction ||
                        uses_b.back().instruction < uses_a.front().instruction;
  if (!disjoint) {
    throw InternalError("buffers '{}' and '{}' share memory while both are in use", a.name, b.name);
  }
  for (Use u : uses_a) {
    for (Use v : uses_b) {
      u.writes = true;
      check_pair(u, v);
    }
  }
}

}  // namespace

void AddWaits(Program& program) { WaitBuilder(program).Build(); }

void CheckOrder(const Program& program) {
  const HappensBefore before = ComputeHappensBefore(program);
  std::vector<std::vector<Use>> uses(program.buffers.size());
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    for (const int b : program.instructions[i].reads)
      uses[b].push_back({static_cast<int>(i), false});
    for (const int b : program.instructions[i].writes)
      uses[b].push_back({static_cast<int>(i), true});
  }
  // For each buffer and lane only the last use matters to who comes after all of them.
  const auto check_pair = [&](const Use& a, const Use& b) {
    if (a.instruction == b.instruction || !(a.writes || b.writes)) return;
    const Use& first = a.instruction < b.instruction ? a : b;
    const Use& second = a.instruction < b.instruction ? b : a;
    const int lane = program.instructions[first.instruction].lane;
    if (before[second.instruction][lane] < first.instruction) {
      throw InternalError("'{}' and '{}' may touch the same memory at once",
                          program.instructions[first.instruction].name,
                          program.instructions[second.instruction].name);
    }
  };
  std::vector<int> by_address(program.buffers.size());
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    by_address[b] = static_cast<int>(b);
    const Buffer& buffer = program.buffers[b];
    if (uses[b].empty()) continue;
    if (buffer.offset < 0 || buffer.offset % kAlignment != 0 ||
        buffer.offset + buffer.bytes > program.peak_bytes[buffer.space]) {
      throw InternalError("buffer '{}' leaves its space", buffer.name);
    }
    for (size_t x = 0; x < uses[b].size(); ++x) {
      for (size_t y = x + 1; y < uses[b].size(); ++y) check_pair(uses[b][x], uses[b][y]);
    }
  }
  std::sort(by_address.begin(), by_address.end(),
            [&](int a, int b) { return program.buffers[a].offset < program.buffers[b].offset; });
  for (size_t x = 0; x < by_address.size(); ++x) {
    const Buffer& a = program.buffers[by_address[x]];
    for (size_t y = x + 1; y < by_address.size(); ++y) {
      const Buffer& b = program.buffers[by_address[y]];
      if (b.offset >= a.offset + a.bytes) break;
      if (a.space != b.space) continue;
      CheckShared(a, uses[by_address[x]], b, uses[by_address[y]], check_pair);
    }
  }
}

}  // namespace lazytrain
