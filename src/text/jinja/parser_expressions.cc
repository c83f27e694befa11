// The expression grammar: precedence, calls, filters, tests, subscripts.
#include <algorithm>

#include "text/jinja/parser.h"

namespace fathom::jinja {

// Counts open brackets, unary operators and the like, so that parsing recurses only so far.
class ExpressionParser::Nesting {
 public:
  explicit Nesting(ExpressionParser& parser) : parser_(parser) {
    if (++parser_.nesting_ > kMaxExpressionDepth) {
      throw Failure(FailureKind::kLimit, "an expression is nested too deeply",
                    parser_.current().line);
    }
  }
  ~Nesting() { --parser_.nesting_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  ExpressionParser& parser_;
};

Token ExpressionParser::next() {
  Token token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool ExpressionParser::is_name(std::string_view name) const {
  return current().type == TokenType::kName && current().text == name;
}

bool ExpressionParser::is_operator(std::string_view op) const {
  return current().type == TokenType::kOperator && current().text == op;
}

bool ExpressionParser::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  next();
  return true;
}

bool ExpressionParser::skip_operator(std::string_view op) {
  if (!is_operator(op)) return false;
  next();
  return true;
}

std::string ExpressionParser::expect_name() {
  if (current().type != TokenType::kName) {
    fail("expected token 'name', got '" + describe(current()) + "'");
  }
  return next().text;
}

void ExpressionParser::expect_operator(std::string_view op) {
  if (!skip_operator(op)) {
    fail("expected token '" + std::string(op) + "', got '" + describe(current()) + "'");
  }
}

void ExpressionParser::fail(const std::string& message, int line) const {
  throw Failure(FailureKind::kSyntax, message, line > 0 ? line : current().line);
}

void ExpressionParser::unsupported(const std::string& what, int line) const {
  throw Failure(FailureKind::kUnsupported, what + " is not supported", line);
}

ExpressionPtr ExpressionParser::make(ExpressionKind kind, int line) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = line;
  return node;
}

ExpressionPtr ExpressionParser::finish(ExpressionPtr node) const {
  int depth = 0;
  const auto consider = [&depth](const ExpressionPtr& child) {
    if (child) depth = std::max(depth, child->depth);
  };
  consider(node->a);
  consider(node->b);
  consider(node->c);
  for (const ExpressionPtr& item : node->items) consider(item);
  if (node->arguments) {
    for (const ExpressionPtr& item : node->arguments->positional) consider(item);
    for (const auto& [name, item] : node->arguments->keywords) consider(item);
    consider(node->arguments->rest);
    consider(node->arguments->keyword_rest);
  }
  node->depth = depth + 1;
  if (node->depth > kMaxExpressionDepth) {
    throw Failure(FailureKind::kLimit, "an expression is nested too deeply", node->line);
  }
  return node;
}

ExpressionPtr ExpressionParser::unary(ExpressionKind kind, ExpressionPtr a, int line) const {
  ExpressionPtr node = make(kind, line);
  node->a = std::move(a);
  return finish(std::move(node));
}

ExpressionPtr ExpressionParser::binary(ExpressionKind kind, Op op, ExpressionPtr a,
                                       ExpressionPtr b) const {
  ExpressionPtr node = make(kind, a->line);
  node->op = op;
  node->a = std::move(a);
  node->b = std::move(b);
  return finish(std::move(node));
}

ExpressionPtr ExpressionParser::parse_expression(bool conditional) {
  const Nesting nesting(*this);
  return conditional ? parse_conditional() : parse_or();
}

ExpressionPtr ExpressionParser::parse_conditional() {
  ExpressionPtr value = parse_or();
  while (skip_name("if")) {
    ExpressionPtr node = make(ExpressionKind::kConditional, value->line);
    node->a = std::move(value);
    node->b = parse_or();
    if (skip_name("else")) {
      const Nesting nesting(*this);
      node->c = parse_conditional();
    }
    value = finish(std::move(node));
  }
  return value;
}

ExpressionPtr ExpressionParser::parse_or() {
  ExpressionPtr left = parse_and();
  while (skip_name("or")) {
    left = binary(ExpressionKind::kOr, Op::kAdd, std::move(left), parse_and());
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_and() {
  ExpressionPtr left = parse_not();
  while (skip_name("and")) {
    left = binary(ExpressionKind::kAnd, Op::kAdd, std::move(left), parse_not());
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_not() {
  const int line = current().line;
  if (!skip_name("not")) return parse_compare();
  const Nesting nesting(*this);
  return unary(ExpressionKind::kNot, parse_not(), line);
}

bool ExpressionParser::comparison_operator(Op& op) {
  static constexpr std::pair<std::string_view, Op> kOperators[] = {
      {"==", Op::kEq}, {"!=", Op::kNe}, {"<", Op::kLt},
      {"<=", Op::kLe}, {">", Op::kGt},  {">=", Op::kGe}};
  for (const auto& [symbol, operation] : kOperators) {
    if (!skip_operator(symbol)) continue;
    op = operation;
    return true;
  }
  if (skip_name("in")) {
    op = Op::kIn;
    return true;
  }
  if (is_name("not") && look().type == TokenType::kName && look().text == "in") {
    next();
    next();
    op = Op::kNotIn;
    return true;
  }
  return false;
}

ExpressionPtr ExpressionParser::parse_compare() {
  ExpressionPtr first = parse_math(0);
  Op op = Op::kEq;
  if (!comparison_operator(op)) return first;
  ExpressionPtr node = make(ExpressionKind::kCompare, first->line);
  node->a = std::move(first);
  do {
    node->ops.push_back(op);
    node->items.push_back(parse_math(0));
  } while (comparison_operator(op));
  return finish(std::move(node));
}

ExpressionPtr ExpressionParser::parse_math(int level) {
  struct Entry {
    int level;
    std::string_view symbol;
    Op op;
  };
  static constexpr Entry kOperators[] = {
      {0, "+", Op::kAdd},       {0, "-", Op::kSub}, {2, "*", Op::kMul}, {2, "/", Op::kDiv},
      {2, "//", Op::kFloorDiv}, {2, "%", Op::kMod}, {3, "**", Op::kPow}};
  if (level == 4) return parse_unary(true);
  ExpressionPtr left = parse_math(level + 1);
  if (level == 1) {
    if (!is_operator("~")) return left;
    ExpressionPtr node = make(ExpressionKind::kConcat, left->line);
    node->items.push_back(std::move(left));
    while (skip_operator("~")) node->items.push_back(parse_math(2));
    return finish(std::move(node));
  }
  for (bool found = true; found;) {
    found = false;
    for (const Entry& entry : kOperators) {
      if (entry.level != level || !skip_operator(entry.symbol)) continue;
      left = binary(ExpressionKind::kBinary, entry.op, std::move(left), parse_math(level + 1));
      found = true;
      break;
    }
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_unary(bool with_filter) {
  const int line = current().line;
  ExpressionPtr node;
  if (is_operator("-") || is_operator("+")) {
    const Nesting nesting(*this);
    const bool minus = next().text == "-";
    node =
        unary(minus ? ExpressionKind::kNegate : ExpressionKind::kPosate, parse_unary(false), line);
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filter ? parse_filter_expression(std::move(node)) : std::move(node);
}

ExpressionPtr ExpressionParser::parse_name(bool with_namespace) {
  const Token token = next();
  const std::string& name = token.text;
  ExpressionPtr node = make(ExpressionKind::kConstant, token.line);
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    node->constant = Value::boolean(name == "true" || name == "True");
  } else if (name == "none" || name == "None") {
    node->constant = Value::none();
  } else {
    node->kind = ExpressionKind::kName;
    node->text = name;
    if (with_namespace && skip_operator(".")) {
      node->kind = ExpressionKind::kNamespaceRef;
      node->constant = Value::string(expect_name());
    }
  }
  return node;
}

ExpressionPtr ExpressionParser::parse_primary(bool with_namespace) {
  const Nesting nesting(*this);
  const int line = current().line;
  switch (current().type) {
    case TokenType::kName:
      return parse_name(with_namespace);
    case TokenType::kString: {
      std::string text;
      while (current().type == TokenType::kString) text += next().text;
      ExpressionPtr node = make(ExpressionKind::kConstant, line);
      node->constant = Value::string(std::move(text));
      return node;
    }
    case TokenType::kInteger:
    case TokenType::kFloat: {
      ExpressionPtr node = make(ExpressionKind::kConstant, line);
      node->constant = next().value;
      return node;
    }
    default:
      break;
  }
  if (skip_operator("(")) {
    ExpressionPtr node = parse_tuple(true, TupleEnd::kTag, true);
    expect_operator(")");
    return node;
  }
  if (is_operator("[")) return parse_list();
  if (is_operator("{")) return parse_dict();
  fail("unexpected '" + describe(current()) + "'");
}

bool ExpressionParser::at_tuple_end(TupleEnd end) const {
  const TokenType type = current().type;
  if (type == TokenType::kVariableEnd || type == TokenType::kBlockEnd || is_operator(")")) {
    return true;
  }
  return (end == TupleEnd::kIn && is_name("in")) ||
         (end == TupleEnd::kRecursive && is_name("recursive"));
}

ExpressionPtr ExpressionParser::parse_tuple(bool conditional, TupleEnd end, bool parenthesized) {
  const int line = current().line;
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) expect_operator(",");
    if (at_tuple_end(end)) break;
    items.push_back(parse_expression(conditional));
    if (!is_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!items.empty()) return std::move(items.front());
    if (!parenthesized) fail("Expected an expression, got '" + describe(current()) + "'");
  }
  ExpressionPtr node = make(ExpressionKind::kTuple, line);
  node->items = std::move(items);
  return finish(std::move(node));
}

ExpressionPtr ExpressionParser::parse_target_tuple(TupleEnd end, bool with_namespace) {
  const int line = current().line;
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) expect_operator(",");
    if (at_tuple_end(end)) break;
    items.push_back(parse_primary(with_namespace));
    if (!is_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && items.empty()) {
    fail("Expected an expression, got '" + describe(current()) + "'");
  }
  ExpressionPtr target;
  if (is_tuple) {
    target = make(ExpressionKind::kTuple, line);
    target->items = std::move(items);
    target = finish(std::move(target));
  } else {
    target = std::move(items.front());
  }
  check_target(*target);
  return target;
}

void ExpressionParser::check_target(const Expression& target) const {
  if (target.kind == ExpressionKind::kTuple) {
    for (const ExpressionPtr& item : target.items) check_target(*item);
  } else if (target.kind != ExpressionKind::kName && target.kind != ExpressionKind::kNamespaceRef) {
    fail("can't assign to this expression", target.line);
  }
}

ExpressionPtr ExpressionParser::parse_list() {
  ExpressionPtr node = make(ExpressionKind::kList, current().line);
  expect_operator("[");
  while (!is_operator("]")) {
    if (!node->items.empty()) expect_operator(",");
    if (is_operator("]")) break;
    node->items.push_back(parse_expression());
  }
  expect_operator("]");
  return finish(std::move(node));
}

ExpressionPtr ExpressionParser::parse_dict() {
  ExpressionPtr node = make(ExpressionKind::kDict, current().line);
  expect_operator("{");
  while (!is_operator("}")) {
    if (!node->items.empty()) expect_operator(",");
    if (is_operator("}")) break;
    node->items.push_back(parse_expression());
    expect_operator(":");
    node->items.push_back(parse_expression());
  }
  expect_operator("}");
  return finish(std::move(node));
}

}  // namespace fathom::jinja
