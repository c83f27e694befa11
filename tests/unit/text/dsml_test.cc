// Tool calls in DSML mark-up (V3.2, V4, V4.1): what the encoders write, and what models spoil.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/unit/text/output_events.h"
#include "text/output_parser.h"

namespace fathom {
namespace {

using namespace testing;
using nlohmann::json;

std::string read(const std::string& name) {
  std::ifstream stream(std::string(FATHOM_SOURCE_DIR) + "/tests/data/chat/" + name);
  EXPECT_TRUE(stream.good()) << name;
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

std::vector<OutputEvent> call(const std::string& name, const std::string& arguments, int i = 0) {
  return {{Kind::kToolCallBegin, i, name}, {Kind::kToolCallArguments, i, arguments}};
}

const std::string kOpen = "<｜DSML｜tool_calls>", kClose = "</｜DSML｜tool_calls>";
std::string invoke(const std::string& name, const std::string& inside) {
  return "<｜DSML｜invoke name=\"" + name + "\">" + inside + "</｜DSML｜invoke>";
}
std::string parameter(const std::string& key, bool raw, const std::string& value) {
  return "<｜DSML｜parameter name=\"" + key + "\" string=\"" + (raw ? "true" : "false") + "\">" +
         value + "</｜DSML｜parameter>";
}

// The released encoders' texts: every assistant's turn gives its message back.
void check_vectors(OutputFormat format, const std::string& folder, const std::string& name) {
  const json input = json::parse(read(folder + "/input_" + name + ".json"));
  const std::string output = read(folder + "/output_" + name + ".txt");
  const json& messages = input.is_array() ? input : input["messages"];
  // V3.2's encoder drops the reasoning before the last user's message, V4's with tools keeps it.
  size_t first = 0;
  if (folder == "v32") {
    for (size_t i = 0; i < messages.size(); ++i) first = messages[i]["role"] == "user" ? i : first;
  }
  size_t at = output.find("<｜Assistant｜>");
  int turns = 0;
  for (size_t i = first; i < messages.size(); ++i) {
    const json& message = messages[i];
    if (message["role"] != "assistant") continue;
    at = output.find("<think>", at);
    ASSERT_NE(at, std::string::npos);
    const size_t end = output.find("<｜end▁of▁sentence｜>", at);
    std::string reasoning, content;
    json calls = json::array();
    for (const OutputEvent& event : parse(format, true, output.substr(at + 7, end - at - 7))) {
      if (event.kind == Kind::kReasoning) reasoning += event.text;
      if (event.kind == Kind::kContent) content += event.text;
      if (event.kind == Kind::kToolCallBegin) calls.push_back({{"name", event.text}});
      if (event.kind == Kind::kToolCallArguments) calls.back()["arguments"] = event.text;
    }
    EXPECT_EQ(reasoning, message.value("reasoning_content", ""));
    EXPECT_EQ(content, message.value("content", ""));
    const json expected = message.value("tool_calls", json::array());
    ASSERT_EQ(calls.size(), expected.size());
    for (size_t c = 0; c < calls.size(); ++c) {
      EXPECT_EQ(calls[c]["name"], expected[c]["function"]["name"]);
      EXPECT_EQ(calls[c]["arguments"], expected[c]["function"]["arguments"]);
    }
    at = end;
    ++turns;
  }
  EXPECT_GE(turns, 2);
}

TEST(Dsml, EncodersTextsGiveTheirMessagesBack) {
  check_vectors(kThinkV4, "v4", "1");
  check_vectors(kThinkV4, "v4", "3");
  check_vectors(kThinkV32, "v32", "parity");
}

TEST(Dsml, SpacedNamesOfV41) {
  EXPECT_EQ(
      parse(kThinkV41, false,
            "Hm.\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n<｜DSML｜ parameter name=\"a\" "
            "string=\"false\">1</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>"),
      (std::vector<OutputEvent>{{Kind::kContent, 0, "Hm."},
                                {Kind::kToolCallBegin, 0, "f"},
                                {Kind::kToolCallArguments, 0, "{\"a\": 1}"}}));
}

TEST(Dsml, RawValuesMayContainAnything) {
  const std::string value =
      "a \"b\" \\ <c>\n\t</｜DSML｜invoke><｜DSML｜parameter name=\"x\" \x01é";
  const auto events =
      parse(kThinkV4, false, kOpen + invoke("f", parameter("k", true, value)) + kClose);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(json::parse(events[1].text), (json{{"k", value}}));
}

TEST(Dsml, OtherValuesAreJson) {
  const std::string inside = parameter("a", false, " [1, {\"x\": null}] ") +
                             parameter("b", false, "true") + parameter("c", true, "");
  EXPECT_EQ(parse(kThinkV4, false, kOpen + invoke("f", inside) + kClose),
            call("f", R"({"a": [1, {"x": null}], "b": true, "c": ""})"));
  EXPECT_EQ(parse(kThinkV4, false, kOpen + invoke("f", "") + kClose), call("f", "{}"));
  EXPECT_EQ(parse(kThinkV4, false, kOpen + invoke("f", "\n\n") + kClose), call("f", "{}"));
}

TEST(Dsml, TheEmptyLineInFrontBelongsToTheCalls) {
  auto expected = call("f", "{}");
  EXPECT_EQ(parse(kThinkV4, false, "\n\n" + kOpen + "\n" + invoke("f", "") + "\n" + kClose),
            expected);
  expected.insert(expected.begin(), OutputEvent{Kind::kContent, 0, "x\n"});
  EXPECT_EQ(parse(kThinkV4, false, "x\n\n\n" + kOpen + invoke("f", "") + kClose), expected);
  EXPECT_EQ(parse(kThinkV4, false, "x\n\n"), content("x\n\n"));
  EXPECT_EQ(parse(kThinkV4, false, "x\n\n<｜DSML｜t"), content("x\n\n<｜DSML｜t"));
}

// Malformed, cut short, or of another version: text, with every byte of it.
TEST(Dsml, WhatIsNoCallComesOutAsText) {
  const std::string good = parameter("a", false, "1");
  for (const std::string& text : {
           "\n\n" + kOpen,
           "\n\n" + kOpen + "\n" + kClose,
           kOpen + "no",
           kOpen + invoke("f", parameter("a", false, "{")),
           kOpen + invoke("f", parameter("a", false, "x")) + kClose,
           kOpen + invoke("f", good + good) + kClose,
           kOpen + invoke("f", "text") + kClose,
           kOpen + invoke("", good) + kClose,
           kOpen + invoke("f\n", good) + kClose,
           kOpen + "<｜DSML｜invoke name=\"f\" id=\"1\">" + good + "</｜DSML｜invoke>" + kClose,
           kOpen + "<｜DSML｜invoke name=\"f\">" + good,
           kOpen + "<｜DSML｜invoke name=\"f\">" + good + "</｜DSML｜inv",
           kOpen + "<｜DSML｜invoke name=\"f\"",
           kOpen +
               "<｜DSML｜invoke name=\"f\"><｜DSML｜parameter name=\"a\">1</｜DSML｜parameter>" +
               "</｜DSML｜invoke>" + kClose,
           kOpen + "<｜DSML｜invoke name=\"f\"><｜DSML｜parameter name=\"a\" string=\"tr",
           std::string("<｜DSML｜function_calls>") + invoke("f", good) +
               "</｜DSML｜function_calls>",
           kOpen + invoke("f", parameter("a", true, "\xFF")) + kClose,
       }) {
    EXPECT_EQ(parse(kThinkV4, false, text), content(text)) << text;
  }
}

TEST(Dsml, GoodCallsBesideBadOnes) {
  const std::string bad = invoke("f", "oops");
  auto expected = call("g", "{}");
  expected.insert(expected.begin(), OutputEvent{Kind::kContent, 0, kOpen + bad});
  expected.push_back({Kind::kContent, 0, kClose});
  EXPECT_EQ(parse(kThinkV4, false, kOpen + bad + invoke("g", "") + kClose), expected);
}

TEST(Dsml, LongValuesCostLinearTime) {
  const std::string value(400000, '<');
  const auto events =
      parse(kThinkV4, false, kOpen + invoke("f", parameter("k", true, value)) + kClose, 3);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].text.size(), value.size() + 9);
  const std::string broken = kOpen + invoke("f", "x" + value);
  EXPECT_EQ(parse(kThinkV4, false, broken, 3), content(broken));
}

TEST(Dsml, DetectedFromModelTypeOrTemplate) {
  EXPECT_EQ(detect_output_format("", "deepseek_v32").tools, ToolFormat::kDeepSeekV32);
  EXPECT_EQ(detect_output_format("", "deepseek_v4").tools, ToolFormat::kDeepSeekV4);
  EXPECT_EQ(detect_output_format("", "deepseek_v41").tools, ToolFormat::kDeepSeekV41);
  EXPECT_TRUE(detect_output_format("", "deepseek_v4").reasoning);
  EXPECT_EQ(detect_output_format("", "deepseek_v3").tools, ToolFormat::kNone);
  EXPECT_EQ(detect_output_format("{{ '<｜DSML｜' + 'function_calls>' }}").tools,
            ToolFormat::kDeepSeekV32);
  EXPECT_EQ(detect_output_format("<｜DSML｜tool_calls>").tools, ToolFormat::kDeepSeekV4);
  EXPECT_EQ(detect_output_format("<｜DSML｜ calls>").tools, ToolFormat::kDeepSeekV41);
  // A checkpoint's own template says more than its type: V3.2-Exp came with V3.1's.
  EXPECT_EQ(detect_output_format("<｜tool▁call▁begin｜>", "deepseek_v32").tools,
            ToolFormat::kDeepSeekV31);
}

}  // namespace
}  // namespace fathom
