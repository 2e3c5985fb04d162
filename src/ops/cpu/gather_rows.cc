#include "ops/gather_rows.h"

#include <cstring>

#include "ops/cpu/kernels.h"
#include "ops/cpu/rows.h"

namespace lazytrain::cpu {

void GatherRowsForward(const Op& /*op*/, const OpArgs& args, LaneContext& context) {
  const TensorView& x = args.inputs[0];
  const TensorView& y = args.outputs[0];
  const auto* selected = args.inputs[1].as<const int32_t>();
  const int64_t row_bytes = x.cols * SizeOf(x.dtype);
  ForBlocks(Threads(context), y.rows, BlockRows(x.cols), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      if (selected[row] < 0 || selected[row] >= x.rows) {
        throw InternalError("row {} was selected of {}", selected[row], x.rows);
      }
      std::memcpy(y.as<char>() + row * row_bytes, x.as<const char>() + selected[row] * row_bytes,
                  static_cast<size_t>(row_bytes));
    }
  });
}

}  // namespace lazytrain::cpu
