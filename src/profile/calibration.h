// A short measurement of this machine at the start of a run: the training program itself, on
// made-up full micro-batches, tells how long its ops, copies and updates take.
#pragma once

#include "engine/training_engine.h"
#include "plan/cost_model.h"

namespace lazytrain {

// What the measured times say; rates of `given` stay where the program has nothing to measure. To
// be called before the weights are loaded: weights are zeros then, and so is what they give.
CostModel Calibrate(TrainingEngine& engine, const CostModel& given);

// A step that fills a capacity with random tokens.
std::vector<MicroBatch> MakeFullStep(const Capacity& capacity, int64_t vocab_size, uint64_t seed);

}  // namespace lazytrain
