// lazytrain tokenize: JSON lines of text to JSON lines of ids, and back.
#include <iostream>

#include "cli/command.h"
#include "data/tokenizer/tokenize_lines.h"

namespace lazytrain {
namespace {

class TokenizeCommand final : public Command {
 public:
  std::string_view name() const override { return "tokenize"; }
  std::string_view help() const override {
    return "Text to ids and back: JSON lines in ({\"text\": ...}), JSON lines out";
  }
  void Define(OptionList& options) override {
    options.Text("model", model_, "Folder with a tokenizer", true);
    options.Text("file", options_.file, "Its file in there (tokenizer.model)");
    options.Flag("special", options_.special, "With the special tokens around a text");
    options.Flag("pieces", options_.pieces, "What the pre-tokenizer cuts instead of ids");
    options.Flag("decode", options_.decode, "Ids to text");
    options.Flag("skip-special", options_.skip_special, "When decoding: without special tokens");
    options.Positional("file", input_, "File of JSON lines; - is standard input");
  }
  int Run() override {
    options_.model = model_;
    options_.input = input_;
    std::ios::sync_with_stdio(false);
    TokenizeLines(options_, std::cin, std::cout);
    std::cout.flush();
    return 0;
  }

 private:
  TokenizeOptions options_;
  std::string model_;
  std::string input_;
};

}  // namespace

std::unique_ptr<Command> MakeTokenizeCommand() { return std::make_unique<TokenizeCommand>(); }

}  // namespace lazytrain
