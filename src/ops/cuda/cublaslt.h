// cuBLASLt, opened at run time: a program that links it would not start where it is missing, not
// even to say so.
#pragma once

#include <cublasLt.h>

#include <string>
#include <string_view>

namespace lazytrain::cuda {

// The functions that are used here, under the library's names without their prefix.
struct CublasLt {
  decltype(&cublasLtCreate) Create;
  decltype(&cublasLtDestroy) Destroy;
  decltype(&cublasLtGetVersion) GetVersion;
  decltype(&cublasLtGetStatusString) GetStatusString;
  decltype(&cublasLtMatmul) Matmul;
  decltype(&cublasLtMatmulAlgoCheck) MatmulAlgoCheck;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) MatmulAlgoConfigGetAttribute;
  decltype(&cublasLtMatmulAlgoGetHeuristic) MatmulAlgoGetHeuristic;
  decltype(&cublasLtMatmulDescCreate) MatmulDescCreate;
  decltype(&cublasLtMatmulDescDestroy) MatmulDescDestroy;
  decltype(&cublasLtMatmulDescSetAttribute) MatmulDescSetAttribute;
  decltype(&cublasLtMatrixLayoutCreate) MatrixLayoutCreate;
  decltype(&cublasLtMatrixLayoutDestroy) MatrixLayoutDestroy;
  decltype(&cublasLtMatmulPreferenceCreate) MatmulPreferenceCreate;
  decltype(&cublasLtMatmulPreferenceDestroy) MatmulPreferenceDestroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) MatmulPreferenceSetAttribute;
};

// Throws Error where the library is not found.
const CublasLt& GetCublasLt();

// "cuBLASLt 13.1.0", or that it is missing.
std::string CublasLtVersion();

// Throws Error "<what>: <status>" unless the call succeeded.
void CheckCublasLt(cublasStatus_t status, std::string_view what);

}  // namespace lazytrain::cuda
