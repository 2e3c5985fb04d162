// What a person sees while a run goes on: a bar on a terminal, plain lines elsewhere.
#pragma once

#include <cstdint>
#include <string>

namespace lazytrain {

struct ProgressLine {
  int64_t step = 0;  // from 1
  int64_t steps = 0;
  double loss = 0;
  double learning_rate = 0;
  double tokens_per_second = 0;
  double tflops = 0;
  int64_t device_bytes = 0;
  int64_t host_bytes = 0;
  double seconds_left = 0;
};

class Progress {
 public:
  // Lines appear every `interval` steps, and for the first and the last.
  explicit Progress(int64_t interval);
  void Show(const ProgressLine& line);
  // Ends the bar's line, so that what is printed next has its own.
  void Finish();

 private:
  bool terminal_;
  int64_t interval_;
  bool open_ = false;
};

}  // namespace lazytrain
