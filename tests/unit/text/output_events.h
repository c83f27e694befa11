// Helpers of the output parser's tests: events of answers cut in every way.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "text/output_parser.h"

namespace fathom::testing {

using Kind = OutputEvent::Kind;

inline constexpr OutputFormat kThinkV3 = {true, ToolFormat::kDeepSeekV3};
inline constexpr OutputFormat kThinkV31 = {true, ToolFormat::kDeepSeekV31};
inline constexpr OutputFormat kThinkV32 = {true, ToolFormat::kDeepSeekV32};
inline constexpr OutputFormat kThinkV4 = {true, ToolFormat::kDeepSeekV4};
inline constexpr OutputFormat kThinkV41 = {true, ToolFormat::kDeepSeekV41};

// Joins pieces of one kind and one call, so that answers cut differently compare equal.
inline std::vector<OutputEvent> joined(const std::vector<OutputEvent>& events) {
  std::vector<OutputEvent> out;
  for (const OutputEvent& event : events) {
    if (!out.empty() && out.back().kind == event.kind && out.back().index == event.index) {
      out.back().text += event.text;
    } else {
      out.push_back(event);
    }
  }
  return out;
}

inline std::vector<OutputEvent> parse(OutputFormat format, bool inside, const std::string& text,
                                      size_t piece) {
  OutputParser parser(format, inside);
  std::vector<OutputEvent> events;
  const auto take = [&](std::vector<OutputEvent> more) {
    for (OutputEvent& event : more) {
      EXPECT_FALSE(event.text.empty() && event.kind != Kind::kToolCallArguments);
      events.push_back(std::move(event));
    }
  };
  for (size_t at = 0; at < text.size(); at += piece) take(parser.feed(text.substr(at, piece)));
  take(parser.finish());
  return joined(events);
}

// The events of `text`, the same for every way of cutting it.
inline std::vector<OutputEvent> parse(OutputFormat format, bool inside, const std::string& text) {
  const auto whole = parse(format, inside, text, text.size() + 1);
  for (size_t piece : {1u, 2u, 3u, 5u, 7u, 11u, 16u, 64u}) {
    EXPECT_EQ(parse(format, inside, text, piece), whole) << piece << ": " << text;
  }
  return whole;
}

inline std::vector<OutputEvent> content(const std::string& text) {
  return {{Kind::kContent, 0, text}};
}

}  // namespace fathom::testing
