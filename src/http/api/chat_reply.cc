// OpenAI's chat completion objects and chunks.
#include "http/api/chat_reply.h"

#include <fmt/format.h>

#include <utility>

namespace fathom::api {

namespace {

Json call_json(const CalledTool& call) {
  return {{"id", call.id},
          {"type", "function"},
          {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

// What both forms keep.
class ChatReplyBase : public Reply {
 public:
  explicit ChatReplyBase(ChatReplyOptions options)
      : options_(std::move(options)),
        counter_(static_cast<int64_t>(options_.prompt.size()), count(), count()),
        bytes_(count()) {
    for (size_t i = 0; i < count(); ++i) {
      outputs_.emplace_back(ChatOutput::Options{options_.format, true,
                                                options_.params.parallel_tool_calls,
                                                fmt::format("{}:{}", options_.request_id, i)});
    }
  }
  std::string choice_hash(size_t choice) const override { return bytes_[choice].hex(); }

 protected:
  size_t count() const { return static_cast<size_t>(options_.params.n); }
  Json envelope(const char* object) const {
    return {{"id", "chatcmpl-" + head_.id},
            {"object", object},
            {"created", head_.created},
            {"model", head_.model},
            {"system_fingerprint", head_.fingerprint},
            {"seed", head_.seed}};
  }
  Json logprob_entries(const StreamEvent& event) const {
    Json entries = Json::array();
    for (size_t i = 0; i < event.logprobs.size(); ++i) {
      entries.push_back(chat_logprob(options_.names, event.token_ids[i], event.logprobs[i]));
    }
    return entries;
  }

  ChatReplyOptions options_;
  AnswerHead head_;
  std::vector<ChatOutput> outputs_;
  TokenCounter counter_;
  std::vector<ByteHash> bytes_;  // of each choice
};

class WholeChatReply : public ChatReplyBase {
 public:
  explicit WholeChatReply(ChatReplyOptions options)
      : ChatReplyBase(std::move(options)), logprobs_(count()), ids_(count()) {
    for (Json& entries : logprobs_) entries = Json::array();
  }
  void begin(Exchange&, const AnswerHead& head) override { head_ = head; }
  void event(Exchange&, size_t choice, const StreamEvent& event) override {
    const ChatDelta delta = outputs_[choice].take(event);
    counter_.add(choice, event, delta.in_reasoning);
    for (Json& entry : logprob_entries(event)) logprobs_[choice].push_back(std::move(entry));
    ids_[choice].insert(ids_[choice].end(), event.token_ids.begin(), event.token_ids.end());
    if (event.finished) bytes_[choice].add(dump(choice_json(choice)));
  }
  void end(Exchange& exchange) override {
    Json body = envelope("chat.completion");
    body["choices"] = Json::array();
    for (size_t i = 0; i < count(); ++i) body["choices"].push_back(choice_json(i));
    body["usage"] = usage_json(counter_.counts());
    if (options_.params.return_token_ids) body["prompt_token_ids"] = options_.prompt;
    HttpResponse response = response_head("application/json");
    response.body = dump(body);
    exchange.respond(std::move(response));
  }
  void fail(Exchange& exchange, const ApiError& error) override {
    exchange.respond(error_response(error, Dialect::kOpenAi));
  }

 private:
  Json choice_json(size_t index) const {
    const ChatOutput& output = outputs_[index];
    Json message = {{"role", "assistant"}, {"content", output.content()}, {"refusal", nullptr}};
    if (!output.reasoning().empty()) message["reasoning_content"] = output.reasoning();
    if (!output.calls().empty()) {
      if (output.content().empty()) message["content"] = nullptr;
      for (const CalledTool& call : output.calls()) {
        message["tool_calls"].push_back(call_json(call));
      }
    }
    Json choice = {{"index", index},
                   {"message", std::move(message)},
                   {"logprobs", nullptr},
                   {"finish_reason", output.finish_reason()},
                   {"stop_reason", output.stop_reason()}};
    if (options_.params.logprobs) {
      choice["logprobs"] = {{"content", logprobs_[index]}, {"refusal", nullptr}};
    }
    if (options_.params.return_token_ids) choice["token_ids"] = ids_[index];
    return choice;
  }

  std::vector<Json> logprobs_;
  std::vector<std::vector<int32_t>> ids_;
};

class StreamedChatReply : public ChatReplyBase {
 public:
  explicit StreamedChatReply(ChatReplyOptions options) : ChatReplyBase(std::move(options)) {}

  void begin(Exchange& exchange, const AnswerHead& head) override {
    head_ = head;
    exchange.begin_stream(response_head(kSseType));
    for (size_t i = 0; i < count(); ++i) {
      Json chunk = make_chunk(i, {{"role", "assistant"}, {"content", ""}});
      if (options_.params.return_token_ids) chunk["prompt_token_ids"] = options_.prompt;
      send(exchange, i, chunk);
    }
  }

  // One chunk for each event of the engine, however many arrive together: the bytes of a choice
  // depend on nothing but its request.
  void event(Exchange& exchange, size_t choice, const StreamEvent& event) override {
    const ChatDelta delta = outputs_[choice].take(event);
    counter_.add(choice, event, delta.in_reasoning);
    Json fields = delta_json(delta);
    const bool carries_ids = options_.params.return_token_ids && !event.token_ids.empty();
    if (fields.empty() && (carries_ids || !event.logprobs.empty())) fields["content"] = "";
    if (!fields.empty()) {
      Json chunk = make_chunk(choice, std::move(fields));
      if (!event.logprobs.empty()) {
        chunk["choices"][0]["logprobs"] = {{"content", logprob_entries(event)},
                                           {"refusal", nullptr}};
      }
      if (carries_ids) chunk["choices"][0]["token_ids"] = event.token_ids;
      send(exchange, choice, chunk);
    }
    if (!event.finished) return;
    Json last = make_chunk(choice, Json::object());
    last["choices"][0]["finish_reason"] = outputs_[choice].finish_reason();
    last["choices"][0]["stop_reason"] = outputs_[choice].stop_reason();
    send(exchange, choice, last);
  }

  void end(Exchange& exchange) override {
    end_openai_stream(exchange, envelope("chat.completion.chunk"),
                      options_.params.include_usage ? &counter_.counts() : nullptr);
  }
  void fail(Exchange& exchange, const ApiError& error) override {
    fail_openai_stream(exchange, error);
  }

 private:
  static Json delta_json(const ChatDelta& delta) {
    Json fields = Json::object();
    if (!delta.reasoning.empty()) fields["reasoning_content"] = delta.reasoning;
    if (!delta.content.empty()) fields["content"] = delta.content;
    for (size_t i = 0; i < delta.calls.size(); ++i) {
      const CalledTool& call = delta.calls[i];
      Json entry = {{"index", delta.first_call + i}};
      if (call.id.empty()) {
        entry["function"] = {{"arguments", call.arguments}};
      } else {
        entry.update(call_json(call));
      }
      fields["tool_calls"].push_back(std::move(entry));
    }
    return fields;
  }
  Json make_chunk(size_t choice, Json delta) const {
    Json chunk = envelope("chat.completion.chunk");
    chunk["choices"] = Json::array({{{"index", choice},
                                     {"delta", std::move(delta)},
                                     {"logprobs", nullptr},
                                     {"finish_reason", nullptr}}});
    return chunk;
  }
  void send(Exchange& exchange, size_t choice, Json& chunk) {
    std::string bytes = sse_data(chunk);
    if (options_.params.include_usage) {  // counts depend on the other choices: not in the log
      chunk["usage"] = nullptr;
      if (options_.params.continuous_usage) chunk["usage"] = usage_json(counter_.counts());
      bytes_[choice].add(bytes);
      return exchange.send(sse_data(chunk));
    }
    bytes_[choice].add(bytes);
    exchange.send(std::move(bytes));
  }
};

}  // namespace

std::unique_ptr<Reply> make_chat_reply(ChatReplyOptions options) {
  if (options.params.stream) return std::make_unique<StreamedChatReply>(std::move(options));
  return std::make_unique<WholeChatReply>(std::move(options));
}

}  // namespace fathom::api
