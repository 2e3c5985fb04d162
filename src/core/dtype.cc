#include "core/dtype.h"

#include <array>

#include "core/error.h"

namespace lazytrain {
namespace {

struct DTypeRow {
  DType dtype;
  int64_t bytes;
  std::string_view name;
  std::string_view safetensors;
};

constexpr std::array kDTypes = {
    DTypeRow{DType::kF32, 4, "float32", "F32"}, DTypeRow{DType::kBF16, 2, "bfloat16", "BF16"},
    DTypeRow{DType::kF16, 2, "float16", "F16"}, DTypeRow{DType::kI32, 4, "int32", "I32"},
    DTypeRow{DType::kI64, 8, "int64", "I64"},   DTypeRow{DType::kU8, 1, "uint8", "U8"},
};

const DTypeRow& Row(DType dtype) { return kDTypes[static_cast<size_t>(dtype)]; }

DType Find(std::string_view DTypeRow::*column, std::string_view name, std::string_view place) {
  for (const DTypeRow& row : kDTypes) {
    if (row.*column == name) return row.dtype;
  }
  throw UsageError("{}: the data type '{}' is not supported; float32, bfloat16 and float16 are",
                   place, name);
}

}  // namespace

int64_t SizeOf(DType dtype) { return Row(dtype).bytes; }
std::string_view Name(DType dtype) { return Row(dtype).name; }
std::string_view SafetensorsName(DType dtype) { return Row(dtype).safetensors; }

DType DTypeFromName(std::string_view name, std::string_view place) {
  return Find(&DTypeRow::name, name, place);
}

DType DTypeFromSafetensorsName(std::string_view name, std::string_view place) {
  return Find(&DTypeRow::safetensors, name, place);
}

}  // namespace lazytrain
