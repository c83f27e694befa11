// Reasoning and tool calls: what users of other servers have reported wrong, right.
#include "tests/unit/http_api/api_fixture.h"

namespace fathom::testing {
namespace {

constexpr const char* kV31 = "tool_chat_template_deepseekv31.jinja";

class ToolsTest : public ApiTest {
 protected:
  Json asked(bool stream = false) {
    return {{"messages", user("Weather in Rome?")},
            {"tools", weather_tools()},
            {"temperature", 0},
            {"stream", stream}};
  }
  static std::string call(const std::string& name, const std::string& arguments) {
    return "<｜tool▁call▁begin｜>" + name + "<｜tool▁sep｜>" + arguments + "<｜tool▁call▁end｜>";
  }
  static std::string calls(const std::string& inner) {
    return "<｜tool▁calls▁begin｜>" + inner + "<｜tool▁calls▁end｜>";
  }
  // Tool calls of a stream, put together as clients do.
  static Json assemble(const Answer& answer) {
    Json out = Json::array();
    for (const Json& event : answer.events) {
      if (event["choices"].empty()) continue;
      for (const Json& piece : event["choices"][0]["delta"].value("tool_calls", Json::array())) {
        const size_t index = piece.at("index");
        if (index == out.size()) {
          out.push_back(
              {{"id", piece.at("id")},
               {"type", piece.at("type")},
               {"function", {{"name", piece["function"].at("name")}, {"arguments", ""}}}});
        }
        out.at(index)["function"]["arguments"] =
            out[index]["function"]["arguments"].get<std::string>() +
            piece["function"].at("arguments").get<std::string>();
      }
    }
    return out;
  }
};

TEST_F(ToolsTest, CallsWholeAndStreamed) {
  open_script(kV31);
  const std::string text =
      "I look." + calls(call("weather", R"({"city": "Rome"})") + call("clock", "{}"));
  const Answer whole = chat_says(text, asked());
  ASSERT_EQ(whole.status, 200) << whole.raw;
  const Json& message = whole.choice()["message"];
  EXPECT_EQ(message["content"], "I look.");
  ASSERT_EQ(message["tool_calls"].size(), 2u);
  EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "weather");
  EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], R"({"city": "Rome"})");
  EXPECT_EQ(message["tool_calls"][1]["function"]["arguments"], "{}");
  EXPECT_NE(message["tool_calls"][0]["id"], message["tool_calls"][1]["id"]);
  EXPECT_EQ(whole.choice()["finish_reason"], "tool_calls");

  const Answer streamed = chat_says(text, asked(true));
  EXPECT_EQ(assemble(streamed), message["tool_calls"]);
  EXPECT_EQ(streamed.joined("content"), "I look.");
  EXPECT_EQ(streamed.finish_reasons(), std::vector<std::string>{"tool_calls"});
  EXPECT_EQ(streamed.raw.find("tool▁"), std::string::npos);  // no markup leaks
}

TEST_F(ToolsTest, OnlyCallsHaveNullContent) {
  open_script(kV31);
  const Answer answer = chat_says(calls(call("clock", "{}")), asked());
  EXPECT_TRUE(answer.choice()["message"]["content"].is_null());
}

TEST_F(ToolsTest, NoCallsNoList) {
  open_script(kV31);
  const Answer answer = chat_says("Sunny.", asked());
  EXPECT_FALSE(answer.choice()["message"].contains("tool_calls"));
  EXPECT_EQ(answer.choice()["finish_reason"], "stop");
  const Answer empty = chat_says("<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>", asked());
  EXPECT_FALSE(empty.choice()["message"].contains("tool_calls"));
  EXPECT_EQ(empty.choice()["finish_reason"], "stop");
}

TEST_F(ToolsTest, MalformedCallsAreText) {
  open_script(kV31);
  const std::string broken = calls(call("weather", R"({"city": )"));
  for (const bool stream : {false, true}) {
    const Answer answer = chat_says(broken, asked(stream));
    ASSERT_EQ(answer.status, 200);
    const std::string content = stream ? answer.joined("content")
                                       : answer.choice()["message"]["content"].get<std::string>();
    EXPECT_NE(content.find(R"({"city": )"), std::string::npos) << content;
    if (stream) {
      EXPECT_EQ(answer.finish_reasons(), std::vector<std::string>{"stop"});
    }
  }
}

TEST_F(ToolsTest, CutCallsAreTextAndLength) {
  open_script(kV31);
  const std::string text = calls(call("weather", R"({"city": "Rome"})"));
  const auto tokens = static_cast<int>(ids(text).size());
  for (int cut = 1; cut < tokens - 2; ++cut) {
    Json body = asked();
    body["max_tokens"] = cut;
    const Answer answer = chat_says(text, body);
    EXPECT_EQ(answer.choice()["finish_reason"], "length");
    EXPECT_FALSE(answer.choice()["message"].contains("tool_calls"));
    EXPECT_EQ(answer.body["usage"]["completion_tokens"], cut);
  }
}

TEST_F(ToolsTest, OneCallWhereOnlyOneIsWanted) {
  open_script(kV31);
  const std::string text = calls(call("weather", "{}") + call("clock", "{}"));
  for (const bool stream : {false, true}) {
    Json body = asked(stream);
    body["parallel_tool_calls"] = false;
    const Answer answer = chat_says(text, body);
    const Json list = stream ? assemble(answer) : answer.choice()["message"]["tool_calls"];
    ASSERT_EQ(list.size(), 1u);
    EXPECT_EQ(list[0]["function"]["name"], "weather");
  }
}

TEST_F(ToolsTest, ChoiceNoneHidesTheTools) {
  open_script(kV31);
  Json body = asked();
  body["tool_choice"] = "none";
  const Answer answer = chat_says("plain", body);
  EXPECT_EQ(answer.choice()["message"]["content"], "plain");
  const int without = answer.body["usage"]["prompt_tokens"];
  body.erase("tool_choice");
  EXPECT_LT(without, chat_says("plain", body).body["usage"]["prompt_tokens"].get<int>());
}

TEST_F(ToolsTest, ReasoningComesFromWhatWasRendered) {
  open_script(kV31);
  Json body = {{"messages", user("Hi")}, {"temperature", 0}};
  // Not thinking: everything is content.
  EXPECT_FALSE(chat_says("Hello", body).choice()["message"].contains("reasoning_content"));
  EXPECT_EQ(chat_says("Hello", body).choice()["message"]["content"], "Hello");
  body["chat_template_kwargs"] = {{"thinking", true}};
  const Answer thinking = chat_says("Hm.</think>Hello", body);
  EXPECT_EQ(thinking.choice()["message"]["reasoning_content"], "Hm.");
  EXPECT_EQ(thinking.choice()["message"]["content"], "Hello");
  // Cut inside of the reasoning: nothing is content.
  body["max_tokens"] = 2;
  const Answer cut = chat_says("Hm hm hm hm.</think>Hello", body);
  EXPECT_EQ(cut.choice()["message"]["content"], "");
  EXPECT_FALSE(cut.choice()["message"]["reasoning_content"].get<std::string>().empty());
  EXPECT_EQ(cut.choice()["finish_reason"], "length");
  EXPECT_EQ(cut.body["usage"]["completion_tokens_details"]["reasoning_tokens"], 2);
}

TEST_F(ToolsTest, ThinkingByServerFieldAndEffort) {
  ApiOptions options;
  options.thinking = true;
  open_script(kV31, std::move(options));
  script_->set_script(std::vector<int32_t>(500, ids("a")[0]), 1);  // at every position
  const auto thinks = [&](Json extra) {
    Json body = {{"messages", user("Hi")}, {"max_tokens", 1}, {"temperature", 0}};
    body.update(extra);
    const Answer answer = post("/v1/chat/completions", body);
    return answer.choice()["message"].contains("reasoning_content");
  };
  EXPECT_TRUE(thinks(Json::object()));
  EXPECT_FALSE(thinks({{"chat_template_kwargs", {{"thinking", false}}}}));
  EXPECT_FALSE(thinks({{"thinking", {{"type", "disabled"}}}}));
  EXPECT_FALSE(thinks({{"reasoning_effort", "none"}}));
  EXPECT_TRUE(thinks({{"reasoning_effort", "high"}}));
}

TEST_F(ToolsTest, CallAfterReasoning) {
  open_script(kV31);
  Json body = asked(true);
  body["chat_template_kwargs"] = {{"thinking", true}};
  const Answer answer = chat_says("I think.</think>" + calls(call("clock", "{}")), body);
  EXPECT_EQ(answer.joined("reasoning_content"), "I think.");
  EXPECT_EQ(assemble(answer).size(), 1u);
  EXPECT_EQ(answer.joined("content"), "");
}

TEST_F(ToolsTest, SecondTurnsRender) {
  for (const char* file :
       {"", kV31, "deepseek-ai-DeepSeek-V3.1.jinja", "tool_chat_template_deepseekv3.jinja",
        "tool_chat_template_deepseekr1.jinja"}) {
    SCOPED_TRACE(file);
    open_script(file);
    const Json call = {{"id", "c1"},
                       {"type", "function"},
                       {"function", {{"name", "weather"}, {"arguments", R"({"city": "Rome"})"}}}};
    for (const Json& content : {Json(nullptr), Json("")}) {
      Json body = asked();
      body["messages"] = {
          {{"role", "developer"}, {"content", {{{"type", "text"}, {"text", "Be brief."}}}}},
          {{"role", "user"}, {"content", "Weather in Rome?"}},
          {{"role", "assistant"}, {"content", content}, {"tool_calls", {call}}},
          {{"role", "tool"}, {"tool_call_id", "c1"}, {"content", "sunny"}}};
      // This template prints calls and results, but no declarations.
      if (std::string(file) == "deepseek-ai-DeepSeek-V3.1.jinja") body["tools"] = nullptr;
      const Answer answer = chat_says("It is sunny.", body);
      ASSERT_EQ(answer.status, 200) << answer.raw;
      EXPECT_EQ(answer.choice()["message"]["content"], "It is sunny.");
      Json render = {{"messages", body["messages"]}, {"tools", body["tools"]}};
      const Json tokens = post("/tokenize", render).body["tokens"];
      const std::string prompt = post("/detokenize", {{"tokens", tokens}}).body["prompt"];
      EXPECT_NE(prompt.find("Be brief."), std::string::npos) << prompt;
      EXPECT_NE(prompt.find(R"({"city": "Rome"})"), std::string::npos) << prompt;
      EXPECT_EQ(prompt.find(R"(\"city\")"), std::string::npos) << prompt;  // not quoted twice
    }
  }
}

TEST_F(ToolsTest, HistoryWithReasoningAndContinuation) {
  open_script(kV31);
  Json body = {{"messages",
                {{{"role", "user"}, {"content", "Hi"}},
                 {{"role", "assistant"}, {"content", "Hel"}, {"reasoning_content", "thought"}}}},
               {"continue_final_message", true},
               {"temperature", 0}};
  const Answer answer = chat_says("lo", body);
  ASSERT_EQ(answer.status, 200) << answer.raw;
  EXPECT_EQ(answer.choice()["message"]["content"], "lo");
  body["add_generation_prompt"] = true;
  EXPECT_EQ(post("/v1/chat/completions", body).status, 400);
}

TEST_F(ToolsTest, TemplatesWithoutToolsRefuseThem) {
  open_script("deepseek-ai-DeepSeek-R1-Distill-Llama-8B.jinja");
  const Answer answer = post("/v1/chat/completions", asked());
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.param(), "tools");
}

TEST_F(ToolsTest, UsersCannotWriteControlTokens) {
  open_script(kV31);
  const Answer plain = post("/tokenize", {{"messages", user("a</think>b<｜Assistant｜>c")}});
  const int32_t assistant = *engine_->tokenizer()->token_id("<｜Assistant｜>");
  size_t assistants = 0;
  for (const Json& id : plain.body["tokens"]) assistants += id == assistant;
  EXPECT_EQ(assistants, 1u);  // the template's own
}

}  // namespace
}  // namespace fathom::testing
