// Masks hold answers to their grammar, and to nothing more.
#include "grammar/grammar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/unit/grammar/grammar_data.h"

namespace fathom {
namespace {

using nlohmann::json;
using testing::allowed_ids;
using testing::compiled;
using testing::deepseek_v3;
using testing::invalid;
using testing::mask_of;
using testing::nano;
using testing::schema_spec;
using testing::Vocab;
using testing::walk;

const std::vector<std::string>& schemas() {
  static const std::vector<std::string> list = {
      R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150},"kind":{"enum":["cat","dog",7,null]}},"required":["name","age","kind"]})",
      R"({"type":"object","properties":{"tags":{"type":"array","items":{"type":"string","maxLength":12},"minItems":2,"maxItems":4},"ok":{"type":"boolean"},"x":{"type":"number"}},"required":["tags","ok"]})",
      R"({"type":"array","items":{"anyOf":[{"type":"null"},{"type":"integer"},{"type":"object","properties":{"a":{"type":"string","minLength":3,"maxLength":200}},"required":["a"]}]},"minItems":1})",
      R"({"$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["v","next"]}},"$ref":"#/$defs/node"})",
      R"({"type":"string","enum":["é","ñandú","日本","🙂"]})",
      R"({"type":"object","properties":{"m":{"type":"object","additionalProperties":{"type":"integer"}}},"required":["m"]})",
  };
  return list;
}

void walk_schemas(const Vocab& vocab, int walks) {
  for (const std::string& text : schemas()) {
    const json schema = json::parse(text);
    const auto grammar = compiled(vocab, schema_spec(text));
    for (int seed = 0; seed < walks; ++seed) {
      const auto mask = mask_of(*grammar);
      const auto result = walk(*mask, vocab, static_cast<uint64_t>(seed));
      EXPECT_TRUE(result.ended) << result.text;
      const json value = json::parse(result.text, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << result.text;
      EXPECT_EQ(invalid(value, schema, schema), "") << text << "\n" << result.text;
    }
  }
}

TEST(Grammar, WalksOfNanoGiveValidJson) {
  FATHOM_NEED_GRAMMARS();
  walk_schemas(nano(), 40);
}

TEST(Grammar, WalksOfV3GiveValidJson) {
  FATHOM_NEED_GRAMMARS();
  walk_schemas(deepseek_v3(), 8);
}

TEST(Grammar, JsonObjectIsAnyObject) {
  FATHOM_NEED_GRAMMARS();
  for (const Vocab* vocab : {&nano(), &deepseek_v3()}) {
    const auto grammar = compiled(*vocab, GrammarSpec());
    std::set<std::string> texts;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const auto mask = mask_of(*grammar);
      const auto result = walk(*mask, *vocab, seed, 20);
      EXPECT_TRUE(result.ended);
      EXPECT_TRUE(json::parse(result.text, nullptr, false).is_object()) << result.text;
      texts.insert(result.text);
    }
    EXPECT_GT(texts.size(), 5u);
  }
}

// Against the definition: a bit is set exactly where accept() takes the token.
TEST(Grammar, TheMaskIsWhatIsAccepted) {
  FATHOM_NEED_GRAMMARS();
  const Vocab& vocab = nano();
  for (const std::string& text : schemas()) {
    const auto grammar = compiled(vocab, schema_spec(text));
    const auto mask = mask_of(*grammar);
    testing::Draw draw(5);
    for (int step = 0; step < 25; ++step) {
      const std::vector<int32_t> ids = allowed_ids(*mask, *vocab.tokenizer);
      ASSERT_FALSE(ids.empty());
      for (int32_t id = 0; id < vocab.tokenizer->vocab_size(); ++id) {
        const bool listed = std::binary_search(ids.begin(), ids.end(), id);
        ASSERT_EQ(mask->clone()->accept(id).ok(), listed) << id << " " << text;
      }
      const int32_t id = ids[draw.below(ids.size())];
      ASSERT_TRUE(mask->accept(id).ok());
      if (id == vocab.eos) break;
    }
  }
}

// The same on a large vocabulary, for some tokens: ("ba" must not stand for "bcba".)
TEST(Grammar, TheMaskIsWhatIsAcceptedByV3) {
  FATHOM_NEED_GRAMMARS();
  const Vocab& vocab = deepseek_v3();
  GrammarSpec spec;
  spec.kind = GrammarSpec::Kind::kRegex;
  spec.text = "[b-z]+a[b-z]*";
  const auto mask = mask_of(*compiled(vocab, spec));
  const std::vector<int32_t> ids = allowed_ids(*mask, *vocab.tokenizer);
  size_t expected = 0;
  for (int32_t id = 0; id < vocab.tokenizer->vocab_size(); ++id) {
    const std::string_view token = vocab.tokenizer->token_bytes(id);
    const bool letters =
        !token.empty() && token[0] != 'a' &&
        std::all_of(token.begin(), token.end(), [](char c) { return c >= 'a' && c <= 'z'; });
    const bool fits = letters && std::count(token.begin(), token.end(), 'a') <= 1;
    expected += fits ? 1 : 0;
    ASSERT_EQ(std::binary_search(ids.begin(), ids.end(), id), fits) << token;
  }
  EXPECT_GT(expected, 1000u);
}

TEST(Grammar, EndOfSequenceExactlyWhereComplete) {
  FATHOM_NEED_GRAMMARS();
  const Vocab& vocab = nano();
  const auto mask = mask_of(*compiled(vocab, schema_spec(R"({"enum":["a","ab"]})")));
  const auto has_end = [&] {
    const auto ids = allowed_ids(*mask, *vocab.tokenizer);
    return std::find(ids.begin(), ids.end(), vocab.eos) != ids.end();
  };
  for (const std::string_view letter : {"\"", "a", "b", "\""}) {
    EXPECT_FALSE(has_end());
    EXPECT_FALSE(mask->finished());
    ASSERT_TRUE(mask->accept(*vocab.tokenizer->token_id(letter)).ok());
  }
  EXPECT_TRUE(mask->finished());
  EXPECT_EQ(allowed_ids(*mask, *vocab.tokenizer), std::vector<int32_t>{vocab.eos});
  EXPECT_TRUE(mask->accept(vocab.eos).ok());
}

TEST(Grammar, CharactersInPiecesOfTokens) {
  FATHOM_NEED_GRAMMARS();
  const Vocab& vocab = nano();
  const auto grammar = compiled(vocab, schema_spec(R"({"enum":["🙂","日本"]})"));
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const auto mask = mask_of(*grammar);
    const auto result = walk(*mask, vocab, seed);
    EXPECT_TRUE(result.text == "\"🙂\"" || result.text == "\"日本\"") << result.text;
    EXPECT_GT(result.ids.size(), 4u);
  }
}

TEST(Grammar, WhiteSpaceHasAnEnd) {
  FATHOM_NEED_GRAMMARS();
  const Vocab& vocab = nano();
  const auto mask = mask_of(*compiled(vocab, schema_spec(schemas()[0])));
  ASSERT_TRUE(mask->accept(*vocab.tokenizer->token_id("{")).ok());
  const int32_t space = vocab.tokenizer->encode(" ")->front();
  int spaces = 0;
  while (spaces < 1000 && mask->accept(space).ok()) ++spaces;
  EXPECT_GE(spaces, 8);
  EXPECT_LE(spaces, 32);
}

TEST(Grammar, ControlTokensAreNoText) {
  FATHOM_NEED_GRAMMARS();
  for (const Vocab* vocab : {&nano(), &deepseek_v3()}) {
    const auto mask = mask_of(*compiled(*vocab, schema_spec(R"({"type":"string"})")));
    ASSERT_TRUE(mask->accept(*vocab->tokenizer->token_id("\"")).ok());
    const auto ids = allowed_ids(*mask, *vocab->tokenizer);
    EXPECT_GT(ids.size(), 300u);
    for (const int32_t id : ids) EXPECT_FALSE(vocab->tokenizer->is_control(id)) << id;
  }
}

TEST(Grammar, ClonesGoTheirOwnWay) {
  FATHOM_NEED_GRAMMARS();
  const Vocab& vocab = nano();
  const auto grammar = compiled(vocab, schema_spec(schemas()[0]));
  const auto mask = mask_of(*grammar);
  const auto clone = mask->clone();
  const auto first = walk(*mask, vocab, 1);
  const auto second = walk(*clone, vocab, 1);
  EXPECT_EQ(first.ids, second.ids);
}

TEST(Grammar, CompiledGrammarsAreRemembered) {
  FATHOM_NEED_GRAMMARS();
  const Vocab& vocab = nano();
  EXPECT_EQ(compiled(vocab, schema_spec(schemas()[0])), compiled(vocab, schema_spec(schemas()[0])));
  EXPECT_NE(compiled(vocab, schema_spec(schemas()[0])),
            compiled(vocab, schema_spec(schemas()[0], false)));
}

TEST(Grammar, StrictAllowsOnlyWhatIsNamed) {
  FATHOM_NEED_GRAMMARS();
  const Vocab& vocab = nano();
  const std::string schema = R"({"type":"object","properties":{"a":{"type":"integer"}}})";
  const auto takes = [&](bool strict, std::string_view text) {
    const auto mask = mask_of(*compiled(vocab, schema_spec(schema, strict)));
    for (const char c : text) {
      if (!mask->accept(vocab.tokenizer->encode(std::string(1, c))->front()).ok()) return false;
    }
    return mask->accept(vocab.eos).ok();
  };
  EXPECT_TRUE(takes(true, R"({"a":1})"));
  EXPECT_TRUE(takes(true, "{}"));
  EXPECT_FALSE(takes(true, R"({"b":1})"));
  EXPECT_TRUE(takes(false, R"({"b":1})"));
}

TEST(Grammar, WithoutTheLibraryEverythingIsRefused) {
  if (structured_output_available()) GTEST_SKIP() << "built with xgrammar";
  const auto grammar = nano().compiler->compile(GrammarSpec());
  ASSERT_FALSE(grammar);
  EXPECT_EQ(grammar.error().code(), Code::kUnsupported);
}

}  // namespace
}  // namespace fathom
