// The tests of `is`: defined, string, mapping, divisibleby, …
#include <iterator>

#include "text/jinja/arguments.h"
#include "text/jinja/filters.h"
#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/unicode.h"

namespace fathom::jinja {

namespace {

// A test of the type alone.
template <bool (*Test)(const Value&)>
Value plain(Runtime& runtime, const Value& subject, const Args& args) {
  bind(runtime, "test", args, {}, 0);
  return Value::boolean(Test(subject));
}

template <Op op>
Value comparing(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound = bind_positional(runtime, "comparison", args, 1, 1);
  return Value::boolean(compare(runtime, op, subject, bound[0]));
}

bool is_defined(const Value& v) {
  return !v.undefined();
}
bool is_undefined(const Value& v) {
  return v.undefined();
}
bool is_none(const Value& v) {
  return v.is_none();
}
bool is_boolean(const Value& v) {
  return v.is(Type::kBool);
}
bool is_true(const Value& v) {
  return v.is(Type::kBool) && v.as_bool();
}
bool is_false(const Value& v) {
  return v.is(Type::kBool) && !v.as_bool();
}
bool is_integer(const Value& v) {
  return v.is(Type::kInt);
}
bool is_float(const Value& v) {
  return v.is(Type::kFloat);
}
bool is_number(const Value& v) {
  return v.is_number();
}
bool is_string(const Value& v) {
  return v.is_string();
}
bool is_mapping(const Value& v) {
  return v.is(Type::kDict);
}
bool is_sequence(const Value& v) {
  return sized(v) && !v.is(Type::kDictView);
}
bool is_iterable(const Value& v) {
  return iterable(v);
}
bool is_escaped(const Value& v) {
  return v.markup();
}
bool is_callable(const Value& v) {
  return v.is(Type::kMacro) || v.is(Type::kFunction) || v.is(Type::kLoop) || v.undefined();
}

Value remainder_is(Runtime& runtime, const Value& subject, const Value& divisor, int wanted) {
  const Value rest = arithmetic(runtime, Op::kMod, subject, divisor);
  return Value::boolean(equal(rest, Value::integer(wanted)));
}

Value test_odd(Runtime& runtime, const Value& subject, const Args& args) {
  bind(runtime, "odd", args, {}, 0);
  return remainder_is(runtime, subject, Value::integer(2), 1);
}
Value test_even(Runtime& runtime, const Value& subject, const Args& args) {
  bind(runtime, "even", args, {}, 0);
  return remainder_is(runtime, subject, Value::integer(2), 0);
}
Value test_divisibleby(Runtime& runtime, const Value& subject, const Args& args) {
  return remainder_is(runtime, subject, bind(runtime, "divisibleby", args, {"num"}, 1)[0], 0);
}

Value test_lower(Runtime& runtime, const Value& subject, const Args& args) {
  bind(runtime, "lower", args, {}, 0);
  return Value::boolean(text_is_lower(str(runtime, subject)));
}
Value test_upper(Runtime& runtime, const Value& subject, const Args& args) {
  bind(runtime, "upper", args, {}, 0);
  return Value::boolean(text_is_upper(str(runtime, subject)));
}

Value test_in(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound = bind(runtime, "in", args, {"seq"}, 1);
  return Value::boolean(contains(runtime, bound[0], subject));
}

Value test_sameas(Runtime& runtime, const Value& subject, const Args& args) {
  const Value other = bind(runtime, "sameas", args, {"other"}, 1)[0];
  if (subject.type() != other.type()) return Value::boolean(false);
  if (subject.object() != nullptr) return Value::boolean(subject.object() == other.object());
  return Value::boolean(equal(subject, other));
}

Value test_filter(Runtime& runtime, const Value& subject, const Args& args) {
  bind(runtime, "filter", args, {}, 0);
  return Value::boolean(subject.is_string() && (find_filter(subject.text()) != nullptr ||
                                                unsupported_filter(subject.text())));
}
Value test_test(Runtime& runtime, const Value& subject, const Args& args) {
  bind(runtime, "test", args, {}, 0);
  return Value::boolean(subject.is_string() && find_test(subject.text()) != nullptr);
}

constexpr NamedFunction kTests[] = {
    {"odd", test_odd},
    {"even", test_even},
    {"divisibleby", test_divisibleby},
    {"defined", plain<is_defined>},
    {"undefined", plain<is_undefined>},
    {"filter", test_filter},
    {"test", test_test},
    {"none", plain<is_none>},
    {"boolean", plain<is_boolean>},
    {"false", plain<is_false>},
    {"true", plain<is_true>},
    {"integer", plain<is_integer>},
    {"float", plain<is_float>},
    {"lower", test_lower},
    {"upper", test_upper},
    {"string", plain<is_string>},
    {"mapping", plain<is_mapping>},
    {"number", plain<is_number>},
    {"sequence", plain<is_sequence>},
    {"iterable", plain<is_iterable>},
    {"callable", plain<is_callable>},
    {"sameas", test_sameas},
    {"escaped", plain<is_escaped>},
    {"in", test_in},
    {"==", comparing<Op::kEq>},
    {"eq", comparing<Op::kEq>},
    {"equalto", comparing<Op::kEq>},
    {"!=", comparing<Op::kNe>},
    {"ne", comparing<Op::kNe>},
    {">", comparing<Op::kGt>},
    {"gt", comparing<Op::kGt>},
    {"greaterthan", comparing<Op::kGt>},
    {">=", comparing<Op::kGe>},
    {"ge", comparing<Op::kGe>},
    {"<", comparing<Op::kLt>},
    {"lt", comparing<Op::kLt>},
    {"lessthan", comparing<Op::kLt>},
    {"<=", comparing<Op::kLe>},
    {"le", comparing<Op::kLe>},
};

}  // namespace

Function find_test(std::string_view name) {
  return find_named(std::begin(kTests), std::end(kTests), name);
}

}  // namespace fathom::jinja
