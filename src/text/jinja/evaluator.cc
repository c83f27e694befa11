// Expressions.
#include "text/jinja/attributes.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace fathom::jinja {

Value Interpreter::evaluate(const Expression& e, Scope& scope) {
  const DepthGuard guard(runtime_);
  runtime_.step();
  return evaluate_node(e, scope);
}

Value Interpreter::evaluate_node(const Expression& e, Scope& scope) {
  switch (e.kind) {
    case ExpressionKind::kConstant:
      return e.constant;
    case ExpressionKind::kName:
    case ExpressionKind::kNamespaceRef:
      return evaluate_name(e, scope);
    case ExpressionKind::kTuple:
    case ExpressionKind::kList:
      return evaluate_items(e, scope);
    case ExpressionKind::kDict:
      return evaluate_dict(e, scope);
    case ExpressionKind::kBinary: {
      const Value a = evaluate(*e.a, scope);
      const Value b = evaluate(*e.b, scope);
      runtime_.line = e.line;
      return arithmetic(runtime_, e.op, a, b);
    }
    case ExpressionKind::kNegate:
      return negate(runtime_, evaluate(*e.a, scope));
    case ExpressionKind::kPosate:
      return posate(runtime_, evaluate(*e.a, scope));
    case ExpressionKind::kNot:
      return Value::boolean(!truthy(evaluate(*e.a, scope)));
    case ExpressionKind::kAnd: {
      const Value a = evaluate(*e.a, scope);
      return truthy(a) ? evaluate(*e.b, scope) : a;
    }
    case ExpressionKind::kOr: {
      const Value a = evaluate(*e.a, scope);
      return truthy(a) ? a : evaluate(*e.b, scope);
    }
    case ExpressionKind::kConcat:
      return evaluate_concat(e, scope);
    case ExpressionKind::kCompare:
      return evaluate_compare(e, scope);
    case ExpressionKind::kConditional:
      return evaluate_conditional(e, scope);
    case ExpressionKind::kAttribute: {
      const Value object = evaluate(*e.a, scope);
      runtime_.line = e.line;
      return get_attribute(runtime_, object, e.text);
    }
    case ExpressionKind::kItem: {
      const Value object = evaluate(*e.a, scope);
      const Value key = evaluate(*e.b, scope);
      runtime_.line = e.line;
      return get_item(runtime_, object, key);
    }
    case ExpressionKind::kSlice:
      return evaluate_slice(e, scope);
    case ExpressionKind::kCall:
      return evaluate_call(e, scope);
    case ExpressionKind::kFilter:
    case ExpressionKind::kTest:
      return evaluate_filter(e, scope);
  }
  return Value();
}

Value Interpreter::evaluate_name(const Expression& e, Scope& scope) {
  const Value& value = scope.at(e.slot);
  if (!value.missing()) return value;
  return runtime_.undefined(repr_text(e.text) + " is undefined");
}

Value Interpreter::evaluate_items(const Expression& e, Scope& scope) {
  std::vector<Value> items;
  runtime_.reserve(e.items.size() * sizeof(Value));
  items.reserve(e.items.size());
  for (const ExpressionPtr& item : e.items) items.push_back(evaluate(*item, scope));
  return e.kind == ExpressionKind::kList ? runtime_.list(std::move(items))
                                         : runtime_.tuple(std::move(items));
}

Value Interpreter::evaluate_dict(const Expression& e, Scope& scope) {
  auto dict = std::make_shared<DictObject>();
  for (size_t i = 0; i + 1 < e.items.size(); i += 2) {
    Value key = evaluate(*e.items[i], scope);
    Value value = evaluate(*e.items[i + 1], scope);
    if (!hashable(key)) {
      runtime_.line = e.line;
      runtime_.type_error(std::string("unhashable type: '") + type_name(key) + "'");
    }
    runtime_.reserve(2 * sizeof(Value));
    dict->set(std::move(key), std::move(value));
  }
  return runtime_.dict(std::move(dict));
}

Value Interpreter::evaluate_compare(const Expression& e, Scope& scope) {
  Value left = evaluate(*e.a, scope);
  for (size_t i = 0; i < e.ops.size(); ++i) {
    Value right = evaluate(*e.items[i], scope);
    runtime_.line = e.line;
    if (!compare(runtime_, e.ops[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::evaluate_concat(const Expression& e, Scope& scope) {
  TextBuilder out(runtime_);
  for (const ExpressionPtr& item : e.items) append_str(out, runtime_, evaluate(*item, scope));
  return out.value();
}

Value Interpreter::evaluate_conditional(const Expression& e, Scope& scope) {
  if (truthy(evaluate(*e.b, scope))) return evaluate(*e.a, scope);
  if (e.c != nullptr) return evaluate(*e.c, scope);
  return runtime_.undefined("the inline if-expression on line " + std::to_string(e.line) +
                            " evaluated to false and no else section was defined.");
}

Value Interpreter::evaluate_slice(const Expression& e, Scope& scope) {
  const Value object = evaluate(*e.a, scope);
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (e.items[i] != nullptr) bounds[i] = evaluate(*e.items[i], scope);
  }
  runtime_.line = e.line;
  return slice(runtime_, object, bounds[0], bounds[1], bounds[2]);
}

Value Interpreter::evaluate_call(const Expression& e, Scope& scope, const Value* caller) {
  const Value callee = evaluate(*e.a, scope);
  Args args = evaluate_arguments(*e.arguments, scope);
  runtime_.line = e.line;
  if (caller != nullptr) {
    for (const auto& [name, value] : args.keywords) {
      if (name == "caller") runtime_.type_error("multiple values for keyword argument 'caller'");
    }
    args.keywords.emplace_back("caller", *caller);
  }
  return call_value(callee, args);
}

Value Interpreter::evaluate_filter(const Expression& e, Scope& scope) {
  const Value subject = e.a != nullptr ? evaluate(*e.a, scope) : *filter_text_;
  const Args args = evaluate_arguments(*e.arguments, scope);
  runtime_.line = e.line;
  if (e.function == nullptr) {
    const bool filter = e.kind == ExpressionKind::kFilter;
    runtime_.fail(FailureKind::kRuntime, std::string("No ") + (filter ? "filter" : "test") +
                                             " named " + repr_text(e.text) + " found.");
  }
  const Value result = e.function(runtime_, subject, args);
  runtime_.line = e.line;
  return result;
}

Args Interpreter::evaluate_arguments(const CallArguments& arguments, Scope& scope) {
  Args args;
  for (const ExpressionPtr& item : arguments.positional) {
    args.positional.push_back(evaluate(*item, scope));
  }
  for (const auto& [name, item] : arguments.keywords) {
    args.keywords.emplace_back(name, evaluate(*item, scope));
  }
  if (arguments.rest != nullptr) {
    const Value rest = evaluate(*arguments.rest, scope);
    for_each(runtime_, rest, [&](const Value& item) { runtime_.push(args.positional, item); });
  }
  if (arguments.keyword_rest != nullptr) {
    spread_keywords(evaluate(*arguments.keyword_rest, scope), args);
  }
  return args;
}

void Interpreter::spread_keywords(const Value& value, Args& args) {
  runtime_.require_defined(value);
  if (!value.is(Type::kDict)) {
    runtime_.type_error(std::string("argument after ** must be a mapping, not ") +
                        type_name(value));
  }
  for (const auto& [key, item] : value.dict().entries) {
    runtime_.reserve(sizeof(Value) * 2);
    if (!key.is_string()) runtime_.type_error("keywords must be strings");
    for (const auto& [name, other] : args.keywords) {
      runtime_.work(1);
      if (name == key.text()) {
        runtime_.type_error("got multiple values for keyword argument '" + name + "'");
      }
    }
    args.keywords.emplace_back(key.text(), item);
  }
}

}  // namespace fathom::jinja
