// Tool calls as a DeepSeek version writes them, in the words of xgrammar's structural tags.
#pragma once

#include <string>
#include <string_view>

#include "core/status.h"
#include "grammar/grammar.h"
#include "grammar/vocabulary.h"

namespace fathom {

struct ToolStructure {
  std::string tag;      // JSON of a structural tag for the whole section of calls
  std::string opening;  // how the section begins; `tag_after` continues from here
  std::string tag_after_opening;
};

// White space that the grammar allows at one place of a JSON text. Bounded, or a model could write
// spaces for ever.
constexpr int kMaxWhitespace = 16;

// Refuses specs without tools or format and names that the format cannot hold. The parameters must
// have passed check_schema().
Result<ToolStructure> tool_structure(const GrammarSpec& spec, const Vocabulary& vocabulary);

}  // namespace fathom
