// Helpers of the grammar tests: compilers for two tokenizers, walks through masks, a small schema
// validator.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "grammar/grammar.h"
#include "text/tokenizer.h"

namespace fathom::testing {

// Tests of what this build cannot do are reported as skipped.
#define FATHOM_NEED_GRAMMARS()                                                 \
  if (!structured_output_available()) {                                        \
    GTEST_SKIP() << "built without xgrammar: its source could not be fetched"; \
  }                                                                            \
  static_assert(true)

struct Vocab {
  const Tokenizer* tokenizer;
  GrammarCompiler* compiler;
  int32_t eos;
};
const Vocab& nano();         // 512 tokens: most characters are several
const Vocab& deepseek_v3();  // 128,815 tokens

// Draws numbers, the same on every machine.
class Draw {
 public:
  explicit Draw(uint64_t seed) : state_(seed * 2 + 1) {}
  size_t below(size_t n);

 private:
  uint64_t state_;
};

std::vector<int32_t> allowed_ids(TokenMask& mask, const Tokenizer& tokenizer);

struct Walk {
  std::string text;  // without the end of sequence
  std::vector<int32_t> ids;
  bool ended = false;  // by end of sequence
};
// Draws uniformly from what the mask allows for `free` tokens, then prefers what closes: end of
// sequence, quotes, brackets, tags. Fails the test if nothing is allowed or accept() refuses.
Walk walk(TokenMask& mask, const Vocab& vocab, uint64_t seed, int free = 30, int most = 2000);

GrammarSpec schema_spec(const std::string& schema, bool strict = true);
std::shared_ptr<const CompiledGrammar> compiled(const Vocab& vocab, const GrammarSpec& spec);
std::shared_ptr<TokenMask> mask_of(const CompiledGrammar& grammar,
                                   ReasoningStart reasoning = ReasoningStart::kNone);

// "" or why `value` is not valid. Knows the keywords that the tests use; objects have no properties
// but those named.
std::string invalid(const nlohmann::json& value, const nlohmann::json& schema,
                    const nlohmann::json& root);

}  // namespace fathom::testing
