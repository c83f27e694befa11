// Failures that users of other servers reported, one test each; the number is the report's.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/unit/text/output_events.h"
#include "text/output_parser.h"

namespace fathom {
namespace {

using namespace testing;

const std::string kV31Call =
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜>"
    "<｜tool▁calls▁end｜>";
const std::string kDsmlCall =
    "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" "
    "string=\"false\">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
const std::vector<OutputEvent> kCallOfF = {{Kind::kToolCallBegin, 0, "f"},
                                           {Kind::kToolCallArguments, 0, "{\"a\": 1}"}};

// sglang#4539: without <think> in prompt and answer everything went to the reasoning.
TEST(ReportedFailures, AnAnswerWithoutThinkIsContent) {
  EXPECT_EQ(parse(kThinkV31, false, "Paris."), content("Paris."));
}

// Rapid-MLX#1570, vllm-ascend#8935: the opposite; the rendered prompt decides.
TEST(ReportedFailures, APromptThatOpensThinkMakesReasoning) {
  const bool inside = opens_reasoning("<｜Assistant｜><think>\n");
  EXPECT_EQ(parse(kThinkV31, inside, "hm</think>Paris."),
            (std::vector<OutputEvent>{{Kind::kReasoning, 0, "hm"}, {Kind::kContent, 0, "Paris."}}));
  EXPECT_EQ(parse(kThinkV31, opens_reasoning("<｜Assistant｜></think>"), "Paris."),
            content("Paris."));
}

// vllm#40801 and seven more: tags that are split over pieces leaked. parse() cuts in every size;
// here no event may come while the tag is incomplete.
TEST(ReportedFailures, PartsOfTagsAreHeldBack) {
  OutputParser parser(kThinkV4, false);
  for (size_t i = 0; i + 1 < kDsmlCall.size(); ++i) {
    for (const OutputEvent& event : parser.feed(kDsmlCall.substr(i, 1))) {
      EXPECT_NE(event.kind, Kind::kContent) << event.text;
    }
  }
  parser.feed(kDsmlCall.substr(kDsmlCall.size() - 1));
  EXPECT_TRUE(parser.finish().empty());
  EXPECT_EQ(parser.tool_calls(), 1);
  EXPECT_EQ(parse(kThinkV4, false, kDsmlCall), kCallOfF);
}

// sglang PR 18236: streamed arguments of V3.1 were "{}".
TEST(ReportedFailures, StreamedArgumentsAreWhole) {
  EXPECT_EQ(parse(kThinkV31, false, kV31Call), kCallOfF);
}

// vllm PR 48367, DeepSeek-V3#944: tool calls were announced although the list was empty.
TEST(ReportedFailures, AnEmptySectionAnnouncesNoCall) {
  OutputParser parser(kThinkV31, false);
  parser.feed("<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>");
  parser.finish();
  EXPECT_EQ(parser.tool_calls(), 0);
}

// sglang PR 9446, llama.cpp PR 25891: a call made while thinking ended up in the reasoning.
TEST(ReportedFailures, CallsMadeWhileThinking) {
  for (const auto& [format, text] :
       {std::pair{kThinkV31, kV31Call}, std::pair{kThinkV4, kDsmlCall}}) {
    auto expected = kCallOfF;
    expected.insert(expected.begin(), OutputEvent{Kind::kReasoning, 0, "I need f."});
    EXPECT_EQ(parse(format, true, "I need f." + text), expected);
  }
}

// vllm#18375, sglang#14690: the wrong parser for the version was chosen by hand. Calls of another
// version are text, whole.
TEST(ReportedFailures, CallsOfAnotherVersionStayText) {
  EXPECT_EQ(parse(kThinkV3, false, kV31Call), content(kV31Call));
  EXPECT_EQ(parse(kThinkV32, false, kDsmlCall), content(kDsmlCall));
  EXPECT_EQ(parse(kThinkV41, false, kDsmlCall), content(kDsmlCall));
}

}  // namespace
}  // namespace fathom
