// Wrong bodies: the status, the parameter's path and the words.
#include "tests/unit/http_api/api_fixture.h"

namespace fathom::testing {
namespace {

class ValidationTest : public ApiTest {
 protected:
  void SetUp() override { open_script(); }
  Json chat() { return {{"model", "tiny"}, {"messages", user("Hi")}}; }
  void refused(const std::string& path, const Json& body, const std::string& param,
               const std::string& says) {
    SCOPED_TRACE(body.dump());
    const Answer answer = post(path, body);
    EXPECT_EQ(answer.status, 400) << answer.raw;
    EXPECT_EQ(answer.body["error"]["type"], "invalid_request_error");
    EXPECT_EQ(answer.param(), param.empty() ? Json(nullptr) : Json(param)) << answer.raw;
    EXPECT_NE(answer.error().find(says), std::string::npos) << answer.error();
    EXPECT_EQ(answer.error().back(), '.');
  }
  void refused_chat(const std::string& name, const Json& value, const std::string& says,
                    const std::string& param = "") {
    Json body = chat();
    body[name] = value;
    refused("/v1/chat/completions", body, param.empty() ? name : param, says);
  }
};

TEST_F(ValidationTest, RangesOfParameters) {
  refused_chat("temperature", -0.1, "between 0 and 2");
  refused_chat("temperature", 2.5, "temperature is 2.5; it must be between 0 and 2.");
  refused_chat("top_p", 0, "above 0 and at most 1");
  refused_chat("top_p", 1.01, "above 0 and at most 1");
  refused_chat("top_k", -2, "at least -1");
  refused_chat("min_p", 2, "between 0 and 1");
  refused_chat("presence_penalty", -3, "between -2 and 2");
  refused_chat("frequency_penalty", 2.5, "between -2 and 2");
  refused_chat("repetition_penalty", 0, "between 0.001 and 1000");
  refused_chat("n", 0, "between 1 and 128");
  refused_chat("n", 129, "between 1 and 128");
  refused_chat("max_tokens", 0, "at least 1");
  refused_chat("max_completion_tokens", -5, "at least 1");
  refused_chat("min_tokens", -1, "at least 0");
  refused_chat("top_logprobs", 21, "between 0 and 20");
  refused_chat("stop", Json(std::vector<std::string>(17, "x")), "at most 16");
  refused_chat("logit_bias", {{"5", 101}}, "between -100 and 100", "logit_bias.5");
  refused_chat("logit_bias", {{"five", 1}}, "no token id");
  refused_chat("logit_bias", {{"100000", 1}}, "the model's ids are 0 to 511", "logit_bias");
  refused_chat("stop_token_ids", {-1}, "at least 0", "stop_token_ids[0]");
  refused_chat("stop_token_ids", {512}, "the model's ids are 0 to 511", "stop_token_ids");
  refused_chat("stop_token_ids", {int64_t{1} << 40}, "it must be at most 2147483647",
               "stop_token_ids[0]");
  refused_chat("seed", 1e30, "seed must be an integer, not a number of that size.");
}

TEST_F(ValidationTest, TypesOfParameters) {
  refused_chat("temperature", "hot", "temperature must be a number between 0 and 2, not a string.");
  refused_chat("n", 1.5, "must be an integer between 1 and 128, not a fraction");
  refused_chat("stream", "yes", "true or false");
  refused_chat("stop", 3, "a string or an array of strings, not an integer");
  refused_chat("stop", {"a", 3}, "must be a string", "stop[1]");
  refused_chat("logprobs", 3, "true or false");
  refused_chat("stream_options", true, "an object");
  refused_chat("stream_options", {{"include_usage", 1}}, "true or false",
               "stream_options.include_usage");
  refused_chat("chat_template_kwargs", "x", "an object");
  refused_chat("seed", "1", "an integer");
  refused_chat("priority", "high", "an integer");
  refused_chat("cache_salt", "", "at least one character");
  refused_chat("response_format", {{"type", "xml"}}, "\"json_object\"", "response_format.type");
  refused_chat("reasoning_effort", "extreme", "\"high\"");
}

TEST_F(ValidationTest, MessagesNameTheirPath) {
  const auto messages = [&](Json list, const std::string& param, const std::string& says) {
    refused_chat("messages", std::move(list), says, param);
  };
  messages(Json::array(), "messages", "at least 1");
  messages("hi", "messages", "must be an array, not a string");
  messages({{{"role", "user"}}}, "messages[0].content", "is missing");
  messages({{{"role", "user"}, {"content", nullptr}}}, "messages[0].content", "not null");
  messages({{{"role", "user"}, {"content", 5}}}, "messages[0].content",
           "must be a string or an array");
  messages({{{"role", "king"}, {"content", "x"}}}, "messages[0].role", "\"assistant\"");
  messages({{{"content", "x"}}}, "messages[0].role", "is missing");
  messages({{{"role", "user"}, {"content", "a"}}, 5}, "messages[1]", "must be an object");
  messages(
      {{{"role", "user"}, {"content", {{{"type", "image_url"}, {"image_url", {{"url", "x"}}}}}}}},
      "messages[0].content[0].type", "This model reads text only.");
  messages({{{"role", "user"}, {"content", {{{"type", "text"}}}}}}, "messages[0].content[0].text",
           "is missing");
  messages({{{"role", "assistant"}, {"tool_calls", {{{"id", "a"}}}}}},
           "messages[0].tool_calls[0].function", "is missing");
  Json body = chat();
  body.erase("messages");
  refused("/v1/chat/completions", body, "messages", "is missing");
}

TEST_F(ValidationTest, BodiesThatAreNoJson) {
  const Answer broken = post_text("/v1/chat/completions", "{\"model\": \"tiny\", }");
  EXPECT_EQ(broken.status, 400);
  EXPECT_EQ(broken.body["error"]["code"], "invalid_json");
  EXPECT_NE(broken.error().find("at byte 19"), std::string::npos) << broken.error();
  EXPECT_NE(post_text("/v1/chat/completions", " ").error().find("empty"), std::string::npos);
  EXPECT_NE(post_text("/v1/chat/completions", "[1]").error().find("The body must be an object"),
            std::string::npos);
  EXPECT_EQ(post_text("/v1/chat/completions", std::string(1000000, '[')).status, 400);
  EXPECT_EQ(post_text("/v1/chat/completions", "{\"a\": \"\xff\"}").status, 400);
  EXPECT_EQ(post_text("/v1/chat/completions", "{\"temperature\": 1e999}").status, 400);
  // Of two equal keys the last one counts.
  EXPECT_EQ(post_text("/v1/chat/completions",
                      R"({"messages": [{"role": "user", "content": "x"}], "n": 900, "n": 1,
                          "max_tokens": 1})")
                .status,
            200);
}

TEST_F(ValidationTest, UnknownModel) {
  for (const char* path :
       {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/tokenize", "/detokenize"}) {
    Json body = chat();
    body["model"] = "gpt-9";
    if (std::string(path) == "/v1/completions") body["prompt"] = "x";
    if (std::string(path) == "/v1/responses") body["input"] = "x";
    if (std::string(path) == "/detokenize") body["tokens"] = Json::array({1});
    const Answer answer = post(path, body);
    EXPECT_EQ(answer.status, 404);
    EXPECT_EQ(answer.body["error"]["code"], "model_not_found");
    EXPECT_EQ(answer.param(), "model");
    EXPECT_NE(answer.error().find("tiny, other"), std::string::npos);
  }
}

TEST_F(ValidationTest, LongPromptsHaveTheNumbers) {
  Json body = chat();
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "x ";
  body["messages"] = user(text);
  const Answer answer = post("/v1/chat/completions", body);
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.body["error"]["code"], "context_length_exceeded");
  EXPECT_NE(answer.error().find("1024"), std::string::npos);
}

TEST_F(ValidationTest, ToolsAndChoices) {
  refused_chat("tools", {{{"type", "web_search"}}}, "Only functions can be called.",
               "tools[0].type");
  refused_chat("tools", {{{"type", "function"}}}, "is missing", "tools[0].function");
  refused_chat("tools", {{{"type", "function"}, {"function", {{"name", ""}}}}}, "is empty",
               "tools[0].function.name");
  refused_chat("tool_choice", "required", "there are no tools");
  refused_chat("tool_choice", "maybe", "\"required\"");
  refused_chat("functions", Json::array(), "use tools");
  Json body = chat();
  body["tools"] = weather_tools();
  body["tool_choice"] = {{"type", "function"}, {"function", {{"name", "nothing"}}}};
  refused("/v1/chat/completions", body, "tool_choice.function.name", "not among the tools");
  body["tools"].push_back(body["tools"][0]);
  refused("/v1/chat/completions", body, "tools[2].function.name", "already");
}

TEST_F(ValidationTest, Completions) {
  const auto refuse = [&](Json fields, const std::string& param, const std::string& says) {
    Json body = {{"prompt", "x"}};
    body.update(fields);
    refused("/v1/completions", body, param, says);
  };
  refuse({{"suffix", "y"}}, "suffix", "not supported");
  refuse({{"best_of", 3}}, "best_of", "both are equal");
  refuse({{"prompt", Json::array()}}, "prompt", "0 elements");
  refuse({{"prompt", {1, "a"}}}, "prompt[1]", "must be");
  refuse({{"prompt", {1, 512}}}, "prompt", "0 to 511");
  refuse({{"prompt", {{1, 2}, Json::array()}}}, "prompt[1]", "elements");
  refuse({{"logprobs", 21}}, "logprobs", "between 0 and 20");
  EXPECT_EQ(post("/v1/completions", {{"prompt", "x"}, {"best_of", 2}, {"n", 2}}).status, 200);
}

TEST_F(ValidationTest, Messages) {
  const auto refuse = [&](Json fields, const std::string& says) {
    Json body = {{"messages", user("Hi")}, {"max_tokens", 5}};
    body.update(fields);
    const Answer answer = post("/v1/messages", body);
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(answer.body["type"], "error");
    EXPECT_EQ(answer.body["error"]["type"], "invalid_request_error");
    EXPECT_NE(answer.error().find(says), std::string::npos) << answer.error();
  };
  refuse({{"max_tokens", 0}}, "max_tokens is 0");
  refuse({{"messages", {{{"role", "system"}, {"content", "x"}}}}}, "messages[0].role");
  refuse({{"messages",
           {{{"role", "user"}, {"content", {{{"type", "image"}, {"source", Json::object()}}}}}}}},
         "text only");
  refuse(
      {{"messages",
        {{{"role", "assistant"}, {"content", {{{"type", "tool_result"}, {"tool_use_id", "x"}}}}}}}},
      "cannot have");
  const Answer missing = post("/v1/messages", {{"messages", user("Hi")}});
  EXPECT_NE(missing.error().find("max_tokens is missing"), std::string::npos);
  const Answer unknown =
      post("/v1/messages", {{"messages", user("Hi")}, {"max_tokens", 5}, {"model", "claude"}});
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.body["error"]["type"], "not_found_error");
}

TEST_F(ValidationTest, ResponsesRefusesState) {
  refused("/v1/responses", {{"input", "x"}, {"previous_response_id", "resp_1"}},
          "previous_response_id", "nothing is stored");
  refused("/v1/responses", {{"input", "x"}, {"background", true}}, "background", "stored");
  refused("/v1/responses", {{"input", {{{"type", "function_call"}, {"name", "f"}}}}},
          "input[0].call_id", "is missing");
  refused("/v1/responses", {{"input", {{{"role", "user"}}}}}, "input[0].content", "is missing");
  refused("/v1/responses", {{"input", {{{"type", "item_reference"}, {"id", "x"}}}}},
          "input[0].type", "must be");
}

}  // namespace
}  // namespace fathom::testing
