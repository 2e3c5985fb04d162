#include "program/program_set.h"

#include <algorithm>
#include <utility>

namespace lazytrain {

ProgramSet::ProgramSet(ModelGraph model, Schedule schedule, const ProgramSetOptions& options)
    : model_(std::move(model)),
      schedule_(std::move(schedule)),
      options_(options),
      persistent_(MakePersistentLayout(model_, schedule_,
                                       {options.training.has_value(), options.gradient_dtype},
                                       options.prefill ? options.prefill->context : 0)),
      input_{&model_,
             &schedule_,
             &persistent_,
             {options.training.has_value(), options.gradient_dtype},
             options.kernels},
      load_(CompileLoad(input_)) {
  if (options.training) {
    training_ = CompileTraining(input_, *options.training, options.tuning);
    update_ = CompileUpdate(input_);
    flush_ = CompileFlush(input_);
  }
  if (options.evaluation) evaluation_ = CompileEvaluation(input_, *options.evaluation);
  if (options.prefill) {
    prefill_ = CompileGeneration(input_, *options.prefill, "prefill");
    Capacity one = *options.prefill;
    one.micro_batch_tokens = one.longest_document = 1;
    one.chunk_tokens = 0;
    decode_ = CompileGeneration(input_, one, "decode");
  }
  if (options.logits) logits_ = CompileLogits(input_, *options.logits);
}

std::vector<const Program*> ProgramSet::all() const {
  std::vector<const Program*> programs = {&load_};
  for (const auto* program :
       {&training_, &update_, &flush_, &evaluation_, &logits_, &prefill_, &decode_}) {
    if (program->has_value()) programs.push_back(&program->value());
  }
  return programs;
}

int64_t ProgramSet::PeakBytes(int space) const {
  int64_t bytes = 0;
  for (const Program* program : all()) bytes = std::max(bytes, program->peak_bytes[space]);
  return bytes;
}

}  // namespace lazytrain
