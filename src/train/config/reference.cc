// What is written from the table of options: the resolved configuration, and the reference.
#include <fmt/core.h>

#include <algorithm>

#include "train/config/config.h"
#include "train/config/options.h"
#include "train/config/upstream.h"
#include "train/config/value.h"

namespace lazytrain {
namespace {

constexpr std::string_view kIntroduction = R"(# Configuration

`lazytrain sft CONFIG.yaml [key=value ...]` and its sister commands read one YAML file of sections and
keys. Every key can also be given on the command line by its dotted name, as in
`training.batch_size=8`; that goes before the file. GB are 1e9 bytes. Unknown keys, values of the wrong
type or range, and settings whose part is not built yet are errors that name the line and the remedy.
The resolved configuration of a run, with every default filled in, is `config.yaml` in its output
folder, and can be used as a configuration itself.

Must be given: `model.name`; `dataset.name` or `dataset.path`; `training.num_steps` or
`training.num_epochs`. Of `training.batch_size` and `training.batch_tokens` one decides, and so it is
with `training.warmup_ratio` and `training.warmup_steps`: give only one of the two.
)";

// Where a value stops and its comment begins, in config.yaml.
constexpr size_t kCommentColumn = 36;

std::string Padded(std::string text, size_t width) {
  text.resize(std::max(text.size() + 1, width), ' ');
  return text;
}

template <typename Each>
void ForEachOption(std::string_view section, const Each& each) {
  for (const Option& option : Options()) {
    if (option.section() == section) each(option);
  }
}

std::string Code(std::string_view text) { return fmt::format("`{}`", text); }

std::string CodeList(const std::vector<std::string_view>& texts) {
  std::string list;
  for (const std::string_view text : texts) list += (list.empty() ? "" : ", ") + Code(text);
  return list;
}

// What does not work yet, for the reference; empty when all does.
std::string Limits(const Availability& availability) {
  if (availability.without_effect) {
    return fmt::format("Has no effect: {}.", availability.reason);
  }
  std::string text;
  if (!availability.built.empty()) {
    text = fmt::format("Only {}: {}.", CodeList(availability.built), availability.reason);
  }
  if (!availability.not_built.empty()) {
    text = fmt::format("Not {}: {}.", CodeList(availability.not_built), availability.reason);
  }
  if (!availability.meanwhile.empty()) {
    text += fmt::format(" Until then the default is {}.", Code(availability.meanwhile));
  }
  return text;
}

std::string ReferenceRow(const Option& option) {
  std::string meaning(option.help);
  if (const std::string limits = Limits(option.availability); !limits.empty()) {
    meaning += ". **" + limits + "**";
  }
  return fmt::format("| `{}` | {} | {} | {} |\n", option.leaf(), Code(option.default_text),
                     Expected(option), meaning);
}

std::string UpstreamReference() {
  std::string text =
      "\n## Upstream spellings\n\nKeys of the published Python programs are understood in any "
      "section, with a note.\n\n| upstream | here |\n| --- | --- |\n";
  for (const auto& [name, key] : UpstreamKeys()) {
    text += fmt::format("| `{}` | {} |\n", name, key.empty() ? "ignored" : Code(key));
  }
  text +=
      "\nValues of `optimizer.type` that stand for `adamw` with other settings, where those are "
      "not "
      "given:\n\n| upstream | here |\n| --- | --- |\n";
  for (const auto& [name, parts] : UpstreamOptimizers()) {
    std::string list;
    for (const auto& [key, value] : parts) {
      list += fmt::format("{}`{}: {}`", list.empty() ? "" : ", ", key, value);
    }
    text += fmt::format("| `{}` | {} |\n", name, list);
  }
  return text;
}

}  // namespace

std::string ToYaml(const Config& config) {
  std::string text;
  for (const Section& section : Sections()) {
    text += fmt::format("{}:\n", section.name);
    ForEachOption(section.name, [&](const Option& option) {
      const std::string line = fmt::format("  {}: {}", option.leaf(), FormatValue(option, config));
      text += fmt::format("{} # {}\n", Padded(line, kCommentColumn), option.help);
    });
  }
  return text;
}

std::string ConfigReference() {
  std::string text(kIntroduction);
  for (const Section& section : Sections()) {
    text += fmt::format("\n## `{}`\n\n{}\n\n| key | default | values | meaning |\n", section.name,
                        section.help);
    text += "| --- | --- | --- | --- |\n";
    ForEachOption(section.name, [&](const Option& option) { text += ReferenceRow(option); });
  }
  return text + UpstreamReference();
}

std::string ConfigHelp() {
  std::string text;
  for (const Section& section : Sections()) {
    text += fmt::format("{}{}: {}\n", text.empty() ? "" : "\n", section.name, section.help);
    ForEachOption(section.name, [&](const Option& option) {
      const std::string key = fmt::format("  {}={}", option.key, option.default_text);
      text += fmt::format("{}{}\n", Padded(key, 44), option.help);
    });
  }
  return text;
}

}  // namespace lazytrain
