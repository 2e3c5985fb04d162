// A model's graph as training runs it.
#pragma once

#include "core/dtype.h"
#include "model/graph.h"
#include "model/hub_config.h"

namespace lazytrain {

// The family's graph, its logits in chunks of so many tokens as suit the vocabulary.
ModelGraph BuildTrainedGraph(const HubConfig& config, DType dtype);

}  // namespace lazytrain
