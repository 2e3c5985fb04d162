# The CUDA backend (src/*/cuda): built where a CUDA compiler is found. Only the runtime is linked, and
# that statically; cuBLASLt is opened when a GPU is, so that the same binary starts without either.

set(LAZYTRAIN_CUDA AUTO CACHE STRING "CUDA backend: AUTO (where nvcc is found), ON or OFF")
set_property(CACHE LAZYTRAIN_CUDA PROPERTY STRINGS AUTO ON OFF)
set(LAZYTRAIN_CUDA_ARCH 90a CACHE STRING
    "GPU architectures that kernels are built for: 90a as in sm_90a, 90-ptx for PTX that newer GPUs' drivers compile; several with ; between")

set(LAZYTRAIN_HAS_CUDA OFF)
if(NOT LAZYTRAIN_CUDA STREQUAL "OFF")
  # Architectures are given below: CMake's own list does not know every suffix.
  set(CMAKE_CUDA_ARCHITECTURES OFF)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit 13.0 REQUIRED)
    # CMake 3.25 does not know yet how nvcc is told of C++20, the standard of this project.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    endif()
    if(NOT CMAKE_CUDA_COMPILER_LAUNCHER AND CMAKE_CXX_COMPILER_LAUNCHER)
      set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
    endif()
    set(LAZYTRAIN_HAS_CUDA ON)
    message(STATUS "CUDA backend: built for sm_${LAZYTRAIN_CUDA_ARCH} with CUDA ${CUDAToolkit_VERSION}")
  elseif(LAZYTRAIN_CUDA STREQUAL "ON")
    message(FATAL_ERROR "LAZYTRAIN_CUDA=ON, but no CUDA compiler (nvcc) was found: install the CUDA "
                        "toolkit 13.0 or newer, or set CMAKE_CUDA_COMPILER")
  endif()
endif()
if(NOT LAZYTRAIN_HAS_CUDA)
  message(STATUS "CUDA backend: left out (LAZYTRAIN_CUDA=${LAZYTRAIN_CUDA}); training runs on the "
                 "virtual accelerator. Install the CUDA toolkit 13.0 for GPUs")
endif()

# Compiler options of CUDA sources. No fast math: sums, roots and divisions are those of the host.
function(lazytrain_cuda_options target)
  foreach(architecture ${LAZYTRAIN_CUDA_ARCH})
    if(architecture MATCHES "^([0-9]+)-ptx$")
      list(APPEND code -gencode=arch=compute_${CMAKE_MATCH_1},code=compute_${CMAKE_MATCH_1})
    elseif(architecture MATCHES "^[0-9]+[af]?$")
      list(APPEND code -gencode=arch=compute_${architecture},code=sm_${architecture})
    else()
      message(FATAL_ERROR "LAZYTRAIN_CUDA_ARCH: '${architecture}' is no architecture; write 80, 90a "
                          "or 90-ptx, several with ; between")
    endif()
  endforeach()
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:
    ${code} -Xcompiler=-Wall,-Wextra,-march=x86-64-v3,-ffp-contract=off -Werror=all-warnings>)
endfunction()
