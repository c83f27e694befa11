// Methods of list, tuple, dict and range.
#include <algorithm>
#include <iterator>

#include "text/jinja/arguments.h"
#include "text/jinja/attributes.h"
#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace fathom::jinja {

namespace {

Value method_index(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound = bind_positional(runtime, "index", args, 1, 3);
  const auto length = static_cast<int64_t>(length_of(self));
  const auto clamp = [&](const Value& value, int64_t otherwise) {
    if (value.missing()) return otherwise;
    const int64_t at = index_argument(runtime, value);
    return std::max<int64_t>(0, std::min(length, at < 0 ? at + length : at));
  };
  const int64_t end = clamp(bound[2], length);
  for (int64_t i = clamp(bound[1], 0); i < end; ++i) {
    const Value item =
        self.is(Type::kRange) ? element_at(self, i) : self.items()[static_cast<size_t>(i)];
    runtime.step();
    if (compare(runtime, Op::kEq, item, bound[0])) return Value::integer(i);
  }
  runtime.fail(FailureKind::kValue, repr(runtime, bound[0]) + " is not in list");
}

Value method_count(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound = bind_positional(runtime, "count", args, 1, 1);
  Int count = 0;
  for_each(runtime, self, [&](const Value& item) {
    if (compare(runtime, Op::kEq, item, bound[0])) ++count;
  });
  return Value::integer(count);
}

Value method_copy(Runtime& runtime, const Value& self, const Args& args) {
  bind_positional(runtime, "copy", args, 0, 0);
  return self;  // nothing can change either of them
}

Value method_get(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound = bind_positional(runtime, "get", args, 1, 2);
  if (!hashable(bound[0])) {
    runtime.type_error(std::string("unhashable type: '") + type_name(bound[0]) + "'");
  }
  const Value* found = self.dict().find(bound[0]);
  if (found != nullptr) return *found;
  return bound[1].missing() ? Value::none() : bound[1];
}

template <DictViewObject::Kind kind>
Value method_view(Runtime& runtime, const Value& self, const Args& args) {
  bind_positional(runtime, "dict view", args, 0, 0);
  auto view =
      runtime.adopt(std::make_shared<DictViewObject>(), sizeof(DictViewObject), self.depth() + 1);
  view->kind = kind;
  view->dict = self;
  return Value(Type::kDictView, std::move(view));
}

Value method_fromkeys(Runtime& runtime, const Value&, const Args& args) {
  return dict_from_keys(runtime, args);
}

struct Entry {
  std::string_view name;
  Function function;
};

constexpr Entry kListMethods[] = {
    {"index", method_index}, {"count", method_count}, {"copy", method_copy}};
constexpr Entry kTupleMethods[] = {{"index", method_index}, {"count", method_count}};
constexpr Entry kDictMethods[] = {{"get", method_get},
                                  {"keys", method_view<DictViewObject::Kind::kKeys>},
                                  {"values", method_view<DictViewObject::Kind::kValues>},
                                  {"items", method_view<DictViewObject::Kind::kItems>},
                                  {"copy", method_copy},
                                  {"fromkeys", method_fromkeys}};

template <size_t n>
Function find(const Entry (&entries)[n], std::string_view name) {
  const auto* at = std::find_if(std::begin(entries), std::end(entries),
                                [name](const Entry& entry) { return entry.name == name; });
  return at != std::end(entries) ? at->function : nullptr;
}

}  // namespace

Value dict_from_keys(Runtime& runtime, const Args& args) {
  const Bound bound = bind_positional(runtime, "fromkeys", args, 1, 2);
  runtime.require_defined(bound[0]);
  auto dict = std::make_shared<DictObject>();
  for_each(runtime, bound[0], [&](const Value& key) {
    runtime.reserve(2 * sizeof(Value));
    if (!hashable(key)) {
      runtime.type_error(std::string("unhashable type: '") + type_name(key) + "'");
    }
    dict->set(key, bound[1].missing() ? Value::none() : bound[1]);
  });
  return runtime.dict(std::move(dict));
}

Function find_container_method(Type type, std::string_view name) {
  switch (type) {
    case Type::kList:
      return find(kListMethods, name);
    case Type::kTuple:
    case Type::kRange:
      return find(kTupleMethods, name);
    case Type::kDict:
      return find(kDictMethods, name);
    default:
      return nullptr;
  }
}

}  // namespace fathom::jinja
