// Binding of call arguments to parameter names, as Python does it.
#pragma once

#include <array>
#include <initializer_list>
#include <string_view>

#include "text/jinja/runtime.h"

namespace fathom::jinja {

inline constexpr size_t kMaxParameters = 6;
using Bound = std::array<Value, kMaxParameters>;  // missing where nothing was passed

// Binds `args` to `names`; the first `required` must be given. TypeError as Python words it.
Bound bind(Runtime& runtime, std::string_view function, const Args& args,
           std::initializer_list<std::string_view> names, size_t required);
// The same for functions of C Python that take no keywords.
Bound bind_positional(Runtime& runtime, std::string_view function, const Args& args,
                      size_t required, size_t at_most);

}  // namespace fathom::jinja
