// From a form to a request's mask.
#include "engine/structured_output.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/json_shape.h"
#include "text/chat_template.h"
#include "text/output_parser.h"

namespace fathom {

namespace {

constexpr size_t kPromptTail = 16;  // tokens that tell whether reasoning is open

Status bad_format(const std::string& what) {
  return Status(Code::kInvalidArgument, "response_format " + what);
}

}  // namespace

Status StructuredOutput::apply(const GrammarSpec& spec, Request* request) {
  const Tokenizer* tokenizer = engine_->tokenizer();
  if (tokenizer == nullptr) {
    return Status(Code::kUnsupported,
                  "The model's folder has no tokenizer.json, so its answers cannot be held to a "
                  "form.");
  }
  if (engine_->stop_ids().empty()) {
    return Status(Code::kUnsupported,
                  "The model has no end-of-sequence token, so an answer of a given form could not "
                  "end.");
  }
  std::shared_ptr<const CompiledGrammar> grammar;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (compiler_ == nullptr) {
      FATHOM_ASSIGN_OR_STATUS(compiler_, GrammarCompiler::create(*tokenizer, engine_->stop_ids()));
    }
  }
  FATHOM_ASSIGN_OR_STATUS(grammar, compiler_->compile(spec));
  FATHOM_ASSIGN_OR_STATUS(std::vector<int32_t> ids, engine_->encode_prompt(request->prompt));
  const size_t tail = std::min(ids.size(), kPromptTail);
  const std::string end = tokenizer->decode({ids.end() - static_cast<ptrdiff_t>(tail), ids.end()},
                                            /*skip_special_tokens=*/false);
  const ChatTemplate* chat_template = engine_->chat_template();
  const OutputFormat format = detect_output_format(
      chat_template != nullptr ? chat_template->source(false) : "", engine_->config().model_type);
  FATHOM_ASSIGN_OR_STATUS(request->token_mask, grammar->make_mask(reasoning_start(end, format)));
  request->prompt = std::move(ids);
  return Status();
}

Result<bool> parse_response_format(std::string_view json, GrammarSpec* spec) {
  using Json = nlohmann::ordered_json;
  FATHOM_TRY(check_json_shape(json).with_context("response_format"));
  const Json format = Json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  if (!format.is_object() || !format.contains("type") || !format["type"].is_string()) {
    return error(bad_format("must be an object with a \"type\"."));
  }
  const std::string type = format["type"].get<std::string>();
  if (type == "text") return false;
  if (type == "json_object") {
    spec->kind = GrammarSpec::Kind::kJsonObject;
    return true;
  }
  if (type != "json_schema") {
    return error(
        bad_format("has a \"type\" that is not known; known are \"text\", \"json_object\" "
                   "and \"json_schema\"."));
  }
  const auto body = format.find("json_schema");
  if (body == format.end() || !body->is_object() || !body->contains("schema")) {
    return error(bad_format("of type json_schema needs \"json_schema\": {\"schema\": {...}}."));
  }
  const auto strict = body->find("strict");
  if (strict != body->end() && !strict->is_boolean() && !strict->is_null()) {
    return error(bad_format("has a \"strict\" that is neither true nor false."));
  }
  spec->kind = GrammarSpec::Kind::kJsonSchema;
  spec->strict = strict != body->end() && *strict == true;
  spec->text = (*body)["schema"].dump(-1, ' ', false, Json::error_handler_t::replace);
  return true;
}

}  // namespace fathom
