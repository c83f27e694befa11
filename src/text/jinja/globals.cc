// Global functions: Jinja's own and those transformers adds.
#include "text/jinja/globals.h"

#include <algorithm>
#include <ctime>

#include "text/jinja/arguments.h"
#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/string_methods.h"
#include "text/jinja/unicode.h"

namespace fathom::jinja {

namespace {

constexpr int64_t kMaxRange = 100000;  // jinja2.sandbox.MAX_RANGE

Value call_range(Runtime& runtime, const Value&, const Args& args) {
  const Bound bound = bind_positional(runtime, "range", args, 1, 3);
  auto range = runtime.adopt(std::make_shared<RangeObject>(), sizeof(RangeObject));
  if (bound[1].missing()) {
    range->stop = index_argument(runtime, bound[0]);
  } else {
    range->start = index_argument(runtime, bound[0]);
    range->stop = index_argument(runtime, bound[1]);
  }
  if (!bound[2].missing()) range->step = index_argument(runtime, bound[2]);
  if (range->step == 0) runtime.fail(FailureKind::kValue, "range() arg 3 must not be zero");
  if (range->size() > kMaxRange) {
    runtime.fail(FailureKind::kOverflow,
                 "Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
  }
  return Value(Type::kRange, std::move(range));
}

// dict(mapping or pairs, **keywords).
std::shared_ptr<DictObject> make_dict(Runtime& runtime, const Args& args, const char* name) {
  if (args.positional.size() > 1) {
    runtime.type_error(std::string(name) + " expected at most 1 argument, got " +
                       std::to_string(args.positional.size()));
  }
  auto dict = std::make_shared<DictObject>();
  const auto set = [&](const Value& key, const Value& value) {
    if (!hashable(key)) {
      runtime.type_error(std::string("unhashable type: '") + type_name(key) + "'");
    }
    runtime.reserve(2 * sizeof(Value));
    dict->set(key, value);
  };
  if (!args.positional.empty() && args.positional[0].is(Type::kDict)) {
    for (const auto& [key, value] : args.positional[0].dict().entries) set(key, value);
  } else if (!args.positional.empty()) {
    runtime.require_defined(args.positional[0]);
    for_each(runtime, args.positional[0], [&](const Value& item) {
      const std::vector<Value> pair = to_vector(runtime, item);
      if (pair.size() != 2) {
        runtime.fail(FailureKind::kValue, "dictionary update sequence element has length " +
                                              std::to_string(pair.size()) + "; 2 is required");
      }
      set(pair[0], pair[1]);
    });
  }
  for (const auto& [key, value] : args.keywords) set(runtime.string(key), value);
  return dict;
}

Value call_dict(Runtime& runtime, const Value&, const Args& args) {
  return runtime.dict(make_dict(runtime, args, "dict"));
}

void check_namespace_name(Runtime& runtime, std::string_view name) {
  if (!name.starts_with('_')) return;
  runtime.fail(
      FailureKind::kSecurity,
      "Chat templates cannot store underscore-prefixed attributes on a namespace, but got " +
          repr_text(name) + ". Please rename the attribute.");
}

Value call_namespace(Runtime& runtime, const Value&, const Args& args) {
  std::vector<std::pair<std::string, Value>> attributes;
  const std::shared_ptr<DictObject> dict = make_dict(runtime, args, "dict");
  for (const auto& [key, value] : dict->entries) {
    if (!key.is_string()) continue;  // out of reach: attributes have names
    check_namespace_name(runtime, key.text());
    attributes.emplace_back(key.text(), value);
  }
  return runtime.make_namespace(std::move(attributes));
}

Value call_raise_exception(Runtime& runtime, const Value&, const Args& args) {
  const Bound bound = bind(runtime, "raise_exception", args, {"message"}, 1);
  runtime.fail(FailureKind::kRaised, str(runtime, bound[0]));
}

Value call_strftime_now(Runtime& runtime, const Value&, const Args& args) {
  const Bound bound = bind(runtime, "strftime_now", args, {"format"}, 1);
  const std::string format(string_argument(runtime, bound[0], "strftime_now"));
  // Room for any date a template prints; glibc's field widths must not make it a memory bomb.
  char text[1024];
  const std::tm now = runtime.local_time();
  const size_t size = std::strftime(text, sizeof(text), format.c_str(), &now);
  if (size == 0 && !format.empty()) {
    runtime.fail(FailureKind::kUnsupported, "strftime_now with the format " + repr_text(format) +
                                                " makes no text or too much of it");
  }
  if (!valid_utf8(std::string_view(text, size))) {
    runtime.fail(FailureKind::kValue, "strftime_now made text that is not UTF-8");
  }
  return runtime.string(std::string(text, size));
}

// cycler and joiner keep their state in a namespace.
Value cycler_next(Runtime& runtime, const Value& self, const Args& args) {
  bind_positional(runtime, "next", args, 0, 0);
  auto& state = self.as<NamespaceObject>();
  const Value items = *state.find("items");
  const auto at = static_cast<size_t>(state.find("position")->as_int());
  const size_t next = (at + 1) % items.items().size();
  *state.find("position") = Value::integer(static_cast<Int>(next));
  *state.find("current") = items.items()[next];
  return items.items()[at];
}

Value cycler_reset(Runtime& runtime, const Value& self, const Args& args) {
  bind_positional(runtime, "reset", args, 0, 0);
  auto& state = self.as<NamespaceObject>();
  *state.find("position") = Value::integer(0);
  *state.find("current") = state.find("items")->items()[0];
  return Value::none();
}

Value call_cycler(Runtime& runtime, const Value&, const Args& args) {
  if (args.positional.empty() || !args.keywords.empty()) {
    runtime.fail(FailureKind::kRuntime, "at least one item has to be provided");
  }
  const Value items = runtime.tuple(args.positional);
  Value state = runtime.make_namespace(
      {{"items", items}, {"position", Value::integer(0)}, {"current", items.items()[0]}});
  auto& attributes = state.as<NamespaceObject>().attributes;
  attributes.emplace_back("next", runtime.function("next", cycler_next, state));
  attributes.emplace_back("reset", runtime.function("reset", cycler_reset, state));
  return state;
}

Value joiner_call(Runtime& runtime, const Value& self, const Args& args) {
  bind_positional(runtime, "joiner", args, 0, 0);
  auto& state = self.as<NamespaceObject>();
  if (state.find("used")->as_bool()) return *state.find("sep");
  *state.find("used") = Value::boolean(true);
  return runtime.string("");
}

Value call_joiner(Runtime& runtime, const Value&, const Args& args) {
  const Bound bound = bind(runtime, "joiner", args, {"sep"}, 0);
  const Value separator = bound[0].missing() ? runtime.string(", ") : bound[0];
  const Value state = runtime.make_namespace({{"sep", separator}, {"used", Value::boolean(false)}});
  return runtime.function("joiner", joiner_call, state);
}

Value call_lipsum(Runtime& runtime, const Value&, const Args&) {
  runtime.fail(FailureKind::kUnsupported, "lipsum() is not supported");
}

}  // namespace

Value builtin_global(Runtime& runtime, std::string_view name) {
  static constexpr std::pair<std::string_view, Function> kFunctions[] = {
      {"range", call_range},
      {"dict", call_dict},
      {"namespace", call_namespace},
      {"raise_exception", call_raise_exception},
      {"strftime_now", call_strftime_now},
      {"cycler", call_cycler},
      {"joiner", call_joiner},
      {"lipsum", call_lipsum},
  };
  for (const auto& [known, function] : kFunctions) {
    if (known == name) return runtime.function(std::string(name), function);
  }
  return Value();
}

void set_attribute(Runtime& runtime, Value& holder, std::string_view name, const Value& value) {
  check_namespace_name(runtime, name);
  auto& object = holder.as<NamespaceObject>();
  if (Value* old = object.find(name)) {
    *old = value;
  } else {
    runtime.reserve(sizeof(Value) + name.size() + 32);
    object.attributes.emplace_back(name, value);
  }
}

}  // namespace fathom::jinja
