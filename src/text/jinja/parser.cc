// The statement grammar: set, for, if, macro, call, filter, with, generation, print, break,
// continue.
#include "text/jinja/parser.h"

#include <algorithm>

#include "text/jinja/scopes.h"

namespace fathom::jinja {

std::unique_ptr<const Ast> parse(std::string_view source) {
  auto ast = std::make_unique<Ast>();
  ast->body = Parser(tokenize(source)).parse_template();
  resolve_names(*ast);
  return ast;
}

StatementPtr Parser::make_statement(StatementKind kind) const {
  auto statement = std::make_unique<Statement>();
  statement->kind = kind;
  statement->line = current().line;
  return statement;
}

Body Parser::parse_template() {
  Body body = parse_body({});
  return body;
}

void Parser::expect_block_end() {
  if (current().type != TokenType::kBlockEnd) {
    fail("expected token 'end of statement block', got '" + describe(current()) + "'");
  }
  next();
}

// Statements up to one of the tags in `ends`, whose name is then the current token; or, with none
// given, up to the end of the template.
Body Parser::parse_body(std::initializer_list<std::string_view> ends) {
  if (++depth_ > kMaxStatementDepth) {
    throw Failure(FailureKind::kLimit, "statements are nested too deeply", current().line);
  }
  Body body;
  StatementPtr output;
  const auto flush = [&] {
    if (output) body.push_back(std::move(output));
    output = nullptr;
  };
  const auto emit = [&](ExpressionPtr item) {
    if (!output) {
      output = make_statement(StatementKind::kOutput);
      output->line = item->line;
    }
    output->items.push_back(std::move(item));
  };
  while (current().type != TokenType::kEnd) {
    if (current().type == TokenType::kData) {
      auto data = std::make_unique<Expression>();
      data->line = current().line;
      data->constant = Value::string(next().text);
      emit(std::move(data));
    } else if (current().type == TokenType::kVariableBegin) {
      next();
      emit(parse_tuple());
      if (current().type != TokenType::kVariableEnd) {
        fail("expected token 'end of print statement', got '" + describe(current()) + "'");
      }
      next();
    } else {
      flush();
      next();  // the begin of a block
      if (std::any_of(ends.begin(), ends.end(), [this](auto end) { return is_name(end); })) {
        --depth_;
        return body;
      }
      body.push_back(parse_statement());
      expect_block_end();
    }
  }
  flush();
  --depth_;
  return body;
}

// The body of a statement: from the end of its tag to one of `ends`.
Body Parser::parse_statements(std::initializer_list<std::string_view> ends, std::string_view tag) {
  const int line = current().line;
  skip_operator(":");
  expect_block_end();
  Body body = parse_body(ends);
  if (current().type == TokenType::kEnd) {
    std::string wanted;
    for (std::string_view end : ends) {
      wanted += (wanted.empty() ? "'" : " or '") + std::string(end) + "'";
    }
    fail("Unexpected end of template: {% " + std::string(tag) + " %} of line " +
         std::to_string(line) + " needs " + wanted + ".");
  }
  return body;
}

StatementPtr Parser::parse_statement() {
  if (current().type != TokenType::kName) fail("tag name expected");
  const std::string name = current().text;
  if (name == "set") return parse_set();
  if (name == "for") return parse_for();
  if (name == "if") return parse_if();
  if (name == "macro") return parse_macro();
  if (name == "call") return parse_call_block();
  if (name == "filter") return parse_filter_block();
  if (name == "with") return parse_with();
  if (name == "generation") return parse_generation();
  if (name == "print") return parse_print();
  if (name == "break") return parse_jump(StatementKind::kBreak);
  if (name == "continue") return parse_jump(StatementKind::kContinue);
  for (std::string_view known : {"block", "extends", "include", "import", "from", "autoescape"}) {
    if (name == known) unsupported("{% " + name + " %}", current().line);
  }
  fail("Encountered unknown tag '" + name + "'.");
}

StatementPtr Parser::parse_set() {
  StatementPtr statement = make_statement(StatementKind::kSet);
  next();
  statement->target = parse_target_tuple(TupleEnd::kTag, true);
  if (skip_operator("=")) {
    statement->value = parse_tuple();
    return statement;
  }
  statement->kind = StatementKind::kSetBlock;
  statement->value = parse_filters(nullptr, false);
  statement->body = parse_statements({"endset"}, "set");
  next();
  return statement;
}

StatementPtr Parser::parse_for() {
  StatementPtr statement = make_statement(StatementKind::kFor);
  next();
  statement->target = parse_target_tuple(TupleEnd::kIn, false);
  if (!skip_name("in")) fail("expected token 'in', got '" + describe(current()) + "'");
  statement->value = parse_tuple(false, TupleEnd::kRecursive);
  if (skip_name("if")) statement->test = parse_expression();
  statement->recursive = skip_name("recursive");
  ++loops_;
  statement->body = parse_statements({"endfor", "else"}, "for");
  --loops_;
  if (next().text == "else") {
    // A recursive loop is a function of its own: its else cannot leave a loop around it.
    const int loops = statement->recursive ? std::exchange(loops_, 0) : loops_;
    statement->orelse = parse_statements({"endfor"}, "for");
    loops_ = loops;
    next();
  }
  return statement;
}

StatementPtr Parser::parse_if() {
  StatementPtr statement = make_statement(StatementKind::kIf);
  next();
  while (true) {
    Branch branch;
    branch.test = parse_tuple(false);
    branch.body = parse_statements({"elif", "else", "endif"}, "if");
    statement->branches.push_back(std::move(branch));
    const std::string end = next().text;
    if (end == "elif") continue;
    if (end == "else") {
      statement->orelse = parse_statements({"endif"}, "if");
      next();
    }
    break;
  }
  return statement;
}

void Parser::parse_signature(Statement& statement) {
  expect_operator("(");
  while (!is_operator(")")) {
    if (!statement.parameters.empty()) expect_operator(",");
    std::string name = expect_name();
    if (std::find(statement.parameters.begin(), statement.parameters.end(), name) !=
        statement.parameters.end()) {
      fail("duplicate argument '" + name + "'");
    }
    statement.parameters.push_back(std::move(name));
    if (skip_operator("=")) {
      statement.defaults.push_back(parse_expression());
    } else if (!statement.defaults.empty()) {
      fail("non-default argument follows default argument");
    }
  }
  expect_operator(")");
}

StatementPtr Parser::parse_macro() {
  StatementPtr statement = make_statement(StatementKind::kMacro);
  next();
  statement->name = expect_name();
  const int loops = std::exchange(loops_, 0);
  parse_signature(*statement);
  statement->body = parse_statements({"endmacro"}, "macro");
  loops_ = loops;
  next();
  return statement;
}

StatementPtr Parser::parse_call_block() {
  StatementPtr statement = make_statement(StatementKind::kCall);
  next();
  if (is_operator("(")) parse_signature(*statement);
  statement->value = parse_expression();
  if (statement->value->kind != ExpressionKind::kCall) fail("expected call", statement->line);
  const int loops = std::exchange(loops_, 0);
  statement->body = parse_statements({"endcall"}, "call");
  loops_ = loops;
  next();
  return statement;
}

StatementPtr Parser::parse_filter_block() {
  StatementPtr statement = make_statement(StatementKind::kFilter);
  next();
  statement->value = parse_filters(nullptr, true);
  statement->body = parse_statements({"endfilter"}, "filter");
  next();
  return statement;
}

StatementPtr Parser::parse_with() {
  StatementPtr statement = make_statement(StatementKind::kWith);
  next();
  while (current().type != TokenType::kBlockEnd) {
    if (!statement->items.empty()) expect_operator(",");
    statement->items.push_back(parse_target_tuple(TupleEnd::kTag, false));
    expect_operator("=");
    statement->values.push_back(parse_expression());
  }
  statement->body = parse_statements({"endwith"}, "with");
  next();
  return statement;
}

StatementPtr Parser::parse_generation() {
  StatementPtr statement = make_statement(StatementKind::kGeneration);
  next();
  const int loops = std::exchange(loops_, 0);
  statement->body = parse_statements({"endgeneration"}, "generation");
  loops_ = loops;
  next();
  return statement;
}

StatementPtr Parser::parse_print() {
  StatementPtr statement = make_statement(StatementKind::kOutput);
  next();
  while (current().type != TokenType::kBlockEnd) {
    if (!statement->items.empty()) expect_operator(",");
    statement->items.push_back(parse_expression());
  }
  return statement;
}

StatementPtr Parser::parse_jump(StatementKind kind) {
  StatementPtr statement = make_statement(kind);
  const std::string name = next().text;
  if (loops_ == 0) fail("'" + name + "' outside loop", statement->line);
  return statement;
}

}  // namespace fathom::jinja
