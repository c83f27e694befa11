// Values of the template language: Python's, as far as templates can see them.
//
// A Value is cheap to copy: scalars are held inside, everything else is a shared, immutable object.
// Only namespaces, loops, iterators, cyclers and joiners change after they were made; those belong
// to one rendering and one thread. Everything else may be read from several threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace fathom::jinja {

// 128 bits hold every JSON integer and the products templates make of them; Python's are unbounded,
// so what does not fit is refused, never wrapped.
using Int = __int128;

class Runtime;
class Value;
struct Args;

enum class Type : uint8_t {
  kMissing,  // no value at all: an unset variable, an argument not given
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kRange,
  kDictView,  // d.keys(), d.values(), d.items()
  kIterator,  // a generator: consumed once, always true
  kNamespace,
  kMacro,
  kFunction,
  kLoop,
};

// Bytes alive in one rendering.
struct Meter {
  size_t live = 0;
  size_t limit = 0;
};

// Base of everything that lives outside a Value. `depth` is 1 + the deepest object inside, so that
// destruction and printing never recurse further than Runtime allows.
struct Object {
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() {
    if (meter != nullptr) meter->live -= bytes;
  }

  Meter* meter = nullptr;  // null: a constant of the template, or part of the input
  size_t bytes = 0;
  int depth = 1;
};

struct StringObject : Object {
  explicit StringObject(std::string text);
  const std::string text;   // valid UTF-8
  const size_t characters;  // code points, Python's len()
  bool ascii() const { return characters == text.size(); }
};

struct ListObject;
struct DictObject;

class Value {
 public:
  Value() = default;
  static Value none() { return Value(Type::kNone); }
  static Value boolean(bool b);
  static Value integer(Int i);
  static Value real(double d);
  static Value string(std::string text);  // not metered: for constants and input
  Value(Type type, std::shared_ptr<Object> object) : type_(type), object_(std::move(object)) {}

  Type type() const { return type_; }
  bool is(Type type) const { return type_ == type; }
  bool missing() const { return type_ == Type::kMissing; }
  bool undefined() const { return type_ == Type::kUndefined; }
  bool is_none() const { return type_ == Type::kNone; }
  bool is_string() const { return type_ == Type::kString; }
  bool is_number() const;  // bool, int or float
  bool is_integral() const { return type_ == Type::kInt || type_ == Type::kBool; }

  // Markup: a string that escape() made or `safe` blessed (markupsafe.Markup).
  bool markup() const { return markup_; }
  Value with_markup(bool markup) const;

  bool as_bool() const { return low_ != 0; }
  Int as_int() const;        // of a bool, too
  double as_double() const;  // of any number
  std::string_view text() const { return string_object().text; }
  const StringObject& string_object() const { return static_cast<const StringObject&>(*object_); }
  const std::vector<Value>& items() const;  // of a list or tuple
  const DictObject& dict() const;
  template <typename T>
  T& as() const {
    return static_cast<T&>(*object_);
  }
  const std::shared_ptr<Object>& object() const { return object_; }
  int depth() const { return object_ ? object_->depth : 0; }

 private:
  explicit Value(Type type) : type_(type) {}

  Type type_ = Type::kMissing;
  bool markup_ = false;
  uint64_t low_ = 0;  // bool, low half of an int, or the bits of a float
  int64_t high_ = 0;
  std::shared_ptr<Object> object_;
};

struct ListObject : Object {  // lists and tuples
  std::vector<Value> items;
};

// Keys in insertion order; any hashable value may be a key.
struct DictObject : Object {
  std::vector<std::pair<Value, Value>> entries;
  std::unordered_multimap<size_t, size_t> index;  // hash → entry; built once there are several

  const Value* find(const Value& key) const;  // key must be hashable
  const Value* find(std::string_view key) const;
  void set(Value key, Value value);  // while building only
};

struct UndefinedObject : Object {
  std::string message;  // what UndefinedError would say
  bool security = false;
};

struct RangeObject : Object {
  int64_t start = 0, stop = 0, step = 1;
  int64_t size() const;
};

struct DictViewObject : Object {
  enum class Kind { kKeys, kValues, kItems } kind = Kind::kKeys;
  Value dict;
};

// A sequence produced on demand. next() returns false at the end.
struct IteratorObject : Object {
  virtual bool next(Runtime& runtime, Value& out) = 0;
  virtual const char* type_name() const { return "generator"; }
};

// An object that takes in values after it was made, and so may come to hold itself: Runtime owns it
// and empties it at the end.
struct MutableObject : Object {
  virtual void clear() = 0;
};

struct NamespaceObject : MutableObject {
  std::vector<std::pair<std::string, Value>> attributes;
  Value* find(std::string_view name);
  void clear() override { attributes.clear(); }
};

using Function = Value (*)(Runtime& runtime, const Value& self, const Args& args);

struct FunctionObject : Object {
  std::string name;
  Value self;  // missing for plain functions
  Function function = nullptr;
};

// What a call passes: positional and keyword arguments.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;
  bool empty() const { return positional.empty() && keywords.empty(); }
};

bool truthy(const Value& value);
bool equal(const Value& a, const Value& b);  // Python's ==
bool hashable(const Value& value);
size_t hash_value(const Value& value);
const char* type_name(const Value& value);  // Python's type(x).__name__
size_t length_of(const Value& value);       // of a sized value; see sized()
bool sized(const Value& value);             // has len()

}  // namespace fathom::jinja
