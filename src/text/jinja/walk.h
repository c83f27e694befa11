// Walks over the syntax tree.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <type_traits>

#include "text/jinja/ast.h"

namespace fathom::jinja {

// Calls visit(child) for each direct child of an expression, in the order of evaluation.
template <typename Node, typename Visit>
void each_child(Node& node, Visit&& visit) {
  static_assert(std::is_same_v<std::remove_const_t<Node>, Expression>);
  const auto see = [&visit](const ExpressionPtr& child) {
    if (child != nullptr) visit(static_cast<Node&>(*child));
  };
  see(node.a);
  see(node.b);
  see(node.c);
  for (const ExpressionPtr& item : node.items) see(item);
  if (node.arguments != nullptr) {
    for (const ExpressionPtr& item : node.arguments->positional) see(item);
    for (const auto& [name, item] : node.arguments->keywords) see(item);
    see(node.arguments->rest);
    see(node.arguments->keyword_rest);
  }
}

// Those of `names` that `body` reads before it sets them, inner scopes included
// (jinja2.compiler.find_undeclared).
std::set<std::string, std::less<>> reads_special(const Body& body,
                                                 std::set<std::string, std::less<>> names);

// Whether the statement, or one inside it, assigns to `name` by set, for or the like.
bool stores_name(const Statement& statement, std::string_view name);

}  // namespace fathom::jinja
