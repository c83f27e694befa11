// Binding of call arguments to parameter names.
#include "text/jinja/arguments.h"

#include <algorithm>

namespace fathom::jinja {

Bound bind(Runtime& runtime, std::string_view function, const Args& args,
           std::initializer_list<std::string_view> names, size_t required) {
  Bound bound;
  const std::string name(function);
  if (args.positional.size() > names.size()) {
    runtime.type_error(name + "() takes at most " + std::to_string(names.size()) +
                       " arguments but " + std::to_string(args.positional.size()) + " were given");
  }
  std::copy(args.positional.begin(), args.positional.end(), bound.begin());
  for (const auto& [keyword, value] : args.keywords) {
    const auto at = std::find(names.begin(), names.end(), keyword);
    if (at == names.end()) {
      runtime.type_error(name + "() got an unexpected keyword argument '" + keyword + "'");
    }
    Value& slot = bound[static_cast<size_t>(at - names.begin())];
    if (!slot.missing()) {
      runtime.type_error(name + "() got multiple values for argument '" + keyword + "'");
    }
    slot = value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (bound[i].missing()) {
      runtime.type_error(name + "() missing 1 required positional argument: '" +
                         std::string(names.begin()[i]) + "'");
    }
  }
  return bound;
}

Bound bind_positional(Runtime& runtime, std::string_view function, const Args& args,
                      size_t required, size_t at_most) {
  const std::string name(function);
  if (!args.keywords.empty()) runtime.type_error(name + "() takes no keyword arguments");
  const size_t given = args.positional.size();
  if (given < required || given > at_most) {
    runtime.type_error(name + "() takes " +
                       (required == at_most ? "exactly "
                        : given < required  ? "at least "
                                            : "at most ") +
                       std::to_string(given < required ? required : at_most) + " arguments (" +
                       std::to_string(given) + " given)");
  }
  Bound bound;
  std::copy(args.positional.begin(), args.positional.end(), bound.begin());
  return bound;
}

}  // namespace fathom::jinja
