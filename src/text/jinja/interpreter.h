// Runs a parsed template once.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/macro.h"
#include "text/jinja/runtime.h"

namespace fathom::jinja {

// The variables of one entered scope.
class Scope {
 public:
  Scope(const ScopeLayout& layout, Scope* parent) : parent_(parent), values_(layout.slots.size()) {}
  Value& at(Slot slot) {
    Scope* scope = this;
    for (int i = 0; i < slot.hops; ++i) scope = scope->parent_;
    return scope->values_[static_cast<size_t>(slot.slot)];
  }
  Scope* parent() const { return parent_; }
  std::vector<Value>& values() { return values_; }

 private:
  Scope* parent_;
  std::vector<Value> values_;
};

class Interpreter {
 public:
  // `globals`: what the caller passes; looked up by name before Jinja's own globals.
  Interpreter(Runtime& runtime, const DictObject& globals);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  std::string render(const Ast& ast);

  // Called back from values that are being called.
  Value call_value(const Value& callee, const Args& args);

 private:
  enum class Flow { kNormal, kBreak, kContinue };
  // Keeps a scope alive: on the stack of the caller, or, if captured, until the end.
  struct Entered {
    std::unique_ptr<Scope> own;
    Scope* scope = nullptr;
  };

  Entered enter(const ScopeLayout& layout, Scope* parent);
  void start(const ScopeLayout& layout, Scope& scope);
  Value global(const std::string& name);

  Flow run_body(const Body& body, Scope& scope, TextBuilder& out);
  Flow run(const Statement& s, Scope& scope, TextBuilder& out);
  void run_output(const Statement& s, Scope& scope, TextBuilder& out);
  Flow run_if(const Statement& s, Scope& scope, TextBuilder& out);
  Flow run_for(const Statement& s, Scope& scope, TextBuilder& out);
  Flow loop(const Statement& s, Scope& scope, TextBuilder& out, const Value& iterable,
            int64_t depth0);
  Value filtered(const Statement& s, Scope& scope, const Value& iterable);
  Flow run_set_block(const Statement& s, Scope& scope);
  Flow run_captured(const Statement& s, Scope& scope, TextBuilder& out);
  Flow run_with(const Statement& s, Scope& scope, TextBuilder& out);
  void run_call_block(const Statement& s, Scope& scope, TextBuilder& out);
  void assign(const Expression& target, const Value& value, Scope& scope);
  void check_namespaces(const Expression& target, Scope& scope);

  Value make_macro(const Statement& s, Scope& scope);
  Value call_macro(const MacroObject& macro, const Args& args);
  void bind_macro(const Statement& s, const Args& args, Scope& scope);

  Value evaluate(const Expression& e, Scope& scope);
  Value evaluate_node(const Expression& e, Scope& scope);
  Value evaluate_name(const Expression& e, Scope& scope);
  Value evaluate_items(const Expression& e, Scope& scope);
  Value evaluate_dict(const Expression& e, Scope& scope);
  Value evaluate_compare(const Expression& e, Scope& scope);
  Value evaluate_concat(const Expression& e, Scope& scope);
  Value evaluate_conditional(const Expression& e, Scope& scope);
  Value evaluate_slice(const Expression& e, Scope& scope);
  Value evaluate_call(const Expression& e, Scope& scope, const Value* caller = nullptr);
  Value evaluate_filter(const Expression& e, Scope& scope);
  Args evaluate_arguments(const CallArguments& arguments, Scope& scope);
  void spread_keywords(const Value& value, Args& args);

  Runtime& runtime_;
  const DictObject& globals_;
  std::deque<std::unique_ptr<Scope>> captured_;
  const Value* filter_text_ = nullptr;  // what a filter block's innermost filter works on
};

}  // namespace fathom::jinja
