// Comparison, membership, subscripts and slices of template values.
#include <cmath>

#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace fathom::jinja {

namespace {

const char* symbol(Op op) {
  switch (op) {
    case Op::kLt:
      return "<";
    case Op::kLe:
      return "<=";
    case Op::kGt:
      return ">";
    default:
      return ">=";
  }
}

// Sign of a - b for numbers; 2 when unordered (NaN).
int order_numbers(const Value& a, const Value& b) {
  if (!a.is(Type::kFloat) && !b.is(Type::kFloat)) {
    return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int() ? 1 : 0;
  }
  if (a.is(Type::kFloat) && b.is(Type::kFloat)) {
    const double x = a.as_double(), y = b.as_double();
    return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
  }
  if (b.is(Type::kFloat)) {
    const int reverse = order_numbers(b, a);
    return reverse == 2 ? 2 : -reverse;
  }
  const double x = a.as_double();
  if (std::isnan(x)) return 2;
  if (x >= 0x1p126) return 1;
  if (x <= -0x1p126) return -1;
  const Int whole = static_cast<Int>(std::floor(x));
  if (whole != b.as_int()) return whole < b.as_int() ? -1 : 1;
  return x > std::floor(x) ? 1 : 0;
}

bool holds(Op op, int order) {
  switch (op) {
    case Op::kLt:
      return order == -1;
    case Op::kLe:
      return order == -1 || order == 0;
    case Op::kGt:
      return order == 1;
    default:
      return order == 1 || order == 0;
  }
}

bool ordered(Runtime& runtime, Op op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return holds(op, order_numbers(a, b));
  if (a.is_string() && b.is_string()) {
    // UTF-8 sorts as code points do.
    runtime.work(std::min(a.text().size(), b.text().size()));
    const int order = a.text().compare(b.text());
    return holds(op, order < 0 ? -1 : order > 0 ? 1 : 0);
  }
  if (a.type() == b.type() && (a.is(Type::kList) || a.is(Type::kTuple))) {
    const DepthGuard guard(runtime);
    const auto &x = a.items(), &y = b.items();
    for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
      runtime.step();
      if (!equal(x[i], y[i])) return ordered(runtime, op, x[i], y[i]);
    }
    return holds(op, x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0);
  }
  runtime.require_defined(a);
  runtime.require_defined(b);
  runtime.type_error(std::string("'") + symbol(op) + "' not supported between instances of '" +
                     type_name(a) + "' and '" + type_name(b) + "'");
}

// What comparing a and b touches, at most.
size_t weight(const Value& value) {
  if (value.is_string()) return value.text().size();
  return value.depth() * length_of(value);
}

bool in_text(Runtime& runtime, const Value& text, const Value& item) {
  if (!item.is_string()) {
    runtime.type_error(std::string("'in <string>' requires string as left operand, not ") +
                       type_name(item));
  }
  runtime.work(text.text().size());
  return text.text().find(item.text()) != std::string_view::npos;
}

}  // namespace

bool less(Runtime& runtime, const Value& a, const Value& b) {
  runtime.step();
  return ordered(runtime, Op::kLt, a, b);
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  switch (container.type()) {
    case Type::kString:
      return in_text(runtime, container, item);
    case Type::kDict:
      if (!hashable(item)) {
        runtime.type_error(std::string("unhashable type: '") + type_name(item) + "'");
      }
      return container.dict().find(item) != nullptr;
    default:
      break;
  }
  if (!iterable(container)) {
    runtime.type_error(std::string("argument of type '") + type_name(container) +
                       "' is not iterable");
  }
  const std::shared_ptr<IteratorObject> items = iterate(runtime, container);
  Value candidate;
  while (items->next(runtime, candidate)) {
    runtime.work(std::min(weight(candidate), weight(item)));
    if (equal(candidate, item)) return true;
  }
  return false;
}

bool compare(Runtime& runtime, Op op, const Value& a, const Value& b) {
  runtime.work(std::min(weight(a), weight(b)));
  switch (op) {
    case Op::kEq:
      return equal(a, b);
    case Op::kNe:
      return !equal(a, b);
    case Op::kIn:
      return contains(runtime, b, a);
    case Op::kNotIn:
      return !contains(runtime, b, a);
    default:
      return ordered(runtime, op, a, b);
  }
}

namespace {

struct Slice {
  int64_t start, stop, step;
  size_t count;
};

Slice resolve(Runtime& runtime, const Value& begin, const Value& end, const Value& step_value,
              int64_t length) {
  const auto given = [](const Value& v) { return !v.missing() && !v.is_none(); };
  for (const Value* bound : {&begin, &end, &step_value}) {
    if (given(*bound) && !bound->is_integral()) {
      runtime.type_error("slice indices must be integers or None or have an __index__ method");
    }
  }
  const int64_t step = given(step_value) ? index_argument(runtime, step_value) : 1;
  if (step == 0) runtime.fail(FailureKind::kValue, "slice step cannot be zero");
  const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? length - 1 : length;
  const auto clamp = [&](const Value& bound, int64_t otherwise) {
    if (!given(bound)) return otherwise;
    int64_t at = index_argument(runtime, bound);
    if (at < 0) at += length;
    return std::max(low, std::min(high, at));
  };
  const int64_t start = clamp(begin, step < 0 ? high : low);
  const int64_t stop = clamp(end, step < 0 ? low : high);
  int64_t count = 0;
  if (step > 0 && start < stop) count = (stop - start - 1) / step + 1;
  if (step < 0 && start > stop) count = (start - stop - 1) / -step + 1;
  return {start, stop, step, static_cast<size_t>(count)};
}

Value slice_text(Runtime& runtime, const Value& value, const Slice& s) {
  const std::string_view text = value.text();
  runtime.work(text.size());
  if (s.count == 0) return runtime.string("", value.markup());
  if (s.step == 1) {
    const auto first = static_cast<size_t>(s.start);
    const bool ascii = value.string_object().ascii();
    const size_t from = ascii ? first : byte_offset(text, first);
    const size_t size = ascii ? s.count : byte_offset(text.substr(from), s.count);
    runtime.reserve(size);
    return runtime.string(std::string(text.substr(from, size)), value.markup());
  }
  runtime.reserve(text.size() * sizeof(char32_t));
  runtime.work(text.size() * 4);
  const std::u32string characters = decode(text);
  std::u32string picked;
  for (size_t i = 0; i < s.count; ++i) {
    picked.push_back(characters[static_cast<size_t>(s.start + static_cast<int64_t>(i) * s.step)]);
  }
  return runtime.string(encode(picked), value.markup());
}

Value slice_range(Runtime& runtime, const RangeObject& range, const Slice& s) {
  const auto checked = [&](Int value) {
    constexpr Int kMost = Int{1} << 60;
    if (value > kMost || value < -kMost) {
      runtime.fail(FailureKind::kUnsupported, "ranges beyond 60 bits are not supported");
    }
    return static_cast<int64_t>(value);
  };
  auto part = runtime.adopt(std::make_shared<RangeObject>(), sizeof(RangeObject));
  part->start = checked(range.start + static_cast<Int>(range.step) * s.start);
  part->stop = checked(range.start + static_cast<Int>(range.step) * s.stop);
  part->step = checked(static_cast<Int>(range.step) * s.step);
  return Value(Type::kRange, std::move(part));
}

}  // namespace

Value slice(Runtime& runtime, const Value& object, const Value& begin, const Value& end,
            const Value& step) {
  runtime.require_defined(object);
  const bool is_list = object.is(Type::kList) || object.is(Type::kTuple);
  if (!is_list && !object.is_string() && !object.is(Type::kRange)) {
    if (object.is(Type::kDict)) runtime.type_error("unhashable type: 'slice'");
    runtime.type_error(std::string("'") + type_name(object) + "' object is not subscriptable");
  }
  const auto length = static_cast<int64_t>(length_of(object));
  const Slice s = resolve(runtime, begin, end, step, length);
  if (object.is_string()) return slice_text(runtime, object, s);
  if (object.is(Type::kRange)) return slice_range(runtime, object.as<RangeObject>(), s);
  runtime.reserve(s.count * sizeof(Value));
  std::vector<Value> items;
  items.reserve(s.count);
  for (size_t i = 0; i < s.count; ++i) {
    items.push_back(
        object.items()[static_cast<size_t>(s.start + static_cast<int64_t>(i) * s.step)]);
  }
  return object.is(Type::kList) ? runtime.list(std::move(items)) : runtime.tuple(std::move(items));
}

Value subscript(Runtime& runtime, const Value& object, const Value& key) {
  if (object.is(Type::kDict)) {
    if (!hashable(key)) return Value();
    const Value* found = key.is_string() ? object.dict().find(key.text()) : object.dict().find(key);
    return found != nullptr ? *found : Value();
  }
  const bool sequence = object.is(Type::kList) || object.is(Type::kTuple) || object.is_string() ||
                        object.is(Type::kRange);
  if (!sequence || !key.is_integral()) return Value();
  const auto length = static_cast<Int>(length_of(object));
  Int index = key.as_int();
  if (index < 0) index += length;
  if (index < 0 || index >= length) return Value();
  if (object.is(Type::kRange)) return element_at(object, static_cast<int64_t>(index));
  if (!object.is_string()) return object.items()[static_cast<size_t>(index)];
  const std::string_view text = object.text();
  size_t at = static_cast<size_t>(index);
  if (!object.string_object().ascii()) {
    runtime.work(text.size());
    at = byte_offset(text, at);
  }
  size_t end = at;
  next_character(text, end);
  return runtime.string(std::string(text.substr(at, end - at)), object.markup());
}

}  // namespace fathom::jinja
