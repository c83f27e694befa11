// Structured output: what form an answer must have, and the grammar that sees to it.
#pragma once

#include <memory>
#include <optional>

#include "grammar/grammar.h"
#include "http/api/messages.h"
#include "http/api/tools.h"

namespace fathom::api {

// A grammar and where in the answer it begins.
struct Structure {
  std::shared_ptr<const CompiledGrammar> grammar;  // nullptr: any answer will do
  ReasoningStart reasoning = ReasoningStart::kNone;
};

// Forms in which a request may ask for structure.
Schema response_format_schema();     // OpenAI's response_format
Schema structured_outputs_schema();  // vLLM's structured_outputs: json, regex or json_object

struct StructureRequest {
  ToolPlan tools;
  bool parallel_calls = true;
  Json response_format = nullptr;     // has passed its schema
  Json structured_outputs = nullptr;  // the same
};
// Compiles what the request asks for. Calls that must come, and tools that are `strict`, are held
// to a grammar; other tools are left to the model.
ApiResult<Structure> plan_structure(const Service& service, const StructureRequest& request,
                                    const RenderedChat& chat);
// The same for a plain completion, which has neither tools nor reasoning.
ApiResult<Structure> plan_structure(const Service& service, const StructureRequest& request);

}  // namespace fathom::api
