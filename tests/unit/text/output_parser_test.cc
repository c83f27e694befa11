// What the output parser makes of answers, whole and in pieces of every size.
#include "text/output_parser.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/unit/text/output_events.h"

namespace fathom {
namespace {

using namespace testing;

const std::string kBegin = "<｜tool▁calls▁begin｜>", kEnd = "<｜tool▁calls▁end｜>";

std::string call_v3(const std::string& name, const std::string& arguments) {
  return "<｜tool▁call▁begin｜>function<｜tool▁sep｜>" + name + "\n```json\n" + arguments +
         "\n```<｜tool▁call▁end｜>";
}
std::string call_v31(const std::string& name, const std::string& arguments) {
  return "<｜tool▁call▁begin｜>" + name + "<｜tool▁sep｜>" + arguments + "<｜tool▁call▁end｜>";
}

TEST(OutputParser, PlainTextPasses) {
  EXPECT_EQ(parse({}, false, "Hello <think>"), content("Hello <think>"));
  EXPECT_TRUE(parse({}, false, "").empty());
}

TEST(OutputParser, ReasoningFromThePrompt) {
  const std::vector<OutputEvent> both = {{Kind::kReasoning, 0, "why\n"},
                                         {Kind::kContent, 0, "\n\nso"}};
  EXPECT_EQ(parse(kThinkV3, true, "why\n</think>\n\nso"), both);
  // A <think> that repeats the prompt's is dropped, with the space before it.
  EXPECT_EQ(parse(kThinkV3, true, "\n<think>why\n</think>\n\nso"), both);
  // Later ones are text.
  EXPECT_EQ(parse(kThinkV3, true, "a<think>b</think>c</think>"),
            (std::vector<OutputEvent>{{Kind::kReasoning, 0, "a<think>b"},
                                      {Kind::kContent, 0, "c</think>"}}));
}

TEST(OutputParser, ReasoningCutShortIsReasoning) {
  EXPECT_EQ(parse(kThinkV3, true, "why </thin"),
            (std::vector<OutputEvent>{{Kind::kReasoning, 0, "why </thin"}}));
  EXPECT_EQ(parse(kThinkV3, true, "<thi"),
            (std::vector<OutputEvent>{{Kind::kReasoning, 0, "<thi"}}));
}

TEST(OutputParser, ReasoningTheModelOpensItself) {
  EXPECT_EQ(parse(kThinkV3, false, "<think>a</think>b"),
            (std::vector<OutputEvent>{{Kind::kReasoning, 0, "a"}, {Kind::kContent, 0, "b"}}));
  EXPECT_EQ(parse(kThinkV3, false, "<think></think>b"), content("b"));
  EXPECT_EQ(parse(kThinkV3, false, " no <think>a</think>"), content(" no <think>a</think>"));
  EXPECT_EQ(parse(kThinkV3, false, "  <thin"), content("  <thin"));
}

TEST(OutputParser, ToolCallsOfV3) {
  EXPECT_EQ(parse(kThinkV3, true,
                  "hm</think>Let me see." + kBegin + call_v3("get_weather", R"({"city": "Köln"})") +
                      "\n" + call_v3("now", "{}") + kEnd),
            (std::vector<OutputEvent>{{Kind::kReasoning, 0, "hm"},
                                      {Kind::kContent, 0, "Let me see."},
                                      {Kind::kToolCallBegin, 0, "get_weather"},
                                      {Kind::kToolCallArguments, 0, R"({"city": "Köln"})"},
                                      {Kind::kToolCallBegin, 1, "now"},
                                      {Kind::kToolCallArguments, 1, "{}"}}));
}

TEST(OutputParser, ToolCallsOfV31) {
  EXPECT_EQ(parse(kThinkV31, false,
                  kBegin + call_v31("f", R"({"a": [1, "</think>"]})") + call_v31("g", "{}") + kEnd +
                      "after"),
            (std::vector<OutputEvent>{{Kind::kToolCallBegin, 0, "f"},
                                      {Kind::kToolCallArguments, 0, R"({"a": [1, "</think>"]})"},
                                      {Kind::kToolCallBegin, 1, "g"},
                                      {Kind::kToolCallArguments, 1, "{}"},
                                      {Kind::kContent, 0, "after"}}));
}

TEST(OutputParser, SectionsMayRepeatAndMissTheirEnd) {
  EXPECT_EQ(parse(kThinkV31, false,
                  kBegin + call_v31("f", "{}") + kEnd + "x" + kBegin + call_v31("g", "{}")),
            (std::vector<OutputEvent>{{Kind::kToolCallBegin, 0, "f"},
                                      {Kind::kToolCallArguments, 0, "{}"},
                                      {Kind::kContent, 0, "x"},
                                      {Kind::kToolCallBegin, 1, "g"},
                                      {Kind::kToolCallArguments, 1, "{}"}}));
}

TEST(OutputParser, WhatIsNoToolCallComesOutAsText) {
  const std::string cut = call_v3("f", R"({"a": 1})");
  for (const std::string& text : {
           kBegin,                                             // nothing after the opening
           kBegin + kEnd,                                      // no call inside
           kBegin + " \n" + kEnd + "tail",                     //
           kBegin + "plain",                                   //
           kBegin + cut.substr(0, cut.size() - 5),             // cut in the last marker
           kBegin + cut.substr(0, cut.size() / 2),             // cut in the arguments
           kBegin + call_v31("f", "{}") + kEnd,                // the other format
           kBegin + call_v3("f", "{\"a\": ") + kEnd + "tail",  // no JSON
           kBegin + call_v3("", "{}") + kEnd,                  // no name
           kBegin + "<｜tool▁call▁begin｜>f<｜tool▁call▁end｜>" + kEnd,  // no separator
           "a" + kBegin.substr(0, 12),                                   // half an opening marker
           "a" + kEnd + "b",                                             // only a closing marker
           kBegin + "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n``<｜tool▁call▁end｜>",
       }) {
    EXPECT_EQ(parse(kThinkV3, false, text), content(text)) << text;
  }
}

TEST(OutputParser, GoodCallsBesideBadOnes) {
  const std::string bad = call_v3("f", "{");
  EXPECT_EQ(parse(kThinkV3, false, kBegin + call_v3("f", "{}") + "\n" + bad + kEnd + "x"),
            (std::vector<OutputEvent>{{Kind::kToolCallBegin, 0, "f"},
                                      {Kind::kToolCallArguments, 0, "{}"},
                                      {Kind::kContent, 0, "\n" + bad + kEnd + "x"}}));
  EXPECT_EQ(parse(kThinkV3, false, kBegin + bad + call_v3("g", "{}") + kEnd),
            (std::vector<OutputEvent>{{Kind::kContent, 0, kBegin + bad},
                                      {Kind::kToolCallBegin, 0, "g"},
                                      {Kind::kToolCallArguments, 0, "{}"},
                                      {Kind::kContent, 0, kEnd}}));
  EXPECT_EQ(parse(kThinkV3, false, kBegin + call_v3("f", "{}") + "\n stray" + kEnd),
            (std::vector<OutputEvent>{{Kind::kToolCallBegin, 0, "f"},
                                      {Kind::kToolCallArguments, 0, "{}"},
                                      {Kind::kContent, 0, "\n stray" + kEnd}}));
}

TEST(OutputParser, CallsInsideReasoningCount) {
  EXPECT_EQ(parse(kThinkV3, true, "so " + kBegin + call_v3("f", "{}") + kEnd),
            (std::vector<OutputEvent>{{Kind::kReasoning, 0, "so "},
                                      {Kind::kToolCallBegin, 0, "f"},
                                      {Kind::kToolCallArguments, 0, "{}"}}));
  EXPECT_EQ(parse(kThinkV3, true, kBegin + call_v3("f", "{}") + kEnd + "more</think>x"),
            (std::vector<OutputEvent>{{Kind::kToolCallBegin, 0, "f"},
                                      {Kind::kToolCallArguments, 0, "{}"},
                                      {Kind::kReasoning, 0, "more"},
                                      {Kind::kContent, 0, "x"}}));
}

TEST(OutputParser, MarkersInsideReasoningThatAreNoCallAreReasoning) {
  for (const std::string& thought : {"maybe " + kBegin + " and so on", kBegin + kEnd,
                                     kBegin + call_v3("f", "{") + kEnd, "x " + kBegin}) {
    EXPECT_EQ(parse(kThinkV3, true, thought + "</think>"),
              (std::vector<OutputEvent>{{Kind::kReasoning, 0, thought}}));
  }
}

TEST(OutputParser, TextIsNotHeldBackWithoutNeed) {
  OutputParser parser(kThinkV3, true);
  EXPECT_EQ(parser.feed("think").size(), 1u);
  EXPECT_EQ(parser.feed("ing </thi").front().text, "ing ");
  EXPECT_EQ(parser.feed("s is no end").front().text, "</this is no end");
  EXPECT_TRUE(parser.feed("</think>").empty());
  EXPECT_EQ(parser.feed("done <").front().text, "done ");
  EXPECT_EQ(parser.feed("b>").front().text, "<b>");
  EXPECT_TRUE(parser.finish().empty());
  EXPECT_EQ(parser.tool_calls(), 0);
}

TEST(OutputParser, LongArgumentsCostLinearTime) {
  const std::string arguments = "[\"" + std::string(400000, 'x') + "\"]";
  const auto events = parse(kThinkV31, false, kBegin + call_v31("f", arguments) + kEnd, 3);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].text, arguments);
}

TEST(OutputParser, DetectsTheFormatOfReleasedTemplates) {
  const auto detect = [](const std::string& name) {
    std::ifstream stream(std::string(FATHOM_SOURCE_DIR) + "/tests/data/chat/templates/" + name);
    EXPECT_TRUE(stream.good()) << name;
    return detect_output_format(std::string(std::istreambuf_iterator<char>(stream), {}));
  };
  const auto expect = [&](const std::string& name, bool reasoning, ToolFormat tools) {
    const OutputFormat format = detect(name);
    EXPECT_EQ(format.reasoning, reasoning) << name;
    EXPECT_EQ(format.tools, tools) << name;
  };
  expect("deepseek-v3-tokenizer_config.json", false, ToolFormat::kDeepSeekV3);
  expect("tool_chat_template_deepseekv3.jinja", false, ToolFormat::kDeepSeekV3);
  expect("tool_chat_template_deepseekr1.jinja", true, ToolFormat::kDeepSeekV3);
  expect("deepseek-ai-DeepSeek-R1-Distill-Llama-8B.jinja", true, ToolFormat::kDeepSeekV3);
  expect("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja", true, ToolFormat::kDeepSeekV3);
  expect("deepseek-ai-DeepSeek-V3.1.jinja", true, ToolFormat::kDeepSeekV31);
  expect("tool_chat_template_deepseekv31.jinja", true, ToolFormat::kDeepSeekV31);
  EXPECT_EQ(detect_output_format("User: {{ x }}").tools, ToolFormat::kNone);
}

TEST(OutputParser, PromptsThatOpenReasoning) {
  EXPECT_TRUE(opens_reasoning("<｜Assistant｜><think>"));
  EXPECT_TRUE(opens_reasoning("<｜Assistant｜><think>\n"));
  EXPECT_FALSE(opens_reasoning("<｜Assistant｜></think>"));
  EXPECT_FALSE(opens_reasoning("<｜Assistant｜><think>\n</think>"));
  EXPECT_FALSE(opens_reasoning(""));
}

}  // namespace
}  // namespace fathom
