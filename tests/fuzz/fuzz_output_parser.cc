// libFuzzer: any bytes as an answer, in every format, whole and in pieces.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/output_parser.h"

namespace {

using fathom::OutputEvent;

void require(bool condition) {
  if (!condition) __builtin_trap();
}

// The bytes 1 to 15 stand for markers, which would hardly be found otherwise.
std::string expand(std::string_view input) {
  static const char* const kPieces[] = {"<think>",
                                        "</think>",
                                        "<｜tool▁calls▁begin｜>",
                                        "<｜tool▁calls▁end｜>",
                                        "<｜tool▁call▁begin｜>",
                                        "<｜tool▁call▁end｜>",
                                        "<｜tool▁sep｜>",
                                        "function",
                                        "\n```json\n",
                                        "<｜DSML｜",
                                        "</｜DSML｜",
                                        "tool_calls>",
                                        "invoke name=\"",
                                        "\">",
                                        "parameter name=\"k\" string=\"true\">"};
  std::string text;
  for (const char c : input) {
    if (c >= 1 && c <= 15 && c != '\n' && c != '\t') {
      text += kPieces[c - 1];
    } else {
      text += c;
    }
  }
  return text;
}

std::vector<OutputEvent> parse(fathom::OutputFormat format, bool inside, std::string_view text,
                               size_t piece) {
  fathom::OutputParser parser(format, inside);
  std::vector<OutputEvent> events;
  const auto take = [&](const std::vector<OutputEvent>& more) {
    for (const OutputEvent& event : more) {
      if (!events.empty() && events.back().kind == event.kind &&
          events.back().index == event.index) {
        events.back().text += event.text;
      } else {
        events.push_back(event);
      }
    }
  };
  for (size_t at = 0; at < text.size(); at += piece) take(parser.feed(text.substr(at, piece)));
  take(parser.finish());
  return events;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string text = expand({reinterpret_cast<const char*>(data) + 2, size - 2});
  const auto tools = static_cast<fathom::ToolFormat>(data[0] % 6);
  const fathom::OutputFormat format = {(data[0] & 64) != 0, tools};
  const bool inside = (data[0] & 128) != 0;
  const auto whole = parse(format, inside, text, text.size() + 1);
  require(parse(format, inside, text, 1 + data[1] % 13) == whole);
  size_t told = 0;
  bool called = false;
  for (const OutputEvent& event : whole) {
    if (event.kind == OutputEvent::Kind::kToolCallArguments) {
      require(nlohmann::json::accept(event.text));
      called = true;
    } else if (event.kind != OutputEvent::Kind::kToolCallBegin) {
      told += event.text.size();
    }
  }
  require(told <= text.size());
  require(format.reasoning || called || told == text.size());
  return 0;
}
