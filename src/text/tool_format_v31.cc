// Tool calls as V3.1 writes them: NAME<sep>ARGUMENTS.
#include "text/tool_section.h"

namespace fathom {

namespace {

std::optional<ToolCall> parse_call(std::string_view body) {
  constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
  const size_t separator = body.find(kSeparator);
  if (separator == std::string_view::npos) return std::nullopt;
  const std::string_view name = trim_space(body.substr(0, separator));
  const std::string_view arguments = trim_space(body.substr(separator + kSeparator.size()));
  if (name.empty() || !is_json(arguments)) return std::nullopt;
  return ToolCall{std::string(name), std::string(arguments)};
}

}  // namespace

const DelimitedSyntax& deepseek_v31_syntax() {
  static constexpr DelimitedSyntax kSyntax = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>",
                                              "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>",
                                              parse_call};
  return kSyntax;
}

}  // namespace fathom
