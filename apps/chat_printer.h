// Shows an answer as it comes: reasoning dim on a terminal, the answer itself plain.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "text/output_parser.h"

namespace fathom::apps {

// One answer; used by one thread.
class ChatPrinter {
 public:
  ChatPrinter(OutputFormat format, bool inside_reasoning);
  ~ChatPrinter();  // leaves the terminal as it was
  ChatPrinter(const ChatPrinter&) = delete;
  ChatPrinter& operator=(const ChatPrinter&) = delete;

  void push(std::string_view text);
  void finish();

  // The answer as a message of the conversation: content, reasoning_content and tool_calls.
  nlohmann::ordered_json message() const;
  bool empty() const { return content_.empty() && reasoning_.empty() && calls_.empty(); }

 private:
  void show(const std::vector<OutputEvent>& events);
  void set_dim(bool dim);

  OutputParser parser_;
  bool terminal_;
  bool dim_ = false;
  std::string content_, reasoning_;
  struct Call {
    std::string name, arguments;
  };
  std::vector<Call> calls_;
};

}  // namespace fathom::apps
