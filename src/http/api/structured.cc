// From response_format, structured_outputs and tools to a compiled grammar.
#include "http/api/structured.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "http/api/chat_call.h"

namespace fathom::api {

namespace {

struct WantedForm {
  GrammarSpec spec;
  std::string param;  // what a refusal names
};
using MaybeForm = ApiResult<std::optional<WantedForm>>;

MaybeForm form_of_response_format(const Json& format) {
  if (format.is_null() || format["type"] == "text") return std::nullopt;
  WantedForm form;
  form.param = "response_format";
  if (format["type"] == "json_object") return form;
  const Json& given = format["json_schema"];
  const Json schema = field_or_null(given, "schema");
  if (schema.is_null()) return form;  // a name without a schema: any object
  form.spec.kind = GrammarSpec::Kind::kJsonSchema;
  form.spec.text = dump(schema);
  form.spec.strict = field_or_null(given, "strict") != false;
  form.param = "response_format.json_schema.schema";
  return form;
}

MaybeForm form_of_structured_outputs(const Json& given) {
  if (given.is_null()) return std::nullopt;
  WantedForm form;
  int forms = 0;
  const Json json = field_or_null(given, "json");
  if (!json.is_null()) {
    ++forms;
    form.spec.kind = GrammarSpec::Kind::kJsonSchema;
    form.spec.text = json.is_string() ? json.get<std::string>() : dump(json);
    form.param = "structured_outputs.json";
  }
  const Json regex = field_or_null(given, "regex");
  if (!regex.is_null()) {
    ++forms;
    form.spec.kind = GrammarSpec::Kind::kRegex;
    form.spec.text = regex.get<std::string>();
    form.param = "structured_outputs.regex";
  }
  if (field_or_null(given, "json_object") == true) {
    ++forms;
    form.param = "structured_outputs.json_object";
  }
  if (forms == 0) return std::nullopt;
  if (forms > 1) {
    return fail("structured_outputs",
                "structured_outputs asks for more than one form; give one of json, regex and "
                "json_object.");
  }
  return form;
}

bool is_strict(const Json& tool) {
  return field_or_null(tool["function"], "strict") == true;
}

MaybeForm form_of_tools(const StructureRequest& request, ToolFormat format) {
  const ToolPlan& plan = request.tools;
  const bool forced = plan.force != ToolPlan::Force::kNone;
  const bool strict = std::any_of(plan.tools.begin(), plan.tools.end(), is_strict);
  if (!forced && !strict) return std::nullopt;
  WantedForm form;
  form.param = forced ? "tool_choice" : "tools";
  form.spec.kind = GrammarSpec::Kind::kTools;
  form.spec.tool_format = format;
  form.spec.tools_optional = !forced;
  form.spec.parallel = request.parallel_calls && plan.force != ToolPlan::Force::kOne;
  for (const Json& tool : plan.tools) {
    const Json& function = tool["function"];
    if (plan.force == ToolPlan::Force::kOne && function["name"] != plan.name) continue;
    const Json parameters = field_or_null(function, "parameters");
    // A tool that is neither strict nor forced takes any object.
    const bool held = (forced || is_strict(tool)) && !parameters.is_null();
    form.spec.tools.push_back({function["name"], held ? dump(parameters) : ""});
  }
  return form;
}

MaybeForm wanted_form(const StructureRequest& request, ToolFormat format) {
  FATHOM_API_ASSIGN(std::optional<WantedForm> text,
                    form_of_response_format(request.response_format));
  FATHOM_API_ASSIGN(std::optional<WantedForm> other,
                    form_of_structured_outputs(request.structured_outputs));
  if (text && other) {
    return fail("structured_outputs",
                "structured_outputs and response_format both ask for a form; give one of them.");
  }
  if (other) text = std::move(other);
  if (request.tools.tools.is_null()) return text;
  if (text) {
    return fail(text->param,
                "An answer cannot have a form and call tools at will; leave out one of them, or "
                "set tool_choice to none.");
  }
  return form_of_tools(request, format);
}

ApiResult<Structure> compile(const Service& service, const std::optional<WantedForm>& form) {
  Structure structure;
  if (!form) return structure;
  Result<GrammarCompiler*> compiler = service.grammars();
  if (!compiler) return fail(from_status(compiler.error(), form->param));
  auto grammar = (*compiler)->compile(form->spec);
  if (!grammar) return fail(from_status(grammar.error(), form->param));
  structure.grammar = std::move(*grammar);
  return structure;
}

// How the prompt ends, where reasoning is concerned.
ReasoningStart reasoning_of(const Service& service, const RenderedChat& chat) {
  if (chat.format.inside_reasoning) return ReasoningStart::kOpen;
  constexpr size_t kTail = 32;
  const size_t count = std::min(chat.prompt.size(), kTail);
  const std::vector<int32_t> tail(chat.prompt.end() - static_cast<std::ptrdiff_t>(count),
                                  chat.prompt.end());
  return reasoning_start(service.engine().tokenizer()->decode(tail, false), chat.format.output);
}

}  // namespace

Schema response_format_schema() {
  Schema named = Schema::object({{"name", Schema::string()},
                                 {"description", Schema::string()},
                                 {"schema", Schema::map(Schema::any())},
                                 {"strict", Schema::boolean()}});
  return Schema::tagged("type", {{"text", Schema::object({})},
                                 {"json_object", Schema::object({})},
                                 {"json_schema", Schema::object({{"json_schema", named, true}})}});
}

Schema structured_outputs_schema() {
  return Schema::object({{"json", Schema::any_of({Schema::map(Schema::any()), Schema::string()})},
                         {"regex", Schema::string()},
                         {"json_object", Schema::boolean()}});
}

ApiResult<Structure> plan_structure(const Service& service, const StructureRequest& request,
                                    const RenderedChat& chat) {
  FATHOM_API_ASSIGN(const std::optional<WantedForm> form,
                    wanted_form(request, chat.format.output.tools));
  FATHOM_API_ASSIGN(Structure structure, compile(service, form));
  if (structure.grammar) structure.reasoning = reasoning_of(service, chat);
  return structure;
}

ApiResult<Structure> plan_structure(const Service& service, const StructureRequest& request) {
  FATHOM_API_ASSIGN(const std::optional<WantedForm> form, wanted_form(request, ToolFormat::kNone));
  return compile(service, form);
}

}  // namespace fathom::api
