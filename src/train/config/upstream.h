// Spellings of the published Python programs, understood as ours.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/settings.h"

namespace lazytrain {

// A key by its last part; upstream configurations have it in more than one section.
struct UpstreamKey {
  std::string_view name;
  std::string_view key;  // ours; empty: ignored
};
std::span<const UpstreamKey> UpstreamKeys();

// A value of optimizer.type that stands for other settings.
struct UpstreamOptimizer {
  struct Part {
    std::string_view key;
    std::string_view text;
  };
  std::string_view name;
  std::vector<Part> parts;
};
const std::vector<UpstreamOptimizer>& UpstreamOptimizers();

// Gives a setting with an upstream key our key, and tells so in `notes`. False: it is to be
// ignored.
bool UnderstandKey(Setting* setting, std::vector<std::string>* notes);

// Replaces an upstream optimizer.type by what it stands for; settings that are given stay.
void UnderstandOptimizer(std::map<std::string, Setting>* settings, std::vector<std::string>* notes);

}  // namespace lazytrain
