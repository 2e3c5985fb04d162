// What outlives a program: the host's store of every unit's weights, gradients and optimizer
// states, and whatever a schedule keeps on the device. All programs of a run share one layout.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/graph.h"
#include "plan/schedule.h"
#include "program/program.h"

namespace lazytrain {

// How gradients and optimizer states are stored.
struct StateSpec {
  bool training = true;  // false: weights only
  DType gradient_dtype = DType::kF32;
};

// Buffer numbers of one unit; -1: there is none.
struct UnitBuffers {
  int weights = -1;  // host
  int master_low = -1;
  int moment1 = -1;
  int moment2 = -1;
  // One gradient for each use of the unit: tied weights have two, summed once. In the order of the
  // uses, which is that of the forward sweep.
  std::vector<int> gradients;

  int device_weights = -1;
  int device_master_low = -1;
  int device_moment1 = -1;
  int device_moment2 = -1;
  std::vector<int> device_accumulators;  // float32
  int device_gradient = -1;              // as stored, for updates on the device
};

// A slot of a segment that holds a unit.
struct UnitUse {
  int segment = 0;
  int slot = 0;
};

struct PersistentLayout {
  std::vector<Buffer> buffers;
  std::vector<UnitBuffers> units;
  std::vector<std::vector<UnitUse>> uses;  // for each unit, in the loss chain
  // Device buffers of the generation chain's states, by segment and value; none without one.
  std::map<std::pair<int, int>, int> op_states;
  int64_t bytes[kSpaces] = {};
};

// `context`: tokens that states of the generation chain have room for; 0: no such states.
PersistentLayout MakePersistentLayout(const ModelGraph& model, const Schedule& schedule,
                                      const StateSpec& states, int64_t context);

// The trainable parameters of a unit, as kernels take them.
std::vector<UnitParameter> TrainableParameters(const UnitSpec& unit);

// Whether anything in the unit is trained.
bool IsTrainable(const UnitSpec& unit);

}  // namespace lazytrain
