// Errors that reach the user. A message names the place (file, line, key, tensor), says what is
// wrong there, and what to change; the program prints it as one line, `error: ...`, and exits.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace lazytrain {

enum class ErrorKind {
  kUsage,   // wrong command line or configuration: exit status 2
  kFailed,  // everything else (missing or broken files, no memory, a failed run): exit status 1
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }
  int exit_status() const { return kind_ == ErrorKind::kUsage ? 2 : 1; }

 private:
  ErrorKind kind_;
};

// throw UsageError("{}: 'training.batch_size' is {}; use a number above 0", place, value);
template <typename... Args>
Error UsageError(fmt::format_string<Args...> format, Args&&... args) {
  return Error(ErrorKind::kUsage, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
Error RunError(fmt::format_string<Args...> format, Args&&... args) {
  return Error(ErrorKind::kFailed, fmt::format(format, std::forward<Args>(args)...));
}

// A broken promise inside this program, never the user's fault: the message asks for a report.
template <typename... Args>
Error InternalError(fmt::format_string<Args...> format, Args&&... args) {
  return Error(ErrorKind::kFailed, fmt::format("internal error, please report it: {}",
                                               fmt::format(format, std::forward<Args>(args)...)));
}

}  // namespace lazytrain
