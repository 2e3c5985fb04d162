#include "data/examples.h"

#include <exception>
#include <utility>

#include "core/error.h"

namespace lazytrain {
namespace {

std::string FieldNames(const Json& fields) {
  std::string names;
  for (const auto& [key, value] : fields.items()) {
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", key);
  }
  return names.empty() ? "none" : names;
}

// "train.jsonl and 3 more files"
std::string FileNames(std::span<const DatasetSource> sources) {
  std::vector<Path> files;
  for (const DatasetSource& source : sources) {
    files.insert(files.end(), source.files.begin(), source.files.end());
  }
  if (files.empty()) return "the data set";
  if (files.size() == 1) return files[0].string();
  return fmt::format("{} and {} more files", files[0].string(), files.size() - 1);
}

ExampleOptions OptionsFor(const DatasetSource& source, ExampleOptions options) {
  if (source.text_field) options.text_field = *source.text_field;
  if (source.query_field) options.query_field = *source.query_field;
  if (source.response_field) options.response_field = *source.response_field;
  return options;
}

// Encodes raw examples in groups, by several threads, and keeps their order.
class Collector {
 public:
  Collector(const DocumentBuilder& builder, ThreadPool& pool, DocumentSet* set)
      : builder_(builder), pool_(pool), set_(set) {}

  void Add(RawExample example) {
    waiting_.push_back(std::move(example));
    if (waiting_.size() >= kGroup) Flush();
  }

  void Flush() {
    std::vector<DocumentBuilder::Built> built(waiting_.size());
    std::vector<std::exception_ptr> failures(waiting_.size());
    pool_.Run(static_cast<int64_t>(waiting_.size()), [&](int64_t i) {
      const auto at = static_cast<size_t>(i);
      try {
        built[at] = builder_.Build(waiting_[at]);
      } catch (...) {
        failures[at] = std::current_exception();
      }
    });
    for (size_t i = 0; i < built.size(); ++i) {
      if (failures[i]) std::rethrow_exception(failures[i]);  // the first in the file
      ++set_->examples;
      set_->truncated += built[i].truncated ? 1 : 0;
      if (built[i].document.trained_tokens() == 0) {
        ++set_->dropped;
      } else {
        set_->documents.push_back(std::move(built[i].document));
      }
    }
    waiting_.clear();
  }

 private:
  static constexpr size_t kGroup = 1024;
  const DocumentBuilder& builder_;
  ThreadPool& pool_;
  DocumentSet* set_;
  std::vector<RawExample> waiting_;
};

}  // namespace

std::vector<int32_t> EncodeStartOnce(const ExampleEncoder& encoder, std::string_view text) {
  std::vector<int32_t> ids = encoder.Encode(text, true);
  const std::optional<int32_t> bos = encoder.bos();
  // Some post-processors end texts with the end token; it belongs behind the response.
  const std::vector<int32_t> frame = encoder.Encode("", true);
  const size_t begin = bos.has_value() ? 1 : 0;
  if (frame.size() > begin && encoder.eos() == frame.back()) ids.pop_back();
  if (!bos) return ids;
  size_t repeated = 0;
  while (repeated + 1 < ids.size() && ids[repeated] == *bos && ids[repeated + 1] == *bos) {
    ++repeated;
  }
  ids.erase(ids.begin(), ids.begin() + static_cast<int64_t>(repeated));
  return ids;
}

DocumentBuilder::DocumentBuilder(const ExampleEncoder& encoder, ExampleOptions options)
    : encoder_(encoder), options_(std::move(options)) {}

void DocumentBuilder::AppendText(const std::vector<int32_t>& ids, bool trained,
                                 Document* document) const {
  document->input_ids.insert(document->input_ids.end(), ids.begin(), ids.end());
  if (trained) {
    document->labels.insert(document->labels.end(), ids.begin(), ids.end());
  } else {
    document->labels.insert(document->labels.end(), ids.size(), kIgnoredLabel);
  }
}

const std::string& DocumentBuilder::Field(const RawExample& example,
                                          const std::string& name) const {
  const auto it = example.fields.find(name);
  if (it == example.fields.end()) {
    throw RunError(
        "{}: has no field '{}' (and no field '{}'); the fields there: {}; set "
        "dataset.text_field, or dataset.query_field and dataset.response_field",
        example.place(), name, options_.text_field, FieldNames(example.fields));
  }
  if (!it->is_string()) {
    throw RunError("{}: field '{}' is of type {}; it must be a string", example.place(), name,
                   it->type_name());
  }
  return it->get_ref<const std::string&>();
}

DocumentBuilder::Built DocumentBuilder::Build(const RawExample& example) const {
  Built built;
  Document& document = built.document;
  if (example.is_text()) {
    AppendText(EncodeStartOnce(encoder_, example.text), true, &document);
  } else if (example.fields.contains(options_.text_field)) {
    AppendText(EncodeStartOnce(encoder_, Field(example, options_.text_field)), true, &document);
  } else {
    const std::string& query = Field(example, options_.query_field);
    const std::string& response = Field(example, options_.response_field);
    AppendText(EncodeStartOnce(encoder_, query), options_.train_on_prompt, &document);
    AppendText(encoder_.Encode(response, false), true, &document);
  }
  if (const std::optional<int32_t> eos = encoder_.eos()) {
    // The text may end with it, but the last token of an untrained prompt does not count.
    while (!document.labels.empty() && document.labels.back() == *eos) {
      document.labels.pop_back();
      document.input_ids.pop_back();
    }
    AppendText({*eos}, true, &document);
  }
  if (document.tokens() > options_.max_seq_len) {
    built.truncated = true;
    document.input_ids.resize(static_cast<size_t>(options_.max_seq_len));
    document.labels.resize(static_cast<size_t>(options_.max_seq_len));
  }
  return built;
}

DocumentSet LoadDocuments(std::span<const DatasetSource> sources, const ExampleEncoder& encoder,
                          const ExampleOptions& options, ThreadPool& pool) {
  DocumentSet set;
  for (const DatasetSource& source : sources) {
    const DocumentBuilder builder(encoder, OptionsFor(source, options));
    Collector collector(builder, pool, &set);
    for (const Path& file : source.files) {
      ReadExamples(file, [&](RawExample example) { collector.Add(std::move(example)); });
    }
    collector.Flush();
  }
  if (set.examples == 0) {
    throw RunError("{}: no examples there; give files that have some", FileNames(sources));
  }
  if (set.documents.empty()) {
    throw RunError(
        "{}: no examples with a trained token: max_seq_len {} cuts off the responses of "
        "all {}; raise dataset.max_seq_len",
        FileNames(sources), options.max_seq_len, set.examples);
  }
  return set;
}

}  // namespace lazytrain
