// Arithmetic on template values.
#include "text/jinja/operators.h"

#include <cmath>
#include <limits>

#include "text/jinja/format.h"
#include "text/jinja/iteration.h"
#include "text/jinja/python_text.h"

namespace fathom::jinja {

namespace {

const char* op_symbol(Op op) {
  switch (op) {
    case Op::kAdd:
      return "+";
    case Op::kSub:
      return "-";
    case Op::kMul:
      return "*";
    case Op::kDiv:
      return "/";
    case Op::kFloorDiv:
      return "//";
    case Op::kMod:
      return "%";
    case Op::kPow:
      return "** or pow()";
    default:
      return "?";
  }
}

[[noreturn]] void unsupported_operands(Runtime& runtime, Op op, const Value& a, const Value& b) {
  runtime.type_error(std::string("unsupported operand type(s) for ") + op_symbol(op) + ": '" +
                     type_name(a) + "' and '" + type_name(b) + "'");
}

[[noreturn]] void too_large(Runtime& runtime) {
  runtime.fail(FailureKind::kUnsupported, "integers beyond 128 bits are not supported");
}

Int floor_div(Int a, Int b) {
  const Int q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

double python_mod(double a, double b) {
  double m = std::fmod(a, b);
  if (m != 0) {
    if ((b < 0) != (m < 0)) m += b;
  } else {
    m = std::copysign(0.0, b);
  }
  return m;
}

double python_floor_div(double a, double b) {
  const double mod = std::fmod(a, b);
  double div = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) div -= 1.0;
  if (div == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(div);
  return div - floor > 0.5 ? floor + 1.0 : floor;
}

Value int_power(Runtime& runtime, Int base, Int exponent) {
  if (exponent < 0) {
    if (base == 0) {
      runtime.fail(FailureKind::kZeroDivision, "0.0 cannot be raised to a negative power");
    }
    return Value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  if (base == 0 || base == 1) return Value::integer(exponent == 0 ? 1 : base);
  if (base == -1) return Value::integer(exponent % 2 == 0 ? 1 : -1);
  if (exponent > 127) too_large(runtime);
  Int result = 1;
  for (Int i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) too_large(runtime);
  }
  return Value::integer(result);
}

Value int_arithmetic(Runtime& runtime, Op op, Int a, Int b) {
  Int result = 0;
  bool overflow = false;
  switch (op) {
    case Op::kAdd:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case Op::kSub:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case Op::kMul:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case Op::kPow:
      return int_power(runtime, a, b);
    default:
      if (b == 0) {
        runtime.fail(FailureKind::kZeroDivision,
                     op == Op::kDiv ? "division by zero" : "integer division or modulo by zero");
      }
      if (op == Op::kDiv) return Value::real(static_cast<double>(a) / static_cast<double>(b));
      if (b == -1) return int_arithmetic(runtime, op == Op::kMod ? Op::kMul : Op::kSub, 0, a);
      result = op == Op::kFloorDiv ? floor_div(a, b) : a - floor_div(a, b) * b;
  }
  if (overflow) too_large(runtime);
  return Value::integer(result);
}

Value float_arithmetic(Runtime& runtime, Op op, double a, double b) {
  if (b == 0 && (op == Op::kDiv || op == Op::kFloorDiv || op == Op::kMod)) {
    runtime.fail(FailureKind::kZeroDivision, op == Op::kDiv        ? "float division by zero"
                                             : op == Op::kFloorDiv ? "float floor division by zero"
                                                                   : "float modulo");
  }
  switch (op) {
    case Op::kAdd:
      return Value::real(a + b);
    case Op::kSub:
      return Value::real(a - b);
    case Op::kMul:
      return Value::real(a * b);
    case Op::kDiv:
      return Value::real(a / b);
    case Op::kFloorDiv:
      return Value::real(python_floor_div(a, b));
    case Op::kMod:
      return Value::real(python_mod(a, b));
    default:
      break;
  }
  if (a == 0 && b < 0) {
    runtime.fail(FailureKind::kZeroDivision, "0.0 cannot be raised to a negative power");
  }
  if (a < 0 && b != std::floor(b) && std::isfinite(a) && std::isfinite(b)) {
    runtime.fail(FailureKind::kUnsupported, "complex numbers are not supported");
  }
  const double result = std::pow(a, b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) {
    runtime.fail(FailureKind::kOverflow, "(34, 'Numerical result out of range')");
  }
  return Value::real(result);
}

Value add_text(Runtime& runtime, const Value& a, const Value& b) {
  TextBuilder out(runtime);
  const bool markup = a.markup() || b.markup();
  for (const Value* part : {&a, &b}) {
    if (markup && !part->markup()) {
      append_escaped_html(out, part->text());
    } else {
      out.append(part->text());
    }
  }
  return out.value(markup);
}

Value add_lists(Runtime& runtime, const Value& a, const Value& b) {
  const size_t count = a.items().size() + b.items().size();
  runtime.reserve(count * sizeof(Value));
  std::vector<Value> items;
  items.reserve(count);
  items.insert(items.end(), a.items().begin(), a.items().end());
  items.insert(items.end(), b.items().begin(), b.items().end());
  return a.is(Type::kList) ? runtime.list(std::move(items)) : runtime.tuple(std::move(items));
}

Value repeat(Runtime& runtime, const Value& sequence, const Value& times) {
  const Int count = std::max<Int>(0, times.as_int());
  const auto most = static_cast<Int>(runtime.limits().live_bytes);
  const auto n = static_cast<size_t>(std::min(count, most + 1));
  if (sequence.is_string()) {
    TextBuilder out(runtime);
    out.repeat(sequence.text(), n);
    return out.value(sequence.markup());
  }
  const auto& items = sequence.items();
  if (!items.empty() && n > runtime.limits().live_bytes / sizeof(Value) / items.size()) {
    runtime.reserve(runtime.limits().live_bytes + 1);  // throws
  }
  runtime.reserve(n * items.size() * sizeof(Value));
  std::vector<Value> out;
  out.reserve(n * items.size());
  for (size_t i = 0; i < n && !items.empty(); ++i)
    out.insert(out.end(), items.begin(), items.end());
  return sequence.is(Type::kList) ? runtime.list(std::move(out)) : runtime.tuple(std::move(out));
}

bool repeatable(const Value& value) {
  return value.is_string() || value.is(Type::kList) || value.is(Type::kTuple);
}

Value add_other(Runtime& runtime, const Value& a, const Value& b) {
  if (a.is_string()) {
    if (b.is_string()) return add_text(runtime, a, b);
    if (!a.markup()) {
      runtime.type_error(std::string("can only concatenate str (not \"") + type_name(b) +
                         "\") to str");
    }
  }
  if (a.is(Type::kList) || a.is(Type::kTuple)) {
    if (a.type() == b.type()) return add_lists(runtime, a, b);
    runtime.type_error(std::string("can only concatenate ") + type_name(a) + " (not \"" +
                       type_name(b) + "\") to " + type_name(a));
  }
  unsupported_operands(runtime, Op::kAdd, a, b);
}

}  // namespace

Value arithmetic(Runtime& runtime, Op op, const Value& a, const Value& b) {
  runtime.require_defined(a);
  if (op == Op::kMod && a.is_string()) return format_percent(runtime, a, b);
  runtime.require_defined(b);
  if (a.is_number() && b.is_number()) {
    if (a.is(Type::kFloat) || b.is(Type::kFloat)) {
      return float_arithmetic(runtime, op, a.as_double(), b.as_double());
    }
    return int_arithmetic(runtime, op, a.as_int(), b.as_int());
  }
  if (op == Op::kAdd) return add_other(runtime, a, b);
  if (op == Op::kMul) {
    if (repeatable(a) && b.is_integral()) return repeat(runtime, a, b);
    if (repeatable(b) && a.is_integral()) return repeat(runtime, b, a);
    if (repeatable(a) || repeatable(b)) {
      runtime.type_error(std::string("can't multiply sequence by non-int of type '") +
                         type_name(repeatable(a) ? b : a) + "'");
    }
  }
  unsupported_operands(runtime, op, a, b);
}

Value negate(Runtime& runtime, const Value& value) {
  runtime.require_defined(value);
  if (value.is(Type::kFloat)) return Value::real(-value.as_double());
  if (value.is_integral()) return int_arithmetic(runtime, Op::kSub, 0, value.as_int());
  runtime.type_error(std::string("bad operand type for unary -: '") + type_name(value) + "'");
}

Value posate(Runtime& runtime, const Value& value) {
  runtime.require_defined(value);
  if (value.is(Type::kFloat)) return value;
  if (value.is_integral()) return Value::integer(value.as_int());
  runtime.type_error(std::string("bad operand type for unary +: '") + type_name(value) + "'");
}

int64_t index_argument(Runtime& runtime, const Value& value) {
  runtime.require_defined(value);
  if (!value.is_integral()) {
    runtime.type_error(std::string("'") + type_name(value) +
                       "' object cannot be interpreted as an integer");
  }
  constexpr Int kMost = std::numeric_limits<int64_t>::max() / 4;
  return static_cast<int64_t>(std::max(-kMost, std::min(kMost, value.as_int())));
}

}  // namespace fathom::jinja
