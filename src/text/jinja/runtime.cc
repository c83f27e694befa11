// Limits, memory account and object factory of one rendering.
#include "text/jinja/runtime.h"

#include <algorithm>

#include "text/jinja/unicode.h"

namespace fathom::jinja {

const char* failure_name(FailureKind kind) {
  switch (kind) {
    case FailureKind::kSyntax:
      return "TemplateSyntaxError";
    case FailureKind::kRuntime:
      return "TemplateRuntimeError";
    case FailureKind::kUndefined:
      return "UndefinedError";
    case FailureKind::kSecurity:
      return "SecurityError";
    case FailureKind::kRaised:
      return "TemplateError";
    case FailureKind::kType:
      return "TypeError";
    case FailureKind::kValue:
      return "ValueError";
    case FailureKind::kKey:
      return "KeyError";
    case FailureKind::kIndex:
      return "IndexError";
    case FailureKind::kAttribute:
      return "AttributeError";
    case FailureKind::kOverflow:
      return "OverflowError";
    case FailureKind::kZeroDivision:
      return "ZeroDivisionError";
    case FailureKind::kUnsupported:
      return "Unsupported";
    case FailureKind::kLimit:
      return "LimitExceeded";
  }
  return "Error";
}

std::tm system_local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

Runtime::Runtime(const Limits& limits, LocalTime now)
    : limits_(limits), now_(now), work_left_(limits.work), meter_{0, limits.live_bytes} {}

Runtime::~Runtime() {
  // A namespace may hold itself, or a long chain of others: emptied first, nothing leaks and no
  // destructor recurses through them.
  for (const auto& object : owned_) object->clear();
}

void Runtime::fail(FailureKind kind, const std::string& message) const {
  throw Failure(kind, message, line);
}

void Runtime::out_of_work() const {
  fail(FailureKind::kLimit, "the template runs too long");
}

void Runtime::reserve(size_t bytes) {
  if (bytes > meter_.limit || meter_.live > meter_.limit - bytes) {
    fail(FailureKind::kLimit,
         "the template wants more than " + std::to_string(meter_.limit >> 20) + " MiB of memory");
  }
  work(bytes / 4);  // memory is written faster than it is worked on
}

void Runtime::account(Object& object, size_t bytes, int depth) {
  if (depth > limits_.value_depth) {
    fail(FailureKind::kLimit, "the template nests values too deeply");
  }
  reserve(bytes);
  object.meter = &meter_;
  object.bytes = bytes;
  object.depth = depth;
  meter_.live += bytes;
}

namespace {

int depth_of(const std::vector<Value>& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return depth + 1;
}

}  // namespace

Value Runtime::string(std::string text, bool markup) {
  const size_t bytes = sizeof(StringObject) + text.capacity();
  auto object = adopt(std::make_shared<StringObject>(std::move(text)), bytes);
  return Value(Type::kString, std::move(object)).with_markup(markup);
}

Value Runtime::list(std::vector<Value> items) {
  const size_t bytes = sizeof(ListObject) + items.capacity() * sizeof(Value);
  const int depth = depth_of(items);
  auto object = adopt(std::make_shared<ListObject>(), bytes, depth);
  object->items = std::move(items);
  return Value(Type::kList, std::move(object));
}

Value Runtime::tuple(std::vector<Value> items) {
  const Value list = this->list(std::move(items));
  return Value(Type::kTuple, list.object());
}

Value Runtime::pair(Value first, Value second) {
  std::vector<Value> items;
  items.reserve(2);
  items.push_back(std::move(first));
  items.push_back(std::move(second));
  return tuple(std::move(items));
}

Value Runtime::dict(std::shared_ptr<DictObject> dict) {
  const size_t bytes =
      sizeof(DictObject) + dict->entries.capacity() * 2 * sizeof(Value) + dict->index.size() * 48;
  const int depth = dict->depth;
  return Value(Type::kDict, adopt(std::move(dict), bytes, depth));
}

Value Runtime::undefined(std::string message, bool security) {
  const size_t bytes = sizeof(UndefinedObject) + message.capacity();
  auto object = adopt(std::make_shared<UndefinedObject>(), bytes);
  object->message = std::move(message);
  object->security = security;
  return Value(Type::kUndefined, std::move(object));
}

Value Runtime::function(std::string name, Function function, Value self) {
  auto object = adopt(std::make_shared<FunctionObject>(), sizeof(FunctionObject), self.depth() + 1);
  object->name = std::move(name);
  object->function = function;
  object->self = std::move(self);
  return Value(Type::kFunction, std::move(object));
}

Value Runtime::make_namespace(std::vector<std::pair<std::string, Value>> attributes) {
  auto object = adopt(std::make_shared<NamespaceObject>(), sizeof(NamespaceObject) + 64);
  object->attributes = std::move(attributes);
  own(object);
  return Value(Type::kNamespace, std::move(object));
}

void Runtime::push(std::vector<Value>& items, Value value) {
  step();
  if (items.size() == items.capacity()) {
    const size_t capacity = std::max<size_t>(8, items.capacity() * 2);
    reserve(capacity * sizeof(Value));
    items.reserve(capacity);
  }
  items.push_back(std::move(value));
}

void Runtime::require_defined(const Value& value) const {
  if (!value.undefined()) return;
  const auto& undefined = value.as<UndefinedObject>();
  fail(undefined.security ? FailureKind::kSecurity : FailureKind::kUndefined, undefined.message);
}

TextBuilder& TextBuilder::append(std::string_view text) {
  if (text_.size() + text.size() > text_.capacity()) {
    const size_t capacity = std::max(text_.capacity() * 2, text_.size() + text.size());
    runtime_.reserve(capacity - counted_);
    text_.reserve(capacity);
    runtime_.meter().live += text_.capacity() - counted_;
    counted_ = text_.capacity();
  }
  text_.append(text);
  runtime_.work(text.size() / 4);
  return *this;
}

TextBuilder& TextBuilder::repeat(std::string_view text, size_t times) {
  if (text.empty() || times == 0) return *this;
  if (times > runtime_.limits().live_bytes / text.size()) {
    runtime_.reserve(runtime_.limits().live_bytes + 1);  // throws
  }
  const size_t bytes = text.size() * times;
  runtime_.reserve(bytes);
  std::string block;
  block.reserve(bytes);
  for (size_t i = 0; i < times; ++i) block.append(text);
  return append(block);
}

TextBuilder& TextBuilder::character(char32_t c) {
  std::string text;
  append_character(text, c);
  return append(text);
}

std::string TextBuilder::take() {
  runtime_.meter().live -= counted_;
  counted_ = 0;
  return std::exchange(text_, std::string());
}

}  // namespace fathom::jinja
