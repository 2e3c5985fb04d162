#include "train/gemm_table.h"

#include "core/error.h"
#include "core/json.h"
#include "core/log.h"

namespace lazytrain {

void WriteGemmTable(const Path& path, const Device& device, const std::string& libraries) {
  const LibraryChoices choices = device.library_choices();
  if (choices.empty()) return;
  const Json table = {
      {"device", device.description()}, {"libraries", libraries}, {"products", choices}};
  WriteFile(path, table.dump(2) + "\n");
}

void UseGemmTable(const Path& path, Device& device, const std::string& libraries) {
  const Json table = ReadJsonFile(path);
  std::string made_on;
  std::string made_with;
  LibraryChoices choices;
  try {
    made_on = table.at("device").get<std::string>();
    made_with = table.at("libraries").get<std::string>();
    choices = table.at("products").get<LibraryChoices>();
  } catch (const Json::exception& error) {
    throw UsageError("{}: not a table of matrix products ({}); remove it", path.string(),
                     error.what());
  }
  if (made_on != device.description() || made_with != libraries) {
    Note("{}: made on {} with {}, this is {} with {}: the library chooses anew", path.string(),
         made_on, made_with, device.description(), libraries);
    return;
  }
  device.UseLibraryChoices(std::move(choices));
}

}  // namespace lazytrain
