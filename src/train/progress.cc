#include "train/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>

#include "core/units.h"

namespace lazytrain {
namespace {

constexpr int kBarWidth = 20;

std::string Describe(const ProgressLine& line) {
  return fmt::format(
      "step {}/{}  loss {:.4f}  lr {:.2e}  {:.0f} tok/s  {:.3f} TFLOPS  device {}  host {}  left "
      "{}",
      line.step, line.steps, line.loss, line.learning_rate, line.tokens_per_second, line.tflops,
      FormatBytes(line.device_bytes), FormatBytes(line.host_bytes),
      FormatSeconds(line.seconds_left));
}

}  // namespace

Progress::Progress(int64_t interval) : terminal_(isatty(STDOUT_FILENO) != 0), interval_(interval) {}

void Progress::Show(const ProgressLine& line) {
  const bool due = line.step == 1 || line.step == line.steps || line.step % interval_ == 0;
  if (!due) return;
  if (!terminal_) {
    fmt::print("{}\n", Describe(line));
    std::fflush(stdout);
    return;
  }
  const auto filled = static_cast<size_t>(kBarWidth * line.step / line.steps);
  // Carriage return and "erase to the end of the line".
  fmt::print("\r\033[K[{:<{}}] {}", std::string(filled, '='), kBarWidth, Describe(line));
  std::fflush(stdout);
  open_ = true;
}

void Progress::Finish() {
  if (open_) fmt::print("\n");
  open_ = false;
}

}  // namespace lazytrain
