// What the program tells its user beside results. Everything goes to standard error, so that
// standard output holds nothing but what a command was asked for.
#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>

namespace lazytrain {

void LogLine(const char* level, const std::string& text);

// Something the user may want to know: a default taken, a setting understood under another name.
template <typename... Args>
void Note(fmt::format_string<Args...> format, Args&&... args) {
  LogLine("note", fmt::format(format, std::forward<Args>(args)...));
}

// Something that works but probably not as meant.
template <typename... Args>
void Warn(fmt::format_string<Args...> format, Args&&... args) {
  LogLine("warning", fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lazytrain
