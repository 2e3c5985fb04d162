#include "program/program_set.h"

#include <algorithm>
#include <utility>

namespace lazytrain {

ProgramSet::ProgramSet(ModelGraph model, Schedule schedule, const ProgramSetOptions& options)
    : model_(std::move(model)),
      schedule_(std::move(schedule)),
      options_(options),
      persistent_(MakePersistentLayout(model_, schedule_, options.states)),
      input_{&model_, &schedule_, &persistent_, options.states},
      training_(CompileTraining(input_, options.training)),
      update_(CompileUpdate(input_)),
      load_(CompileLoad(input_)),
      flush_(CompileFlush(input_)) {
  if (options.evaluation) evaluation_ = CompileEvaluation(input_, *options.evaluation);
  if (options.logits) logits_ = CompileLogits(input_, *options.logits);
}

std::vector<const Program*> ProgramSet::all() const {
  std::vector<const Program*> programs = {&training_, &update_, &load_, &flush_};
  if (evaluation_) programs.push_back(&*evaluation_);
  if (logits_) programs.push_back(&*logits_);
  return programs;
}

int64_t ProgramSet::PeakBytes(int space) const {
  int64_t bytes = 0;
  for (const Program* program : all()) bytes = std::max(bytes, program->peak_bytes[space]);
  return bytes;
}

}  // namespace lazytrain
