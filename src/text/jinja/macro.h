// Macros and loops as values: what templates can ask of them.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/runtime.h"

namespace fathom::jinja {

struct Statement;
class Scope;

struct MacroObject : Object {
  const Statement* definition = nullptr;  // macro or call block
  Scope* scope = nullptr;                 // where it was defined; lives as long as the rendering
};

// State of one running for loop, the `loop` variable.
struct LoopObject : MutableObject {
  Value iterable;
  std::shared_ptr<IteratorObject> items;
  int64_t index0 = -1;
  int64_t depth0 = 0;
  int64_t known_length = -1;
  Value before, current, after;          // missing where there is none
  Value last_changed;                    // tuple of loop.changed's arguments
  bool owned = false;                    // by the runtime, once changed() was called
  const Statement* recursive = nullptr;  // the statement, of a loop marked recursive
  Scope* scope = nullptr;                // around the statement

  bool next(Runtime& runtime, Value& out);  // advances the loop
  const Value& peek(Runtime& runtime);      // next item, missing at the end
  int64_t length(Runtime& runtime);
  void clear() override;
};

std::string macro_label(const Value& macro);  // its name quoted, or "anonymous"
std::string loop_text(Runtime& runtime, const Value& loop);
Value macro_attribute(Runtime& runtime, const Value& macro, std::string_view name);
Value loop_attribute(Runtime& runtime, const Value& loop, std::string_view name);

}  // namespace fathom::jinja
