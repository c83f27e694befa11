// ChatCall: what the chat endpoints have in common, in OpenAI's chat form.
#pragma once

#include <string>

#include "http/api/chat_output.h"
#include "http/api/generation.h"
#include "http/api/messages.h"

namespace fathom::api {

struct ChatCall {
  Json messages;
  Json tools = nullptr;
  Json tool_choice = nullptr;
  Json response_format = nullptr;
  Json structured_outputs = nullptr;
  Json variables = Json::object();  // of the template
};

// Renders the conversation and sets up the job's prompt and sampling for it.
ApiResult<RenderedChat> prepare_chat(const Service& service, const ChatCall& call, Job* job);

// A field of an object; null if it is absent.
Json field_or_null(const Json& object, const char* name);

// Walks an answer as the sequence of blocks that Responses and Messages make of it: reasoning,
// texts and calls, each opened and closed. White space at the begin of a text is held until
// something follows; a text of nothing else is dropped where calls or other texts are.
class BlockWalker {
 public:
  virtual ~BlockWalker() = default;

  void walk(const ChatDelta& delta);
  void finish();  // closes what is open

 protected:
  enum class Block { kNone, kReasoning, kText };
  virtual void open(Block block) = 0;
  virtual void piece(Block block, const std::string& text) = 0;
  virtual void close(Block block) = 0;
  virtual void call(const CalledTool& tool) = 0;  // whole

 private:
  void enter(Block block);
  void add_text(const std::string& text);

  Block current_ = Block::kNone;
  std::string held_;  // white space that may begin a text
  bool any_ = false;  // a text or a call came
};

}  // namespace fathom::api
