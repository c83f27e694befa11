// The seam for tool call formats: one ToolSection per way of writing them, one file each.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "text/output_parser.h"

namespace fathom {

struct ToolCall {
  std::string name;
  std::string arguments;  // valid JSON
};

// Reads one section of tool calls. The parser hands over all text from the section's opening marker
// on and removes what the section has consumed.
class ToolSection {
 public:
  struct Step {
    enum class Kind {
      kMore,   // needs more text; nothing consumed
      kText,   // `bytes` are not a tool call after all: content
      kCall,   // `bytes` were `call`
      kDone,   // `bytes` closed the section
      kLeave,  // what follows does not belong to the section; nothing consumed
    } kind = Kind::kMore;
    size_t bytes = 0;
    ToolCall call = {};
  };

  virtual ~ToolSection() = default;
  virtual std::string_view opening() const = 0;
  virtual void begin() = 0;  // a new section starts at its opening marker
  // `final`: no more text will come, so kMore is not an answer.
  virtual Step step(std::string_view text, bool final) = 0;
};

// Sections whose calls stand between literal markers.
struct DelimitedSyntax {
  std::string_view section_begin, section_end, call_begin, call_end;
  std::optional<ToolCall> (*parse_call)(std::string_view body);
};
std::unique_ptr<ToolSection> make_delimited_section(const DelimitedSyntax& syntax);

const DelimitedSyntax& deepseek_v3_syntax();
const DelimitedSyntax& deepseek_v31_syntax();

// Helpers of the formats.
std::string_view trim_space(std::string_view text);  // ASCII white space
bool is_json(std::string_view text);
// Length of the longest end of `text` that is a proper beginning of `marker`.
size_t partial_marker(std::string_view text, std::string_view marker);

}  // namespace fathom
