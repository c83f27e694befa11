// Parses the answer into its parts and prints them.
#include "apps/chat_printer.h"

#include <fmt/format.h>

#include "apps/console.h"

namespace fathom::apps {

ChatPrinter::ChatPrinter(OutputFormat format, bool inside_reasoning)
    : parser_(format, inside_reasoning), terminal_(stdout_is_terminal()) {}

ChatPrinter::~ChatPrinter() {
  set_dim(false);
  flush_output();
}

void ChatPrinter::set_dim(bool dim) {
  if (terminal_ && dim != dim_) print(dim ? "\x1b[2m" : "\x1b[0m");
  dim_ = dim;
}

void ChatPrinter::push(std::string_view text) {
  show(parser_.feed(text));
}

void ChatPrinter::finish() {
  show(parser_.finish());
}

void ChatPrinter::show(const std::vector<OutputEvent>& events) {
  for (const OutputEvent& event : events) {
    switch (event.kind) {
      case OutputEvent::Kind::kReasoning:
        set_dim(true);
        reasoning_ += event.text;
        print(event.text);
        break;
      case OutputEvent::Kind::kContent:
        if (content_.empty() && !reasoning_.empty()) print("\n");
        set_dim(false);
        content_ += event.text;
        print(event.text);
        break;
      case OutputEvent::Kind::kToolCallBegin:
        set_dim(false);
        calls_.push_back({event.text, ""});
        print(fmt::format("\n[tool call] {} ", event.text));
        break;
      case OutputEvent::Kind::kToolCallArguments:
        if (!calls_.empty()) calls_.back().arguments += event.text;
        print(event.text);
        break;
    }
  }
  flush_output();
}

nlohmann::ordered_json ChatPrinter::message() const {
  nlohmann::ordered_json message = {{"role", "assistant"}, {"content", content_}};
  if (!reasoning_.empty()) message["reasoning_content"] = reasoning_;
  for (const Call& call : calls_) {
    message["tool_calls"].push_back(
        {{"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return message;
}

}  // namespace fathom::apps
