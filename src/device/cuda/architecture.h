// Whether this build's kernels run on the current GPU.
#pragma once

#include <string_view>

namespace lazytrain::cuda {

// "90a"
std::string_view BuiltArchitecture();

// Loads a kernel of this build; false where there is none for the GPU.
bool KernelsLoad();

}  // namespace lazytrain::cuda
