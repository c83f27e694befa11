// Python's operators on template values, with Python's errors.
#pragma once

#include <cstdint>

#include "text/jinja/runtime.h"

namespace fathom::jinja {

enum class Op : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kIn,
  kNotIn,
};

Value arithmetic(Runtime& runtime, Op op, const Value& a, const Value& b);  // + - * / // % **
bool compare(Runtime& runtime, Op op, const Value& a, const Value& b);      // == … not in
bool less(Runtime& runtime, const Value& a, const Value& b);
bool contains(Runtime& runtime, const Value& container, const Value& item);
Value negate(Runtime& runtime, const Value& value);
Value posate(Runtime& runtime, const Value& value);  // unary +

// obj[begin:end:step]; missing or None bounds as in Python.
Value slice(Runtime& runtime, const Value& object, const Value& begin, const Value& end,
            const Value& step);
// obj[key] of sequences and dicts without any fallback; missing where Python raises LookupError or
// TypeError.
Value subscript(Runtime& runtime, const Value& object, const Value& key);

// An index argument (int or bool) as a clamped 64-bit number; TypeError otherwise.
int64_t index_argument(Runtime& runtime, const Value& value);

}  // namespace fathom::jinja
