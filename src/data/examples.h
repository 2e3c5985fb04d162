// Raw examples -> documents.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/thread_pool.h"
#include "data/document.h"
#include "data/example_encoder.h"
#include "data/reader.h"
#include "data/registry.h"

namespace lazytrain {

// Ids of a text that begins a document: with what the post-processor puts in front, but the
// begin-of-text token exactly once, also when the text itself begins with it.
std::vector<int32_t> EncodeStartOnce(const ExampleEncoder& encoder, std::string_view text);

struct ExampleOptions {
  std::string text_field = "text";
  std::string query_field = "query";
  std::string response_field = "response";
  bool train_on_prompt = false;
  int64_t max_seq_len = 1024;
};

// Two forms of examples:
//   text              a .txt document, or an object that has the text field: all of it is trained
//   query, response   joined as they stand, nothing between; each is encoded on its own. The query
//                     is trained only with train_on_prompt
// A begin-of-text token that the tokenizer adds stands first exactly once, also when the text
// itself begins with it. The end-of-text token, if there is one, stands last exactly once and is
// trained. Documents are cut at max_seq_len tokens, keeping the beginning; a cut one loses its end
// token.
class DocumentBuilder {
 public:
  // The encoder must outlive the builder.
  DocumentBuilder(const ExampleEncoder& encoder, ExampleOptions options);

  struct Built {
    Document document;
    bool truncated = false;
  };
  // Throws Error "<file>:<line>: ..." when fields are missing (naming those there) or no strings.
  // Safe to call from several threads at once.
  Built Build(const RawExample& example) const;

 private:
  void AppendText(const std::vector<int32_t>& ids, bool trained, Document* document) const;
  const std::string& Field(const RawExample& example, const std::string& name) const;

  const ExampleEncoder& encoder_;
  ExampleOptions options_;
};

struct DocumentSet {
  std::vector<Document> documents;  // in the order of files and lines
  int64_t examples = 0;             // read in all
  int64_t truncated = 0;            // cut at max_seq_len (some may be dropped, too)
  int64_t dropped = 0;              // had no trained token that is predicted from another
};

// Reads, encodes and collects every example of the sources. Names of fields that a source gives
// itself go before those of `options`. The result does not depend on the number of threads. Throws
// Error when nothing is left to train on.
DocumentSet LoadDocuments(std::span<const DatasetSource> sources, const ExampleEncoder& encoder,
                          const ExampleOptions& options, ThreadPool& pool);

}  // namespace lazytrain
