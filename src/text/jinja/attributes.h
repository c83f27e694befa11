// Attribute and item access with the rules of Jinja's immutable sandbox.
#pragma once

#include <string_view>

#include "text/jinja/runtime.h"

namespace fathom::jinja {

// obj.name: Python attribute first, then item; undefined when there is neither.
Value get_attribute(Runtime& runtime, const Value& object, std::string_view name);
// obj[key]: item first, then, for string keys, attribute.
Value get_item(Runtime& runtime, const Value& object, const Value& key);
// getattr(obj, name) alone: missing if Python would raise AttributeError; undefined if the sandbox
// forbids it.
Value own_attribute(Runtime& runtime, const Value& object, std::string_view name);

// Methods by type; nullptr if there is none (or none supported) of that name.
Function find_string_method(std::string_view name);
Function find_container_method(Type type, std::string_view name);
Value dict_from_keys(Runtime& runtime, const Args& args);  // dict.fromkeys

}  // namespace fathom::jinja
