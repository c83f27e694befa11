// Random answers full of markers: however they are cut, the events are the same and no byte is
// lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "text/output_parser.h"

namespace fathom {
namespace {

using Kind = OutputEvent::Kind;

constexpr ToolFormat kFormats[] = {ToolFormat::kNone,        ToolFormat::kDeepSeekV3,
                                   ToolFormat::kDeepSeekV31, ToolFormat::kDeepSeekV32,
                                   ToolFormat::kDeepSeekV4,  ToolFormat::kDeepSeekV41};

// What answers are made of: markers of every format, whole calls, and what looks like them.
const std::vector<std::string>& pieces() {
  static const std::vector<std::string> list = {
      "<think>",
      "</think>",
      "<think",
      "</",
      "<",
      "\n",
      "\n\n",
      " ",
      "x",
      "text ",
      "{}",
      "é",
      "｜",
      "<｜tool▁calls▁begin｜>",
      "<｜tool▁calls▁end｜>",
      "<｜tool▁call▁begin｜>",
      "<｜tool▁call▁end｜>",
      "<｜tool▁sep｜>",
      "<｜tool",
      "function",
      "f",
      "\n```json\n",
      "\n```",
      "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": 1}\n```<｜tool▁call▁end｜>",
      "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜>",
      "<｜DSML｜function_calls>",
      "</｜DSML｜function_calls>",
      "<｜DSML｜tool_calls>",
      "</｜DSML｜tool_calls>",
      "<｜DSML｜ calls>",
      "</｜DSML｜ calls>",
      "<｜DSML｜invoke name=\"",
      "</｜DSML｜invoke>",
      "<｜DSML｜invoke name=\"f\">",
      "<｜DSML｜ invoke name=\"f\">",
      "</｜DSML｜ invoke>",
      "<｜DSML｜parameter name=\"k\" string=\"true\">v</｜DSML｜parameter>",
      "<｜DSML｜parameter name=\"j\" string=\"false\">[1]</｜DSML｜parameter>",
      "<｜DSML｜ parameter name=\"k\" string=\"false\">2</｜DSML｜ parameter>",
      "<｜DSML｜invoke name=\"g\">\n</｜DSML｜invoke>",
      "\">",
      "<｜DSML｜par",
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
      "\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n",
      "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\"></｜DSML｜invoke>",
      "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n</｜DSML｜ invoke>\n"};
  return list;
}

std::vector<OutputEvent> parse(OutputFormat format, bool inside, const std::string& text,
                               std::mt19937* random) {
  OutputParser parser(format, inside);
  std::vector<OutputEvent> events;
  const auto take = [&](const std::vector<OutputEvent>& more) {
    for (const OutputEvent& event : more) {
      const bool joins =
          !events.empty() && events.back().kind == event.kind && events.back().index == event.index;
      if (joins) {
        events.back().text += event.text;
      } else {
        events.push_back(event);
      }
    }
  };
  for (size_t at = 0; at < text.size();) {
    const size_t size = random == nullptr ? text.size() : 1 + (*random)() % 9;
    take(parser.feed(text.substr(at, size)));
    at += size;
  }
  take(parser.finish());
  int calls = 0;
  for (const OutputEvent& event : events) calls += event.kind == Kind::kToolCallBegin ? 1 : 0;
  EXPECT_EQ(parser.tool_calls(), calls);
  return events;
}

// Walks through the answer along the events: texts must stand there as they are, and between them
// only markers, white space and calls may be left out.
void check_nothing_lost(const std::string& text, const std::vector<OutputEvent>& events) {
  std::string told;
  for (const OutputEvent& event : events) {
    if (event.kind == Kind::kContent || event.kind == Kind::kReasoning) told += event.text;
  }
  // Told text is the answer with some stretches left out.
  size_t at = 0;
  for (const char c : told) {
    at = text.find(c, at);
    ASSERT_NE(at, std::string::npos) << text << "\n-- " << told;
    ++at;
  }
  // Without calls only <think>, </think> and white space around <think> may be missing.
  const bool calls = told.size() < text.size() &&
                     std::any_of(events.begin(), events.end(), [](const OutputEvent& event) {
                       return event.kind == Kind::kToolCallBegin;
                     });
  if (calls) return;
  std::string rest = text;
  const size_t first = rest.find_first_not_of(" \n");
  size_t dropped = text.size() - told.size();
  if (dropped == 0) return;
  size_t allowed = 0;
  if (rest.find("</think>") != std::string::npos) allowed += 8;
  if (first != std::string::npos && rest.compare(first, 7, "<think>") == 0) {
    allowed += 7 + first;
    const size_t second = rest.find_first_not_of(" \n", first + 7);
    if (second != std::string::npos && rest.compare(second, 7, "<think>") == 0) {
      allowed += second;  // a repeated one
    }
  }
  EXPECT_LE(dropped, allowed) << text << "\n-- " << told;
}

TEST(OutputParserProperty, CutsChangeNothingAndNothingIsLost) {
  std::mt19937 random(4);
  int called = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    const size_t count = random() % 12;
    for (size_t i = 0; i < count; ++i) text += pieces()[random() % pieces().size()];
    const OutputFormat format = {random() % 2 == 0, kFormats[random() % std::size(kFormats)]};
    const bool inside = random() % 2 == 0;
    const auto whole = parse(format, inside, text, nullptr);
    for (int cut = 0; cut < 3; ++cut) {
      ASSERT_EQ(parse(format, inside, text, &random), whole) << text;
    }
    check_nothing_lost(text, whole);
    for (const OutputEvent& event : whole) {
      if (event.kind == Kind::kToolCallArguments) {
        ASSERT_TRUE(nlohmann::json::accept(event.text)) << text;
        ++called;
      }
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(called, 100);
}

}  // namespace
}  // namespace fathom
