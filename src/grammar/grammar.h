// Structured output: from what a request asks of its answer's form to masks of allowed tokens.
//
// A GrammarCompiler turns a GrammarSpec into a CompiledGrammar, once; a mask for one answer is
// cheap to make from it. The work is done by xgrammar's C++ core; builds without it refuse every
// spec.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "text/output_parser.h"
#include "text/tokenizer.h"
#include "types/token_mask.h"

namespace fathom {

// A function that the model may call.
struct ToolGrammar {
  std::string name;        // 1 to 128 of A-Z a-z 0-9 _ - . :
  std::string parameters;  // JSON schema of the arguments; "" = any object
};

// The form of an answer.
struct GrammarSpec {
  enum class Kind {
    kJsonObject,  // any JSON object
    kJsonSchema,  // JSON that is valid for `text`
    kRegex,       // text that the regular expression `text` matches as a whole
    kTools,       // calls of `tools`, as the model writes them
  } kind = Kind::kJsonObject;
  std::string text;
  // kJsonSchema: objects have no properties and arrays no items beyond those named, also where the
  // schema leaves that open.
  bool strict = true;

  ToolFormat tool_format = ToolFormat::kNone;
  std::vector<ToolGrammar> tools;  // a named choice: just this one
  // False: the answer consists of calls. True: it may be text, and once it opens calls these are
  // held to the grammar.
  bool tools_optional = false;
  bool parallel = true;  // more than one call
};

// Whether the answer has reasoning in front, which the grammar must let pass.
enum class ReasoningStart {
  kNone,
  kOpen,     // the prompt ends inside of it
  kMayOpen,  // the model may begin with <think>
};
ReasoningStart reasoning_start(std::string_view prompt, const OutputFormat& format);

// Immutable; shared by the masks that are made from it.
class CompiledGrammar {
 public:
  virtual ~CompiledGrammar() = default;
  virtual size_t memory_bytes() const = 0;  // roughly; grows while it is used
  // The mask of one answer. Reasoning is left alone, but may not end the answer; the grammar begins
  // after </think> (and up to two newlines, where the grammar is not itself about calls).
  virtual Result<std::shared_ptr<TokenMask>> make_mask(ReasoningStart reasoning) const = 0;
};

// Whether this build can do structured output.
bool structured_output_available();

// Compiles for one tokenizer. Any thread; one compilation at a time. Keeps the grammars that were
// used last.
//
// kInvalidArgument: the spec is no schema or regular expression, is too large or demands what
// cannot be held (the message names the keyword and its place); kUnsupported: no xgrammar in this
// build. Time and memory are bounded by limits on the spec, in schema_check.h.
class GrammarCompiler {
 public:
  // `stop_ids`: what ends an answer; allowed exactly where the grammar is complete. The tokenizer
  // is not used afterwards.
  static Result<std::unique_ptr<GrammarCompiler>> create(const Tokenizer& tokenizer,
                                                         std::vector<int32_t> stop_ids);
  ~GrammarCompiler();
  GrammarCompiler(const GrammarCompiler&) = delete;
  GrammarCompiler& operator=(const GrammarCompiler&) = delete;

  Result<std::shared_ptr<const CompiledGrammar>> compile(const GrammarSpec& spec);

 private:
  struct Impl;
  explicit GrammarCompiler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom
