// What this program asks of a GPU and its driver, and how it says that something is missing. Facts
// are arguments, so that a machine without a GPU can test it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.h"

namespace lazytrain::cuda {

// The oldest architecture that kernels compile for: tensor-core products of bfloat16 begin there.
inline constexpr int kOldestArchitecture = 80;

// "13.0" of 13000.
std::string VersionText(int version);

// Throws Error unless a driver for CUDA `driver` (13000: 13.0; 0: there is none) can run a program
// that was built with CUDA `runtime`.
void CheckVersions(int driver, int runtime);

// Throws Error unless there is a GPU number `index` among `count`.
void CheckIndex(int index, int count);

// The GPU's architecture (75: sm_75) is not among those that kernels were built for ("80,90a").
Error WrongArchitecture(std::string_view built, int architecture);

// `needed` bytes of GPU memory cannot be had; `others`: what other processes held before this one
// began.
Error NoMemory(int64_t needed, int64_t free, int64_t total, int64_t others);

// What to do about an error of CUDA.
std::string_view RemedyFor(cudaError_t status);

}  // namespace lazytrain::cuda
