// Template text → tokens, with Jinja's white-space rules for trim_blocks and lstrip_blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace fathom::jinja {

enum class TokenType : uint8_t {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,  // text holds it: "+", "==", "(", …
  kEnd,
};

struct Token {
  TokenType type = TokenType::kEnd;
  int line = 1;
  std::string text;  // data, name, operator, decoded string
  Value value;       // of numbers
};

// Tokens of a whole template, ended by kEnd. Throws Failure (kSyntax, kUnsupported).
std::vector<Token> tokenize(std::string_view source);
// How messages name a token.
std::string describe(const Token& token);

}  // namespace fathom::jinja
