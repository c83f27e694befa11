// Attribute and item access with the rules of Jinja's immutable sandbox.
#include "text/jinja/attributes.h"

#include <algorithm>
#include <initializer_list>

#include "text/jinja/macro.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace fathom::jinja {

namespace {

bool among(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Methods that would change the object: the immutable sandbox hides them.
bool forbidden(Type type, std::string_view name) {
  if (type == Type::kList) {
    return among(name, {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"});
  }
  return type == Type::kDict && among(name, {"clear", "pop", "popitem", "setdefault", "update"});
}

// Attributes that Python has and this interpreter does not: refused by name, never taken for
// absent.
bool unsupported(Type type, std::string_view name) {
  switch (type) {
    case Type::kString:
      return among(name, {"encode", "maketrans", "translate"});
    case Type::kDictView:
      return among(name, {"isdisjoint", "mapping"});
    case Type::kBool:
    case Type::kInt:
      return among(name, {"as_integer_ratio", "bit_count", "bit_length", "conjugate", "from_bytes",
                          "is_integer", "to_bytes"});
    case Type::kFloat:
      return among(name, {"as_integer_ratio", "conjugate", "fromhex", "hex"});
    case Type::kIterator:
      return among(name, {"send", "throw", "close"});
    default:
      return false;
  }
}

std::string object_description(const Value& value) {
  switch (value.type()) {
    case Type::kNone:
      return "None";
    case Type::kMacro:
      return "jinja2.runtime.Macro object";
    case Type::kLoop:
      return "jinja2.runtime.LoopContext object";
    default:
      return std::string(type_name(value)) + " object";
  }
}

Value number_attribute(Runtime& runtime, const Value& value, std::string_view name) {
  if (name == "real") return value.is(Type::kBool) ? Value::integer(value.as_int()) : value;
  if (name == "imag") return value.is(Type::kFloat) ? Value::real(0.0) : Value::integer(0);
  if (value.is_integral() && name == "numerator") return Value::integer(value.as_int());
  if (value.is_integral() && name == "denominator") return Value::integer(1);
  if (value.is(Type::kFloat) && name == "is_integer") {
    return runtime.function(
        "is_integer",
        [](Runtime&, const Value& self, const Args&) {
          const double d = self.as_double();
          return Value::boolean(d - d == 0 && d == static_cast<double>(static_cast<Int>(d)));
        },
        value);
  }
  return Value();
}

Value range_attribute(Runtime& runtime, const Value& value, std::string_view name) {
  const auto& range = value.as<RangeObject>();
  if (name == "start") return Value::integer(range.start);
  if (name == "stop") return Value::integer(range.stop);
  if (name == "step") return Value::integer(range.step);
  const Function method = find_container_method(Type::kRange, name);
  return method == nullptr ? Value() : runtime.function(std::string(name), method, value);
}

Value object_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  switch (object.type()) {
    case Type::kBool:
    case Type::kInt:
    case Type::kFloat:
      return number_attribute(runtime, object, name);
    case Type::kRange:
      return range_attribute(runtime, object, name);
    case Type::kNamespace: {
      const Value* value = object.as<NamespaceObject>().find(name);
      return value != nullptr ? *value : Value();
    }
    case Type::kMacro:
      return macro_attribute(runtime, object, name);
    case Type::kLoop:
      return loop_attribute(runtime, object, name);
    case Type::kString: {
      const Function method = find_string_method(name);
      return method == nullptr ? Value() : runtime.function(std::string(name), method, object);
    }
    default: {
      const Function method = find_container_method(object.type(), name);
      return method == nullptr ? Value() : runtime.function(std::string(name), method, object);
    }
  }
}

}  // namespace

Value own_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  runtime.require_defined(object);
  const auto unsafe = [&] {
    return runtime.undefined("access to attribute " + repr_text(name) + " of " +
                                 repr_text(type_name(object)) + " object is unsafe.",
                             true);
  };
  if (name.starts_with("__") && name.ends_with("__") && name.size() > 4 &&
      among(name, {"__class__", "__doc__", "__init__", "__dict__", "__module__", "__eq__",
                   "__len__", "__iter__", "__getitem__", "__contains__", "__add__", "__str__",
                   "__repr__", "__subclasses__", "__mro__", "__globals__", "__call__"})) {
    return unsafe();
  }
  if (forbidden(object.type(), name)) return unsafe();
  Value value = object_attribute(runtime, object, name);
  if (value.missing() && unsupported(object.type(), name)) {
    runtime.fail(FailureKind::kUnsupported,
                 "attribute " + repr_text(name) + " of " + type_name(object) + " is not supported");
  }
  return value;
}

Value get_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  Value value = own_attribute(runtime, object, name);
  if (value.missing() && object.is(Type::kDict)) {
    if (const Value* item = object.dict().find(name)) value = *item;
  }
  if (!value.missing()) return value;
  return runtime.undefined(repr_text(object_description(object)) + " has no attribute " +
                           repr_text(name));
}

Value get_item(Runtime& runtime, const Value& object, const Value& key) {
  runtime.require_defined(object);
  Value value = subscript(runtime, object, key);
  if (!value.missing()) return value;
  if (key.is_string()) {
    value = own_attribute(runtime, object, key.text());
    if (!value.missing()) return value;
    return runtime.undefined(repr_text(object_description(object)) + " has no attribute " +
                             repr_text(key.text()));
  }
  return runtime.undefined(object_description(object) + " has no element " + repr(runtime, key));
}

}  // namespace fathom::jinja
