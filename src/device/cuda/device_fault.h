// What a kernel cannot throw: it leaves a word in host memory, and Device::Synchronize throws.
#pragma once

#include <cstdint>
#include <string>

namespace lazytrain::cuda {

enum class Fault : int32_t {
  kNone,
  kTokenOutsideVocabulary,
  kTargetOutsideVocabulary,
  kRowOutside
};

// In pinned memory. The first fault wins and writes the rest.
struct DeviceFault {
  int32_t fault = 0;  // a Fault
  int64_t value = 0;  // what was found
  int64_t limit = 0;  // what it should have been below
};

// The message of a fault: what is wrong and what to change.
std::string Describe(const DeviceFault& fault);

}  // namespace lazytrain::cuda
