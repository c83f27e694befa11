// Walks over the syntax tree.
#include "text/jinja/walk.h"

namespace fathom::jinja {

namespace {

using Names = std::set<std::string, std::less<>>;

class ReadFinder {
 public:
  explicit ReadFinder(Names names) : wanted_(std::move(names)) {}

  void body(const Body& statements) {
    for (const StatementPtr& statement : statements) visit(*statement);
  }
  Names take() { return std::move(found_); }

 private:
  void expression(const ExpressionPtr& node) {
    if (node == nullptr) return;
    if (node->kind == ExpressionKind::kName && wanted_.contains(node->text)) {
      found_.insert(node->text);
    }
    each_child(*node, [this](const Expression& child) { read(child); });
  }

  void read(const Expression& node) {
    if (node.kind == ExpressionKind::kName && wanted_.contains(node.text)) found_.insert(node.text);
    each_child(node, [this](const Expression& child) { read(child); });
  }

  void target(const ExpressionPtr& node) {
    if (node == nullptr) return;
    if (node->kind == ExpressionKind::kName) wanted_.erase(node->text);
    for (const ExpressionPtr& item : node->items) target(item);
  }

  void visit(const Statement& s) {
    target(s.target);
    for (const ExpressionPtr& item : s.items) {
      if (s.kind == StatementKind::kWith) {
        target(item);
      } else {
        expression(item);
      }
    }
    for (const ExpressionPtr& value : s.values) expression(value);
    expression(s.value);
    for (const std::string& name : s.parameters) wanted_.erase(name);
    for (const ExpressionPtr& value : s.defaults) expression(value);
    for (const Branch& branch : s.branches) {
      expression(branch.test);
      body(branch.body);
    }
    body(s.body);
    body(s.orelse);
    expression(s.test);
  }

  Names wanted_, found_;
};

bool target_stores(const ExpressionPtr& node, std::string_view name) {
  if (node == nullptr) return false;
  if (node->kind == ExpressionKind::kName && node->text == name) return true;
  if (node->kind != ExpressionKind::kTuple) return false;
  for (const ExpressionPtr& item : node->items) {
    if (target_stores(item, name)) return true;
  }
  return false;
}

bool body_stores(const Body& body, std::string_view name) {
  for (const StatementPtr& statement : body) {
    if (stores_name(*statement, name)) return true;
  }
  return false;
}

}  // namespace

Names reads_special(const Body& body, Names names) {
  ReadFinder finder(std::move(names));
  finder.body(body);
  return finder.take();
}

bool stores_name(const Statement& s, std::string_view name) {
  if (target_stores(s.target, name)) return true;
  for (const Branch& branch : s.branches) {
    if (body_stores(branch.body, name)) return true;
  }
  return body_stores(s.body, name) || body_stores(s.orelse, name);
}

}  // namespace fathom::jinja
