// One function per family of formats: delimited (V3, V3.1) and DSML (V3.2, V4, V4.1).
#include "grammar/tool_grammar.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "grammar/schema_check.h"
#include "text/tool_section.h"

namespace fathom {

namespace {

using Json = nlohmann::ordered_json;

Json text(std::string_view value) {
  return {{"type", "const_string"}, {"value", value}};
}
Json sequence(std::vector<Json> elements) {
  return {{"type", "sequence"}, {"elements", std::move(elements)}};
}
Json either(std::vector<Json> elements) {
  if (elements.size() == 1) return std::move(elements.front());
  return {{"type", "or"}, {"elements", std::move(elements)}};
}
Json any_number_of(Json content) {
  return {{"type", "star"}, {"content", std::move(content)}};
}

// A marker that is one token is held to that token: spelled out in letters it would be text, and a
// text may not contain the token.
Json marker(std::string_view value, const Vocabulary& vocabulary) {
  if (const auto id = vocabulary.marker(value)) return {{"type", "token"}, {"token", *id}};
  return text(value);
}

Json arguments(const ToolGrammar& tool, const char* style) {
  Json schema = tool.parameters.empty() ? Json{{"type", "object"}, {"additionalProperties", true}}
                                        : Json::parse(tool.parameters);
  // Every parameter of a call stands in an object, also where the schema does not say so.
  if (schema.is_boolean()) schema = {{"type", "object"}, {"additionalProperties", schema}};
  if (!schema.contains("type") && !schema.contains("$ref")) schema["type"] = "object";
  return {{"type", "json_schema"},
          {"json_schema", std::move(schema)},
          {"style", style},
          {"max_whitespace_cnt", kMaxWhitespace}};
}

Status check_tools(const GrammarSpec& spec) {
  if (spec.tools.empty() || spec.tools.size() > SchemaLimits::kMaxTools) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{} tools are given; calls of 1 to {} can be held to a grammar.",
                              spec.tools.size(), SchemaLimits::kMaxTools));
  }
  for (const ToolGrammar& tool : spec.tools) {
    const auto fits = [](char c) {
      return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
             c == '_' || c == '-' || c == '.' || c == ':';
    };
    bool good = !tool.name.empty() && tool.name.size() <= 128;
    for (const char c : tool.name) good = good && fits(c);
    if (!good) {
      return Status(Code::kInvalidArgument,
                    "A tool's name must have 1 to 128 of A-Z, a-z, 0-9, '_', '-', '.' and ':' to "
                    "be held to a grammar.");
    }
  }
  return Status();
}

// The calls of a section with their separator: one, or more where they may be parallel.
std::vector<Json> calls(const GrammarSpec& spec, Json call, std::string_view separator) {
  std::vector<Json> parts = {call};
  if (!spec.parallel) return parts;
  if (!separator.empty()) call = sequence({text(separator), std::move(call)});
  parts.push_back(any_number_of(std::move(call)));
  return parts;
}

ToolStructure structure(std::string_view lead, Json opening, std::string_view opening_text,
                        std::vector<Json> rest) {
  const auto tag = [](std::vector<Json> elements) {
    return Json{{"type", "structural_tag"}, {"format", sequence(std::move(elements))}}.dump();
  };
  ToolStructure result;
  result.opening = opening_text;
  result.tag_after_opening = tag(rest);
  rest.insert(rest.begin(), std::move(opening));
  if (!lead.empty()) rest.insert(rest.begin(), text(lead));
  result.tag = tag(std::move(rest));
  return result;
}

ToolStructure delimited(const GrammarSpec& spec, const Vocabulary& vocabulary) {
  const bool fenced = spec.tool_format == ToolFormat::kDeepSeekV3;
  const DelimitedSyntax& syntax = fenced ? deepseek_v3_syntax() : deepseek_v31_syntax();
  const Json separator = marker("<｜tool▁sep｜>", vocabulary);
  std::vector<Json> choices;
  for (const ToolGrammar& tool : spec.tools) {
    if (fenced) {
      choices.push_back(
          sequence({text(tool.name + "\n```json\n"), arguments(tool, "json"), text("\n```")}));
    } else {
      choices.push_back(sequence({text(tool.name), separator, arguments(tool, "json")}));
    }
  }
  std::vector<Json> call = {marker(syntax.call_begin, vocabulary)};
  if (fenced) {
    call.push_back(text("function"));
    call.push_back(separator);
  }
  call.push_back(either(std::move(choices)));
  call.push_back(marker(syntax.call_end, vocabulary));
  std::vector<Json> rest = calls(spec, sequence(std::move(call)), fenced ? "\n" : "");
  rest.push_back(marker(syntax.section_end, vocabulary));
  return structure("", marker(syntax.section_begin, vocabulary), syntax.section_begin,
                   std::move(rest));
}

ToolStructure dsml(const GrammarSpec& spec) {
  const DsmlSyntax& syntax = dsml_syntax(spec.tool_format);
  const bool v41 = spec.tool_format == ToolFormat::kDeepSeekV41;
  std::vector<Json> choices;
  for (const ToolGrammar& tool : spec.tools) {
    choices.push_back(sequence({text(fmt::format("{}{}\">\n", syntax.invoke_begin, tool.name)),
                                arguments(tool, v41 ? "deepseek_v4_1_xml" : "deepseek_xml"),
                                text(fmt::format("{}\n", syntax.invoke_end))}));
  }
  std::vector<Json> rest = calls(spec, either(std::move(choices)), "");
  rest.insert(rest.begin(), text(">\n"));
  rest.push_back(text(syntax.section_end));
  // The last character of the opening may share a token with what follows, so the grammar takes
  // over before it.
  const std::string_view opening = syntax.section_begin.substr(0, syntax.section_begin.size() - 1);
  return structure("\n\n", text(opening), opening, std::move(rest));
}

}  // namespace

Result<ToolStructure> tool_structure(const GrammarSpec& spec, const Vocabulary& vocabulary) {
  FATHOM_TRY(check_tools(spec));
  switch (spec.tool_format) {
    case ToolFormat::kDeepSeekV3:
    case ToolFormat::kDeepSeekV31:
      return delimited(spec, vocabulary);
    case ToolFormat::kDeepSeekV32:
    case ToolFormat::kDeepSeekV4:
    case ToolFormat::kDeepSeekV41:
      return dsml(spec);
    case ToolFormat::kNone:
      break;
  }
  return error(Code::kInvalidArgument,
               "This model has no known way of writing tool calls, so they cannot be demanded.");
}

}  // namespace fathom
