#include "program/placement.h"

#include <algorithm>
#include <numeric>

namespace lazytrain {
namespace {

struct Placed {
  int first, last;
  int64_t begin, end;
};

// The lowest gap of `bytes` between the placed buffers that live at the same time; `placed` in the
// order of addresses.
int64_t LowestFit(const std::vector<Placed>& placed, const Lifetime& life, int64_t bytes) {
  int64_t offset = 0;
  for (const Placed& other : placed) {
    if (other.first > life.last || life.first > other.last) continue;
    if (other.begin - offset >= bytes) break;
    offset = std::max(offset, other.end);
  }
  return offset;
}

// Greedy, largest first (Pisarchyk and Lee 2020, "greedy by size"): close to the lower bound where
// a few large buffers dominate, as in training.
int64_t PlaceSpace(Program& program, int space, const std::vector<Lifetime>& lives, int64_t base) {
  std::vector<int> order;
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (!buffer.persistent && buffer.space == space && lives[b].first >= 0) {
      order.push_back(static_cast<int>(b));
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return program.buffers[a].bytes > program.buffers[b].bytes;
  });
  std::vector<Placed> placed;
  int64_t peak = 0;
  for (const int b : order) {
    Buffer& buffer = program.buffers[b];
    const int64_t offset = LowestFit(placed, lives[b], buffer.bytes);
    buffer.offset = base + offset;
    const auto above =
        std::upper_bound(placed.begin(), placed.end(), offset,
                         [](int64_t value, const Placed& other) { return value < other.begin; });
    placed.insert(above, {lives[b].first, lives[b].last, offset, offset + buffer.bytes});
    peak = std::max(peak, offset + buffer.bytes);
  }
  return base + peak;
}

// The most bytes alive at one position.
int64_t LargestSum(const Program& program, int space, const std::vector<Lifetime>& lives,
                   int64_t base) {
  std::vector<int64_t> change(program.instructions.size() + 1, 0);
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.persistent || buffer.space != space || lives[b].first < 0) continue;
    change[lives[b].first] += buffer.bytes;
    change[lives[b].last + 1] -= buffer.bytes;
  }
  int64_t alive = 0;
  int64_t most = 0;
  for (const int64_t delta : change) most = std::max(most, alive += delta);
  return base + most;
}

void Extend(Lifetime& life, int position) {
  if (life.first < 0) life.first = position;
  life.first = std::min(life.first, position);
  life.last = std::max(life.last, position);
}

}  // namespace

std::vector<Lifetime> Lifetimes(const Program& program) {
  std::vector<Lifetime> lives(program.buffers.size());
  const int end = static_cast<int>(program.instructions.size()) - 1;
  for (int i = 0; i <= end; ++i) {
    for (const int b : program.instructions[i].reads) Extend(lives[b], i);
    for (const int b : program.instructions[i].writes) Extend(lives[b], i);
  }
  for (const auto* outside : {&program.inputs, &program.results}) {
    for (const auto& named : *outside) {
      for (const auto& [name, b] : named) {
        Extend(lives[b], 0);
        Extend(lives[b], end);
      }
    }
  }
  return lives;
}

void PlaceBuffers(Program& program, const PersistentLayout& persistent,
                  const std::vector<int>& held_until) {
  std::vector<Lifetime> lives = Lifetimes(program);
  for (size_t b = 0; b < lives.size(); ++b) {
    if (lives[b].first >= 0) lives[b].last = std::max(lives[b].last, held_until[b]);
  }
  for (int space = 0; space < kSpaces; ++space) {
    program.peak_bytes[space] = PlaceSpace(program, space, lives, persistent.bytes[space]);
  }
  program.device_lower_bound =
      LargestSum(program, kDeviceSpace, lives, persistent.bytes[kDeviceSpace]);
}

}  // namespace lazytrain
