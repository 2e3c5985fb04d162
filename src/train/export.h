// A trained model as a hub folder.
#pragma once

#include "core/file.h"
#include "engine/training_engine.h"

namespace lazytrain {

// Writes config.json (with the dtype of the weights), the weights and copies of the source's
// tokenizer files into `target`, which appears complete or not at all. The engine must be drained.
// Throws Error when something is at `target` already.
void ExportModel(const TrainingEngine& engine, const Path& source, const Path& target);

// Copies a model folder: what `lazytrain export` makes of a run's export.
void CopyModelFolder(const Path& source, const Path& target);

}  // namespace lazytrain
