// Global functions: Jinja's own and those transformers adds.
#pragma once

#include <string_view>

#include "text/jinja/runtime.h"

namespace fathom::jinja {

// range, dict, namespace, cycler, joiner, raise_exception, strftime_now; missing for other names.
Value builtin_global(Runtime& runtime, std::string_view name);

// namespace.name = value, with transformers' ban on names that begin with an underscore.
void set_attribute(Runtime& runtime, Value& holder, std::string_view name, const Value& value);

}  // namespace fathom::jinja
