#include "ops/cuda/cublaslt.h"

#include <dlfcn.h>

#include <string>

#include "core/error.h"

namespace lazytrain::cuda {
namespace {

#define LAZYTRAIN_TEXT_OF(text) #text
#define LAZYTRAIN_TEXT(text) LAZYTRAIN_TEXT_OF(text)

// The header's version decides which library fits.
constexpr const char* kName = "libcublasLt.so." LAZYTRAIN_TEXT(CUBLAS_VER_MAJOR);

void* OpenLibrary() {
  const std::string elsewhere = std::string("/usr/local/cuda/lib64/") + kName;
  for (const char* name : {kName, elsewhere.c_str()}) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

template <typename Function>
void Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) {
    throw RunError("{} has no {}; install cuBLAS {}.{} or newer", kName, name, CUBLAS_VER_MAJOR,
                   CUBLAS_VER_MINOR);
  }
}

CublasLt Load() {
  void* library = OpenLibrary();
  if (library == nullptr) {
    throw RunError(
        "{} is not found; install the CUDA toolkit's cuBLAS and put its folder into "
        "LD_LIBRARY_PATH",
        kName);
  }
  CublasLt lt;
  Find(library, "cublasLtCreate", lt.Create);
  Find(library, "cublasLtDestroy", lt.Destroy);
  Find(library, "cublasLtGetVersion", lt.GetVersion);
  Find(library, "cublasLtGetStatusString", lt.GetStatusString);
  Find(library, "cublasLtMatmul", lt.Matmul);
  Find(library, "cublasLtMatmulAlgoCheck", lt.MatmulAlgoCheck);
  Find(library, "cublasLtMatmulAlgoConfigGetAttribute", lt.MatmulAlgoConfigGetAttribute);
  Find(library, "cublasLtMatmulAlgoGetHeuristic", lt.MatmulAlgoGetHeuristic);
  Find(library, "cublasLtMatmulDescCreate", lt.MatmulDescCreate);
  Find(library, "cublasLtMatmulDescDestroy", lt.MatmulDescDestroy);
  Find(library, "cublasLtMatmulDescSetAttribute", lt.MatmulDescSetAttribute);
  Find(library, "cublasLtMatrixLayoutCreate", lt.MatrixLayoutCreate);
  Find(library, "cublasLtMatrixLayoutDestroy", lt.MatrixLayoutDestroy);
  Find(library, "cublasLtMatmulPreferenceCreate", lt.MatmulPreferenceCreate);
  Find(library, "cublasLtMatmulPreferenceDestroy", lt.MatmulPreferenceDestroy);
  Find(library, "cublasLtMatmulPreferenceSetAttribute", lt.MatmulPreferenceSetAttribute);
  return lt;
}

}  // namespace

const CublasLt& GetCublasLt() {
  static const CublasLt lt = Load();
  return lt;
}

std::string CublasLtVersion() {
  try {
    const size_t version = GetCublasLt().GetVersion();
    return fmt::format("cuBLASLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  } catch (const Error&) {
    return "no cuBLASLt";
  }
}

void CheckCublasLt(cublasStatus_t status, std::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw RunError("{}: cuBLASLt says '{}'; if nothing else uses the GPU, please report it", what,
                 GetCublasLt().GetStatusString(status));
}

}  // namespace lazytrain::cuda
