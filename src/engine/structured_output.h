// StructuredOutput: gives requests of an engine a mask that holds their answers to a form.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>

#include "core/status.h"
#include "engine/engine.h"
#include "grammar/grammar.h"

namespace fathom {

// Of one engine, which must outlive it. Any thread.
class StructuredOutput {
 public:
  explicit StructuredOutput(const Engine& engine) : engine_(&engine) {}

  // Sets request->token_mask. Renders and encodes the prompt, which becomes ids, because it decides
  // whether the answer begins with reasoning.
  Status apply(const GrammarSpec& spec, Request* request);

 private:
  const Engine* engine_;
  std::mutex mutex_;
  std::unique_ptr<GrammarCompiler> compiler_;  // made for the first request
};

// OpenAI's response_format: {"type": "text"}, {"type": "json_object"} or {"type": "json_schema",
// "json_schema": {"schema": {...}, "strict": true | false}}. False: any text, `spec` is untouched.
Result<bool> parse_response_format(std::string_view json, GrammarSpec* spec);

}  // namespace fathom
