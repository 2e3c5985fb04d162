#include "data/tokenizer/tokenizer_folder.h"

#include "core/error.h"
#include "data/tokenizer/json_fields.h"

namespace lazytrain {
namespace {

Json ReadObject(const Path& path) {
  if (!std::filesystem::exists(path)) return Json::object();
  Json json = ReadJsonFile(path);
  const JsonFields check(json, path.string());
  return json;
}

// A token is written as its text or as an object with the text in "content".
std::optional<std::string> TextOf(const JsonFields& fields, const std::string& key) {
  const Json* token = fields.Find(key);
  if (token == nullptr) return std::nullopt;
  if (token->is_object()) return JsonFields(*token, fields.place() + ": " + key).String("content");
  return fields.String(key);
}

std::optional<NamedToken> FindToken(const TokenizerConfig& config, const std::string& key,
                                    const Tokenizer& tokenizer, bool must_exist) {
  const std::optional<std::string> text = config.TokenText(key);
  if (!text) return std::nullopt;
  const std::optional<int32_t> id = tokenizer.TokenToId(*text);
  if (id) return NamedToken{*text, *id};
  if (!must_exist) return std::nullopt;
  throw RunError("{}: {} is '{}', which is not in the vocabulary; correct it or set it to null",
                 config.config_place, key, *text);
}

std::optional<bool> FindBool(const JsonFields& fields, const char* key) {
  if (fields.Find(key) == nullptr) return std::nullopt;
  return fields.Bool(key);
}

// "chat_template": the text, or a list of {"name": ..., "template": ...}.
void ReadTemplates(const JsonFields& fields, std::map<std::string, std::string>& templates) {
  const Json* json = fields.Find("chat_template");
  if (json == nullptr) return;
  if (!json->is_array()) {
    templates["default"] = fields.String("chat_template");
    return;
  }
  for (const Json& entry : *json) {
    const JsonFields named(entry, fields.place() + ": chat_template");
    templates[named.String("name")] = named.String("template");
  }
}

Tokenizer ReadVocabulary(const Path& folder, std::optional<bool> add_bos,
                         std::optional<bool> add_eos) {
  if (std::filesystem::exists(folder / "tokenizer.json")) {
    return Tokenizer::FromFile(folder / "tokenizer.json");
  }
  if (std::filesystem::exists(folder / "tokenizer.model")) {
    return Tokenizer::FromSentencePiece(folder / "tokenizer.model", add_bos.value_or(true),
                                        add_eos.value_or(false));
  }
  throw RunError(
      "{}: neither tokenizer.json nor tokenizer.model is there; use a model folder with "
      "one of them",
      folder.string());
}

}  // namespace

std::optional<std::string> TokenizerConfig::TokenText(const std::string& key) const {
  if (const auto text = TextOf(JsonFields(config, config_place), key)) return text;
  return TextOf(JsonFields(map, map_place), key);
}

TokenizerConfig ReadTokenizerConfig(const Path& folder) {
  const Path config = folder / "tokenizer_config.json";
  const Path map = folder / "special_tokens_map.json";
  return {ReadObject(config), ReadObject(map), config.string(), map.string()};
}

std::map<std::string, std::string> ReadChatTemplates(const Path& folder,
                                                     const TokenizerConfig& config) {
  std::map<std::string, std::string> templates;
  if (const Path file = folder / "chat_template.jinja"; std::filesystem::exists(file)) {
    templates["default"] = ReadFile(file);
    return templates;
  }
  ReadTemplates(JsonFields(config.config, config.config_place), templates);
  if (templates.empty()) {
    const Path file = folder / "chat_template.json";
    const Json json = ReadObject(file);
    ReadTemplates(JsonFields(json, file.string()), templates);
  }
  return templates;
}

TokenizerFolder LoadTokenizer(const Path& folder) {
  const TokenizerConfig config = ReadTokenizerConfig(folder);
  const JsonFields fields(config.config, config.config_place);
  const std::optional<bool> add_bos = FindBool(fields, "add_bos_token");
  const std::optional<bool> add_eos = FindBool(fields, "add_eos_token");
  TokenizerFolder loaded{.tokenizer = ReadVocabulary(folder, add_bos, add_eos),
                         .bos = {},
                         .eos = {},
                         .pad = {},
                         .unk = {},
                         .add_bos_token = add_bos,
                         .add_eos_token = add_eos,
                         .chat_templates = ReadChatTemplates(folder, config)};
  loaded.bos = FindToken(config, "bos_token", loaded.tokenizer, true);
  loaded.eos = FindToken(config, "eos_token", loaded.tokenizer, true);
  loaded.pad = FindToken(config, "pad_token", loaded.tokenizer, false);
  loaded.unk = FindToken(config, "unk_token", loaded.tokenizer, false);
  return loaded;
}

}  // namespace lazytrain
