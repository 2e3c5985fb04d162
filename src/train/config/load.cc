#include <algorithm>
#include <map>
#include <tuple>

#include "core/error.h"
#include "core/log.h"
#include "core/nearest.h"
#include "train/config/checks.h"
#include "train/config/config.h"
#include "train/config/options.h"
#include "train/config/settings.h"
#include "train/config/upstream.h"
#include "train/config/value.h"

namespace lazytrain {
namespace {

using Settings = std::map<std::string, Setting>;  // by our key
using Notes = std::vector<std::string>;

std::string_view LastPart(std::string_view key) { return key.substr(key.rfind('.') + 1); }

// Right words in the wrong section are nearer than wrong words in the right one.
size_t Distance(std::string_view given, std::string_view key) {
  const std::string_view given_leaf = LastPart(given);
  const std::string_view leaf = LastPart(key);
  const size_t moved = given_leaf == leaf ? 1 : 2 + EditDistance(given_leaf, leaf);
  return std::min(moved, EditDistance(given, key));
}

bool IsSection(std::string_view key) {
  const auto sections = Sections();
  return std::any_of(sections.begin(), sections.end(),
                     [key](const Section& section) { return section.name == key; });
}

[[noreturn]] void RefuseUnknown(const Setting& setting) {
  if (IsSection(setting.key)) {
    throw UsageError("{}: is a section; indent its keys below it, one a line", setting.Where());
  }
  const auto& options = Options();
  const auto nearest =
      std::min_element(options.begin(), options.end(), [&](const Option& a, const Option& b) {
        return Distance(setting.key, a.key) < Distance(setting.key, b.key);
      });
  throw UsageError("{}: there is no such key; did you mean '{}'?", setting.Where(), nearest->key);
}

// One place for each key that is given.
Settings Gather(std::vector<Setting> file, std::vector<Setting> overrides, Notes* notes) {
  Settings all;
  for (Setting& setting : file) {
    if (!UnderstandKey(&setting, notes)) continue;
    // All keys of a section may be commented out.
    if (setting.kind == Setting::Kind::kEmpty && IsSection(setting.key)) continue;
    if (FindOption(setting.key) == nullptr) RefuseUnknown(setting);
    const auto [it, is_new] = all.try_emplace(setting.key, setting);
    if (!is_new) {
      throw UsageError("{}: stands at {} already; remove one of them", setting.Where(),
                       it->second.place);
    }
  }
  for (Setting& setting : overrides) {
    if (!UnderstandKey(&setting, notes)) continue;
    if (FindOption(setting.key) == nullptr) RefuseUnknown(setting);
    all.insert_or_assign(setting.key, setting);
  }
  UnderstandOptimizer(&all, notes);
  return all;
}

std::string BuiltValues(const Option& option) {
  if (!option.availability.built.empty()) return JoinWords(option.availability.built);
  std::vector<std::string_view> words;
  for (const std::string_view word : option.words) {
    if (option.availability.Allows(word)) words.push_back(word);
  }
  if (!option.otherwise.empty()) words.push_back(option.otherwise);
  return JoinWords(words);
}

void CheckAvailable(const Option& option, const Setting& setting, const Config& config,
                    const Config& defaults, Notes* notes) {
  const Availability& availability = option.availability;
  const std::string text = FormatValue(option, config);
  if (!availability.Allows(text)) {
    throw UsageError("{}: {} cannot be used: {}; remove it, or give {}", setting.Where(),
                     Shown(text), availability.reason, BuiltValues(option));
  }
  if (availability.without_effect && FormatValue(option, defaults) != text) {
    notes->push_back(fmt::format("{}: has no effect: {}", setting.Where(), availability.reason));
  }
}

const Config& Defaults() {
  static const Config defaults = [] {
    Config config;
    for (const Option& option : Options()) {
      const std::string text = fmt::format("{}={}", option.key, option.initial());
      StoreValue(option, ReadOverride(text, "default"), &config);
    }
    return config;
  }();
  return defaults;
}

Config Resolve(const Settings& settings, Notes* notes) {
  const Config& defaults = Defaults();
  Config config = defaults;
  for (const auto& [key, setting] : settings) {
    const Option& option = *FindOption(key);
    StoreValue(option, setting, &config);
    CheckAvailable(option, setting, config, defaults, notes);
    config.places.emplace(key, setting.place);
  }
  ResolveAlternatives(&config);
  CheckTogether(config);
  return config;
}

// One line about all defaults whose parts are not built; nothing when all of them are given.
void NoteDefaults(const Config& config, Notes* notes) {
  std::map<std::string_view, std::string> by_reason;
  for (const Option& option : Options()) {
    const Availability& availability = option.availability;
    if (availability.meanwhile.empty() || config.Given(option.key)) continue;
    std::string& list = by_reason[availability.reason];
    list += fmt::format("{}{} is {} instead of {}", list.empty() ? "" : ", ", option.key,
                        availability.meanwhile, option.default_text);
  }
  std::string line;
  for (const auto& [reason, list] : by_reason) {
    line += fmt::format("{}{}: {}", line.empty() ? "" : "; ", reason, list);
  }
  if (!line.empty()) notes->push_back("of the defaults, " + line);
}

std::vector<Setting> ReadOverrides(std::span<const std::string> overrides, std::string_view place) {
  std::vector<Setting> settings;
  settings.reserve(overrides.size());
  for (const std::string& text : overrides) settings.push_back(ReadOverride(text, place));
  return settings;
}

void Tell(const Notes& notes) {
  for (const std::string& note : notes) Note("{}", note);
}

}  // namespace

std::string Config::Place(std::string_view key) const {
  const auto it = places.find(key);
  return it == places.end() ? std::string(key) : fmt::format("{}: {}", it->second, key);
}

bool Config::operator==(const Config& other) const {
  const auto values = [](const Config& config) {
    return std::tie(config.model, config.dataset, config.training, config.optimizer, config.memory,
                    config.hardware, config.eval, config.logging);
  };
  return values(*this) == values(other);
}

Config LoadConfig(const Path& path, std::span<const std::string> overrides, ConfigUse use) {
  const std::string file = path.string();
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw UsageError("{}: there is no such file; give the path of a configuration", file);
  }
  if (std::filesystem::is_directory(path, error)) {
    throw UsageError("{}: is a folder; give the path of a configuration", file);
  }
  Notes notes;
  std::vector<Setting> from_file = ReadSettings(ReadFile(path), file);
  Config config = Resolve(
      Gather(std::move(from_file), ReadOverrides(overrides, "command line"), &notes), &notes);
  CheckComplete(config, file, use);
  NoteDefaults(config, &notes);
  Tell(notes);
  return config;
}

Config ConfigFromOverrides(std::span<const std::string> overrides, std::string_view place) {
  Notes notes;
  Config config = Resolve(Gather({}, ReadOverrides(overrides, place), &notes), &notes);
  Tell(notes);
  return config;
}

}  // namespace lazytrain
