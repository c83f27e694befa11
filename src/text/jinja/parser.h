// Tokens → syntax tree, by Jinja's grammar with the extensions transformers enables.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/failure.h"
#include "text/jinja/lexer.h"

namespace fathom::jinja {

// Deepest nesting of statements, and of an expression's tree. CPython, which runs what Jinja
// compiles, gives up at about 100 and 200.
inline constexpr int kMaxStatementDepth = 100;
inline constexpr int kMaxExpressionDepth = 220;

// Parses and resolves names. Throws Failure (kSyntax, kUnsupported) with the line.
std::unique_ptr<const Ast> parse(std::string_view source);

// The token cursor and the expression grammar; statements are in Parser below.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  // Where an unparenthesized tuple ends, beside the end of the tag.
  enum class TupleEnd { kTag, kIn, kRecursive };

  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token next();
  bool is_name(std::string_view name) const;
  bool is_operator(std::string_view op) const;
  bool skip_name(std::string_view name);
  bool skip_operator(std::string_view op);
  std::string expect_name();
  void expect_operator(std::string_view op);
  [[noreturn]] void fail(const std::string& message, int line = 0) const;
  [[noreturn]] void unsupported(const std::string& what, int line) const;

  ExpressionPtr parse_expression(bool conditional = true);
  ExpressionPtr parse_tuple(bool conditional = true, TupleEnd end = TupleEnd::kTag,
                            bool parenthesized = false);
  ExpressionPtr parse_target_tuple(TupleEnd end, bool with_namespace);
  ExpressionPtr parse_filters(ExpressionPtr node, bool inline_start);
  void check_target(const Expression& target) const;

 private:
  class Nesting;

  ExpressionPtr make(ExpressionKind kind, int line) const;
  ExpressionPtr finish(ExpressionPtr node) const;  // computes depth
  ExpressionPtr unary(ExpressionKind kind, ExpressionPtr a, int line) const;
  ExpressionPtr binary(ExpressionKind kind, Op op, ExpressionPtr a, ExpressionPtr b) const;
  bool at_tuple_end(TupleEnd end) const;

  ExpressionPtr parse_conditional();
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_compare();
  bool comparison_operator(Op& op);
  ExpressionPtr parse_math(int level);  // 0: + -, 1: ~, 2: * / // %, 3: **
  ExpressionPtr parse_unary(bool with_filter);
  ExpressionPtr parse_primary(bool with_namespace = false);
  ExpressionPtr parse_name(bool with_namespace);
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_postfix(ExpressionPtr node);
  ExpressionPtr parse_filter_expression(ExpressionPtr node);
  ExpressionPtr parse_subscript(ExpressionPtr node);
  ExpressionPtr parse_slice(ExpressionPtr node, ExpressionPtr begin, int line);
  ExpressionPtr parse_call(ExpressionPtr node);
  ExpressionPtr parse_test(ExpressionPtr node);
  std::unique_ptr<CallArguments> parse_arguments();

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
};

class Parser : private ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;
  Body parse_template();

 private:
  Body parse_body(std::initializer_list<std::string_view> ends);
  Body parse_statements(std::initializer_list<std::string_view> ends, std::string_view tag);
  StatementPtr parse_statement();
  StatementPtr parse_set();
  StatementPtr parse_for();
  StatementPtr parse_if();
  StatementPtr parse_macro();
  StatementPtr parse_call_block();
  StatementPtr parse_filter_block();
  StatementPtr parse_with();
  StatementPtr parse_generation();
  StatementPtr parse_print();
  StatementPtr parse_jump(StatementKind kind);
  void parse_signature(Statement& statement);
  StatementPtr make_statement(StatementKind kind) const;
  void expect_block_end();

  int depth_ = 0;
  int loops_ = 0;  // loops around, within the same macro
};

}  // namespace fathom::jinja
