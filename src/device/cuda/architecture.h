// Whether this build's kernels run on the current GPU.
#pragma once

#include <string_view>

namespace lazytrain::cuda {

// "90a", or several: "80,86,89,90a,90-ptx"
std::string_view BuiltArchitecture();

// Whether there are kernels for sm_90a among them, with Hopper's own instructions.
bool BuiltForHopper();

// Loads a kernel of this build; false where there is none for the GPU.
bool KernelsLoad();

}  // namespace lazytrain::cuda
