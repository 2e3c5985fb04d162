// A tokenizer as a model folder holds it: vocabulary, names of the special tokens, chat templates.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/file.h"
#include "core/json.h"
#include "data/tokenizer/tokenizer.h"

namespace lazytrain {

// A special token that the folder names.
struct NamedToken {
  std::string text;
  int32_t id = 0;
};

struct TokenizerFolder {
  Tokenizer tokenizer;
  std::optional<NamedToken> bos;
  std::optional<NamedToken> eos;
  std::optional<NamedToken> pad;
  std::optional<NamedToken> unk;
  // As the configuration says; Encode of tokenizer.json goes by its post-processor instead.
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
  // Jinja templates by name; that of a folder with only one is called "default".
  std::map<std::string, std::string> chat_templates;
};

// Reads tokenizer.json, or if there is none tokenizer.model; then tokenizer_config.json and
// special_tokens_map.json, if they are there, for the names; and the chat templates from
// chat_template.jinja, tokenizer_config.json or chat_template.json, the first that has one. Throws
// Error naming the file for one that is broken, or bos_token or eos_token that is no token.
TokenizerFolder LoadTokenizer(const Path& folder);

// What LoadTokenizer reads beside the vocabulary. Missing files are no error.
struct TokenizerConfig {
  Json config = Json::object();  // tokenizer_config.json
  Json map = Json::object();     // special_tokens_map.json
  std::string config_place;
  std::string map_place;

  // The text of "bos_token" and the like.
  std::optional<std::string> TokenText(const std::string& key) const;
};
TokenizerConfig ReadTokenizerConfig(const Path& folder);
std::map<std::string, std::string> ReadChatTemplates(const Path& folder,
                                                     const TokenizerConfig& config);

}  // namespace lazytrain
