// Structured output and forced calls through the endpoints: nano is made to answer in form.
#include "grammar/grammar.h"
#include "tests/unit/http_api/api_fixture.h"

namespace fathom::testing {
namespace {

class StructuredTest : public ApiTest {
 protected:
  void SetUp() override {
    if (!structured_output_available()) GTEST_SKIP() << "built without xgrammar";
    open_nano();
  }
  static Json pair_schema() {
    return Json::parse(R"({"type": "object", "properties": {"a": {"type": "integer"},
        "b": {"enum": ["x", "yy"]}}, "required": ["a", "b"], "additionalProperties": false})");
  }
  static void expect_pair(const std::string& text) {
    const Json value = Json::parse(text, nullptr, false);
    ASSERT_TRUE(value.is_object()) << text;
    EXPECT_TRUE(value.at("a").is_number_integer());
    EXPECT_TRUE(value.at("b") == "x" || value.at("b") == "yy");
    EXPECT_EQ(value.size(), 2u);
  }
};

TEST_F(StructuredTest, JsonSchemaEverywhere) {
  const Json openai = {
      {"type", "json_schema"},
      {"json_schema", {{"name", "pair"}, {"schema", pair_schema()}, {"strict", true}}}};
  for (const bool stream : {false, true}) {
    const Answer answer = post("/v1/chat/completions", {{"messages", user("Give me a pair.")},
                                                        {"response_format", openai},
                                                        {"seed", 3},
                                                        {"max_tokens", 400},
                                                        {"stream", stream}});
    ASSERT_EQ(answer.status, 200) << answer.raw;
    expect_pair(stream ? answer.joined("content")
                       : answer.choice()["message"]["content"].get<std::string>());
  }
  const Answer completion =
      post("/v1/completions",
           {{"prompt", "A pair: "}, {"response_format", openai}, {"max_tokens", 400}});
  ASSERT_EQ(completion.status, 200) << completion.raw;
  expect_pair(completion.choice()["text"]);
  Json flat = openai["json_schema"];
  flat["type"] = "json_schema";
  const Answer response = post(
      "/v1/responses",
      {{"input", "Give me a pair."}, {"text", {{"format", flat}}}, {"max_output_tokens", 400}});
  ASSERT_EQ(response.status, 200) << response.raw;
  expect_pair(response.body["output"][0]["content"][0]["text"]);
  const Answer message =
      post("/v1/messages", {{"messages", user("Give me a pair.")},
                            {"output_format", {{"type", "json_schema"}, {"schema", pair_schema()}}},
                            {"max_tokens", 400}});
  ASSERT_EQ(message.status, 200) << message.raw;
  expect_pair(message.body["content"][0]["text"]);
}

TEST_F(StructuredTest, RegexAndSeveralChoices) {
  const Answer answer =
      post("/v1/chat/completions", {{"messages", user("A number.")},
                                    {"structured_outputs", {{"regex", "[0-9]{3}-[ab]"}}},
                                    {"n", 3}});
  ASSERT_EQ(answer.status, 200) << answer.raw;
  for (size_t i = 0; i < 3; ++i) {
    const std::string text = answer.choice(i)["message"]["content"];
    ASSERT_EQ(text.size(), 5u) << text;
    EXPECT_EQ(text[3], '-');
  }
}

TEST_F(StructuredTest, ForcedCalls) {
  for (const bool named : {false, true}) {
    Json asked = {{"messages", user("Reverse: spring")},
                  {"tools", weather_tools()},
                  {"tool_choice", "required"},
                  {"max_tokens", 500}};
    if (named) asked["tool_choice"] = {{"type", "function"}, {"function", {{"name", "weather"}}}};
    const Answer answer = post("/v1/chat/completions", asked);
    ASSERT_EQ(answer.status, 200) << answer.raw;
    ASSERT_EQ(answer.choice()["finish_reason"], "tool_calls") << answer.raw;
    const Json call = answer.choice()["message"]["tool_calls"][0]["function"];
    const Json arguments = Json::parse(call["arguments"].get<std::string>());
    if (named) {
      EXPECT_EQ(call["name"], "weather");
      EXPECT_TRUE(arguments.at("city").is_string());
      EXPECT_EQ(answer.choice()["message"]["tool_calls"].size(), 1u);
    }
  }
}

TEST_F(StructuredTest, RefusesWhatCannotBeHeld) {
  const auto refused = [&](Json fields, const std::string& param) {
    Json body = {{"messages", user("x")}};
    body.update(fields);
    const Answer answer = post("/v1/chat/completions", body);
    EXPECT_EQ(answer.status, 400) << answer.raw;
    EXPECT_EQ(answer.param(), param) << answer.raw;
  };
  refused({{"response_format",
            {{"type", "json_schema"}, {"json_schema", {{"schema", {{"type", "nothing"}}}}}}}},
          "response_format.json_schema.schema");
  refused({{"structured_outputs", {{"regex", "(["}}}}, "structured_outputs.regex");
  refused({{"structured_outputs", {{"regex", "a"}, {"json_object", true}}}}, "structured_outputs");
  refused(
      {{"structured_outputs", {{"regex", "a"}}}, {"response_format", {{"type", "json_object"}}}},
      "structured_outputs");
  refused({{"tools", weather_tools()}, {"response_format", {{"type", "json_object"}}}},
          "response_format");
}

TEST_F(StructuredTest, SameBytesBesideNeighboursAndAlone) {
  const Json asked = {{"messages", user("Give me an object.")},
                      {"response_format", {{"type", "json_object"}}},
                      {"seed", 11},
                      {"logprobs", true},
                      {"max_tokens", 60}};
  const Answer alone = post("/v1/chat/completions", asked);
  ASSERT_EQ(alone.status, 200) << alone.raw;
  std::vector<std::shared_ptr<FakeExchange>> others;
  for (int i = 0; i < 6; ++i) {
    Json other = asked;
    other["seed"] = i;
    if (i % 2 == 0) other.erase("response_format");
    others.push_back(start("/v1/chat/completions", other.dump()));
  }
  const Answer beside = post("/v1/chat/completions", asked);
  EXPECT_EQ(alone.body["choices"], beside.body["choices"]);
  for (const auto& exchange : others) finish(*exchange);
}

}  // namespace
}  // namespace fathom::testing
