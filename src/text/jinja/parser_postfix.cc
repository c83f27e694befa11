// What follows a primary expression: attributes, subscripts, calls, filters and tests.
#include "text/jinja/filters.h"
#include "text/jinja/parser.h"

namespace fathom::jinja {

ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr node) {
  while (true) {
    if (is_operator(".") || is_operator("[")) {
      node = parse_subscript(std::move(node));
    } else if (is_operator("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::parse_filter_expression(ExpressionPtr node) {
  while (true) {
    if (is_operator("|")) {
      node = parse_filters(std::move(node), false);
    } else if (is_name("is")) {
      node = parse_test(std::move(node));
    } else if (is_operator("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::parse_subscript(ExpressionPtr object) {
  const int line = current().line;
  ExpressionPtr node = make(ExpressionKind::kItem, line);
  if (skip_operator(".")) {
    node->a = std::move(object);
    const Token token = next();
    if (token.type == TokenType::kName) {
      node->kind = ExpressionKind::kAttribute;
      node->text = token.text;
    } else if (token.type == TokenType::kInteger) {
      node->b = make(ExpressionKind::kConstant, token.line);
      node->b->constant = token.value;
    } else {
      fail("expected name or number", token.line);
    }
    return finish(std::move(node));
  }
  expect_operator("[");
  if (is_operator(":")) return parse_slice(std::move(object), nullptr, line);
  std::vector<ExpressionPtr> items;
  bool comma = false;
  while (!is_operator("]")) {
    if (!items.empty()) {
      expect_operator(",");
      comma = true;
    }
    items.push_back(parse_expression());
    if (is_operator(":")) {
      if (comma) fail("a slice cannot be part of a tuple");
      return parse_slice(std::move(object), std::move(items.front()), line);
    }
  }
  expect_operator("]");
  node->a = std::move(object);
  if (items.size() == 1) {
    node->b = std::move(items.front());
  } else {
    node->b = make(ExpressionKind::kTuple, line);
    node->b->items = std::move(items);
    node->b = finish(std::move(node->b));
  }
  return finish(std::move(node));
}

ExpressionPtr ExpressionParser::parse_slice(ExpressionPtr object, ExpressionPtr begin, int line) {
  ExpressionPtr node = make(ExpressionKind::kSlice, line);
  node->a = std::move(object);
  node->items.push_back(std::move(begin));
  expect_operator(":");
  const auto bound = [this]() -> ExpressionPtr {
    const bool absent = is_operator(":") || is_operator("]") || is_operator(",");
    return absent ? nullptr : parse_expression();
  };
  node->items.push_back(bound());
  node->items.push_back(skip_operator(":") ? bound() : nullptr);
  if (is_operator(",")) fail("a slice cannot be part of a tuple");
  expect_operator("]");
  return finish(std::move(node));
}

std::unique_ptr<CallArguments> ExpressionParser::parse_arguments() {
  const int line = current().line;
  auto arguments = std::make_unique<CallArguments>();
  const auto ensure = [&](bool valid) {
    if (!valid) fail("invalid syntax for function call expression", line);
  };
  expect_operator("(");
  bool first = true;
  while (!is_operator(")")) {
    if (!first) {
      expect_operator(",");
      if (is_operator(")")) break;
    }
    first = false;
    if (skip_operator("*")) {
      ensure(!arguments->rest && !arguments->keyword_rest);
      arguments->rest = parse_expression();
    } else if (skip_operator("**")) {
      ensure(!arguments->keyword_rest);
      arguments->keyword_rest = parse_expression();
    } else if (current().type == TokenType::kName && look().type == TokenType::kOperator &&
               look().text == "=") {
      ensure(!arguments->keyword_rest);
      std::string name = next().text;
      next();
      for (const auto& [other, value] : arguments->keywords) {
        if (other == name) fail("keyword argument repeated: " + name, line);
      }
      arguments->keywords.emplace_back(std::move(name), parse_expression());
    } else {
      ensure(!arguments->rest && !arguments->keyword_rest && arguments->keywords.empty());
      arguments->positional.push_back(parse_expression());
    }
  }
  expect_operator(")");
  return arguments;
}

ExpressionPtr ExpressionParser::parse_call(ExpressionPtr callee) {
  ExpressionPtr node = make(ExpressionKind::kCall, current().line);
  node->a = std::move(callee);
  node->arguments = parse_arguments();
  return finish(std::move(node));
}

ExpressionPtr ExpressionParser::parse_filters(ExpressionPtr node, bool inline_start) {
  while (is_operator("|") || inline_start) {
    if (!inline_start) next();
    inline_start = false;
    const int line = current().line;
    std::string name = expect_name();
    while (skip_operator(".")) name += "." + expect_name();
    ExpressionPtr filter = make(ExpressionKind::kFilter, line);
    if (unsupported_filter(name)) unsupported("filter '" + name + "'", line);
    filter->function = find_filter(name);
    filter->text = std::move(name);
    filter->a = std::move(node);
    filter->arguments = is_operator("(") ? parse_arguments() : std::make_unique<CallArguments>();
    node = finish(std::move(filter));
  }
  return node;
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr subject) {
  const int line = next().line;  // "is"
  const bool negated = skip_name("not");
  std::string name = expect_name();
  while (skip_operator(".")) name += "." + expect_name();
  ExpressionPtr test = make(ExpressionKind::kTest, line);
  test->function = find_test(name);
  test->text = std::move(name);
  test->a = std::move(subject);
  test->arguments = std::make_unique<CallArguments>();
  const TokenType type = current().type;
  const bool operand = type == TokenType::kName || type == TokenType::kString ||
                       type == TokenType::kInteger || type == TokenType::kFloat ||
                       is_operator("[") || is_operator("{");
  if (is_operator("(")) {
    test->arguments = parse_arguments();
  } else if (operand && !is_name("else") && !is_name("or") && !is_name("and")) {
    if (is_name("is")) fail("You cannot chain multiple tests with is");
    test->arguments->positional.push_back(parse_postfix(parse_primary()));
  }
  ExpressionPtr node = finish(std::move(test));
  return negated ? unary(ExpressionKind::kNot, std::move(node), line) : std::move(node);
}

}  // namespace fathom::jinja
