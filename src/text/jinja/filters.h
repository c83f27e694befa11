// Filters and tests of the template language, by name.
#pragma once

#include <string_view>

#include "text/jinja/runtime.h"

namespace fathom::jinja {

// A filter or test is a function of its subject and the other arguments. nullptr: no such name.
Function find_filter(std::string_view name);
Function find_test(std::string_view name);  // returns a value whose truth is the answer
// Filters that Jinja has and this interpreter does not.
bool unsupported_filter(std::string_view name);

// The tables, one per kind of filter.
Function find_text_filter(std::string_view name);
Function find_number_filter(std::string_view name);
Function find_sequence_filter(std::string_view name);
Function find_selection_filter(std::string_view name);

struct NamedFunction {
  std::string_view name;
  Function function;
};
Function find_named(const NamedFunction* begin, const NamedFunction* end, std::string_view name);

// Looks up "a.b.0" in item as jinja2's make_attrgetter does; `attribute` may be an int or None.
class AttributePath {
 public:
  AttributePath(Runtime& runtime, const Value& attribute);
  Value get(Runtime& runtime, Value item, const Value& otherwise = Value()) const;
  int depth() const { return depth_; }

 private:
  std::vector<Value> parts_;
  int depth_ = 0;
};

// What a filter with case_sensitive=False compares: strings in lower case, all else unchanged.
Value sort_key(Runtime& runtime, const Value& value, bool case_sensitive);
// Stable sort of items by keys, as sorted(key=..., reverse=...).
std::vector<Value> sorted_by(Runtime& runtime, const std::vector<Value>& items,
                             const std::vector<Value>& keys, bool reverse);

}  // namespace fathom::jinja
