#include "engine/live_ranges.h"

#include <algorithm>
#include <utility>

namespace lazytrain {
namespace {

// Every buffer that an instruction touches, once.
template <typename Visit>
void ForBuffers(const Instruction& instruction, const Visit& visit) {
  for (const int b : instruction.reads) {
    if (std::count(instruction.writes.begin(), instruction.writes.end(), b) == 0) visit(b);
  }
  for (const int b : instruction.writes) visit(b);
}

}  // namespace

LiveRanges::LiveRanges(const Program& program, const RunMemory& memory)
    : program_(program),
      memory_(memory),
      first_use_(program.buffers.size(), -1),
      uses_left_(program.buffers.size()),
      outside_(program.buffers.size(), false) {
  int64_t persistent[kSpaces] = {};
  for (const Buffer& buffer : program.buffers) {
    if (!buffer.persistent) continue;
    int64_t& end = persistent[buffer.space];
    end = std::max(end, buffer.offset + buffer.bytes);
  }
  for (int space = 0; space < kSpaces; ++space) {
    memory.block(space).Release(persistent[space], memory.bytes(space) - persistent[space]);
  }
  for (const auto* named : {&program.inputs, &program.results}) {
    for (const auto& buffers : *named) {
      for (const auto& [name, b] : buffers) outside_[b] = true;
    }
  }
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (outside_[b]) BlockOf(buffer).Claim(buffer.offset, buffer.bytes);
  }
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    ForBuffers(program.instructions[i], [&](int b) {
      if (program.buffers[b].persistent || outside_[b]) return;
      if (first_use_[b] < 0) first_use_[b] = static_cast<int>(i);
      ++uses_left_[b];
    });
  }
}

void LiveRanges::Begin(int instruction) {
  ForBuffers(program_.instructions[instruction], [&](int b) {
    const Buffer& buffer = program_.buffers[b];
    if (first_use_[b] == instruction) BlockOf(buffer).Claim(buffer.offset, buffer.bytes);
  });
}

void LiveRanges::End(int instruction) {
  ForBuffers(program_.instructions[instruction], [&](int b) {
    const Buffer& buffer = program_.buffers[b];
    if (first_use_[b] < 0 || --uses_left_[b] > 0) return;
    BlockOf(buffer).Release(buffer.offset, buffer.bytes);
  });
}

void LiveRanges::CheckUnused() const {
  std::vector<std::pair<int64_t, int64_t>> used[kSpaces];
  for (size_t b = 0; b < program_.buffers.size(); ++b) {
    const Buffer& buffer = program_.buffers[b];
    if (!buffer.persistent && !outside_[b]) continue;
    used[buffer.space].emplace_back(buffer.offset, buffer.offset + buffer.bytes);
  }
  for (int space = 0; space < kSpaces; ++space) {
    MemoryBlock& block = memory_.block(space);
    used[space].emplace_back(block.bytes(), block.bytes());
    std::sort(used[space].begin(), used[space].end());
    int64_t end = 0;
    for (const auto& [begin, next_end] : used[space]) {
      if (begin > end) {
        block.Claim(end, begin - end);
        block.Release(end, begin - end);
      }
      end = std::max(end, next_end);
    }
  }
}

}  // namespace lazytrain
