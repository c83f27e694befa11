// Filters that make numbers.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <optional>

#include "text/jinja/arguments.h"
#include "text/jinja/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/unicode.h"

namespace fathom::jinja {

namespace {

std::string_view stripped(std::string_view text) {
  const StripRange range = strip_range(text, nullptr, true, true);
  return text.substr(range.begin, range.end - range.begin);
}

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

// int(text, base); nothing where Python raises ValueError.
std::optional<Int> parse_int(Runtime& runtime, std::string_view text, int64_t base) {
  text = stripped(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const auto prefix = [&](char letter, int64_t of) {
    const bool present = text.size() > 2 && text[0] == '0' && (text[1] | 32) == letter;
    if (!present || (base != of && base != 0)) return false;
    base = of;
    text.remove_prefix(2);
    if (text.starts_with('_')) text.remove_prefix(1);
    return true;
  };
  const bool prefixed = prefix('x', 16) || prefix('o', 8) || prefix('b', 2);
  const bool zero_only = base == 0 && !prefixed && text.starts_with('0');
  if (base == 0) base = 10;
  if (text.empty()) return std::nullopt;
  Int value = 0;
  bool digit_before = false;
  for (char c : text) {
    if (c == '_') {
      if (!digit_before) return std::nullopt;
      digit_before = false;
      continue;
    }
    const int digit = digit_value(c);
    if (digit >= base || (zero_only && digit != 0)) return std::nullopt;
    if (__builtin_mul_overflow(value, static_cast<Int>(base), &value) ||
        __builtin_add_overflow(value, static_cast<Int>(digit), &value)) {
      runtime.fail(FailureKind::kUnsupported, "integers beyond 128 bits are not supported");
    }
    digit_before = true;
  }
  if (!digit_before) return std::nullopt;
  return negative ? -value : value;
}

// float(text); nothing where Python raises ValueError.
std::optional<double> parse_float(std::string_view text) {
  text = stripped(text);
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '9';
    };
    if (text[i] == '_') {
      if (i == 0 || !digit(i - 1) || !digit(i + 1)) return std::nullopt;
      continue;
    }
    plain.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(text[i]))));
  }
  std::string_view word = plain;
  if (word.starts_with('-') || word.starts_with('+')) word.remove_prefix(1);
  if (word != "inf" && word != "infinity" && word != "nan" &&
      (word.empty() || word.find_first_not_of("0123456789.e+-") != std::string_view::npos)) {
    return std::nullopt;
  }
  char* end = nullptr;
  const double value = std::strtod(plain.c_str(), &end);
  return end == plain.c_str() + plain.size() ? std::optional(value) : std::nullopt;
}

std::optional<Value> int_of_double(Runtime& runtime, double value) {
  if (!std::isfinite(value)) return std::nullopt;
  if (std::abs(value) >= 0x1p126) {
    runtime.fail(FailureKind::kUnsupported, "integers beyond 128 bits are not supported");
  }
  return Value::integer(static_cast<Int>(value));
}

Value filter_int(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound = bind(runtime, "int", args, {"default", "base"}, 0);
  const Value otherwise = bound[0].missing() ? Value::integer(0) : bound[0];
  const int64_t base = bound[1].missing() ? 10 : index_argument(runtime, bound[1]);
  runtime.require_defined(subject);
  if (subject.is_integral()) return Value::integer(subject.as_int());
  if (subject.is(Type::kFloat)) {
    const double value = subject.as_double();
    if (std::isinf(value)) {
      runtime.fail(FailureKind::kOverflow, "cannot convert float infinity to integer");
    }
    return int_of_double(runtime, value).value_or(otherwise);
  }
  if (!subject.is_string()) return otherwise;
  runtime.work(subject.text().size() * 4);
  if (base == 0 || (base >= 2 && base <= 36)) {
    if (const auto value = parse_int(runtime, subject.text(), base)) return Value::integer(*value);
  }
  const auto value = parse_float(subject.text());
  return value ? int_of_double(runtime, *value).value_or(otherwise) : otherwise;
}

Value filter_float(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound = bind(runtime, "float", args, {"default"}, 0);
  runtime.require_defined(subject);
  if (subject.is_number()) return Value::real(subject.as_double());
  if (subject.is_string()) {
    if (const auto value = parse_float(subject.text())) return Value::real(*value);
  }
  return bound[0].missing() ? Value::real(0.0) : bound[0];
}

// round(value, digits) of Python for floats: correctly rounded, ties to even.
double round_double(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 330) return value;
  if (digits < -310) return std::copysign(0.0, value);
  if (digits >= 0) {
    char buffer[1024];
    std::snprintf(buffer, sizeof(buffer), "%.*f", static_cast<int>(digits), value);
    return std::strtod(buffer, nullptr);
  }
  const double power = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(value / power) * power;
}

Int round_int(Int value, int64_t digits) {
  if (digits >= 0) return value;
  if (digits < -37) return 0;
  Int power = 1;
  for (int64_t i = digits; i < 0; ++i) power *= 10;
  Int quotient = value / power, rest = value % power;
  if (rest < 0) {
    rest += power;
    --quotient;
  }
  const bool up = rest * 2 > power || (rest * 2 == power && quotient % 2 != 0);
  return (up ? quotient + 1 : quotient) * power;
}

Value filter_round(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound = bind(runtime, "round", args, {"precision", "method"}, 0);
  const std::string method = bound[1].missing() ? "common" : str(runtime, bound[1]);
  if (method != "common" && method != "ceil" && method != "floor") {
    runtime.fail(FailureKind::kRuntime, "method must be common, ceil or floor");
  }
  runtime.require_defined(subject);
  if (!subject.is_number()) {
    runtime.type_error(std::string("type ") + type_name(subject) +
                       " doesn't define __round__ method");
  }
  if (method == "common") {
    if (bound[0].is_none()) {
      runtime.fail(FailureKind::kUnsupported, "round with precision none is not supported");
    }
    const int64_t digits = bound[0].missing() ? 0 : index_argument(runtime, bound[0]);
    if (subject.is_integral()) return Value::integer(round_int(subject.as_int(), digits));
    const double rounded = round_double(subject.as_double(), digits);
    if (std::isinf(rounded) && std::isfinite(subject.as_double())) {
      runtime.fail(FailureKind::kOverflow, "rounded value too large to represent");
    }
    return Value::real(rounded);
  }
  const Value precision = bound[0].missing() ? Value::integer(0) : bound[0];
  const Value power = arithmetic(runtime, Op::kPow, Value::integer(10), precision);
  const Value scaled = arithmetic(runtime, Op::kMul, subject, power);
  Value whole = scaled;
  if (scaled.is(Type::kFloat)) {
    const double d = scaled.as_double();
    if (!std::isfinite(d)) {
      runtime.fail(FailureKind::kOverflow, "cannot convert float infinity or NaN to integer");
    }
    whole = int_of_double(runtime, method == "ceil" ? std::ceil(d) : std::floor(d)).value();
  }
  return arithmetic(runtime, Op::kDiv, whole, power);
}

Value filter_abs(Runtime& runtime, const Value& subject, const Args& args) {
  bind(runtime, "abs", args, {}, 0);
  runtime.require_defined(subject);
  if (subject.is(Type::kFloat)) return Value::real(std::abs(subject.as_double()));
  if (!subject.is_integral()) {
    runtime.type_error(std::string("bad operand type for abs(): '") + type_name(subject) + "'");
  }
  return subject.as_int() < 0 ? negate(runtime, subject) : Value::integer(subject.as_int());
}

Value filter_length(Runtime& runtime, const Value& subject, const Args& args) {
  bind(runtime, "length", args, {}, 0);
  if (!sized(subject)) {
    runtime.type_error(std::string("object of type '") + type_name(subject) + "' has no len()");
  }
  return Value::integer(static_cast<Int>(length_of(subject)));
}

Value filter_filesizeformat(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound = bind(runtime, "filesizeformat", args, {"binary"}, 0);
  runtime.require_defined(subject);
  std::optional<double> bytes;
  if (subject.is_number()) bytes = subject.as_double();
  if (subject.is_string()) bytes = parse_float(subject.text());
  if (!bytes || !std::isfinite(*bytes)) {
    runtime.fail(FailureKind::kValue, "could not convert to float: " + repr(runtime, subject));
  }
  const bool binary = truthy(bound[0]);
  const double base = binary ? 1024 : 1000;
  if (*bytes == 1) return runtime.string("1 Byte");
  if (*bytes < base) {
    return runtime.string(int_text(static_cast<Int>(*bytes)) + " Bytes");
  }
  static constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base;
  for (size_t i = 0; i < kPrefixes.size(); ++i) {
    unit *= base;
    if (*bytes >= unit && i + 1 < kPrefixes.size()) continue;
    char buffer[400];
    std::snprintf(buffer, sizeof(buffer), "%.1f ", base * *bytes / unit);
    const char letter = binary && i == 0 ? 'K' : kPrefixes[i];
    return runtime.string(std::string(buffer) + letter + (binary ? "iB" : "B"));
  }
  return runtime.string("");
}

constexpr NamedFunction kFilters[] = {
    {"abs", filter_abs},     {"count", filter_length}, {"filesizeformat", filter_filesizeformat},
    {"float", filter_float}, {"int", filter_int},      {"length", filter_length},
    {"round", filter_round},
};

}  // namespace

Function find_number_filter(std::string_view name) {
  return find_named(std::begin(kFilters), std::end(kFilters), name);
}

}  // namespace fathom::jinja
