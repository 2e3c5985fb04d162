#include "train/model_folder.h"

#include <algorithm>

#include "core/error.h"

namespace lazytrain {
namespace {

// "Qwen/Qwen2.5-7B": one slash, no dots at the begin, nothing that only paths have.
bool LooksLikeHubId(const std::string& name) {
  return std::count(name.begin(), name.end(), '/') == 1 && name.front() != '.' &&
         name.front() != '/' && name.front() != '~' && name.back() != '/';
}

}  // namespace

Path FindModelFolder(const std::string& name, std::string_view place) {
  if (std::filesystem::is_directory(name)) return name;
  if (std::filesystem::exists(name)) {
    throw UsageError("{}: '{}' is a file; give the folder of a model", place, name);
  }
  if (LooksLikeHubId(name)) {
    throw UsageError(
        "{}: there is no folder '{}', and models are not downloaded from the hub yet; download it "
        "yourself and give its folder",
        place, name);
  }
  throw UsageError("{}: there is no folder '{}'; give the folder of a model", place, name);
}

std::vector<int32_t> EndTokens(const HubConfig& config, const TokenizerFolder& tokenizer) {
  std::vector<int32_t> ids;
  if (config.Has("eos_token_id")) {
    const Json& value = config.json().at("eos_token_id");
    if (value.is_number_integer()) ids.push_back(value.get<int32_t>());
    for (const Json& item : value.is_array() ? value : Json::array()) {
      if (item.is_number_integer()) ids.push_back(item.get<int32_t>());
    }
  }
  if (tokenizer.eos) ids.push_back(tokenizer.eos->id);
  return ids;
}

FolderEncoder::FolderEncoder(const TokenizerFolder& folder) : tokenizer_(folder.tokenizer) {
  const std::vector<int32_t> frame = tokenizer_.Encode("", true);
  if (folder.bos && !frame.empty() && frame.front() == folder.bos->id) bos_ = folder.bos->id;
  if (folder.eos) eos_ = folder.eos->id;
}

std::vector<int32_t> FolderEncoder::Encode(std::string_view text, bool add_special) const {
  return tokenizer_.Encode(text, add_special);
}

}  // namespace lazytrain
