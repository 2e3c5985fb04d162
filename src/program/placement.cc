#include "program/placement.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace lazytrain {
namespace {

// What has to be placed in a space.
std::vector<int> BuffersIn(const Program& program, int space, const std::vector<Lifetime>& lives) {
  std::vector<int> buffers;
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (!buffer.persistent && buffer.space == space && lives[b].first >= 0) {
      buffers.push_back(static_cast<int>(b));
    }
  }
  return buffers;
}

// The most bytes alive at one position.
int64_t LargestSum(const Program& program, int space, const std::vector<Lifetime>& lives,
                   int64_t base) {
  std::vector<int64_t> change(program.instructions.size() + 1, 0);
  for (const int b : BuffersIn(program, space, lives)) {
    change[lives[b].first] += program.buffers[b].bytes;
    change[lives[b].last + 1] -= program.buffers[b].bytes;
  }
  int64_t alive = 0;
  int64_t most = 0;
  for (const int64_t delta : change) most = std::max(most, alive += delta);
  return base + most;
}

struct Placed {
  int buffer;
  int first, last;
  int64_t begin, end;
};

// The placed buffers in the order of their addresses, apart for every stretch of the program: most
// lives end in the stretch that they begin in, however long the program.
class PlacedBuffers {
 public:
  PlacedBuffers(int64_t positions, int64_t stretch)
      : stretch_(stretch), stretches_(static_cast<size_t>(positions / stretch + 1)) {}

  void Clear() {
    for (std::vector<Placed>& placed : stretches_) placed.clear();
  }

  void Add(const Placed& added) {
    for (int64_t s = added.first / stretch_; s <= added.last / stretch_; ++s) {
      std::vector<Placed>& placed = stretches_[s];
      placed.insert(std::upper_bound(placed.begin(), placed.end(), added, IsBelow), added);
    }
  }

  // All that live at the same time as something does, and others; until the next call.
  const std::vector<Placed>& Near(const Lifetime& life) {
    const int64_t begin = life.first / stretch_;
    const int64_t end = life.last / stretch_;
    if (begin == end) return stretches_[begin];
    near_ = stretches_[begin];
    for (int64_t s = begin + 1; s <= end; ++s) {
      std::copy_if(stretches_[s].begin(), stretches_[s].end(), std::back_inserter(near_),
                   [&](const Placed& placed) { return placed.first / stretch_ == s; });
    }
    std::sort(near_.begin(), near_.end(), IsBelow);
    return near_;
  }

 private:
  static bool IsBelow(const Placed& a, const Placed& b) { return a.begin < b.begin; }

  int64_t stretch_;
  std::vector<std::vector<Placed>> stretches_;
  std::vector<Placed> near_;
};

// How often an order that does not fit is changed.
constexpr int kAttempts = 12;

// A stretch is this many mean lives long.
constexpr int64_t kStretch = 8;

int64_t Stretch(const std::vector<int>& buffers, const std::vector<Lifetime>& lives) {
  if (buffers.empty()) return 1;
  int64_t sum = 0;
  for (const int b : buffers) sum += lives[b].last - lives[b].first + 1;
  return kStretch * (sum / static_cast<int64_t>(buffers.size()));
}

// Places the buffers of a space, largest first (Pisarchyk and Lee 2020, "greedy by size"): close to
// the lower bound where a few large buffers dominate, as in training. What found no room goes first
// the next time (Joslin and Clements 1999, "squeaky wheel optimization").
class SpacePlacement {
 public:
  // `lives`: what has to be; in `held` lives may be longer.
  SpacePlacement(const Program& program, int space, const std::vector<Lifetime>& lives,
                 const std::vector<Lifetime>& held)
      : program_(program),
        space_(space),
        lives_(lives),
        taken_(held),
        urgency_(lives.size(), 0),
        order_(BuffersIn(program, space, lives)),
        placed_(static_cast<int64_t>(program.instructions.size()), Stretch(order_, held)) {
    std::stable_sort(order_.begin(), order_.end(),
                     [&](int a, int b) { return Bytes(a) > Bytes(b); });
    offsets_.resize(lives.size(), 0);
  }

  // Within `limit` if an attempt finds room for all; lives are held as long as that allows. Returns
  // the end of the highest buffer.
  int64_t Place(int64_t limit) {
    std::vector<int64_t> best;
    std::vector<Lifetime> lives;
    int64_t lowest = std::numeric_limits<int64_t>::max();
    const int attempts = LargestSum(program_, space_, lives_, 0) <= limit ? kAttempts : 1;
    for (int attempt = 0; attempt < attempts && (attempt == 0 || lowest > limit); ++attempt) {
      const int64_t peak = Attempt(limit);
      if (peak < lowest) {
        lowest = peak;
        best = offsets_;
        lives = lives_now_;
      }
      std::stable_sort(order_.begin(), order_.end(),
                       [&](int a, int b) { return urgency_[a] > urgency_[b]; });
    }
    offsets_ = std::move(best);
    lives_now_ = std::move(lives);
    return lowest;
  }

  const std::vector<int>& buffers() const { return order_; }
  int64_t offset(int buffer) const { return offsets_[buffer]; }
  const Lifetime& life(int buffer) const { return lives_now_[buffer]; }

 private:
  int64_t Bytes(int buffer) const { return program_.buffers[buffer].bytes; }

  int64_t Attempt(int64_t limit) {
    placed_.Clear();
    lives_now_ = taken_;
    int64_t peak = 0;
    for (const int b : order_) {
      Lifetime& life = lives_now_[b];
      int64_t offset = LowestFit(b, life);
      if (offset + Bytes(b) > limit && life.last > lives_[b].last) {
        life = lives_[b];
        offset = LowestFit(b, life);
      }
      if (offset + Bytes(b) > limit) MakeRoom(b);
      offsets_[b] = offset;
      placed_.Add({b, life.first, life.last, offset, offset + Bytes(b)});
      peak = std::max(peak, offset + Bytes(b));
    }
    return peak;
  }

  // The lowest gap between the placed buffers that live at the same time, or have to.
  int64_t LowestFit(int b, const Lifetime& life, bool others_held = true) {
    int64_t offset = 0;
    for (const Placed& other : placed_.Near(life)) {
      const int last = others_held ? other.last : lives_[other.buffer].last;
      if (other.first > life.last || life.first > last) continue;
      if (other.begin - offset >= Bytes(b)) break;
      offset = std::max(offset, other.end);
    }
    return offset;
  }

  // For the next attempt: the buffer's turn comes before, and what was only held where it would
  // have had room is not.
  void MakeRoom(int b) {
    ++urgency_[b];
    const int64_t offset = LowestFit(b, lives_[b], false);
    for (const Placed& other : placed_.Near(lives_[b])) {
      if (other.end <= offset || other.begin >= offset + Bytes(b)) continue;
      const bool held = lives_[other.buffer].last < lives_[b].first;
      if (held && other.last >= lives_[b].first && other.first <= lives_[b].last) {
        taken_[other.buffer] = lives_[other.buffer];
      }
    }
  }

  const Program& program_;
  int space_;
  const std::vector<Lifetime>& lives_;
  std::vector<Lifetime> taken_;      // what an attempt tries to hold
  std::vector<Lifetime> lives_now_;  // what it holds
  std::vector<int> urgency_;
  std::vector<int> order_;
  std::vector<int64_t> offsets_;
  PlacedBuffers placed_;
};

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
                  const std::vector<int>& held_until, int64_t device_bytes) {
  const std::vector<Lifetime> lives = Lifetimes(program);
  std::vector<Lifetime> held = lives;
  for (size_t b = 0; b < lives.size(); ++b) {
    if (lives[b].first >= 0) held[b].last = std::max(lives[b].last, held_until[b]);
  }
  for (int space = 0; space < kSpaces; ++space) {
    const int64_t base = persistent.bytes[space];
    const bool limited = space == kDeviceSpace && device_bytes > base;
    SpacePlacement placement(program, space, lives, held);
    program.peak_bytes[space] =
        base + placement.Place(limited ? device_bytes - base : std::numeric_limits<int64_t>::max());
    for (const int b : placement.buffers()) {
      program.buffers[b].offset = base + placement.offset(b);
      held[b] = placement.life(b);
    }
  }
  program.device_lower_bound =
      LargestSum(program, kDeviceSpace, held, persistent.bytes[kDeviceSpace]);
}

}  // namespace lazytrain
