// Statements: output, set, for, if, with, call and filter blocks.
#include "text/jinja/interpreter.h"

#include "text/jinja/attributes.h"
#include "text/jinja/globals.h"
#include "text/jinja/iteration.h"
#include "text/jinja/python_text.h"

namespace fathom::jinja {

Interpreter::Interpreter(Runtime& runtime, const DictObject& globals)
    : runtime_(runtime), globals_(globals) {}

Interpreter::~Interpreter() {
  // Scopes hold macros, macros point to scopes: values first, so that no order matters.
  for (const auto& scope : captured_) scope->values().clear();
}

std::string Interpreter::render(const Ast& ast) {
  TextBuilder out(runtime_);
  const Entered root = enter(ast.scope, nullptr);
  run_body(ast.body, *root.scope, out);
  return out.take();
}

Interpreter::Entered Interpreter::enter(const ScopeLayout& layout, Scope* parent) {
  Entered entered;
  runtime_.work(kStep + layout.slots.size() * sizeof(Value));
  entered.own = std::make_unique<Scope>(layout, parent);
  entered.scope = entered.own.get();
  if (layout.captured) {
    runtime_.reserve(sizeof(Scope) + layout.slots.size() * sizeof(Value));
    runtime_.meter().live += sizeof(Scope) + layout.slots.size() * sizeof(Value);
    captured_.push_back(std::move(entered.own));
  }
  start(layout, *entered.scope);
  return entered;
}

void Interpreter::start(const ScopeLayout& layout, Scope& scope) {
  for (size_t i = 0; i < layout.slots.size(); ++i) {
    const SlotStart& slot = layout.slots[i];
    Value& value = scope.values()[i];
    switch (slot.kind) {
      case SlotStart::Kind::kParameter:
        break;
      case SlotStart::Kind::kResolve:
        value = global(slot.name);
        break;
      case SlotStart::Kind::kAlias:
        value = scope.at(slot.alias);
        break;
      case SlotStart::Kind::kUndefined:
        value = Value();
        break;
    }
  }
}

Value Interpreter::global(const std::string& name) {
  if (const Value* value = globals_.find(name)) return *value;
  return builtin_global(runtime_, name);
}

Interpreter::Flow Interpreter::run_body(const Body& body, Scope& scope, TextBuilder& out) {
  for (const StatementPtr& statement : body) {
    const Flow flow = run(*statement, scope, out);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run(const Statement& s, Scope& scope, TextBuilder& out) {
  const DepthGuard guard(runtime_);
  runtime_.step();
  runtime_.line = s.line;
  switch (s.kind) {
    case StatementKind::kOutput:
      run_output(s, scope, out);
      break;
    case StatementKind::kSet:
      check_namespaces(*s.target, scope);
      assign(*s.target, evaluate(*s.value, scope), scope);
      break;
    case StatementKind::kSetBlock:
      return run_set_block(s, scope);
    case StatementKind::kFor:
      return run_for(s, scope, out);
    case StatementKind::kIf:
      return run_if(s, scope, out);
    case StatementKind::kMacro:
      scope.at(s.slot) = make_macro(s, scope);
      break;
    case StatementKind::kCall:
      run_call_block(s, scope, out);
      break;
    case StatementKind::kFilter:
      return run_captured(s, scope, out);
    case StatementKind::kWith:
      return run_with(s, scope, out);
    case StatementKind::kGeneration: {
      const Entered inner = enter(s.scope, &scope);
      return run_body(s.body, *inner.scope, out);
    }
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

void Interpreter::run_output(const Statement& s, Scope& scope, TextBuilder& out) {
  for (const ExpressionPtr& item : s.items) {
    if (item->kind == ExpressionKind::kConstant && item->constant.is_string()) {
      out.append(item->constant.text());
    } else {
      append_str(out, runtime_, evaluate(*item, scope));
    }
  }
}

Interpreter::Flow Interpreter::run_if(const Statement& s, Scope& scope, TextBuilder& out) {
  for (const Branch& branch : s.branches) {
    if (truthy(evaluate(*branch.test, scope))) return run_body(branch.body, scope, out);
  }
  return run_body(s.orelse, scope, out);
}

Interpreter::Flow Interpreter::run_for(const Statement& s, Scope& scope, TextBuilder& out) {
  const Value iterable = evaluate(*s.value, scope);
  if (!s.recursive) return loop(s, scope, out, iterable, 0);
  loop(s, scope, out, iterable, 0);  // break and continue cannot leave a recursive loop
  return Flow::kNormal;
}

// The items a for's `if` lets through, tested one by one as the loop asks for them.
Value Interpreter::filtered(const Statement& s, Scope& scope, const Value& iterable) {
  auto items = iterate(runtime_, iterable);
  const int depth = iterable.depth();
  return make_generator(runtime_, depth,
                        [this, &s, &scope, items = std::move(items)](Runtime& runtime, Value& out) {
                          while (items->next(runtime, out)) {
                            const Entered test = enter(s.test_scope, &scope);
                            assign(*s.target, out, *test.scope);
                            if (truthy(evaluate(*s.test, *test.scope))) return true;
                          }
                          return false;
                        });
}

Interpreter::Flow Interpreter::loop(const Statement& s, Scope& scope, TextBuilder& out,
                                    const Value& iterable, int64_t depth0) {
  auto state =
      runtime_.adopt(std::make_shared<LoopObject>(), sizeof(LoopObject), iterable.depth() + 3);
  state->iterable = s.test == nullptr ? iterable : filtered(s, scope, iterable);
  state->items = iterate(runtime_, state->iterable);
  state->depth0 = depth0;
  state->recursive = s.recursive ? &s : nullptr;
  state->scope = &scope;
  const Value loop_value = s.uses_loop ? Value(Type::kLoop, state) : Value();
  bool completed = false;  // an iteration ran to its end: only then is there no else
  {
    const Entered body = enter(s.scope, &scope);
    Value item;
    while (state->next(runtime_, item)) {
      if (state->index0 > 0) start(s.scope, *body.scope);
      assign(*s.target, item, *body.scope);
      if (s.uses_loop) body.scope->at(s.loop_slot) = loop_value;
      const Flow flow = run_body(s.body, *body.scope, out);
      if (flow == Flow::kBreak) break;
      if (flow == Flow::kNormal) completed = true;
    }
    // Python's names are gone after the loop, for closures too.
    for (Value& value : body.scope->values()) value = Value();
    // `loop` may have been kept in a namespace; the generator behind it must not outlive its scope.
    state->items = iterate(runtime_, runtime_.undefined(""));
    state->iterable = Value::integer(0);
  }
  if (completed || s.orelse.empty()) return Flow::kNormal;
  const Entered otherwise = enter(s.else_scope, &scope);
  return run_body(s.orelse, *otherwise.scope, out);
}

Interpreter::Flow Interpreter::run_set_block(const Statement& s, Scope& scope) {
  const Entered inner = enter(s.scope, &scope);
  TextBuilder text(runtime_);
  const Flow flow = run_body(s.body, *inner.scope, text);
  if (flow != Flow::kNormal) return flow;  // nothing is set
  Value value = text.value();
  if (s.value != nullptr) {
    const Value* outer = std::exchange(filter_text_, &value);
    value = evaluate(*s.value, *inner.scope);
    filter_text_ = outer;
  }
  check_namespaces(*s.target, scope);
  assign(*s.target, value, scope);
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_captured(const Statement& s, Scope& scope, TextBuilder& out) {
  const Entered inner = enter(s.scope, &scope);
  TextBuilder text(runtime_);
  const Flow flow = run_body(s.body, *inner.scope, text);
  if (flow != Flow::kNormal) return flow;  // the block's text is lost with it
  const Value value = text.value();
  const Value* outer = std::exchange(filter_text_, &value);
  append_str(out, runtime_, evaluate(*s.value, *inner.scope));
  filter_text_ = outer;
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_with(const Statement& s, Scope& scope, TextBuilder& out) {
  const Entered inner = enter(s.scope, &scope);
  for (size_t i = 0; i < s.items.size(); ++i) {
    assign(*s.items[i], evaluate(*s.values[i], scope), *inner.scope);
  }
  return run_body(s.body, *inner.scope, out);
}

void Interpreter::run_call_block(const Statement& s, Scope& scope, TextBuilder& out) {
  const Value caller = make_macro(s, scope);
  append_str(out, runtime_, evaluate_call(*s.value, scope, &caller));
}

void Interpreter::check_namespaces(const Expression& target, Scope& scope) {
  if (target.kind == ExpressionKind::kNamespaceRef && !scope.at(target.slot).is(Type::kNamespace)) {
    runtime_.fail(FailureKind::kRuntime, "cannot assign attribute on non-namespace object");
  }
  for (const ExpressionPtr& item : target.items) check_namespaces(*item, scope);
}

void Interpreter::assign(const Expression& target, const Value& value, Scope& scope) {
  if (target.kind == ExpressionKind::kName) {
    scope.at(target.slot) = value;
    return;
  }
  if (target.kind == ExpressionKind::kNamespaceRef) {
    Value holder = scope.at(target.slot);
    set_attribute(runtime_, holder, target.constant.text(), value);
    return;
  }
  const std::vector<Value> items = to_vector(runtime_, value);
  if (items.size() != target.items.size()) {
    runtime_.fail(
        FailureKind::kValue,
        items.size() < target.items.size()
            ? "not enough values to unpack (expected " + std::to_string(target.items.size()) +
                  ", got " + std::to_string(items.size()) + ")"
            : "too many values to unpack (expected " + std::to_string(target.items.size()) + ")");
  }
  for (size_t i = 0; i < items.size(); ++i) assign(*target.items[i], items[i], scope);
}

}  // namespace fathom::jinja
