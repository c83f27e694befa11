// Iterators over every kind of value.
#include "text/jinja/iteration.h"

#include <algorithm>

#include "text/jinja/unicode.h"

namespace fathom::jinja {

namespace {

struct ListIterator final : IteratorObject {
  Value list;
  size_t index = 0;
  bool next(Runtime& runtime, Value& out) override {
    runtime.step();
    if (index >= list.items().size()) return false;
    out = list.items()[index++];
    return true;
  }
  const char* type_name() const override { return "list_iterator"; }
};

struct TextIterator final : IteratorObject {
  Value source;
  size_t position = 0;
  bool next(Runtime& runtime, Value& out) override {
    runtime.step();
    const std::string_view text = source.text();
    if (position >= text.size()) return false;
    const size_t start = position;
    next_character(text, position);
    out = runtime.string(std::string(text.substr(start, position - start)));
    return true;
  }
  const char* type_name() const override { return "str_iterator"; }
};

struct DictIterator final : IteratorObject {
  Value dict;
  DictViewObject::Kind kind = DictViewObject::Kind::kKeys;
  size_t index = 0;
  bool backwards = false;
  bool next(Runtime& runtime, Value& out) override {
    runtime.step();
    const auto& entries = dict.dict().entries;
    if (index >= entries.size()) return false;
    const auto& [key, value] = entries[backwards ? entries.size() - 1 - index : index];
    ++index;
    switch (kind) {
      case DictViewObject::Kind::kKeys:
        out = key;
        break;
      case DictViewObject::Kind::kValues:
        out = value;
        break;
      case DictViewObject::Kind::kItems:
        out = runtime.pair(key, value);
        break;
    }
    return true;
  }
  const char* type_name() const override { return "dict_keyiterator"; }
};

struct RangeIterator final : IteratorObject {
  Value range;
  int64_t index = 0;
  bool next(Runtime& runtime, Value& out) override {
    runtime.step();
    if (index >= range.as<RangeObject>().size()) return false;
    out = element_at(range, index++);
    return true;
  }
  const char* type_name() const override { return "range_iterator"; }
};

struct EmptyIterator final : IteratorObject {
  bool next(Runtime&, Value&) override { return false; }
};

struct ReverseIterator final : IteratorObject {
  Value sequence;  // list, tuple, string or range
  size_t left = 0;
  bool next(Runtime& runtime, Value& out) override {
    runtime.step();
    if (left == 0) return false;
    --left;
    out = sequence.is(Type::kRange) ? element_at(sequence, static_cast<int64_t>(left))
                                    : sequence.items()[left];
    return true;
  }
  const char* type_name() const override { return "list_reverseiterator"; }
};

template <typename T>
std::shared_ptr<T> make(Runtime& runtime, const Value& source) {
  return runtime.adopt(std::make_shared<T>(), sizeof(T) + 32, source.depth() + 1);
}

std::shared_ptr<IteratorObject> iterate_dict(Runtime& runtime, const Value& dict,
                                             DictViewObject::Kind kind, bool backwards = false) {
  auto iterator = make<DictIterator>(runtime, dict);
  iterator->dict = dict;
  iterator->kind = kind;
  iterator->backwards = backwards;
  return iterator;
}

}  // namespace

Value element_at(const Value& range, int64_t index) {
  const auto& r = range.as<RangeObject>();
  return Value::integer(static_cast<Int>(r.start) + static_cast<Int>(index) * r.step);
}

bool iterable(const Value& value) {
  return sized(value) || value.is(Type::kIterator) || value.is(Type::kLoop);
}

std::shared_ptr<IteratorObject> iterate(Runtime& runtime, const Value& value) {
  switch (value.type()) {
    case Type::kList:
    case Type::kTuple: {
      auto iterator = make<ListIterator>(runtime, value);
      iterator->list = value;
      return iterator;
    }
    case Type::kString: {
      auto iterator = make<TextIterator>(runtime, value);
      iterator->source = value;
      return iterator;
    }
    case Type::kDict:
      return iterate_dict(runtime, value, DictViewObject::Kind::kKeys);
    case Type::kDictView: {
      const auto& view = value.as<DictViewObject>();
      return iterate_dict(runtime, view.dict, view.kind);
    }
    case Type::kRange: {
      auto iterator = make<RangeIterator>(runtime, value);
      iterator->range = value;
      return iterator;
    }
    case Type::kUndefined:
      return make<EmptyIterator>(runtime, value);
    case Type::kIterator:
      return std::static_pointer_cast<IteratorObject>(value.object());
    case Type::kLoop:
      runtime.fail(FailureKind::kUnsupported, "iterating over `loop` is not supported");
    default:
      runtime.type_error(std::string("'") + type_name(value) + "' object is not iterable");
  }
}

std::vector<Value> to_vector(Runtime& runtime, const Value& value) {
  if (value.is(Type::kList) || value.is(Type::kTuple)) {
    runtime.reserve(value.items().size() * sizeof(Value));
    return value.items();
  }
  std::vector<Value> items;
  for_each(runtime, value, [&](const Value& item) { runtime.push(items, item); });
  return items;
}

Value reversed(Runtime& runtime, const Value& value) {
  switch (value.type()) {
    case Type::kList:
    case Type::kTuple:
    case Type::kRange: {
      auto iterator = make<ReverseIterator>(runtime, value);
      iterator->sequence = value;
      iterator->left = length_of(value);
      return Value(Type::kIterator, std::move(iterator));
    }
    case Type::kString: {
      const Value characters = runtime.list(to_vector(runtime, value));
      return reversed(runtime, characters);
    }
    case Type::kDict:
      return Value(Type::kIterator,
                   iterate_dict(runtime, value, DictViewObject::Kind::kKeys, true));
    case Type::kDictView: {
      const auto& view = value.as<DictViewObject>();
      return Value(Type::kIterator, iterate_dict(runtime, view.dict, view.kind, true));
    }
    case Type::kUndefined:
      return Value(Type::kIterator, iterate(runtime, value));
    default:
      return Value();
  }
}

}  // namespace fathom::jinja
