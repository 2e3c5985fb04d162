// A step's documents as micro-batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/batch.h"

namespace lazytrain {

// Cuts documents, in order, into micro-batches that the capacity has room for (data/packing.h),
// fills their rows up to a bucket, and gives every token its share of the step's loss.
std::vector<MicroBatch> MakeStep(std::span<const DocumentView> documents, const Capacity& capacity);

}  // namespace lazytrain
