// A model as the user names it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/file.h"
#include "data/example_encoder.h"
#include "data/tokenizer/tokenizer_folder.h"
#include "model/hub_config.h"

namespace lazytrain {

// The folder that `name` says. Throws Error for a hub id (nothing is downloaded yet) and for a
// folder that is not there; `place` is the setting or option that gave the name.
Path FindModelFolder(const std::string& name, std::string_view place);

// The ids that end a text: config.json's eos_token_id (one or several), and the tokenizer's.
std::vector<int32_t> EndTokens(const HubConfig& config, const TokenizerFolder& tokenizer);

// The model's tokenizer as data preparation uses it.
class FolderEncoder final : public ExampleEncoder {
 public:
  explicit FolderEncoder(const TokenizerFolder& folder);  // must outlive the encoder
  std::vector<int32_t> Encode(std::string_view text, bool add_special) const override;
  std::optional<int32_t> bos() const override { return bos_; }
  std::optional<int32_t> eos() const override { return eos_; }

 private:
  const Tokenizer& tokenizer_;
  std::optional<int32_t> bos_;
  std::optional<int32_t> eos_;
};

}  // namespace lazytrain
