#include "model/unit.h"

#include "core/units.h"

namespace lazytrain {

int UnitSpec::Add(ParameterSpec parameter) {
  parameter.element_offset = elements;
  parameter.byte_offset = bytes;
  // A multiple of kAlignment elements keeps states of one byte an element aligned as well.
  elements = RoundUp(elements + parameter.elements(), kAlignment);
  bytes = RoundUp(bytes + parameter.bytes(), kAlignment);
  parameters.push_back(std::move(parameter));
  return static_cast<int>(parameters.size()) - 1;
}

int64_t UnitSpec::ParameterCount() const {
  int64_t count = 0;
  for (const ParameterSpec& parameter : parameters) count += parameter.elements();
  return count;
}

}  // namespace lazytrain
