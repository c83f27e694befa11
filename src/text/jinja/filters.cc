// The list of filters, and those that choose: default, attr, map, select, reject and their kin.
#include "text/jinja/filters.h"

#include <algorithm>
#include <iterator>

#include "text/jinja/arguments.h"
#include "text/jinja/attributes.h"
#include "text/jinja/iteration.h"
#include "text/jinja/python_text.h"

namespace fathom::jinja {

Function find_named(const NamedFunction* begin, const NamedFunction* end, std::string_view name) {
  const auto* at =
      std::find_if(begin, end, [name](const NamedFunction& entry) { return entry.name == name; });
  return at != end ? at->function : nullptr;
}

namespace {

Value filter_default(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound = bind(runtime, "default", args, {"default_value", "boolean"}, 0);
  if (!subject.undefined() && !(truthy(bound[1]) && !truthy(subject))) return subject;
  return bound[0].missing() ? runtime.string("") : bound[0];
}

Value filter_attr(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound = bind(runtime, "attr", args, {"name"}, 1);
  if (!bound[0].is_string()) runtime.type_error("attribute name must be string");
  const Value value = own_attribute(runtime, subject, bound[0].text());
  if (!value.missing()) return value;
  return runtime.undefined(repr_text(std::string(type_name(subject)) + " object") +
                           " has no attribute " + repr(runtime, bound[0]));
}

// One step of a generator over `subject`: keeps, drops or changes an item.
struct Selection {
  Value subject;
  Args args;                    // for the filter or test
  Function function = nullptr;  // nullptr: truth of the item itself
  std::shared_ptr<AttributePath> path;
  Value otherwise;     // map's default
  bool wanted = true;  // keep the items whose test says so
  std::shared_ptr<IteratorObject> items;

  bool start(Runtime& runtime) {
    if (items == nullptr) {
      if (!truthy(subject)) return false;
      items = iterate(runtime, subject);
    }
    return true;
  }
};

int depth_of(const Value& subject, const Args& args) {
  int depth = subject.depth();
  for (const Value& value : args.positional) depth = std::max(depth, value.depth());
  for (const auto& [name, value] : args.keywords) depth = std::max(depth, value.depth());
  return depth;
}

const std::string& name_argument(Runtime& runtime, const Args& args, size_t at, const char* kind,
                                 std::string& storage) {
  const Value& name = args.positional[at];
  if (!name.is_string()) {
    runtime.fail(FailureKind::kRuntime,
                 std::string("No ") + kind + " named " + repr(runtime, name) + ".");
  }
  storage = name.text();
  return storage;
}

// The rest of the arguments after the first `count` positional ones.
Args after(const Args& args, size_t count) {
  Args rest;
  rest.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(count),
                         args.positional.end());
  rest.keywords = args.keywords;
  return rest;
}

void prepare_map(Runtime& runtime, const Args& args, Selection& state) {
  const auto keyword = [&](std::string_view name) {
    const auto at = std::find_if(args.keywords.begin(), args.keywords.end(),
                                 [name](const auto& entry) { return entry.first == name; });
    return at == args.keywords.end() ? Value() : at->second;
  };
  if (args.positional.empty() && !keyword("attribute").missing()) {
    for (const auto& [name, value] : args.keywords) {
      if (name != "attribute" && name != "default") {
        runtime.fail(FailureKind::kRuntime, "Unexpected keyword argument " + repr_text(name));
      }
    }
    state.path = std::make_shared<AttributePath>(runtime, keyword("attribute"));
    state.otherwise = keyword("default");
    return;
  }
  if (args.positional.empty()) {
    runtime.fail(FailureKind::kRuntime, "map requires a filter argument");
  }
  std::string name;
  state.function = find_filter(name_argument(runtime, args, 0, "filter", name));
  if (state.function == nullptr) {
    runtime.fail(unsupported_filter(name) ? FailureKind::kUnsupported : FailureKind::kRuntime,
                 unsupported_filter(name) ? "filter '" + name + "' is not supported"
                                          : "No filter named " + repr_text(name) + ".");
  }
  state.args = after(args, 1);
}

Value filter_map(Runtime& runtime, const Value& subject, const Args& args) {
  auto state = std::make_shared<Selection>();
  state->subject = subject;
  return make_generator(runtime, depth_of(subject, args),
                        [state, args, ready = false](Runtime& rt, Value& out) mutable {
                          if (!state->start(rt)) return false;
                          if (!ready) prepare_map(rt, args, *state);
                          ready = true;
                          if (!state->items->next(rt, out)) return false;
                          out = state->path != nullptr ? state->path->get(rt, out, state->otherwise)
                                                       : state->function(rt, out, state->args);
                          return true;
                        });
}

void prepare_select(Runtime& runtime, const Args& args, bool attribute, Selection& state) {
  const size_t offset = attribute ? 1 : 0;
  if (attribute) {
    if (args.positional.empty()) {
      runtime.fail(FailureKind::kRuntime, "Missing parameter for attribute name");
    }
    state.path = std::make_shared<AttributePath>(runtime, args.positional[0]);
  }
  if (args.positional.size() <= offset) return;
  std::string name;
  state.function = find_test(name_argument(runtime, args, offset, "test", name));
  if (state.function == nullptr) {
    runtime.fail(FailureKind::kRuntime, "No test named " + repr_text(name) + ".");
  }
  state.args = after(args, offset + 1);
}

template <bool wanted, bool attribute>
Value filter_select(Runtime& runtime, const Value& subject, const Args& args) {
  auto state = std::make_shared<Selection>();
  state->subject = subject;
  return make_generator(
      runtime, depth_of(subject, args),
      [state, args, ready = false](Runtime& rt, Value& out) mutable {
        if (!state->start(rt)) return false;
        if (!ready) prepare_select(rt, args, attribute, *state);
        ready = true;
        while (state->items->next(rt, out)) {
          const Value tested = state->path != nullptr ? state->path->get(rt, out) : out;
          const bool yes = truthy(
              state->function == nullptr ? tested : state->function(rt, tested, state->args));
          if (yes == wanted) return true;
        }
        return false;
      });
}

constexpr NamedFunction kFilters[] = {
    {"attr", filter_attr},
    {"d", filter_default},
    {"default", filter_default},
    {"map", filter_map},
    {"reject", filter_select<false, false>},
    {"rejectattr", filter_select<false, true>},
    {"select", filter_select<true, false>},
    {"selectattr", filter_select<true, true>},
};

}  // namespace

Function find_selection_filter(std::string_view name) {
  return find_named(std::begin(kFilters), std::end(kFilters), name);
}

Function find_filter(std::string_view name) {
  for (const auto find :
       {find_text_filter, find_sequence_filter, find_selection_filter, find_number_filter}) {
    if (const Function function = find(name)) return function;
  }
  return nullptr;
}

bool unsupported_filter(std::string_view name) {
  static constexpr std::string_view kNames[] = {"pprint", "random", "striptags", "urlize",
                                                "wordwrap"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

}  // namespace fathom::jinja
