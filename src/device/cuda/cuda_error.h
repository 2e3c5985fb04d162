// Errors of CUDA calls and of kernels' host sides, as Error. Apart from core/error.h, whose
// formatting library would double the time that CUDA sources take to compile.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace lazytrain::cuda {

// Throws Error "<what>: <CUDA's message>" unless `status` is success.
void Check(cudaError_t status, std::string_view what);

// To be called right behind a kernel launch; `kernel` names it in the message.
void CheckLaunch(std::string_view kernel);

// Throws InternalError(what).
[[noreturn]] void FailInternally(const std::string& what);

// Throws Error: "<what> <size> cannot run on the cuda backend; it takes up to <limit>".
[[noreturn]] void RefuseSize(std::string_view what, int64_t size, int64_t limit);

// Throws Error: `what` needs `bytes` of shared memory a block and the GPU has `there`.
[[noreturn]] void RefuseShared(std::string_view what, int64_t bytes, int64_t there);

}  // namespace lazytrain::cuda
