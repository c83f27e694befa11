// OpenAI's text completion objects and chunks.
#include "http/api/completion_reply.h"

#include <algorithm>
#include <utility>

namespace fathom::api {

namespace {

int64_t character_count(const std::string& text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

int64_t prompt_tokens(const CompletionReplyOptions& options) {
  int64_t tokens = 0;
  for (const CompletionPrompt& prompt : options.prompts) {
    tokens += static_cast<int64_t>(prompt.ids.size());
  }
  return tokens;
}

// choices[].logprobs in the form of completions.
struct LogprobLists {
  Json tokens = Json::array();
  Json token_logprobs = Json::array();
  Json top_logprobs = Json::array();
  Json text_offset = Json::array();

  Json json() const {
    return {{"tokens", tokens},
            {"token_logprobs", token_logprobs},
            {"top_logprobs", top_logprobs},
            {"text_offset", text_offset}};
  }
};

class CompletionReply : public Reply {
 public:
  explicit CompletionReply(CompletionReplyOptions options)
      : options_(std::move(options)),
        count_(options_.prompts.size() * static_cast<size_t>(options_.params.n)),
        counter_(prompt_tokens(options_), count_, static_cast<size_t>(options_.params.n)),
        bytes_(count_),
        offsets_(count_, 0),
        begun_(count_, false) {}
  std::string choice_hash(size_t choice) const override { return bytes_[choice].hex(); }

 protected:
  const CompletionPrompt& prompt_of(size_t choice) const {
    return options_.prompts[choice / static_cast<size_t>(options_.params.n)];
  }
  Json envelope() const {
    return {{"id", "cmpl-" + head_.id},
            {"object", "text_completion"},
            {"created", head_.created},
            {"model", head_.model},
            {"system_fingerprint", head_.fingerprint},
            {"seed", head_.seed}};
  }
  // `logprobs` nullptr: the first token of a prompt, which nothing predicts.
  void add_token(size_t choice, int32_t id, const TokenLogprobs* logprobs, LogprobLists* lists) {
    const std::string name = options_.names.unique(id);
    lists->tokens.push_back(name);
    lists->text_offset.push_back(offsets_[choice]);
    offsets_[choice] += character_count(options_.names.text(id));
    if (logprobs == nullptr) {
      lists->token_logprobs.push_back(nullptr);
      lists->top_logprobs.push_back(nullptr);
      return;
    }
    lists->token_logprobs.push_back(finite_logprob(logprobs->logprob));
    Json top = Json::object();
    for (const TokenLogprob& other : logprobs->top) {
      top[options_.names.unique(other.id)] = finite_logprob(other.logprob);
    }
    if (!top.contains(name)) top[name] = finite_logprob(logprobs->logprob);
    lists->top_logprobs.push_back(std::move(top));
  }
  void add_prompt(size_t choice, const StreamEvent& event, LogprobLists* lists) {
    const std::vector<int32_t>& ids = prompt_of(choice).ids;
    for (size_t i = 0; i < event.prompt_logprobs.size() && i < ids.size(); ++i) {
      add_token(choice, ids[i], i == 0 ? nullptr : &event.prompt_logprobs[i], lists);
    }
  }
  // The text that an event adds, with the prompt before the first one if it is to be echoed.
  std::string take(size_t choice, const StreamEvent& event, LogprobLists* lists) {
    counter_.add(choice, event, false);
    std::string text;
    if (!begun_[choice] && options_.params.echo) text = prompt_of(choice).text;
    begun_[choice] = true;
    if (options_.params.echo && options_.params.logprobs) add_prompt(choice, event, lists);
    for (size_t i = 0; i < event.logprobs.size(); ++i) {
      add_token(choice, event.token_ids[i], &event.logprobs[i], lists);
    }
    return text + event.text;
  }
  static Json stop_reason(const StreamEvent& event) {
    if (!event.stop_string.empty()) return event.stop_string;
    return event.stop_token_id >= 0 ? Json(event.stop_token_id) : Json(nullptr);
  }

  CompletionReplyOptions options_;
  size_t count_;
  AnswerHead head_;
  TokenCounter counter_;
  std::vector<ByteHash> bytes_;

 private:
  std::vector<int64_t> offsets_;  // characters of each choice so far
  std::vector<bool> begun_;
};

class WholeCompletionReply : public CompletionReply {
 public:
  explicit WholeCompletionReply(CompletionReplyOptions options)
      : CompletionReply(std::move(options)),
        texts_(count_),
        lists_(count_),
        ids_(count_),
        choices_(count_) {}

  void begin(Exchange&, const AnswerHead& head) override { head_ = head; }
  void event(Exchange&, size_t choice, const StreamEvent& event) override {
    texts_[choice] += take(choice, event, &lists_[choice]);
    ids_[choice].insert(ids_[choice].end(), event.token_ids.begin(), event.token_ids.end());
    if (!event.finished) return;
    Json& json = choices_[choice];
    json = {{"index", choice},
            {"text", texts_[choice]},
            {"logprobs", options_.params.logprobs ? lists_[choice].json() : Json(nullptr)},
            {"finish_reason", openai_finish(event.finish_reason)},
            {"stop_reason", stop_reason(event)}};
    if (options_.params.return_token_ids) {
      json["token_ids"] = ids_[choice];
      json["prompt_token_ids"] = prompt_of(choice).ids;
    }
    bytes_[choice].add(dump(json));
  }
  void end(Exchange& exchange) override {
    Json body = envelope();
    body["choices"] = choices_;
    body["usage"] = usage_json(counter_.counts());
    HttpResponse response = response_head("application/json");
    response.body = dump(body);
    exchange.respond(std::move(response));
  }
  void fail(Exchange& exchange, const ApiError& error) override {
    exchange.respond(error_response(error, Dialect::kOpenAi));
  }

 private:
  std::vector<std::string> texts_;
  std::vector<LogprobLists> lists_;
  std::vector<std::vector<int32_t>> ids_;
  std::vector<Json> choices_;
};

class StreamedCompletionReply : public CompletionReply {
 public:
  using CompletionReply::CompletionReply;

  void begin(Exchange& exchange, const AnswerHead& head) override {
    head_ = head;
    exchange.begin_stream(response_head(kSseType));
  }
  // One chunk for each event of the engine: the bytes of a choice depend on its request alone.
  void event(Exchange& exchange, size_t choice, const StreamEvent& event) override {
    LogprobLists lists;
    std::string text = take(choice, event, &lists);
    const bool carries_ids = options_.params.return_token_ids && !event.token_ids.empty();
    if (text.empty() && !event.finished && !carries_ids && lists.tokens.empty()) return;
    Json json = {{"index", choice},
                 {"text", std::move(text)},
                 {"logprobs", options_.params.logprobs ? lists.json() : Json(nullptr)},
                 {"finish_reason", nullptr}};
    if (event.finished) {
      json["finish_reason"] = openai_finish(event.finish_reason);
      json["stop_reason"] = stop_reason(event);
    }
    if (carries_ids) json["token_ids"] = event.token_ids;
    Json chunk = envelope();
    chunk["choices"] = Json::array({std::move(json)});
    std::string bytes = sse_data(chunk);
    bytes_[choice].add(bytes);
    if (!options_.params.include_usage) return exchange.send(std::move(bytes));
    chunk["usage"] = nullptr;
    if (options_.params.continuous_usage) chunk["usage"] = usage_json(counter_.counts());
    exchange.send(sse_data(chunk));
  }
  void end(Exchange& exchange) override {
    end_openai_stream(exchange, envelope(),
                      options_.params.include_usage ? &counter_.counts() : nullptr);
  }
  void fail(Exchange& exchange, const ApiError& error) override {
    fail_openai_stream(exchange, error);
  }
};

}  // namespace

std::unique_ptr<Reply> make_completion_reply(CompletionReplyOptions options) {
  if (options.params.stream) {
    return std::make_unique<StreamedCompletionReply>(std::move(options));
  }
  return std::make_unique<WholeCompletionReply>(std::move(options));
}

}  // namespace fathom::api
