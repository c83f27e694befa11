// Name resolution, in two passes a scope: first what the scope reads and sets, then the names.
#include "text/jinja/scopes.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/failure.h"
#include "text/jinja/walk.h"

namespace fathom::jinja {

namespace {

// The variables of one scope while it is analyzed.
struct Symbols {
  Symbols* parent = nullptr;
  ScopeLayout* layout = nullptr;
  std::map<std::string, int, std::less<>> slots;  // name → slot
  std::vector<SlotStart> starts;                  // of slots
  std::set<std::string, std::less<>> stores;

  // The variable a name means here, or hops < 0.
  Slot find(std::string_view name) const {
    int hops = 0;
    for (const Symbols* s = this; s != nullptr; s = s->parent, ++hops) {
      if (const auto at = s->slots.find(name); at != s->slots.end()) return {hops, at->second};
    }
    return {};
  }

  // The same, leaving this scope out.
  Slot find_outside(std::string_view name) const {
    Slot slot = parent != nullptr ? parent->find(name) : Slot{};
    if (slot.hops >= 0) ++slot.hops;
    return slot;
  }

  int define(const std::string& name, SlotStart start) {
    start.name = name;
    const auto [at, fresh] = slots.emplace(name, static_cast<int>(starts.size()));
    if (fresh) {
      starts.push_back(std::move(start));
    } else {
      starts[static_cast<size_t>(at->second)] = std::move(start);
    }
    return at->second;
  }

  Slot parameter(const std::string& name) {
    stores.insert(name);
    return {0, define(name, {SlotStart::Kind::kParameter, {}, {}})};
  }

  void load(const std::string& name) {
    if (find(name).hops < 0) define(name, {SlotStart::Kind::kResolve, {}, {}});
  }

  void store(const std::string& name) {
    stores.insert(name);
    if (slots.contains(name)) return;
    const Slot outer = find_outside(name);
    if (outer.hops >= 0) {
      define(name, {SlotStart::Kind::kAlias, {}, outer});
    } else {
      define(name, {SlotStart::Kind::kUndefined, {}, {}});
    }
  }

  // After an if: what only some branches set keeps its outer value in the others.
  void merge(const std::vector<Symbols>& branches) {
    std::set<std::string, std::less<>> fresh;
    for (const Symbols& branch : branches) {
      for (const std::string& name : branch.stores) {
        if (!stores.contains(name)) fresh.insert(name);
      }
    }
    for (const Symbols& branch : branches) {
      for (const auto& [name, slot] : branch.slots) {
        define(name, branch.starts[static_cast<size_t>(slot)]);
      }
      stores.insert(branch.stores.begin(), branch.stores.end());
    }
    for (const std::string& name : fresh) {
      const Slot outer = find_outside(name);
      if (outer.hops >= 0) {
        define(name, {SlotStart::Kind::kAlias, {}, outer});
      } else {
        define(name, {SlotStart::Kind::kResolve, {}, {}});
      }
    }
  }
};

// Pass one: collects what a scope reads and sets, without entering inner scopes.
class Collector {
 public:
  explicit Collector(Symbols& symbols) : symbols_(&symbols) {}

  void expression(const Expression* node) {
    if (node == nullptr) return;
    if (node->kind == ExpressionKind::kName || node->kind == ExpressionKind::kNamespaceRef) {
      symbols_->load(node->text);
    }
    each_child(*node, [this](const Expression& child) { expression(&child); });
  }

  void target(const Expression& node, bool parameter) {
    if (node.kind == ExpressionKind::kTuple) {
      for (const ExpressionPtr& item : node.items) target(*item, parameter);
    } else if (node.kind == ExpressionKind::kNamespaceRef) {
      symbols_->load(node.text);
    } else if (parameter) {
      symbols_->parameter(node.text);
    } else {
      symbols_->store(node.text);
    }
  }

  void body(const Body& statements) {
    for (const StatementPtr& statement : statements) visit(*statement);
  }

  void visit(const Statement& s) {
    switch (s.kind) {
      case StatementKind::kOutput:
        for (const ExpressionPtr& item : s.items) expression(item.get());
        break;
      case StatementKind::kSet:
        expression(s.value.get());
        target(*s.target, false);
        break;
      case StatementKind::kSetBlock:
        expression(s.value.get());
        target(*s.target, false);
        break;
      case StatementKind::kFor:
      case StatementKind::kCall:
      case StatementKind::kFilter:
        expression(s.value.get());
        break;
      case StatementKind::kIf:
        visit_if(s);
        break;
      case StatementKind::kMacro:
        symbols_->store(s.name);
        break;
      case StatementKind::kWith:
        for (const ExpressionPtr& value : s.values) expression(value.get());
        break;
      default:
        break;
    }
  }

 private:
  // Only the first test belongs to the enclosing scope; everything after it may not happen.
  void visit_if(const Statement& s) {
    expression(s.branches.front().test.get());
    Symbols* original = symbols_;
    std::vector<Symbols> branches(3, *original);
    symbols_ = &branches[0];
    body(s.branches.front().body);
    for (size_t i = 1; i < s.branches.size(); ++i) {
      symbols_ = &branches[1];
      visit_elif(s.branches[i]);
    }
    symbols_ = &branches[2];
    body(s.orelse);
    symbols_ = original;
    // Slots were numbered apart in the copies: merge() gives them numbers of the original.
    symbols_->merge(branches);
  }

  // Each elif is an if of its own, with an empty else.
  void visit_elif(const Branch& branch) {
    expression(branch.test.get());
    Symbols* original = symbols_;
    std::vector<Symbols> branches(1, *original);
    symbols_ = &branches[0];
    body(branch.body);
    symbols_ = original;
    symbols_->merge(branches);
  }

  Symbols* symbols_;
};

// Pass two: writes the slots, scope by scope from the outside in.
class Resolver {
 public:
  void run(Ast& ast) {
    reads_self_ = !reads_special(ast.body, {"self"}).empty();
    Symbols root;
    root.layout = &ast.scope;
    Collector(root).body(ast.body);
    body(ast.body, root, false);
    finish(root);
  }

 private:
  [[noreturn]] static void fail(const std::string& message, int line) {
    throw Failure(FailureKind::kSyntax, message, line);
  }

  static void finish(Symbols& symbols) { symbols.layout->slots = std::move(symbols.starts); }

  // `function`: entered later than where it stands (a macro, call block or recursive loop), so that
  // all scopes around must outlive their statements.
  static Symbols inner(Symbols& outer, ScopeLayout& layout, bool function = false) {
    Symbols symbols;
    symbols.parent = &outer;
    symbols.layout = &layout;
    for (Symbols* s = &outer; function && s != nullptr; s = s->parent) s->layout->captured = true;
    return symbols;
  }

  static Slot lookup(const std::string& name, Symbols& symbols) {
    Slot slot = symbols.find(name);
    if (slot.hops < 0) {  // only in the arguments of a set block's filter, which Jinja cannot do
      symbols.load(name);
      slot = symbols.find(name);
    }
    return slot;
  }

  void expression(Expression* node, Symbols& symbols, bool soft) {
    if (node == nullptr) return;
    soft = soft || node->kind == ExpressionKind::kConditional;
    if (node->kind == ExpressionKind::kName || node->kind == ExpressionKind::kNamespaceRef) {
      if (reads_self_ && node->text == "self") {
        throw Failure(FailureKind::kUnsupported, "the variable `self` is not supported",
                      node->line);
      }
      node->slot = lookup(node->text, symbols);
    }
    if (node->function == nullptr && !soft) {
      if (node->kind == ExpressionKind::kFilter) {
        fail("No filter named '" + node->text + "'.", node->line);
      }
      if (node->kind == ExpressionKind::kTest) {
        fail("No test named '" + node->text + "'.", node->line);
      }
    }
    each_child(*node, [&](Expression& child) { expression(&child, symbols, soft); });
  }

  void body(Body& statements, Symbols& symbols, bool soft) {
    for (const StatementPtr& statement : statements) visit(*statement, symbols, soft);
  }

  void visit(Statement& s, Symbols& symbols, bool soft) {
    switch (s.kind) {
      case StatementKind::kOutput:
        for (const ExpressionPtr& item : s.items) expression(item.get(), symbols, soft);
        break;
      case StatementKind::kSet:
        expression(s.value.get(), symbols, soft);
        expression(s.target.get(), symbols, soft);
        break;
      case StatementKind::kSetBlock: {
        Symbols scope = inner(symbols, s.scope);
        Collector(scope).body(s.body);
        expression(s.value.get(), scope, false);
        body(s.body, scope, false);
        finish(scope);
        expression(s.target.get(), symbols, soft);
        break;
      }
      case StatementKind::kFor:
        visit_for(s, symbols, soft);
        break;
      case StatementKind::kIf:
        for (Branch& branch : s.branches) {
          expression(branch.test.get(), symbols, true);
          body(branch.body, symbols, true);
        }
        body(s.orelse, symbols, true);
        break;
      case StatementKind::kMacro:
        s.slot = lookup(s.name, symbols);
        visit_function(s, symbols);
        break;
      case StatementKind::kCall:
        visit_function(s, symbols);
        expression(s.value.get(), symbols, soft);
        break;
      case StatementKind::kFilter: {
        Symbols scope = inner(symbols, s.scope);
        Collector(scope).body(s.body);
        Collector(scope).expression(s.value.get());
        body(s.body, scope, false);
        expression(s.value.get(), scope, soft);
        finish(scope);
        break;
      }
      case StatementKind::kWith:
        visit_with(s, symbols, soft);
        break;
      case StatementKind::kGeneration: {
        Symbols scope = inner(symbols, s.scope);
        Collector(scope).body(s.body);
        body(s.body, scope, false);
        finish(scope);
        break;
      }
      default:
        break;
    }
  }

  void visit_with(Statement& s, Symbols& symbols, bool soft) {
    Symbols scope = inner(symbols, s.scope);
    Collector collector(scope);
    for (const ExpressionPtr& item : s.items) collector.target(*item, true);
    collector.body(s.body);
    for (const ExpressionPtr& value : s.values) expression(value.get(), symbols, soft);
    for (const ExpressionPtr& item : s.items) expression(item.get(), scope, false);
    body(s.body, scope, false);
    finish(scope);
  }

  void visit_for(Statement& s, Symbols& symbols, bool soft) {
    Symbols scope = inner(symbols, s.scope, s.recursive);
    s.uses_loop = s.recursive || reads_special(s.body, {"loop"}).contains("loop");
    if (stores_name(s, "loop")) {
      fail("Can't assign to special loop variable in for-loop target", s.line);
    }
    // The target comes first in this scope and in the test's, so that its slots fit both.
    Collector collector(scope);
    collector.target(*s.target, true);
    if (s.uses_loop) s.loop_slot = scope.parameter("loop");
    collector.body(s.body);
    // The sequence is the outer scope's; a recursive loop may get others, from inside itself.
    expression(s.value.get(), symbols, soft);
    expression(s.target.get(), scope, false);
    if (s.test != nullptr) {
      Symbols test = inner(symbols, s.test_scope, s.recursive);
      Collector(test).target(*s.target, true);
      Collector(test).expression(s.test.get());
      expression(s.test.get(), test, false);
      finish(test);
    }
    body(s.body, scope, false);
    finish(scope);
    Symbols otherwise = inner(symbols, s.else_scope, s.recursive);
    Collector(otherwise).body(s.orelse);
    body(s.orelse, otherwise, false);
    finish(otherwise);
  }

  void visit_function(Statement& s, Symbols& symbols) {
    Symbols scope = inner(symbols, s.scope, true);
    for (const std::string& name : s.parameters) {
      s.parameter_slots.push_back(scope.parameter(name));
    }
    Collector collector(scope);
    for (const ExpressionPtr& value : s.defaults) collector.expression(value.get());
    const auto special = reads_special(s.body, {"caller", "kwargs", "varargs"});
    const auto declare = [&](const char* name, bool& takes, Slot& slot) {
      const bool own =
          std::find(s.parameters.begin(), s.parameters.end(), name) != s.parameters.end();
      takes = special.contains(name) && !own;
      if (takes) slot = scope.parameter(name);
      return special.contains(name) && own;
    };
    if (declare("caller", s.takes_caller, s.caller_slot)) {
      const auto at = std::find(s.parameters.begin(), s.parameters.end(), "caller");
      if (static_cast<size_t>(s.parameters.end() - at) > s.defaults.size()) {
        fail(
            "When defining macros or call blocks the special \"caller\" argument must be omitted "
            "or be given a default.",
            s.line);
      }
    }
    declare("kwargs", s.takes_kwargs, s.kwargs_slot);
    declare("varargs", s.takes_varargs, s.varargs_slot);
    collector.body(s.body);
    for (const ExpressionPtr& value : s.defaults) expression(value.get(), scope, false);
    body(s.body, scope, false);
    finish(scope);
  }

  bool reads_self_ = false;  // the template asks for Jinja's reference to itself
};

}  // namespace

void resolve_names(Ast& ast) {
  Resolver().run(ast);
}

}  // namespace fathom::jinja
