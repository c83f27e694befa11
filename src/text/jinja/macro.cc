// Macros and loops as values, and calling of values.
#include "text/jinja/macro.h"

#include <algorithm>

#include "text/jinja/attributes.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace fathom::jinja {

Value Interpreter::make_macro(const Statement& s, Scope& scope) {
  auto macro = runtime_.adopt(std::make_shared<MacroObject>(), sizeof(MacroObject));
  macro->definition = &s;
  macro->scope = &scope;
  return Value(Type::kMacro, std::move(macro));
}

Value Interpreter::call_value(const Value& callee, const Args& args) {
  runtime_.require_defined(callee);
  switch (callee.type()) {
    case Type::kMacro:
      return call_macro(callee.as<MacroObject>(), args);
    case Type::kFunction: {
      const auto& function = callee.as<FunctionObject>();
      return function.function(runtime_, function.self, args);
    }
    case Type::kLoop: {
      const auto& state = callee.as<LoopObject>();
      if (state.recursive == nullptr) {
        runtime_.type_error("The loop must have the 'recursive' marker to be called recursively.");
      }
      if (args.positional.size() != 1 || !args.keywords.empty()) {
        runtime_.type_error("loop() takes exactly one argument");
      }
      TextBuilder out(runtime_);
      loop(*state.recursive, *state.scope, out, args.positional[0], state.depth0 + 1);
      return out.value();
    }
    default:
      runtime_.type_error(std::string("'") + type_name(callee) + "' object is not callable");
  }
}

Value Interpreter::call_macro(const MacroObject& macro, const Args& args) {
  const Statement& s = *macro.definition;
  const Entered inner = enter(s.scope, macro.scope);
  bind_macro(s, args, *inner.scope);
  TextBuilder out(runtime_);
  run_body(s.body, *inner.scope, out);
  return out.value();
}

namespace {

Value take_keyword(std::vector<std::pair<std::string, Value>>& keywords, std::string_view name) {
  const auto at = std::find_if(keywords.begin(), keywords.end(),
                               [name](const auto& entry) { return entry.first == name; });
  if (at == keywords.end()) return Value();
  Value value = std::move(at->second);
  keywords.erase(at);
  return value;
}

}  // namespace

void Interpreter::bind_macro(const Statement& s, const Args& args, Scope& scope) {
  const std::string name = s.kind == StatementKind::kMacro ? repr_text(s.name) : "None";
  const size_t count = s.parameters.size();
  auto keywords = args.keywords;
  const size_t given = std::min(count, args.positional.size());
  for (size_t i = 0; i < count; ++i) {
    scope.at(s.parameter_slots[i]) =
        i < given ? args.positional[i] : take_keyword(keywords, s.parameters[i]);
  }
  if (s.takes_caller) {
    Value caller = take_keyword(keywords, "caller");
    if (caller.missing() || caller.is_none()) caller = runtime_.undefined("No caller defined");
    scope.at(s.caller_slot) = caller;
  }
  if (s.takes_kwargs) {
    auto dict = std::make_shared<DictObject>();
    for (const auto& [key, value] : keywords) dict->set(runtime_.string(key), value);
    scope.at(s.kwargs_slot) = runtime_.dict(std::move(dict));
  } else if (!keywords.empty()) {
    runtime_.type_error("macro " + name + " takes no keyword argument " +
                        repr_text(keywords.front().first));
  }
  std::vector<Value> rest;
  for (size_t i = given; i < args.positional.size(); ++i) {
    runtime_.push(rest, args.positional[i]);
  }
  if (s.takes_varargs) {
    scope.at(s.varargs_slot) = runtime_.tuple(std::move(rest));
  } else if (!rest.empty()) {
    runtime_.type_error("macro " + name + " takes not more than " + std::to_string(count) +
                        " argument(s)");
  }
  for (size_t i = 0; i < count; ++i) {
    Value& value = scope.at(s.parameter_slots[i]);
    if (!value.missing()) continue;
    const size_t from_end = count - i;
    value =
        from_end <= s.defaults.size()
            ? evaluate(*s.defaults[s.defaults.size() - from_end], scope)
            : runtime_.undefined("parameter " + repr_text(s.parameters[i]) + " was not provided");
  }
}

bool LoopObject::next(Runtime& runtime, Value& out) {
  Value item;
  if (!after.missing()) {
    item = std::exchange(after, Value());
  } else if (!items->next(runtime, item)) {
    return false;
  }
  ++index0;
  before = std::exchange(current, item);
  out = item;
  return true;
}

const Value& LoopObject::peek(Runtime& runtime) {
  Value item;
  if (after.missing() && items->next(runtime, item)) after = item;
  return after;
}

int64_t LoopObject::length(Runtime& runtime) {
  if (known_length >= 0) return known_length;
  if (sized(iterable)) {
    known_length = static_cast<int64_t>(length_of(iterable));
  } else {
    const Value rest = runtime.list(to_vector(runtime, Value(Type::kIterator, items)));
    known_length = static_cast<int64_t>(rest.items().size()) + index0 + 1 + !after.missing();
    items = iterate(runtime, rest);
  }
  return known_length;
}

void LoopObject::clear() {
  last_changed = Value();
  before = current = after = Value();
}

std::string macro_label(const Value& macro) {
  const Statement& s = *macro.as<MacroObject>().definition;
  return s.kind == StatementKind::kMacro ? repr_text(s.name) : "anonymous";
}

std::string loop_text(Runtime& runtime, const Value& loop) {
  auto& state = loop.as<LoopObject>();
  const int64_t length = state.length(runtime);
  return "<LoopContext " + std::to_string(state.index0 + 1) + "/" + std::to_string(length) + ">";
}

Value macro_attribute(Runtime& runtime, const Value& macro, std::string_view name) {
  const Statement& s = *macro.as<MacroObject>().definition;
  if (name == "name") {
    return s.kind == StatementKind::kMacro ? runtime.string(s.name) : Value::none();
  }
  if (name == "arguments") {
    std::vector<Value> names;
    for (const std::string& parameter : s.parameters) names.push_back(runtime.string(parameter));
    return runtime.tuple(std::move(names));
  }
  if (name == "catch_kwargs") return Value::boolean(s.takes_kwargs);
  if (name == "catch_varargs") return Value::boolean(s.takes_varargs);
  if (name == "caller") return Value::boolean(s.takes_caller);
  return Value();
}

namespace {

Value loop_cycle(Runtime& runtime, const Value& self, const Args& args) {
  if (!args.keywords.empty()) runtime.type_error("cycle() takes no keyword arguments");
  if (args.positional.empty()) runtime.type_error("no items for cycling given");
  const auto at = static_cast<size_t>(self.as<LoopObject>().index0) % args.positional.size();
  return args.positional[at];
}

Value loop_changed(Runtime& runtime, const Value& self, const Args& args) {
  if (!args.keywords.empty()) runtime.type_error("changed() takes no keyword arguments");
  auto& state = self.as<LoopObject>();
  const Value now = runtime.tuple(args.positional);
  if (!state.last_changed.missing() && compare(runtime, Op::kEq, state.last_changed, now)) {
    return Value::boolean(false);
  }
  if (!state.owned) {  // it may be handed itself
    state.owned = true;
    runtime.own(std::static_pointer_cast<MutableObject>(self.object()));
  }
  state.last_changed = now;
  return Value::boolean(true);
}

}  // namespace

Value loop_attribute(Runtime& runtime, const Value& loop, std::string_view name) {
  auto& state = loop.as<LoopObject>();
  const int64_t index = state.index0 + 1;
  if (name == "index") return Value::integer(index);
  if (name == "index0") return Value::integer(state.index0);
  if (name == "first") return Value::boolean(state.index0 == 0);
  if (name == "last") return Value::boolean(state.peek(runtime).missing());
  if (name == "length") return Value::integer(state.length(runtime));
  if (name == "revindex") return Value::integer(state.length(runtime) - state.index0);
  if (name == "revindex0") return Value::integer(state.length(runtime) - index);
  if (name == "depth") return Value::integer(state.depth0 + 1);
  if (name == "depth0") return Value::integer(state.depth0);
  if (name == "previtem") {
    return state.index0 == 0 ? runtime.undefined("there is no previous item") : state.before;
  }
  if (name == "nextitem") {
    const Value& next = state.peek(runtime);
    return next.missing() ? runtime.undefined("there is no next item") : next;
  }
  if (name == "cycle") return runtime.function("cycle", loop_cycle, loop);
  if (name == "changed") return runtime.function("changed", loop_changed, loop);
  return Value();
}

}  // namespace fathom::jinja
