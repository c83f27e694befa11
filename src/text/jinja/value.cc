// Values of the template language: truth, equality, hashing, names of types.
#include "text/jinja/value.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "text/jinja/unicode.h"

namespace fathom::jinja {

StringObject::StringObject(std::string value)
    : text(std::move(value)), characters(count_characters(text)) {}

Value Value::boolean(bool b) {
  Value value(Type::kBool);
  value.low_ = b ? 1 : 0;
  return value;
}

Value Value::integer(Int i) {
  Value value(Type::kInt);
  value.low_ = static_cast<uint64_t>(i);
  value.high_ = static_cast<int64_t>(i >> 64);
  return value;
}

Value Value::real(double d) {
  Value value(Type::kFloat);
  value.low_ = std::bit_cast<uint64_t>(d);
  return value;
}

Value Value::string(std::string text) {
  return Value(Type::kString, std::make_shared<StringObject>(std::move(text)));
}

bool Value::is_number() const {
  return type_ == Type::kBool || type_ == Type::kInt || type_ == Type::kFloat;
}

Value Value::with_markup(bool markup) const {
  Value value = *this;
  value.markup_ = markup;
  return value;
}

Int Value::as_int() const {
  return static_cast<Int>((static_cast<unsigned __int128>(static_cast<uint64_t>(high_)) << 64) |
                          low_);
}

double Value::as_double() const {
  return type_ == Type::kFloat ? std::bit_cast<double>(low_) : static_cast<double>(as_int());
}

const std::vector<Value>& Value::items() const {
  return static_cast<const ListObject&>(*object_).items;
}

const DictObject& Value::dict() const {
  return static_cast<const DictObject&>(*object_);
}

namespace {
constexpr size_t kLinearSearch = 8;  // below this many entries an index costs more than it saves
}

const Value* DictObject::find(const Value& key) const {
  if (entries.size() <= kLinearSearch) {
    for (const auto& [k, v] : entries) {
      if (equal(k, key)) return &v;
    }
    return nullptr;
  }
  auto [begin, end] = index.equal_range(hash_value(key));
  for (auto it = begin; it != end; ++it) {
    if (equal(entries[it->second].first, key)) return &entries[it->second].second;
  }
  return nullptr;
}

const Value* DictObject::find(std::string_view key) const {
  if (entries.size() <= kLinearSearch) {
    for (const auto& [k, v] : entries) {
      if (k.is_string() && k.text() == key) return &v;
    }
    return nullptr;
  }
  auto [begin, end] = index.equal_range(std::hash<std::string_view>()(key));
  for (auto it = begin; it != end; ++it) {
    const Value& k = entries[it->second].first;
    if (k.is_string() && k.text() == key) return &entries[it->second].second;
  }
  return nullptr;
}

void DictObject::set(Value key, Value value) {
  if (const Value* old = find(key)) {
    const_cast<Value&>(*old) = std::move(value);  // Python keeps the first key and its place
    return;
  }
  depth = std::max(depth, 1 + std::max(key.depth(), value.depth()));
  entries.emplace_back(std::move(key), std::move(value));
  if (entries.size() == kLinearSearch + 1) {
    for (size_t i = 0; i < entries.size(); ++i) index.emplace(hash_value(entries[i].first), i);
  } else if (entries.size() > kLinearSearch) {
    index.emplace(hash_value(entries.back().first), entries.size() - 1);
  }
}

int64_t RangeObject::size() const {
  if (step > 0) return start < stop ? (stop - start - 1) / step + 1 : 0;
  return start > stop ? (start - stop - 1) / -step + 1 : 0;
}

Value* NamespaceObject::find(std::string_view name) {
  for (auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

bool truthy(const Value& value) {
  switch (value.type()) {
    case Type::kMissing:
    case Type::kUndefined:
    case Type::kNone:
      return false;
    case Type::kBool:
    case Type::kInt:
      return value.as_int() != 0;
    case Type::kFloat:
      return value.as_double() != 0.0;
    default:
      return !sized(value) || length_of(value) != 0;
  }
}

bool sized(const Value& value) {
  switch (value.type()) {
    case Type::kUndefined:
    case Type::kString:
    case Type::kList:
    case Type::kTuple:
    case Type::kDict:
    case Type::kRange:
    case Type::kDictView:
      return true;
    default:
      return false;
  }
}

size_t length_of(const Value& value) {
  switch (value.type()) {
    case Type::kString:
      return value.string_object().characters;
    case Type::kList:
    case Type::kTuple:
      return value.items().size();
    case Type::kDict:
      return value.dict().entries.size();
    case Type::kRange:
      return static_cast<size_t>(value.as<RangeObject>().size());
    case Type::kDictView:
      return value.as<DictViewObject>().dict.dict().entries.size();
    default:
      return 0;
  }
}

namespace {

bool equal_numbers(const Value& a, const Value& b) {
  if (a.is(Type::kFloat) && b.is(Type::kFloat)) return a.as_double() == b.as_double();
  if (!a.is(Type::kFloat) && !b.is(Type::kFloat)) return a.as_int() == b.as_int();
  const double d = a.is(Type::kFloat) ? a.as_double() : b.as_double();
  const Int i = a.is(Type::kFloat) ? b.as_int() : a.as_int();
  // Exact, as Python does it: an int equals a float only if the float is that integer.
  return std::abs(d) < 0x1p126 && d == std::floor(d) && static_cast<Int>(d) == i;
}

bool equal_dicts(const DictObject& a, const DictObject& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.find(key);
    if (other == nullptr || !equal(value, *other)) return false;
  }
  return true;
}

bool equal_ranges(const RangeObject& a, const RangeObject& b) {
  const int64_t size = a.size();
  if (size != b.size()) return false;
  return size == 0 || (a.start == b.start && (size == 1 || a.step == b.step));
}

// Keys and items compare as sets, values by identity.
bool equal_views(const DictViewObject& a, const DictViewObject& b) {
  if (a.kind != b.kind || a.kind == DictViewObject::Kind::kValues) return false;
  if (a.kind == DictViewObject::Kind::kItems) return equal_dicts(a.dict.dict(), b.dict.dict());
  const auto &x = a.dict.dict().entries, &y = b.dict.dict().entries;
  return x.size() == y.size() && std::all_of(x.begin(), x.end(), [&](const auto& entry) {
           return b.dict.dict().find(entry.first) != nullptr;
         });
}

// Methods are equal when they are the same method of the same object.
bool equal_functions(const FunctionObject& a, const FunctionObject& b) {
  return a.function == b.function && a.self.object() == b.self.object();
}

}  // namespace

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.type() != b.type()) return false;
  switch (a.type()) {
    case Type::kMissing:
    case Type::kUndefined:
    case Type::kNone:
      return true;
    case Type::kString:
      return a.text() == b.text();
    case Type::kList:
    case Type::kTuple: {
      const auto &x = a.items(), &y = b.items();
      if (x.size() != y.size()) return false;
      for (size_t i = 0; i < x.size(); ++i) {
        if (!equal(x[i], y[i])) return false;
      }
      return true;
    }
    case Type::kDict:
      return a.object() == b.object() || equal_dicts(a.dict(), b.dict());
    case Type::kRange:
      return equal_ranges(a.as<RangeObject>(), b.as<RangeObject>());
    case Type::kDictView:
      return a.object() == b.object() ||
             equal_views(a.as<DictViewObject>(), b.as<DictViewObject>());
    case Type::kFunction:
      return equal_functions(a.as<FunctionObject>(), b.as<FunctionObject>());
    default:
      return a.object() == b.object();
  }
}

bool hashable(const Value& value) {
  if (value.is(Type::kList) || value.is(Type::kDict) || value.is(Type::kDictView)) return false;
  if (!value.is(Type::kTuple)) return true;
  for (const Value& item : value.items()) {
    if (!hashable(item)) return false;
  }
  return true;
}

size_t hash_value(const Value& value) {
  switch (value.type()) {
    case Type::kBool:
    case Type::kInt:
    case Type::kFloat:
      return std::hash<double>()(value.as_double());  // 1 == 1.0 == true
    case Type::kString:
      return std::hash<std::string_view>()(value.text());
    case Type::kTuple: {
      size_t hash = 0x345678;
      for (const Value& item : value.items()) hash = hash * 1000003 ^ hash_value(item);
      return hash;
    }
    case Type::kRange:
      return static_cast<size_t>(value.as<RangeObject>().size());
    case Type::kMissing:
    case Type::kUndefined:
    case Type::kNone:
      return static_cast<size_t>(value.type());
    case Type::kFunction:
      return static_cast<size_t>(value.type());  // equal ones may be different objects
    default:
      return std::hash<const void*>()(value.object().get());
  }
}

const char* type_name(const Value& value) {
  switch (value.type()) {
    case Type::kMissing:
    case Type::kUndefined:
      return "Undefined";
    case Type::kNone:
      return "NoneType";
    case Type::kBool:
      return "bool";
    case Type::kInt:
      return "int";
    case Type::kFloat:
      return "float";
    case Type::kString:
      return value.markup() ? "Markup" : "str";
    case Type::kList:
      return "list";
    case Type::kTuple:
      return "tuple";
    case Type::kDict:
      return "dict";
    case Type::kRange:
      return "range";
    case Type::kDictView:
      switch (value.as<DictViewObject>().kind) {
        case DictViewObject::Kind::kKeys:
          return "dict_keys";
        case DictViewObject::Kind::kValues:
          return "dict_values";
        case DictViewObject::Kind::kItems:
          return "dict_items";
      }
      return "dict_keys";
    case Type::kIterator:
      return value.as<IteratorObject>().type_name();
    case Type::kNamespace:
      return "TemplateNamespace";
    case Type::kMacro:
      return "Macro";
    case Type::kFunction:
      return value.as<FunctionObject>().self.missing() ? "function" : "builtin_function_or_method";
    case Type::kLoop:
      return "LoopContext";
  }
  return "object";
}

}  // namespace fathom::jinja
