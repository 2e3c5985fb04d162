// What a model is made of, as text: `lazytrain model show`.
#pragma once

#include <cstdint>
#include <string>

#include "model/graph.h"

namespace lazytrain {

// Units with their parameters and bytes (units that differ only by number are one line), the values
// of each distinct segment graph with bytes a row and the group they are kept with, its ops with
// FLOPs a row where all documents have `sequence` tokens, and totals.
std::string ModelTable(const ModelGraph& model, int64_t sequence);

}  // namespace lazytrain
