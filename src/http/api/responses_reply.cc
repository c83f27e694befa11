// OpenAI's response objects and their events.
#include <fmt/format.h>

#include <utility>

#include "http/api/responses.h"

namespace fathom::api {

namespace {

class ResponsesReply : public Reply, private BlockWalker {
 public:
  explicit ResponsesReply(ResponsesReplyOptions options)
      : options_(std::move(options)),
        output_(options_.output),
        counter_(options_.prompt_tokens, 1, 1) {}

  void begin(Exchange& exchange, const AnswerHead& head) override {
    head_ = head;
    if (!options_.stream) return;
    exchange_ = &exchange;
    exchange.begin_stream(response_head(kSseType));
    send("response.created", {{"response", response_json("in_progress")}});
    send("response.in_progress", {{"response", response_json("in_progress")}});
    exchange_ = nullptr;
  }

  void event(Exchange& exchange, size_t, const StreamEvent& event) override {
    exchange_ = &exchange;
    const ChatDelta delta = output_.take(event);
    counter_.add(0, event, delta.in_reasoning);
    for (size_t i = 0; options_.logprobs && !delta.in_reasoning && i < event.logprobs.size(); ++i) {
      logprobs_.push_back(chat_logprob(options_.names, event.token_ids[i], event.logprobs[i]));
    }
    walk(delta);
    if (event.finished) finish();
    exchange_ = nullptr;
  }

  void end(Exchange& exchange) override {
    const bool cut = std::string(output_.finish_reason()) == "length";
    const char* status = cut ? "incomplete" : "completed";
    Json response = response_json(status);
    if (cut) response["incomplete_details"] = {{"reason", "max_output_tokens"}};
    response["usage"] = usage();
    if (!options_.stream) {
      HttpResponse answer = response_head("application/json");
      answer.body = dump(response);
      return exchange.respond(std::move(answer));
    }
    exchange_ = &exchange;
    send(cut ? "response.incomplete" : "response.completed", {{"response", std::move(response)}});
    exchange_ = nullptr;
    exchange.end_stream();
  }

  void fail(Exchange& exchange, const ApiError& error) override {
    if (!options_.stream) return exchange.respond(error_response(error, Dialect::kOpenAi));
    Json response = response_json("failed");
    response["error"] = {{"code", error.code.empty() ? "server_error" : error.code},
                         {"message", error.message}};
    exchange_ = &exchange;
    send("response.failed", {{"response", std::move(response)}});
    exchange_ = nullptr;
    exchange.end_stream();
  }

  std::string choice_hash(size_t) const override {
    ByteHash hash;
    hash.add(dump(items_));
    return hash.hex();
  }

 private:
  void open(Block block) override {
    text_.clear();
    const bool reasoning = block == Block::kReasoning;
    Json item = {{"id", item_id(reasoning ? "rs" : "msg")},
                 {"type", reasoning ? "reasoning" : "message"}};
    if (reasoning) {
      item["summary"] = Json::array();
    } else {
      item["role"] = "assistant";
    }
    item["status"] = "in_progress";
    item["content"] = Json::array();
    add_item(std::move(item));
    send_part("response.content_part.added", {{"part", part(block, false)}});
  }

  void piece(Block block, const std::string& text) override {
    text_ += text;
    Json fields = {{"delta", text}};
    if (block == Block::kText) {
      fields["logprobs"] = std::exchange(logprobs_, Json::array());
      for (const Json& entry : fields["logprobs"]) block_logprobs_.push_back(entry);
    }
    send_part(event_name(block, "delta"), fields);
  }

  void close(Block block) override {
    if (block == Block::kText) {
      for (Json& entry : logprobs_) block_logprobs_.push_back(std::move(entry));
      logprobs_ = Json::array();
    }
    Json fields = {{"text", text_}};
    if (block == Block::kText) fields["logprobs"] = block_logprobs_;
    send_part(event_name(block, "done"), fields);
    const Json whole = part(block, true);
    send_part("response.content_part.done", {{"part", whole}});
    items_.back()["content"].push_back(whole);
    block_logprobs_ = Json::array();
    finish_item();
  }

  void call(const CalledTool& tool) override {
    add_item({{"id", item_id("fc")},
              {"type", "function_call"},
              {"status", "in_progress"},
              {"call_id", tool.id},
              {"name", tool.name},
              {"arguments", ""}});
    const Json where = {{"item_id", items_.back()["id"]}, {"output_index", items_.size() - 1}};
    Json delta = where;
    delta["delta"] = tool.arguments;
    send("response.function_call_arguments.delta", delta);
    Json done = where;
    done["name"] = tool.name;
    done["arguments"] = tool.arguments;
    send("response.function_call_arguments.done", done);
    items_.back()["arguments"] = tool.arguments;
    finish_item();
  }

  static std::string event_name(Block block, const char* what) {
    return fmt::format("response.{}.{}",
                       block == Block::kReasoning ? "reasoning_text" : "output_text", what);
  }
  std::string item_id(const char* prefix) const {
    return fmt::format("{}_{}_{}", prefix, head_.id, items_.size());
  }
  Json part(Block block, bool whole) const {
    if (block == Block::kReasoning) {
      return {{"type", "reasoning_text"}, {"text", whole ? text_ : ""}};
    }
    return {{"type", "output_text"},
            {"text", whole ? text_ : ""},
            {"annotations", Json::array()},
            {"logprobs", whole ? block_logprobs_ : Json::array()}};
  }
  void add_item(Json item) {
    items_.push_back(std::move(item));
    send("response.output_item.added",
         {{"output_index", items_.size() - 1}, {"item", items_.back()}});
  }
  // An answer that max_tokens cut leaves its last item incomplete.
  void finish_item() {
    const bool cut = output_.finished() && std::string(output_.finish_reason()) == "length";
    items_.back()["status"] = cut ? "incomplete" : "completed";
    send("response.output_item.done",
         {{"output_index", items_.size() - 1}, {"item", items_.back()}});
  }
  void send_part(const std::string& type, const Json& fields) {
    Json event = {{"item_id", items_.back()["id"]},
                  {"output_index", items_.size() - 1},
                  {"content_index", 0}};
    event.update(fields);
    send(type, event);
  }
  void send(const std::string& type, const Json& fields) {
    if (!options_.stream || exchange_ == nullptr) return;
    Json event = {{"type", type}, {"sequence_number", sequence_++}};
    event.update(fields);
    exchange_->send(sse_event(type, event));
  }

  Json usage() const {
    const TokenCounts& counts = counter_.counts();
    return {{"input_tokens", counts.prompt},
            {"input_tokens_details", {{"cached_tokens", counts.cached}}},
            {"output_tokens", counts.completion},
            {"output_tokens_details", {{"reasoning_tokens", counts.reasoning}}},
            {"total_tokens", counts.prompt + counts.completion}};
  }
  Json response_json(const char* status) const {
    Json response = {{"id", "resp_" + head_.id},    {"object", "response"},
                     {"created_at", head_.created}, {"status", status},
                     {"model", head_.model},        {"output", items_}};
    response.update(options_.echoed);
    response["system_fingerprint"] = head_.fingerprint;
    response["seed"] = head_.seed;
    response["usage"] = nullptr;
    return response;
  }

  ResponsesReplyOptions options_;
  AnswerHead head_;
  ChatOutput output_;
  TokenCounter counter_;
  Json items_ = Json::array();
  std::string text_;                     // of the open item
  Json logprobs_ = Json::array();        // of tokens whose text was not sent yet
  Json block_logprobs_ = Json::array();  // of the open item
  int64_t sequence_ = 0;
  Exchange* exchange_ = nullptr;  // inside a call only
};

}  // namespace

std::unique_ptr<Reply> make_responses_reply(ResponsesReplyOptions options) {
  return std::make_unique<ResponsesReply>(std::move(options));
}

}  // namespace fathom::api
