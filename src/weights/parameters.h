// Between hub tensors and weight units: reading a checkpoint into units, random initialisation,
// writing units back under the hub's names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "model/graph.h"
#include "weights/safetensors.h"

namespace lazytrain {

// Where the weights of a unit lie: UnitSpec::bytes bytes, and, unless null, 16 bits an element that
// make a bfloat16 weight an exact float32 master (ops/unit_kernels.h).
struct UnitMemory {
  std::byte* weights = nullptr;
  int16_t* master_low = nullptr;
};

// Fills a unit from a checkpoint: float32, bfloat16 and float16 tensors convert to the parameter's
// dtype. Throws Error naming file and tensor: missing, of another shape, or with a value that is
// not finite.
void ReadUnit(const Checkpoint& checkpoint, const UnitSpec& unit, const UnitMemory& memory);

// Throws Error if the checkpoint holds weights that the model has no place for (another
// architecture under the same name); buffers that hub files carry along (rotary frequencies) are
// passed over, and so is a head tied to the embedding.
void CheckNothingLeftOver(const Checkpoint& checkpoint, const ModelGraph& model);

// Normal values with the given standard deviation, ones or zeros, by parameter; the values depend
// on the seed and the hub tensor's name alone.
void InitializeUnit(const UnitSpec& unit, uint64_t seed, double standard_deviation,
                    const UnitMemory& memory);

// Adds every tensor of the model to a writer, in hub names, shapes and the unit's dtype.
// `memory(unit)` has to stay valid until the writer has written.
void AddModelTensors(const ModelGraph& model,
                     const std::function<const std::byte*(size_t unit)>& weights,
                     SafetensorsWriter& writer);

}  // namespace lazytrain
