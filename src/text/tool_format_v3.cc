// Tool calls as V2.5, V3 and R1 write them: function<sep>NAME, then the arguments in a json fence.
#include "text/tool_section.h"

namespace fathom {

namespace {

std::optional<ToolCall> parse_call(std::string_view body) {
  constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
  const size_t separator = body.find(kSeparator);
  if (separator == std::string_view::npos) return std::nullopt;
  std::string_view rest = body.substr(separator + kSeparator.size());
  const size_t line_end = rest.find('\n');
  if (line_end == std::string_view::npos) return std::nullopt;
  const std::string_view name = trim_space(rest.substr(0, line_end));
  rest = trim_space(rest.substr(line_end));
  for (std::string_view fence : {"```json", "```"}) {
    if (!rest.starts_with(fence) || !rest.ends_with("```") || rest.size() < fence.size() + 3) {
      continue;
    }
    const std::string_view inside = rest.substr(fence.size(), rest.size() - fence.size() - 3);
    const std::string_view arguments = trim_space(inside);
    if (name.empty() || !is_json(arguments)) return std::nullopt;
    return ToolCall{std::string(name), std::string(arguments)};
  }
  return std::nullopt;
}

}  // namespace

const DelimitedSyntax& deepseek_v3_syntax() {
  static constexpr DelimitedSyntax kSyntax = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>",
                                              "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>",
                                              parse_call};
  return kSyntax;
}

}  // namespace fathom
