// Ctrl-C and SIGTERM as a request: the step in progress ends, what is pending is applied, the model
// is written.
#pragma once

namespace lazytrain {

// While it lives, SIGINT and SIGTERM only set a flag; a second one ends the process at once.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool requested() const;
};

}  // namespace lazytrain
