// Anthropic's message objects and events.
#include <utility>

#include "http/api/anthropic.h"
#include "http/api/reply_parts.h"

namespace fathom::api {

namespace {

// The input of a call as an object, which Anthropic's form demands.
Json input_object(const std::string& arguments) {
  Json input = Json::parse(arguments, nullptr, false);
  if (input.is_object()) return input;
  return {{"arguments", input.is_discarded() ? Json(arguments) : std::move(input)}};
}

std::string tool_use_id(const CalledTool& tool) {
  return "toolu_" + tool.id.substr(sizeof("call_") - 1);
}

class MessagesReply : public Reply, private BlockWalker {
 public:
  explicit MessagesReply(MessagesReplyOptions options)
      : options_(std::move(options)),
        output_(options_.output),
        counter_(options_.prompt_tokens, 1, 1) {}

  void begin(Exchange& exchange, const AnswerHead& head) override {
    head_ = head;
    if (!options_.stream) return;
    exchange.begin_stream(response_head(kSseType));
    Json message = message_json();
    message["usage"] = {{"input_tokens", options_.prompt_tokens}, {"output_tokens", 0}};
    exchange.send(
        sse_event("message_start", {{"type", "message_start"}, {"message", std::move(message)}}));
    exchange.send(sse_event("ping", {{"type", "ping"}}));
  }

  void event(Exchange& exchange, size_t, const StreamEvent& event) override {
    const ChatDelta delta = output_.take(event);
    counter_.add(0, event, delta.in_reasoning);
    exchange_ = &exchange;
    walk(delta);
    if (event.finished) finish();
    exchange_ = nullptr;
  }

  void end(Exchange& exchange) override {
    if (!options_.stream) {
      HttpResponse response = response_head("application/json");
      response.body = dump(message_json());
      return exchange.respond(std::move(response));
    }
    exchange.send(
        sse_event("message_delta",
                  {{"type", "message_delta"},
                   {"delta", {{"stop_reason", stop_reason()}, {"stop_sequence", stop_sequence()}}},
                   {"usage", usage()}}));
    exchange.send(sse_event("message_stop", {{"type", "message_stop"}}));
    exchange.end_stream();
  }

  void fail(Exchange& exchange, const ApiError& error) override {
    if (!options_.stream) return exchange.respond(error_response(error, Dialect::kAnthropic));
    exchange.send(sse_event("error", error_body(error, Dialect::kAnthropic)));
    exchange.end_stream();
  }

  std::string choice_hash(size_t) const override {
    ByteHash hash;
    hash.add(dump(content_));
    hash.add(dump(stop_reason()));
    return hash.hex();
  }

 private:
  void open(Block block) override {
    if (block == Block::kReasoning) {
      content_.push_back({{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
    } else {
      content_.push_back({{"type", "text"}, {"text", ""}});
    }
    start_block(content_.back());
  }
  void piece(Block block, const std::string& text) override {
    const char* field = block == Block::kReasoning ? "thinking" : "text";
    content_.back()[field].get_ref<std::string&>() += text;
    send_delta({{"type", std::string(field) + "_delta"}, {field, text}});
  }
  void close(Block block) override {
    if (block == Block::kReasoning) send_delta({{"type", "signature_delta"}, {"signature", ""}});
    stop_block();
  }
  void call(const CalledTool& tool) override {
    Json block = {{"type", "tool_use"},
                  {"id", tool_use_id(tool)},
                  {"name", tool.name},
                  {"input", Json::object()}};
    content_.push_back(block);
    start_block(block);
    const Json input = input_object(tool.arguments);
    content_.back()["input"] = input;
    send_delta({{"type", "input_json_delta"}, {"partial_json", dump(input)}});
    stop_block();
  }

  void start_block(const Json& block) { send("content_block_start", {{"content_block", block}}); }
  void send_delta(Json delta) { send("content_block_delta", {{"delta", std::move(delta)}}); }
  void stop_block() { send("content_block_stop", Json::object()); }
  void send(const char* type, const Json& fields) {
    if (!options_.stream || exchange_ == nullptr) return;
    Json event = {{"type", type}, {"index", content_.size() - 1}};
    event.update(fields);
    exchange_->send(sse_event(type, event));
  }

  Json stop_reason() const {
    if (!output_.finished()) return nullptr;
    if (!output_.stop_string().empty()) return "stop_sequence";
    const std::string reason = output_.finish_reason();
    if (reason == "length") return "max_tokens";
    return reason == "tool_calls" ? "tool_use" : "end_turn";
  }
  Json stop_sequence() const {
    return output_.stop_string().empty() ? Json(nullptr) : Json(output_.stop_string());
  }
  // Anthropic counts cached tokens beside the input, not in it.
  Json usage() const {
    const TokenCounts& counts = counter_.counts();
    return {{"input_tokens", counts.prompt - counts.cached},
            {"cache_creation_input_tokens", 0},
            {"cache_read_input_tokens", counts.cached},
            {"output_tokens", counts.completion}};
  }
  Json message_json() const {
    return {{"id", "msg_" + head_.id},
            {"type", "message"},
            {"role", "assistant"},
            {"model", head_.model},
            {"content", content_},
            {"stop_reason", stop_reason()},
            {"stop_sequence", stop_sequence()},
            {"usage", usage()}};
  }

  MessagesReplyOptions options_;
  AnswerHead head_;
  ChatOutput output_;
  TokenCounter counter_;
  Json content_ = Json::array();
  Exchange* exchange_ = nullptr;  // inside event() only
};

}  // namespace

std::unique_ptr<Reply> make_messages_reply(MessagesReplyOptions options) {
  return std::make_unique<MessagesReply>(std::move(options));
}

}  // namespace fathom::api
