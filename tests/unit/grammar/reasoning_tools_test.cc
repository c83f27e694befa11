// Masks around reasoning and tool calls; what they allow is what the output parser reads.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/grammar/grammar_data.h"
#include "text/output_parser.h"

namespace fathom {
namespace {

using nlohmann::json;
using testing::allowed_ids;
using testing::compiled;
using testing::deepseek_v3;
using testing::mask_of;
using testing::nano;
using testing::Vocab;
using testing::walk;

constexpr ToolFormat kFormats[] = {ToolFormat::kDeepSeekV3, ToolFormat::kDeepSeekV31,
                                   ToolFormat::kDeepSeekV32, ToolFormat::kDeepSeekV4,
                                   ToolFormat::kDeepSeekV41};

const std::string kWeather =
    R"({"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},"units":{"enum":["c","f"]}},"required":["city","days"]})";

GrammarSpec tools(ToolFormat format) {
  GrammarSpec spec;
  spec.kind = GrammarSpec::Kind::kTools;
  spec.tool_format = format;
  spec.tools = {{"weather", kWeather}, {"now", R"({"type":"object","properties":{}})"}};
  return spec;
}

bool allows(TokenMask& mask, const Vocab& vocab, int32_t id) {
  const auto ids = allowed_ids(mask, *vocab.tokenizer);
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// Accepts the tokens of a text; false at the first that is refused.
bool takes(TokenMask& mask, const Vocab& vocab, const std::string& text) {
  const auto ids = vocab.tokenizer->encode(text);
  return std::all_of(ids->begin(), ids->end(), [&](int32_t id) { return mask.accept(id).ok(); });
}

struct Call {
  std::string name, arguments;
};
// The calls in an answer, which must hold nothing else.
std::vector<Call> calls_in(ToolFormat format, const std::string& text) {
  OutputParser parser({true, format}, false);
  std::vector<OutputEvent> events = parser.feed(text);
  for (OutputEvent& event : parser.finish()) events.push_back(std::move(event));
  std::vector<Call> calls;
  for (const OutputEvent& event : events) {
    if (event.kind == OutputEvent::Kind::kToolCallBegin) {
      calls.push_back({event.text, ""});
    } else if (event.kind == OutputEvent::Kind::kToolCallArguments) {
      calls.back().arguments += event.text;
    } else {
      ADD_FAILURE() << "beside the calls: " << event.text << "\nin " << text;
    }
  }
  return calls;
}

void check_calls(const std::vector<Call>& calls, const std::string& text) {
  ASSERT_FALSE(calls.empty()) << text;
  for (const Call& call : calls) {
    const json arguments = json::parse(call.arguments, nullptr, false);
    ASSERT_TRUE(arguments.is_object()) << call.arguments;
    if (call.name == "weather") {
      const json schema = json::parse(kWeather);
      EXPECT_EQ(testing::invalid(arguments, schema, schema), "") << text;
    } else {
      EXPECT_EQ(call.name, "now");
      EXPECT_TRUE(arguments.empty()) << text;
    }
  }
}

void walk_tools(const Vocab& vocab, int walks) {
  for (const ToolFormat format : kFormats) {
    const auto grammar = compiled(vocab, tools(format));
    for (int seed = 0; seed < walks; ++seed) {
      const auto mask = mask_of(*grammar);
      const auto result = walk(*mask, vocab, static_cast<uint64_t>(seed), 60);
      EXPECT_TRUE(result.ended) << result.text;
      check_calls(calls_in(format, result.text), result.text);
    }
  }
}

TEST(ToolMask, WalksOfNanoAreCalls) {
  FATHOM_NEED_GRAMMARS();
  walk_tools(nano(), 30);
}

TEST(ToolMask, WalksOfV3AreCalls) {
  FATHOM_NEED_GRAMMARS();
  walk_tools(deepseek_v3(), 2);
}

TEST(ToolMask, OneCallUnlessParallel) {
  FATHOM_NEED_GRAMMARS();
  for (const ToolFormat format : kFormats) {
    GrammarSpec spec = tools(format);
    spec.tools = {{"now", R"({"type":"object","properties":{}})"}};
    size_t most = 0;
    for (const bool parallel : {false, true}) {
      spec.parallel = parallel;
      const auto grammar = compiled(nano(), spec);
      for (uint64_t seed = 0; seed < 20; ++seed) {
        const auto mask = mask_of(*grammar);
        const auto result = walk(*mask, nano(), seed, 200);
        const size_t count = calls_in(format, result.text).size();
        EXPECT_TRUE(parallel || count == 1) << result.text;
        most = std::max(most, count);
      }
    }
    EXPECT_GT(most, 1u);
  }
}

// peers: free text stays free, and once it opens calls they are held to the schema.
TEST(ToolMask, OptionalCallsBeginWhereTheTextOpensThem) {
  FATHOM_NEED_GRAMMARS();
  const Vocab& vocab = nano();
  const std::string openings[] = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁begin｜>",
                                  "\n\n<｜DSML｜function_calls>", "\n\n<｜DSML｜tool_calls>",
                                  "\n\n<｜DSML｜ calls>"};
  for (size_t i = 0; i < std::size(kFormats); ++i) {
    GrammarSpec spec = tools(kFormats[i]);
    spec.tools_optional = true;
    const auto mask = mask_of(*compiled(vocab, spec));
    EXPECT_FALSE(mask->active());
    ASSERT_TRUE(takes(*mask, vocab, "It is <b>fine</b> {"));
    EXPECT_FALSE(mask->active());
    ASSERT_TRUE(takes(*mask, vocab, openings[i]));
    EXPECT_TRUE(mask->active());
    const auto result = walk(*mask, vocab, i, 60);
    EXPECT_TRUE(result.ended);
    check_calls(calls_in(kFormats[i], openings[i] + result.text), result.text);
  }
}

TEST(ReasoningMask, StartComesFromThePrompt) {
  const OutputFormat thinks = {true, ToolFormat::kNone};
  EXPECT_EQ(reasoning_start("<｜Assistant｜><think>\n", thinks), ReasoningStart::kOpen);
  EXPECT_EQ(reasoning_start("<｜Assistant｜></think>", thinks), ReasoningStart::kNone);
  EXPECT_EQ(reasoning_start("<｜Assistant｜>", thinks), ReasoningStart::kMayOpen);
  EXPECT_EQ(reasoning_start("<｜Assistant｜><think>", {}), ReasoningStart::kNone);
}

// peers 77, 78: the grammar neither blocks reasoning nor sends JSON into it.
TEST(ReasoningMask, TheGrammarWaitsForTheEndOfReasoning) {
  FATHOM_NEED_GRAMMARS();
  const Vocab& vocab = nano();
  const auto grammar = compiled(vocab, testing::schema_spec(kWeather));
  for (const char* gap : {"", "\n", "\n\n"}) {
    const auto mask = mask_of(*grammar, ReasoningStart::kOpen);
    ASSERT_TRUE(takes(*mask, vocab, "hm { \"x\" </thin"));
    EXPECT_FALSE(allows(*mask, vocab, vocab.eos));  // an answer must still come
    EXPECT_TRUE(allows(*mask, vocab, *vocab.tokenizer->token_id("}")));
    ASSERT_TRUE(takes(*mask, vocab, std::string("</think>") + gap));
    EXPECT_FALSE(allows(*mask, vocab, *vocab.tokenizer->token_id("}")));
    EXPECT_TRUE(allows(*mask, vocab, *vocab.tokenizer->token_id("{")));
    EXPECT_FALSE(allows(*mask, vocab, vocab.eos));
    const auto result = walk(*mask, vocab, 3);
    EXPECT_TRUE(json::parse(result.text.substr(result.text.find('{')), nullptr, false).is_object());
  }
}

TEST(ReasoningMask, OnlyTwoNewlinesFollowReasoning) {
  FATHOM_NEED_GRAMMARS();
  const Vocab& vocab = nano();
  const auto mask =
      mask_of(*compiled(vocab, testing::schema_spec(kWeather)), ReasoningStart::kOpen);
  const int32_t newline = vocab.tokenizer->encode("\n")->front();
  ASSERT_TRUE(takes(*mask, vocab, "</think>"));
  EXPECT_TRUE(mask->accept(newline).ok());
  EXPECT_TRUE(mask->accept(newline).ok());
  EXPECT_FALSE(allows(*mask, vocab, newline));
}

TEST(ReasoningMask, TheModelMayOpenItsReasoning) {
  FATHOM_NEED_GRAMMARS();
  const Vocab& vocab = nano();
  const auto grammar = compiled(vocab, testing::schema_spec(kWeather));
  const int32_t think = *vocab.tokenizer->token_id("<think>");
  const auto opened = mask_of(*grammar, ReasoningStart::kMayOpen);
  EXPECT_TRUE(allows(*opened, vocab, think));
  EXPECT_TRUE(allows(*opened, vocab, *vocab.tokenizer->token_id("{")));
  ASSERT_TRUE(takes(*opened, vocab, "<think>free text</think>{"));
  const auto direct = mask_of(*grammar, ReasoningStart::kMayOpen);
  ASSERT_TRUE(takes(*direct, vocab, "{"));
  EXPECT_FALSE(allows(*direct, vocab, think));
  const auto none = mask_of(*grammar);
  EXPECT_FALSE(allows(*none, vocab, think));
}

// peers 83, 91: calls that must come, behind reasoning that mentions them.
TEST(ReasoningMask, CallsComeBehindReasoning) {
  FATHOM_NEED_GRAMMARS();
  const Vocab& vocab = nano();
  for (const ToolFormat format : kFormats) {
    const auto mask = mask_of(*compiled(vocab, tools(format)), ReasoningStart::kOpen);
    ASSERT_TRUE(takes(*mask, vocab, "call <｜tool▁calls▁begin｜> <｜DSML｜invoke?</think>"));
    const auto result = walk(*mask, vocab, 11, 60);
    EXPECT_TRUE(result.ended);
    check_calls(calls_in(format, result.text), result.text);
  }
}

}  // namespace
}  // namespace fathom
