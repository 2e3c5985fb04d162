#include "device/cuda/device_fault.h"

#include <fmt/core.h>

namespace lazytrain::cuda {

std::string Describe(const DeviceFault& fault) {
  switch (static_cast<Fault>(fault.fault)) {
    case Fault::kTokenOutsideVocabulary:
    case Fault::kTargetOutsideVocabulary:
      return fmt::format(
          "{} id {} is outside the model's vocabulary of {} tokens; use the tokenizer that belongs "
          "to the model",
          static_cast<Fault>(fault.fault) == Fault::kTokenOutsideVocabulary ? "token" : "target",
          fault.value, fault.limit);
    case Fault::kRowOutside:
      return fmt::format("internal error, please report it: row {} was selected of {}", fault.value,
                         fault.limit);
    case Fault::kNone:
      break;
  }
  return fmt::format("internal error, please report it: a kernel reported fault {}", fault.fault);
}

}  // namespace lazytrain::cuda
