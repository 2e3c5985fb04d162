#include "core/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace lazytrain {

void LogLine(const char* level, const std::string& text) {
  // One logger for the process: lines of several threads must not mix.
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>("lazytrain",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    made->flush_on(spdlog::level::info);
    return made;
  }();
  logger->info("{}: {}", level, text);
}

}  // namespace lazytrain
