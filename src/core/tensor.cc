#include "core/tensor.h"

#include <fmt/format.h>

namespace lazytrain {

std::string ToString(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace lazytrain
