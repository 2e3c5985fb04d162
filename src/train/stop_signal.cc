#include "train/stop_signal.h"

#include <csignal>

namespace lazytrain {
namespace {

// Signal handlers can reach nothing but objects of static storage.
volatile std::sig_atomic_t stop_requested = 0;

void OnSignal(int signal) {
  if (stop_requested != 0) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  stop_requested = 1;
}

void Install(void (*handler)(int)) {
  std::signal(SIGINT, handler);
  std::signal(SIGTERM, handler);
}

}  // namespace

StopSignal::StopSignal() {
  stop_requested = 0;
  Install(OnSignal);
}

StopSignal::~StopSignal() { Install(SIG_DFL); }

bool StopSignal::requested() const { return stop_requested != 0; }

}  // namespace lazytrain
