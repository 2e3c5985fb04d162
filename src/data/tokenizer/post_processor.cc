#include "data/tokenizer/post_processor.h"

#include "core/error.h"
#include "data/tokenizer/json_fields.h"

namespace lazytrain {
namespace {

int32_t ReadId(const Json& json, const JsonFields& fields, const char* key) {
  if (!json.is_number_integer() || json.get<int64_t>() < 0 || json.get<int64_t>() > INT32_MAX) {
    fields.Refuse(key, "made of token ids");
  }
  return json.get<int32_t>();
}

std::vector<int32_t> ReadSpecialToken(const JsonFields& fields, const std::string& name) {
  const JsonFields all(fields.Required("special_tokens"), fields.place() + ": special_tokens");
  const JsonFields token(all.Required(name), all.place() + ": " + name);
  std::vector<int32_t> ids;
  for (const Json& id : token.Array("ids")) ids.push_back(ReadId(id, token, "ids"));
  return ids;
}

SpecialFrame ReadTemplate(const JsonFields& fields) {
  SpecialFrame frame;
  int texts = 0;
  for (const Json& item : fields.Array("single")) {
    const JsonFields part(item, fields.place() + ": single");
    if (const Json* special = part.Find("SpecialToken")) {
      const JsonFields token(*special, part.place() + ": SpecialToken");
      const std::vector<int32_t> ids = ReadSpecialToken(fields, token.String("id"));
      std::vector<int32_t>& side = texts == 0 ? frame.before : frame.after;
      side.insert(side.end(), ids.begin(), ids.end());
    } else {
      const JsonFields text(part.Required("Sequence"), part.place() + ": Sequence");
      if (text.String("id") != "A") text.Refuse("id", "'A'");
      ++texts;
    }
  }
  if (texts != 1) fields.Refuse("single", "a template with one Sequence");
  return frame;
}

// ["[SEP]", 102]
int32_t ReadPair(const JsonFields& fields, const char* key) {
  const Json& pair = fields.Array(key);
  if (pair.size() != 2 || !pair[0].is_string()) fields.Refuse(key, "a token and its id");
  return ReadId(pair[1], fields, key);
}

}  // namespace

SpecialFrame ParsePostProcessor(const Json& json, const std::string& place) {
  const JsonFields fields(json, place);
  const std::string type = fields.Type();
  if (type == "ByteLevel") return {};  // moves offsets only
  if (type == "TemplateProcessing") return ReadTemplate(fields);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    return {{ReadPair(fields, "cls")}, {ReadPair(fields, "sep")}};
  }
  if (type != "Sequence") {
    fields.RefuseType("post_processor",
                      "Sequence, ByteLevel, TemplateProcessing, BertProcessing, RobertaProcessing");
  }
  SpecialFrame frame;
  for (const Json& part : fields.Array("processors")) {
    const SpecialFrame outer = ParsePostProcessor(part, place);
    frame.before.insert(frame.before.begin(), outer.before.begin(), outer.before.end());
    frame.after.insert(frame.after.end(), outer.after.begin(), outer.after.end());
  }
  return frame;
}

}  // namespace lazytrain
