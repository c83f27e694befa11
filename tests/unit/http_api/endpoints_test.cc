// Completions, Responses, Messages, tokenize, models, openapi, the request log and replay.
#include "http/api/replay.h"
#include "tests/unit/http_api/api_fixture.h"

namespace fathom::testing {
namespace {

constexpr const char* kV31 = "tool_chat_template_deepseekv31.jinja";

class EndpointsTest : public ApiTest {};

TEST_F(EndpointsTest, CompletesTextIdsAndBatches) {
  open_script();
  const Answer text = completion_says("world", {{"prompt", "Hello"}, {"temperature", 0}});
  EXPECT_EQ(text.body["object"], "text_completion");
  EXPECT_EQ(text.choice()["text"], "world");
  EXPECT_EQ(text.choice()["finish_reason"], "stop");
  const Json tokens = post("/tokenize", {{"prompt", "Hello"}}).body["tokens"];
  EXPECT_EQ(post("/v1/completions", {{"prompt", tokens}, {"temperature", 0}}).choice()["text"],
            "world");
  const Answer batch =
      post("/v1/completions", {{"prompt", {tokens, tokens}}, {"n", 2}, {"temperature", 0}});
  ASSERT_EQ(batch.body["choices"].size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(batch.choice(i)["index"], i);
    EXPECT_EQ(batch.choice(i)["text"], "world");
  }
  EXPECT_EQ(batch.body["usage"]["prompt_tokens"], 2 * tokens.size());
}

TEST_F(EndpointsTest, CompletionsEchoAndStream) {
  open_script();
  const Json asked = {{"prompt", "Hello"}, {"temperature", 0}, {"echo", true}};
  EXPECT_EQ(completion_says(" world", asked).choice()["text"], "Hello world");
  Json streamed = asked;
  streamed["stream"] = true;
  streamed["logprobs"] = nullptr;
  streamed["stream_options"] = {{"include_usage", true}};
  const Answer answer = completion_says(" world", streamed);
  EXPECT_TRUE(answer.done);
  EXPECT_EQ(answer.joined("text"), "Hello world");
  EXPECT_EQ(answer.finish_reasons(), std::vector<std::string>{"stop"});
  EXPECT_EQ(answer.events.back()["choices"], Json::array());
}

TEST_F(EndpointsTest, CompletionLogprobsLineUp) {
  open_script();
  const Answer answer = completion_says(
      "Grüße, you",
      {{"prompt", "Hello"}, {"temperature", 0}, {"logprobs", 3}, {"max_tokens", 100}});
  const Json& lists = answer.choice()["logprobs"];
  const size_t tokens = answer.body["usage"]["completion_tokens"];
  EXPECT_EQ(lists["tokens"].size(), tokens);
  EXPECT_EQ(lists["token_logprobs"].size(), tokens);
  EXPECT_EQ(lists["top_logprobs"].size(), tokens);
  EXPECT_EQ(lists["text_offset"][0], 0);
  for (size_t i = 0; i < tokens; ++i) {
    const std::string name = lists["tokens"][i];
    EXPECT_EQ(lists["top_logprobs"][i][name], lists["token_logprobs"][i]);
  }
}

TEST_F(EndpointsTest, EchoWithLogprobsCoversThePrompt) {
  open_nano();
  const Json asked = {{"prompt", "Reverse: spring"},
                      {"temperature", 0},
                      {"echo", true},
                      {"logprobs", 2},
                      {"max_tokens", 0}};
  const Answer alone = post("/v1/completions", asked);
  ASSERT_EQ(alone.status, 200) << alone.raw;
  EXPECT_EQ(alone.choice()["text"], "Reverse: spring");
  EXPECT_EQ(alone.choice()["finish_reason"], "length");
  EXPECT_EQ(alone.body["usage"]["completion_tokens"], 0);
  const Json& lists = alone.choice()["logprobs"];
  const size_t tokens = alone.body["usage"]["prompt_tokens"];
  ASSERT_EQ(lists["tokens"].size(), tokens);
  EXPECT_TRUE(lists["token_logprobs"][0].is_null());
  EXPECT_TRUE(lists["top_logprobs"][0].is_null());
  for (size_t i = 1; i < tokens; ++i) {
    const std::string name = lists["tokens"][i];
    EXPECT_EQ(lists["top_logprobs"][i][name], lists["token_logprobs"][i]);
    EXPECT_LE(lists["token_logprobs"][i], 0);
  }
  Json more = asked;
  more["max_tokens"] = 3;
  const Answer longer = post("/v1/completions", more);
  const Json& both = longer.choice()["logprobs"];
  EXPECT_EQ(both["tokens"].size(),
            tokens + longer.body["usage"]["completion_tokens"].get<size_t>());
  for (size_t i = 0; i < tokens; ++i) {
    EXPECT_EQ(both["token_logprobs"][i], lists["token_logprobs"][i]);
  }
  more["stream"] = true;
  const Answer streamed = post("/v1/completions", more);
  Json joined = Json::array();
  for (const Json& event : streamed.events) {
    for (const Json& value : event["choices"][0]["logprobs"]["token_logprobs"]) {
      joined.push_back(value);
    }
  }
  EXPECT_EQ(joined, both["token_logprobs"]);
  EXPECT_EQ(streamed.joined("text"), longer.choice()["text"]);
}

TEST_F(EndpointsTest, ChatSpeaksThroughResponses) {
  open_script(kV31);
  const std::string path = "/v1/responses";
  Json asked = {{"model", "tiny"},
                {"input", "Hi"},
                {"instructions", "Be brief."},
                {"temperature", 0},
                {"chat_template_kwargs", {{"thinking", true}}}};
  Json render = {
      {"messages",
       {{{"role", "system"}, {"content", "Be brief."}}, {{"role", "user"}, {"content", "Hi"}}}},
      {"chat_template_kwargs", {{"thinking", true}}}};
  chat_says("Hm.</think>\n\nHello", render);
  const Answer whole = post(path, asked);
  ASSERT_EQ(whole.status, 200) << whole.raw;
  EXPECT_EQ(whole.body["object"], "response");
  EXPECT_EQ(whole.body["status"], "completed");
  ASSERT_EQ(whole.body["output"].size(), 2u);
  EXPECT_EQ(whole.body["output"][0]["type"], "reasoning");
  EXPECT_EQ(whole.body["output"][0]["content"][0]["text"], "Hm.");
  EXPECT_EQ(whole.body["output"][1]["content"][0]["text"], "\n\nHello");
  EXPECT_EQ(whole.body["instructions"], "Be brief.");
  EXPECT_EQ(whole.body["store"], false);

  asked["stream"] = true;
  const Answer streamed = post(path, asked);
  EXPECT_FALSE(streamed.done);  // this API has no [DONE]
  std::string text;
  for (size_t i = 0; i < streamed.events.size(); ++i) {
    EXPECT_EQ(streamed.events[i]["sequence_number"], i);
    EXPECT_EQ(streamed.events[i]["type"], streamed.names[i]);
    if (streamed.names[i] == "response.output_text.delta") {
      text += streamed.events[i]["delta"].get<std::string>();
    }
  }
  EXPECT_EQ(text, "\n\nHello");
  EXPECT_EQ(streamed.names.front(), "response.created");
  EXPECT_EQ(streamed.names[1], "response.in_progress");
  EXPECT_EQ(streamed.names[2], "response.output_item.added");
  EXPECT_EQ(streamed.names[3], "response.content_part.added");
  EXPECT_EQ(streamed.names.back(), "response.completed");
  const auto count = static_cast<std::ptrdiff_t>(streamed.names.size());
  const std::vector<std::string> end(streamed.names.begin() + (count - 4), streamed.names.end());
  EXPECT_EQ(end,
            (std::vector<std::string>{"response.output_text.done", "response.content_part.done",
                                      "response.output_item.done", "response.completed"}));
  EXPECT_EQ(streamed.events.back()["response"]["output"], whole.body["output"]);
}

TEST_F(EndpointsTest, ResponsesCallTools) {
  open_script(kV31);
  Json tools = Json::array();
  for (const Json& tool : weather_tools()) {
    Json flat = tool["function"];
    flat["type"] = "function";
    tools.push_back(flat);
  }
  const std::string says =
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": \"Rome\"}"
      "<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
  chat_says(says, {{"messages", user("Weather?")}, {"tools", weather_tools()}});
  Json asked = {{"input", "Weather?"}, {"tools", tools}, {"temperature", 0}};
  const Answer whole = post("/v1/responses", asked);
  ASSERT_EQ(whole.body["output"].size(), 1u) << whole.raw;
  const Json& call = whole.body["output"][0];
  EXPECT_EQ(call["type"], "function_call");
  EXPECT_EQ(call["name"], "weather");
  EXPECT_EQ(call["arguments"], "{\"city\": \"Rome\"}");
  asked["stream"] = true;
  const Answer streamed = post("/v1/responses", asked);
  EXPECT_EQ(streamed.events.back()["response"]["output"], whole.body["output"]);
  // And the next turn takes it back.
  const Answer next = post(
      "/v1/responses",
      {{"input",
        {{{"role", "user"}, {"content", "Weather?"}},
         call,
         {{"type", "function_call_output"}, {"call_id", call["call_id"]}, {"output", "sunny"}}}},
       {"tools", tools},
       {"max_output_tokens", 3}});
  EXPECT_EQ(next.status, 200) << next.raw;
  EXPECT_EQ(next.body["status"], "incomplete");
  EXPECT_EQ(next.body["incomplete_details"]["reason"], "max_output_tokens");
}

TEST_F(EndpointsTest, AnthropicMessages) {
  open_script(kV31);
  Json render = {
      {"messages",
       {{{"role", "system"}, {"content", "Be brief."}}, {{"role", "user"}, {"content", "Hi"}}}},
      {"chat_template_kwargs", {{"thinking", true}}}};
  chat_says("Hm.</think>\n\nHello END more", render);
  Json asked = {{"model", "tiny"},
                {"max_tokens", 100},
                {"system", {{{"type", "text"}, {"text", "Be brief."}}}},
                {"messages", user("Hi")},
                {"thinking", {{"type", "enabled"}, {"budget_tokens", 1024}}},
                {"stop_sequences", {"END"}},
                {"temperature", 0}};
  const Answer whole = post("/v1/messages", asked);
  ASSERT_EQ(whole.status, 200) << whole.raw;
  EXPECT_EQ(whole.body["type"], "message");
  EXPECT_EQ(whole.body["content"][0]["type"], "thinking");
  EXPECT_EQ(whole.body["content"][0]["thinking"], "Hm.");
  EXPECT_EQ(whole.body["content"][1]["text"], "\n\nHello ");
  EXPECT_EQ(whole.body["stop_reason"], "stop_sequence");
  EXPECT_EQ(whole.body["stop_sequence"], "END");

  asked["stream"] = true;
  const Answer streamed = post("/v1/messages", asked);
  EXPECT_EQ(streamed.names[0], "message_start");
  EXPECT_EQ(streamed.names[1], "ping");
  EXPECT_EQ(streamed.names[2], "content_block_start");
  EXPECT_EQ(streamed.names.back(), "message_stop");
  EXPECT_EQ(streamed.names[streamed.names.size() - 2], "message_delta");
  std::map<int, std::string> texts;
  int starts = 0, stops = 0;
  for (size_t i = 0; i < streamed.events.size(); ++i) {
    const Json& event = streamed.events[i];
    EXPECT_EQ(event["type"], streamed.names[i]);
    starts += event["type"] == "content_block_start";
    stops += event["type"] == "content_block_stop";
    if (event["type"] != "content_block_delta") continue;
    const Json& delta = event["delta"];
    texts[event["index"]] += delta.value("text", "") + delta.value("thinking", "");
  }
  EXPECT_EQ(starts, 2);
  EXPECT_EQ(stops, 2);
  EXPECT_EQ(texts[0], "Hm.");
  EXPECT_EQ(texts[1], "\n\nHello ");
  Json counted = {{"messages", user("Hi")},
                  {"system", "Be brief."},
                  {"thinking", {{"type", "enabled"}, {"budget_tokens", 1024}}}};
  const Json usage = whole.body["usage"];
  EXPECT_EQ(post("/v1/messages/count_tokens", counted).body["input_tokens"].get<int>(),
            usage["input_tokens"].get<int>() + usage["cache_read_input_tokens"].get<int>());
}

TEST_F(EndpointsTest, AnthropicToolsThereAndBack) {
  open_script(kV31);
  const Json tools = {{{"name", "weather"}, {"input_schema", {{"type", "object"}}}}};
  const Json openai_tools = {
      {{"type", "function"},
       {"function", {{"name", "weather"}, {"parameters", {{"type", "object"}}}}}}};
  chat_says(
      "\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": \"Rome\"}"
      "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
      {{"messages", user("Weather?")}, {"tools", openai_tools}});
  Json asked = {
      {"max_tokens", 100}, {"messages", user("Weather?")}, {"tools", tools}, {"temperature", 0}};
  const Answer whole = post("/v1/messages", asked);
  ASSERT_EQ(whole.status, 200) << whole.raw;
  ASSERT_EQ(whole.body["content"].size(), 1u) << whole.raw;  // no block of white space
  const Json& use = whole.body["content"][0];
  EXPECT_EQ(use["type"], "tool_use");
  EXPECT_EQ(use["input"], (Json{{"city", "Rome"}}));
  EXPECT_EQ(whole.body["stop_reason"], "tool_use");
  asked["messages"].push_back({{"role", "assistant"}, {"content", {use}}});
  asked["messages"].push_back({{"role", "user"},
                               {"content",
                                {{{"type", "tool_result"},
                                  {"tool_use_id", use["id"]},
                                  {"content", {{{"type", "text"}, {"text", "sunny"}}}}}}}});
  EXPECT_EQ(post("/v1/messages", asked).status, 200);
  asked["stream"] = true;
  EXPECT_EQ(post("/v1/messages", asked).names.back(), "message_stop");
}

TEST_F(EndpointsTest, TokenizeThereAndBack) {
  open_script();
  const Answer tokens =
      post("/tokenize",
           {{"prompt", "Hello ünï"}, {"return_token_strs", true}, {"add_special_tokens", false}});
  EXPECT_EQ(tokens.body["count"], tokens.body["tokens"].size());
  EXPECT_EQ(tokens.body["token_strs"].size(), tokens.body["tokens"].size());
  EXPECT_EQ(post("/detokenize", {{"tokens", tokens.body["tokens"]}}).body["prompt"], "Hello ünï");
  EXPECT_EQ(post("/tokenize", {{"prompt", "x"}}).body["tokens"][0], 0);  // BOS
  EXPECT_EQ(post("/tokenize", Json::object()).status, 400);
}

TEST_F(EndpointsTest, ModelsAndDescription) {
  open_script();
  const Answer list = get("/v1/models");
  ASSERT_EQ(list.body["data"].size(), 2u);
  EXPECT_EQ(get("/v1/models/other").body["id"], "other");
  const Answer description = get("/openapi.json");
  EXPECT_EQ(description.body["openapi"], "3.1.0");
  for (const Route& route : routes_) {
    EXPECT_TRUE(route.path == "/openapi.json" || description.body["paths"].contains(route.path))
        << route.path;
  }
  const Json& schemas = description.body["components"]["schemas"];
  const Json& chat = schemas["ChatRequest"];
  EXPECT_EQ(chat["required"], Json::array({"messages"}));
  EXPECT_EQ(chat["properties"]["temperature"]["maximum"], 2);
  EXPECT_EQ(chat["properties"]["model"]["enum"], (Json{"tiny", "other", nullptr}));
  // Every reference leads somewhere.
  const std::string all = description.raw;
  const std::string head = "#/components/schemas/";
  for (size_t at = all.find(head); at != std::string::npos; at = all.find(head, at + 1)) {
    const size_t begin = at + head.size();
    EXPECT_TRUE(schemas.contains(all.substr(begin, all.find('"', begin) - begin)));
  }
}

TEST_F(EndpointsTest, LogsAndReplays) {
  std::vector<std::string> lines;
  ApiOptions options;
  options.request_log = [&](std::string_view line) { lines.emplace_back(line); };
  open_nano(std::move(options));
  const Json messages = user("Reverse: spring");
  post("/v1/chat/completions", {{"messages", messages},
                                {"temperature", 1.2},
                                {"n", 3},
                                {"logprobs", true},
                                {"top_logprobs", 2},
                                {"stream", true},
                                {"stream_options", {{"include_usage", true}}}});
  post("/v1/completions", {{"prompt", "Sort"}, {"logprobs", 1}, {"max_tokens", 5}});
  post("/v1/messages", {{"messages", messages}, {"max_tokens", 9}});
  post("/v1/responses", {{"input", "Reverse: spring"}, {"stream", true}});
  ASSERT_EQ(lines.size(), 4u);
  Replayer replayer(*engine_, {});
  for (const std::string& line : lines) {
    const auto outcome = replayer.run(line);
    ASSERT_TRUE(outcome) << outcome.error().message();
    EXPECT_EQ(outcome->id, "test");
    EXPECT_EQ(outcome->differences, std::vector<std::string>()) << line;
  }
  // One bit of one log-probability is found.
  Json entry = Json::parse(lines[0]);
  Json& logprob = entry["choices"][1]["logprobs"][2]["logprob"];
  logprob = std::nextafter(logprob.get<float>(), 0.0f);
  const auto outcome = replayer.run(entry.dump());
  ASSERT_TRUE(outcome);
  ASSERT_EQ(outcome->differences.size(), 1u);
  EXPECT_NE(outcome->differences[0].find("logprobs differ first at token 2"), std::string::npos);
  EXPECT_FALSE(replayer.run("{}"));
  EXPECT_FALSE(replayer.run("nonsense"));
}

TEST_F(EndpointsTest, EveryRequestIsCountedOnce) {
  open_script();
  const auto exchange = start("/v1/chat/completions",
                              Json({{"messages", user("Hi")}, {"n", 2}, {"max_tokens", 3}}).dump());
  const Answer answer = finish(*exchange);
  EXPECT_EQ(metrics_.started, 2);
  EXPECT_EQ(metrics_.finished, 2);
  EXPECT_EQ(metrics_.first_tokens, 2);
  EXPECT_EQ(exchange->charged, answer.body["usage"]["total_tokens"].get<int>());
  post("/v1/chat/completions", {{"messages", user("Hi")}, {"n", 0}});
  EXPECT_EQ(metrics_.started, 2);
}

}  // namespace
}  // namespace fathom::testing
