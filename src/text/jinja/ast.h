// The parsed template: expressions and statements. Immutable after parsing.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/operators.h"
#include "text/jinja/value.h"

namespace fathom::jinja {

struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<Expression>;
using StatementPtr = std::unique_ptr<Statement>;
using Body = std::vector<StatementPtr>;

// Where a name lives: `hops` scopes outward, variable `slot` there.
struct Slot {
  int hops = -1;
  int slot = -1;
};

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> keywords;
  ExpressionPtr rest;          // *expression
  ExpressionPtr keyword_rest;  // **expression
};

enum class ExpressionKind : uint8_t {
  kConstant,      // constant
  kName,          // name, slot
  kNamespaceRef,  // name.attribute as a target of set: name, slot, text
  kTuple,         // items
  kList,          // items
  kDict,          // items: key, value, key, value, …
  kBinary,        // op, a, b
  kNegate,        // a
  kPosate,        // a
  kNot,           // a
  kAnd,           // a, b
  kOr,            // a, b
  kConcat,        // items
  kCompare,       // a, then ops[i] with items[i]
  kConditional,   // a if b else c; c may be null
  kAttribute,     // a.text
  kItem,          // a[b]
  kSlice,         // a[items[0]:items[1]:items[2]], each may be null
  kCall,          // a(arguments)
  kFilter,        // a | text(arguments); a is null for the text of a filter block
  kTest,          // a is text(arguments)
};

struct Expression {
  ExpressionKind kind = ExpressionKind::kConstant;
  Op op = Op::kAdd;
  int line = 0;
  int depth = 1;  // of the tree below
  std::string text;
  Value constant;
  ExpressionPtr a, b, c;
  std::vector<ExpressionPtr> items;
  std::vector<Op> ops;
  std::unique_ptr<CallArguments> arguments;
  Function function = nullptr;  // of a filter or test; nullptr: unknown, an error if evaluated
  Slot slot;
};

// How a variable of a scope begins its life each time the scope is entered.
struct SlotStart {
  enum class Kind : uint8_t {
    kParameter,  // set by what enters the scope
    kResolve,    // looked up by name in what the caller of the template passed
    kAlias,      // copied from an outer scope
    kUndefined,
  } kind = Kind::kUndefined;
  std::string name;
  Slot alias;
};

struct ScopeLayout {
  std::vector<SlotStart> slots;
  bool captured = false;  // a macro, call block or recursive loop stands inside
};

enum class StatementKind : uint8_t {
  kOutput,      // items: text constants and expressions
  kSet,         // target = value
  kSetBlock,    // target, filter (may be null), body
  kFor,         // target in value if test; body, orelse
  kIf,          // branches (test, body), orelse
  kMacro,       // name, parameters, defaults, body
  kCall,        // call block: value is the call; parameters, defaults, body
  kFilter,      // filter block: value is the filter expression; body
  kWith,        // items = values; body
  kGeneration,  // body, in a scope of its own
  kBreak,
  kContinue,
};

struct Branch {
  ExpressionPtr test;
  Body body;
};

struct Statement {
  StatementKind kind = StatementKind::kOutput;
  int line = 0;
  std::string name;
  ExpressionPtr target, value, test;
  std::vector<ExpressionPtr> items, values;
  std::vector<Branch> branches;
  Body body, orelse;

  std::vector<std::string> parameters;  // of macros and call blocks
  std::vector<Slot> parameter_slots;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  bool takes_caller = false, takes_kwargs = false, takes_varargs = false;
  Slot caller_slot, kwargs_slot, varargs_slot;
  Slot slot;  // of a macro's own name

  bool recursive = false;  // for
  bool uses_loop = false;  // for: the body asks for `loop`
  Slot loop_slot;

  ScopeLayout scope, else_scope, test_scope;
};

struct Ast {
  Body body;
  ScopeLayout scope;
};

}  // namespace fathom::jinja
