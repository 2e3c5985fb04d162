#include "ops/cuda/matmul.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <map>
#include <memory>

#include "core/error.h"
#include "ops/cuda/cublaslt.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/rows.h"

namespace lazytrain::cuda {
namespace {

constexpr const char* kWhat = "a matrix product";

cudaDataType_t TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return CUDA_R_32F;
    case DType::kBF16:
      return CUDA_R_16BF;
    default:
      throw InternalError("a matrix product of {} values", Name(dtype));
  }
}

// Everything an algorithm is chosen by. Matrices are those of cuBLASLt, which counts by columns: a
// row-major matrix is its own transpose there, so the product is d^T = b^T a^T.
struct Problem {
  int64_t m, n, k;  // of d^T: d.cols, d.rows
  int64_t lda, ldb, ldd;
  bool a_transposed, b_transposed;  // as cuBLASLt sees b and a
  DType a_dtype, b_dtype, d_dtype;
  bool adds, has_bias;
  int64_t workspace_bytes;
  uint32_t alignment_a, alignment_b, alignment_c, alignment_d;  // bytes

  auto operator<=>(const Problem&) const = default;
};

// For people, and as the name of the problem's choice.
std::string Describe(const Problem& p) {
  return fmt::format(
      "[{}, {}] {} = [{}, {}] {}{} [{}, {}] {}{}{}{}; strides {}, {}; alignments {}, {}, {}, {}; "
      "workspace {}",
      p.n, p.m, Name(p.d_dtype), p.n, p.k, Name(p.b_dtype), p.b_transposed ? " transposed" : "",
      p.k, p.m, Name(p.a_dtype), p.a_transposed ? " transposed" : "", p.adds ? " + sum" : "",
      p.has_bias ? " + bias" : "", p.ldb, p.lda, p.alignment_b, p.alignment_a, p.alignment_c,
      p.alignment_d, p.workspace_bytes);
}

// Of addresses only what kernels look at, so that where a buffer lies in the arena is no
// difference.
uint32_t AlignmentOf(const void* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address) | 16u;
  return 1u << std::countr_zero(bits);
}

struct Deleter {
  void operator()(cublasLtMatmulDescOpaque_t* p) const { GetCublasLt().MatmulDescDestroy(p); }
  void operator()(cublasLtMatrixLayoutOpaque_t* p) const { GetCublasLt().MatrixLayoutDestroy(p); }
  void operator()(cublasLtMatmulPreferenceOpaque_t* p) const {
    GetCublasLt().MatmulPreferenceDestroy(p);
  }
  void operator()(cublasLtContext* p) const {
    GetCublasLt().Destroy(reinterpret_cast<cublasLtHandle_t>(p));
  }
};
template <typename T>
using Owned = std::unique_ptr<T, Deleter>;

Owned<cublasLtMatrixLayoutOpaque_t> MakeLayout(DType dtype, int64_t rows, int64_t cols,
                                               int64_t stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  CheckCublasLt(
      GetCublasLt().MatrixLayoutCreate(&layout, TypeOf(dtype), static_cast<uint64_t>(rows),
                                       static_cast<uint64_t>(cols), stride),
      kWhat);
  return Owned<cublasLtMatrixLayoutOpaque_t>(layout);
}

template <typename T>
void Set(const Owned<cublasLtMatmulDescOpaque_t>& desc, cublasLtMatmulDescAttributes_t attribute,
         const T& value) {
  CheckCublasLt(GetCublasLt().MatmulDescSetAttribute(desc.get(), attribute, &value, sizeof(value)),
                kWhat);
}

template <typename T>
void Set(const Owned<cublasLtMatmulPreferenceOpaque_t>& preference,
         cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  CheckCublasLt(GetCublasLt().MatmulPreferenceSetAttribute(preference.get(), attribute, &value,
                                                           sizeof(value)),
                kWhat);
}

// A problem with its algorithm.
struct Plan {
  Owned<cublasLtMatmulDescOpaque_t> desc;
  Owned<cublasLtMatrixLayoutOpaque_t> a, b, d;
  cublasLtMatmulAlgo_t algorithm;
};

Owned<cublasLtMatmulDescOpaque_t> MakeDesc(const Problem& p) {
  cublasLtMatmulDesc_t raw = nullptr;
  CheckCublasLt(GetCublasLt().MatmulDescCreate(&raw, CUBLAS_COMPUTE_32F, CUDA_R_32F), kWhat);
  Owned<cublasLtMatmulDescOpaque_t> desc(raw);
  Set(desc, CUBLASLT_MATMUL_DESC_TRANSA, p.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  Set(desc, CUBLASLT_MATMUL_DESC_TRANSB, p.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (p.has_bias) Set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  return desc;
}

// Partial products may be added in float32 by a kernel of its own, which has a fixed order, but not
// in the output's format.
Owned<cublasLtMatmulPreferenceOpaque_t> MakePreference(const Problem& p) {
  cublasLtMatmulPreference_t raw = nullptr;
  CheckCublasLt(GetCublasLt().MatmulPreferenceCreate(&raw), kWhat);
  Owned<cublasLtMatmulPreferenceOpaque_t> preference(raw);
  Set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
      static_cast<uint64_t>(p.workspace_bytes));
  Set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p.alignment_a);
  Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p.alignment_b);
  Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p.alignment_c);
  Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p.alignment_d);
  return preference;
}

int AlgorithmAttribute(const cublasLtMatmulAlgo_t& algorithm,
                       cublasLtMatmulAlgoConfigAttributes_t attribute) {
  int value = 0;
  CheckCublasLt(GetCublasLt().MatmulAlgoConfigGetAttribute(&algorithm, attribute, &value,
                                                           sizeof(value), nullptr),
                kWhat);
  return value;
}

// As a LibraryChoice: what it is, and the library's own words, which it takes back as they are.
std::string Describe(const cublasLtMatmulAlgo_t& algorithm) {
  return fmt::format("algorithm {}, tile {}, stages {}, split in {}: {:016x}",
                     AlgorithmAttribute(algorithm, CUBLASLT_ALGO_CONFIG_ID),
                     AlgorithmAttribute(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID),
                     AlgorithmAttribute(algorithm, CUBLASLT_ALGO_CONFIG_STAGES_ID),
                     AlgorithmAttribute(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
                     fmt::join(algorithm.data, "-"));
}

// False: the text is none of Describe's.
bool ReadAlgorithm(const std::string& text, cublasLtMatmulAlgo_t& algorithm) {
  size_t at = text.rfind(' ');
  for (uint64_t& word : algorithm.data) {
    if (at == std::string::npos) return false;
    const char* begin = text.data() + at + 1;
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), word, 16);
    if (error != std::errc()) return false;
    at = *end == '-' ? static_cast<size_t>(end - text.data()) : std::string::npos;
  }
  return at == std::string::npos;
}

// A lane's handle and what it has planned.
class Planner {
 public:
  Planner() {
    cublasLtHandle_t handle = nullptr;
    CheckCublasLt(GetCublasLt().Create(&handle), "starting cuBLASLt");
    handle_.reset(handle);
  }

  cublasLtHandle_t handle() const { return handle_.get(); }

  const Plan& PlanFor(const Problem& problem, LibraryChoices& choices) {
    const auto found = plans_.find(problem);
    if (found != plans_.end()) return found->second;
    return plans_.emplace(problem, Make(problem, choices)).first->second;
  }

 private:
  Plan Make(const Problem& p, LibraryChoices& choices) const {
    Plan plan;
    plan.desc = MakeDesc(p);
    plan.a = MakeLayout(p.a_dtype, p.a_transposed ? p.k : p.m, p.a_transposed ? p.m : p.k, p.lda);
    plan.b = MakeLayout(p.b_dtype, p.b_transposed ? p.n : p.k, p.b_transposed ? p.k : p.n, p.ldb);
    plan.d = MakeLayout(p.d_dtype, p.m, p.n, p.ldd);
    const std::string name = Describe(p);
    const auto choice = choices.find(name);
    if (choice == choices.end()) {
      plan.algorithm = Choose(p, plan);
      choices[name] = Describe(plan.algorithm);
    } else {
      plan.algorithm = Recall(p, plan, *choice);
    }
    return plan;
  }

  // The library's first.
  cublasLtMatmulAlgo_t Choose(const Problem& p, const Plan& plan) const {
    const auto preference = MakePreference(p);
    cublasLtMatmulHeuristicResult_t result;
    int found = 0;
    const cublasStatus_t status = GetCublasLt().MatmulAlgoGetHeuristic(
        handle(), plan.desc.get(), plan.a.get(), plan.b.get(), plan.d.get(), plan.d.get(),
        preference.get(), 1, &result, &found);
    if (status != CUBLAS_STATUS_SUCCESS || found == 0) {
      throw RunError(
          "cuBLASLt knows no algorithm for a product of [{}, {}] and [{}, {}] ({} to {}): {}; "
          "please "
          "report it",
          p.n, p.k, p.k, p.m, Name(p.a_dtype), Name(p.d_dtype),
          GetCublasLt().GetStatusString(status));
    }
    return result.algo;
  }

  cublasLtMatmulAlgo_t Recall(const Problem& p, const Plan& plan,
                              const LibraryChoices::value_type& choice) const {
    cublasLtMatmulAlgo_t algorithm;
    cublasLtMatmulHeuristicResult_t result;
    if (!ReadAlgorithm(choice.second, algorithm) ||
        GetCublasLt().MatmulAlgoCheck(handle(), plan.desc.get(), plan.a.get(), plan.b.get(),
                                      plan.d.get(), plan.d.get(), &algorithm,
                                      &result) != CUBLAS_STATUS_SUCCESS ||
        result.workspaceSize > static_cast<size_t>(p.workspace_bytes)) {
      throw RunError("{}: cuBLASLt cannot use '{}'; remove it from gemm_table.json", choice.first,
                     choice.second);
    }
    return algorithm;
  }

  Owned<cublasLtContext> handle_;
  std::map<Problem, Plan> plans_;
};

int64_t StrideOf(const MatmulOperand& operand) {
  return operand.row_stride == 0 ? operand.view.cols : operand.row_stride;
}

Problem ProblemOf(const MatmulCall& call) {
  const MatmulOperand& a = call.a;
  const MatmulOperand& b = call.b;
  Problem p = {};
  p.m = call.d.cols;
  p.n = call.d.rows;
  p.k = a.transposed ? a.view.rows : a.view.cols;
  p.lda = StrideOf(b);
  p.ldb = StrideOf(a);
  p.ldd = call.d.cols;
  p.a_transposed = b.transposed;
  p.b_transposed = a.transposed;
  p.a_dtype = b.view.dtype;
  p.b_dtype = a.view.dtype;
  p.d_dtype = call.d.dtype;
  p.adds = call.added != nullptr;
  p.has_bias = call.bias != nullptr;
  p.workspace_bytes = call.workspace_bytes;
  p.alignment_a = AlignmentOf(b.view.data);
  p.alignment_b = AlignmentOf(a.view.data);
  p.alignment_c = AlignmentOf(p.adds ? call.added : call.d.data);
  p.alignment_d = AlignmentOf(call.d.data);
  return p;
}

}  // namespace

void Multiply(CudaLaneContext& context, const MatmulCall& call) {
  const Problem problem = ProblemOf(call);
  if (problem.m == 0 || problem.n == 0) return;
  if (problem.k == 0) {
    // Sums of nothing, of which only gradients of weights have any.
    if (call.bias != nullptr) throw InternalError("a product over no elements, with a bias");
    if (call.added == nullptr) Zero(context, call.d);
    return;
  }
  auto& planner = context.Library<Planner>();
  const Plan& plan = planner.PlanFor(problem, context.choices());
  if (problem.has_bias) Set(plan.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.bias);
  const float alpha = 1.0f;
  const float beta = problem.adds ? 1.0f : 0.0f;
  const void* added = problem.adds ? call.added : call.d.data;
  CheckCublasLt(
      GetCublasLt().Matmul(planner.handle(), plan.desc.get(), &alpha, call.b.view.data,
                           plan.a.get(), call.a.view.data, plan.b.get(), &beta, added, plan.d.get(),
                           call.d.data, plan.d.get(), &plan.algorithm, call.workspace,
                           static_cast<size_t>(call.workspace_bytes), context.stream()),
      kWhat);
}

}  // namespace lazytrain::cuda
