// /v1/chat/completions over a scripted model: whole and streamed answers.
#include <thread>

#include "tests/unit/http_api/api_fixture.h"

namespace fathom::testing {
namespace {

class ChatTest : public ApiTest {
 protected:
  Json body(bool stream = false) {
    Json out = {{"model", "tiny"}, {"messages", user("Hi")}, {"temperature", 0}};
    if (stream) out["stream"] = true;
    return out;
  }
};

TEST_F(ChatTest, AnswersWhole) {
  open_script();
  const Answer answer = chat_says("Hello you", body());
  ASSERT_EQ(answer.status, 200) << answer.raw;
  EXPECT_EQ(answer.body["id"], "chatcmpl-test");
  EXPECT_EQ(answer.body["object"], "chat.completion");
  EXPECT_EQ(answer.body["created"], 1700000000);
  EXPECT_EQ(answer.body["model"], "tiny");
  EXPECT_EQ(answer.body["system_fingerprint"], "fp_000000000005c819");
  EXPECT_EQ(answer.choice()["message"]["role"], "assistant");
  EXPECT_EQ(answer.choice()["message"]["content"], "Hello you");
  EXPECT_FALSE(answer.choice()["message"].contains("tool_calls"));
  EXPECT_FALSE(answer.choice()["message"].contains("reasoning_content"));
  EXPECT_EQ(answer.choice()["finish_reason"], "stop");
  EXPECT_TRUE(answer.choice()["logprobs"].is_null());
  const auto tokens = static_cast<int>(ids("Hello you").size()) + 1;
  EXPECT_EQ(answer.body["usage"]["completion_tokens"], tokens);
  EXPECT_EQ(answer.body["usage"]["total_tokens"],
            answer.body["usage"]["prompt_tokens"].get<int>() + tokens);
}

TEST_F(ChatTest, StreamsRoleFirstThenContentThenOneFinish) {
  open_script();
  const Answer answer = chat_says("Hello you", body(true));
  ASSERT_EQ(answer.status, 200);
  ASSERT_TRUE(answer.done);
  EXPECT_EQ(answer.events.front()["choices"][0]["delta"],
            (Json{{"role", "assistant"}, {"content", ""}}));
  EXPECT_EQ(answer.joined("content"), "Hello you");
  EXPECT_EQ(answer.finish_reasons(), std::vector<std::string>{"stop"});
  EXPECT_EQ(answer.events.back()["choices"][0]["delta"], Json::object());
  for (const Json& event : answer.events) {
    EXPECT_EQ(event["object"], "chat.completion.chunk");
    EXPECT_EQ(event["id"], "chatcmpl-test");
    EXPECT_EQ(event["system_fingerprint"], "fp_000000000005c819");
    EXPECT_FALSE(event.contains("usage"));
  }
}

TEST_F(ChatTest, StreamsUsageLast) {
  open_script();
  Json asked = body(true);
  asked["stream_options"] = {{"include_usage", true}};
  const Answer answer = chat_says("Hello you", asked);
  ASSERT_TRUE(answer.done);
  const Json& last = answer.events.back();
  EXPECT_EQ(last["choices"], Json::array());
  EXPECT_EQ(last["usage"]["completion_tokens"], ids("Hello you").size() + 1);
  EXPECT_TRUE(last["usage"].contains("prompt_tokens_details"));
  for (size_t i = 0; i + 1 < answer.events.size(); ++i) {
    EXPECT_TRUE(answer.events[i].at("usage").is_null());
  }
  asked["stream_options"]["continuous_usage_stats"] = true;
  const Answer continuous = chat_says("Hello you", asked);
  int last_seen = 0;
  for (const Json& event : continuous.events) {
    const int seen = event.at("usage").at("completion_tokens");
    EXPECT_GE(seen, last_seen);
    last_seen = seen;
  }
  EXPECT_EQ(last_seen, static_cast<int>(ids("Hello you").size()) + 1);
}

TEST_F(ChatTest, StreamAndWholeSayTheSame) {
  open_script("deepseek-ai-DeepSeek-V3.1.jinja");
  const std::string text = "some thoughts</think>\n\nThe answer is: ünï ✓";
  Json asked = body();
  asked["chat_template_kwargs"] = {{"thinking", true}};
  asked["logprobs"] = true;
  asked["top_logprobs"] = 3;
  asked["return_token_ids"] = true;
  const Answer whole = chat_says(text, asked);
  asked["stream"] = true;
  const Answer streamed = chat_says(text, asked);
  const Json& message = whole.choice()["message"];
  EXPECT_EQ(message["reasoning_content"], "some thoughts");
  EXPECT_EQ(message["content"], "\n\nThe answer is: ünï ✓");
  EXPECT_EQ(streamed.joined("reasoning_content"), message["reasoning_content"]);
  EXPECT_EQ(streamed.joined("content"), message["content"]);
  Json logprobs = Json::array();
  Json token_ids = Json::array();
  for (const Json& event : streamed.events) {
    const Json& choice = event["choices"][0];
    if (!choice["logprobs"].is_null()) {
      for (const Json& entry : choice["logprobs"]["content"]) logprobs.push_back(entry);
    }
    for (const Json& id : choice.value("token_ids", Json::array())) token_ids.push_back(id);
  }
  EXPECT_EQ(logprobs, whole.choice()["logprobs"]["content"]);
  EXPECT_EQ(token_ids, whole.choice()["token_ids"]);
  EXPECT_EQ(logprobs.size(), whole.body["usage"]["completion_tokens"]);
  EXPECT_EQ(streamed.events[0]["prompt_token_ids"], whole.body["prompt_token_ids"]);
  EXPECT_GT(whole.body["usage"]["completion_tokens_details"]["reasoning_tokens"], 0);
}

TEST_F(ChatTest, LogprobsNameTokensAndBytes) {
  open_script();
  Json asked = body();
  asked["logprobs"] = true;
  asked["top_logprobs"] = 2;
  const Answer answer = chat_says("Hi", asked);
  const Json& entries = answer.choice()["logprobs"]["content"];
  std::string joined;
  for (size_t i = 0; i + 1 < entries.size(); ++i) {
    for (const Json& byte : entries[i]["bytes"]) joined += static_cast<char>(byte.get<int>());
    ASSERT_EQ(entries[i]["top_logprobs"].size(), 2u);
    EXPECT_EQ(entries[i]["top_logprobs"][0]["token"], entries[i]["token"]);
    EXPECT_EQ(entries[i]["top_logprobs"][0]["logprob"], entries[i]["logprob"]);
    const double written = entries[i]["logprob"];
    EXPECT_EQ(static_cast<double>(static_cast<float>(written)), written);  // a float, exactly
  }
  EXPECT_EQ(joined, "Hi");
}

TEST_F(ChatTest, StopStringsEndWithoutLeakingAndKeepTheirLogprobs) {
  open_script();
  Json asked = body(true);
  asked["stop"] = {"END", "never"};
  asked["logprobs"] = true;
  const Answer answer = chat_says("one two END three", asked);
  EXPECT_EQ(answer.joined("content"), "one two ");
  EXPECT_EQ(answer.finish_reasons(), std::vector<std::string>{"stop"});
  size_t entries = 0;
  for (const Json& event : answer.events) {
    const Json& logprobs = event["choices"][0]["logprobs"];
    if (!logprobs.is_null()) entries += logprobs["content"].size();
  }
  EXPECT_EQ(entries, ids("one two END").size());
  asked["include_stop_str_in_output"] = true;
  EXPECT_EQ(chat_says("one two END three", asked).joined("content"), "one two END");
}

TEST_F(ChatTest, CutByLengthSaysSo) {
  open_script();
  Json asked = body();
  asked["max_tokens"] = 100;
  asked["max_completion_tokens"] = 2;  // wins
  const Answer answer = chat_says("Hello you there", asked);
  EXPECT_EQ(answer.choice()["finish_reason"], "length");
  EXPECT_EQ(answer.body["usage"]["completion_tokens"], 2);
  // More than the context holds is cut to it.
  asked = body();
  asked["max_tokens"] = 1000000;
  EXPECT_EQ(chat_says("Hello", asked).status, 200);
}

TEST_F(ChatTest, SeveralChoicesEachEndOnce) {
  open_script();
  Json asked = body(true);
  asked["n"] = 3;
  asked["stream_options"] = {{"include_usage", true}};
  const Answer answer = chat_says("Hello you", asked);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(answer.joined("content", i), "Hello you");
    EXPECT_EQ(answer.finish_reasons(i), std::vector<std::string>{"stop"});
  }
  const Json usage = answer.events.back()["usage"];
  EXPECT_EQ(usage["completion_tokens"], 3 * (ids("Hello you").size() + 1));
  asked["stream"] = false;
  const Answer whole = chat_says("Hello you", asked);
  EXPECT_EQ(whole.body["choices"].size(), 3u);
  EXPECT_EQ(whole.body["usage"]["prompt_tokens"], usage["prompt_tokens"]);
}

TEST_F(ChatTest, SeedIsToldAndGivesTheSameBytes) {
  open_nano();
  Json asked = body();
  asked["temperature"] = 1.5;
  asked["max_tokens"] = 12;
  asked["logprobs"] = true;
  const Answer first = post("/v1/chat/completions", asked);
  ASSERT_EQ(first.status, 200) << first.raw;
  asked["seed"] = first.body["seed"];
  EXPECT_EQ(first.headers.at("X-Fathom-Seed"), first.body["seed"].dump());
  const Answer second = post("/v1/chat/completions", asked);
  EXPECT_EQ(first.raw, second.raw);
  asked["seed"] = -7;
  EXPECT_EQ(post("/v1/chat/completions", asked).status, 200);
}

TEST_F(ChatTest, IgnoredFieldsAreNamed) {
  open_script();
  Json asked = body();
  asked["wibble"] = 1;
  asked["stream_options"] = {{"wobble", true}};
  asked["user"] = "me";
  const Answer answer = chat_says("Hi", asked);
  EXPECT_EQ(answer.headers.at("X-Fathom-Ignored-Fields"), "stream_options.wobble, wibble");
}

TEST_F(ChatTest, NullMeansAbsent) {
  open_script();
  Json asked = body();
  for (const char* name : {"stop", "tools", "tool_choice", "response_format", "logprobs", "n",
                           "max_tokens", "seed", "stream_options", "logit_bias"}) {
    asked[name] = nullptr;
  }
  const Answer answer = chat_says("Hi", asked);
  EXPECT_EQ(answer.status, 200) << answer.raw;
  EXPECT_EQ(answer.choice()["message"]["content"], "Hi");
}

TEST_F(ChatTest, DisconnectCancels) {
  open_script();
  script_->set_open(false);
  const auto exchange = start("/v1/chat/completions", body(true).dump());
  exchange->disconnect();
  script_->set_open(true);
  EXPECT_TRUE(exchange->run_until([&] { return metrics_.finished == 1; }));
  EXPECT_EQ(engine_->metrics().requests_cancelled, 1u);
  EXPECT_EQ(exchange->answers, 0);
  EXPECT_EQ(exchange.use_count(), 1);  // nothing keeps it
}

TEST_F(ChatTest, FailureInMidStreamIsOneErrorThenDone) {
  open_script();
  script_->fail = true;
  const Answer answer = post("/v1/chat/completions", body(true));
  ASSERT_TRUE(answer.done);
  ASSERT_EQ(answer.events.size(), 2u);  // the role, then the error
  EXPECT_EQ(answer.events[1]["error"]["type"], "server_error");
  const Answer whole = post("/v1/chat/completions", body(false));
  EXPECT_EQ(whole.status, 500);
  EXPECT_FALSE(whole.error().empty());
}

TEST_F(ChatTest, AFullQueueIsA429ThatSaysWhenToComeBack) {
  engine_options_.max_queued_requests = 1;
  engine_options_.max_num_seqs = 1;
  open_script();
  script_->set_open(false);
  std::vector<std::shared_ptr<FakeExchange>> accepted;
  Answer refused;
  for (int i = 0; i < 10 && refused.status == 0; ++i) {
    auto exchange = start("/v1/chat/completions", body().dump(), std::to_string(i));
    if (exchange->answers > 0) {
      refused = finish(*exchange);
    } else {
      accepted.push_back(std::move(exchange));
    }
  }
  EXPECT_EQ(refused.status, 429) << refused.raw;
  EXPECT_EQ(refused.body["error"]["type"], "rate_limit_error");
  EXPECT_EQ(refused.headers.count("Retry-After"), 1u);
  // Several choices are accepted all or none.
  Json several = body();
  several["n"] = 4;
  EXPECT_EQ(post("/v1/chat/completions", several).status, 429);
  script_->set_open(true);
  for (const auto& exchange : accepted) EXPECT_EQ(finish(*exchange).status, 200);
  EXPECT_EQ(metrics_.started, metrics_.finished);
}

TEST_F(ChatTest, ClosingTheEngineEndsStreamsOnce) {
  open_script();
  script_->set_open(false);
  const auto exchange = start("/v1/chat/completions", body(true).dump());
  std::thread closing([this] { engine_.reset(); });
  script_->set_open(true);
  const Answer answer = finish(*exchange);
  closing.join();
  ASSERT_TRUE(answer.done);
  EXPECT_EQ(exchange->answers, 1);
}

TEST_F(ChatTest, TimeoutIsA504) {
  ApiOptions options;
  options.request_timeout_seconds = 0.05;
  open_script("", std::move(options));
  Json asked = body();
  asked["ignore_eos"] = true;
  script_->set_open(false);
  const auto exchange = start("/v1/chat/completions", asked.dump());
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  script_->set_open(true);
  const Answer answer = finish(*exchange);
  EXPECT_EQ(answer.status, 504);
  EXPECT_EQ(answer.body["error"]["code"], "timeout");
}

}  // namespace
}  // namespace fathom::testing
