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
  // White space that belongs to the opening where it stands in front of it.
  virtual std::string_view lead() const = 0;
  // A new section starts at its opening, which takes `opening_bytes`, the lead included.
  virtual void begin(size_t opening_bytes) = 0;
  // `final`: no more text will come, so kMore is not an answer.
  virtual Step step(std::string_view text, bool final) = 0;
};

// Finds out whether a call stands at some place of a text that grows. Remembers how far it looked,
// or long arguments would cost quadratic time.
class CallReader {
 public:
  struct Scan {
    enum class Kind { kMore, kCall, kMalformed } kind = Kind::kMore;
    size_t end = 0;  // where the call, or the text that is none, ends
    ToolCall call = {};
  };
  virtual ~CallReader() = default;
  virtual void reset() = 0;  // another call is next
  // The begin marker stands at `at`; the same `at` until the next reset(). `final`: kMore is not an
  // answer.
  virtual Scan scan(std::string_view text, size_t at, bool final) = 0;
};

// What all sections have in common: markers around them, and calls with white space between.
struct SectionMarkers {
  std::string_view lead, begin, end, call_begin;
};
std::unique_ptr<ToolSection> make_section(const SectionMarkers& markers,
                                          std::unique_ptr<CallReader> reader);

// Sections whose calls stand between literal markers.
struct DelimitedSyntax {
  std::string_view section_begin, section_end, call_begin, call_end;
  std::optional<ToolCall> (*parse_call)(std::string_view body);
};
std::unique_ptr<ToolSection> make_delimited_section(const DelimitedSyntax& syntax);

const DelimitedSyntax& deepseek_v3_syntax();
const DelimitedSyntax& deepseek_v31_syntax();

// Sections in DSML mark-up: invoke elements with one parameter element for each argument.
struct DsmlSyntax {
  std::string_view section_begin, section_end;
  std::string_view invoke_begin, invoke_end;        // the former up to the name's opening quote
  std::string_view parameter_begin, parameter_end;  // likewise
};
std::unique_ptr<ToolSection> make_dsml_section(const DsmlSyntax& syntax);
const DsmlSyntax& dsml_syntax(ToolFormat format);  // of V3.2, V4 or V4.1

// Helpers of the formats.
std::string_view trim_space(std::string_view text);  // ASCII white space
bool is_json(std::string_view text);
// Length of the longest end of `text` that is a proper beginning of `marker`.
size_t partial_marker(std::string_view text, std::string_view marker);

}  // namespace fathom
