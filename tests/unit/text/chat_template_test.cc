// Chat templates against renderings of transformers, and the files a model keeps them in.
#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace fathom {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const fs::path kTemplates = fs::path(FATHOM_SOURCE_DIR) / "tests/data/chat/templates";
const fs::path kVectors = fs::path(FATHOM_TEST_DATA_DIR) / "chat/vectors";

std::string read_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  EXPECT_TRUE(stream.good()) << path;
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write_file(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

Result<ChatTemplate> load_named(const std::string& name, const Json& file) {
  Json tokens = {{"bos_token", file["bos_token"]}, {"eos_token", file["eos_token"]}};
  if (name.ends_with(".jinja")) {
    return ChatTemplate::from_source(read_file(kTemplates / name), tokens);
  }
  const Json config = Json::parse(read_file(kTemplates / (name + ".json")));
  return ChatTemplate::from_source(config["chat_template"].get<std::string>(), tokens);
}

// One file of vectors; an `error` vector wants an error, whatever its words.
class ChatVectors : public testing::TestWithParam<std::string> {};

TEST_P(ChatVectors, RenderAsTransformers) {
  const Json file = Json::parse(read_file(kVectors / GetParam()));
  const auto chat = load_named(file["template"].get<std::string>(), file);
  ASSERT_TRUE(chat) << chat.error().message();
  size_t errors = 0;
  for (const Json& vector : file["vectors"]) {
    const auto text = chat->render({vector["messages"], vector["tools"], vector["kwargs"]});
    const std::string label = vector["name"].get<std::string>() + " " + vector["kwargs"].dump();
    if (vector.contains("error")) {
      ++errors;
      ASSERT_FALSE(text) << label;
      EXPECT_NE(text.error().message().find(vector["error"].get<std::string>()), std::string::npos)
          << label << ": " << text.error().message();
      EXPECT_NE(text.error().message().find("line "), std::string::npos);
    } else {
      ASSERT_TRUE(text) << label << ": " << text.error().message();
      EXPECT_EQ(*text, vector["prompt"].get<std::string>()) << label;
    }
  }
  EXPECT_GE(file["vectors"].size(), 43u);
  RecordProperty("errors", static_cast<int>(errors));
}

INSTANTIATE_TEST_SUITE_P(Released, ChatVectors,
                         testing::Values("deepseek-ai-DeepSeek-R1-Distill-Llama-8B.json",
                                         "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.json",
                                         "deepseek-ai-DeepSeek-V3.1.json",
                                         "deepseek-v3-tokenizer_config.json",
                                         "tool_chat_template_deepseekr1.json",
                                         "tool_chat_template_deepseekv3.json",
                                         "tool_chat_template_deepseekv31.json"));

class ChatTemplateFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              (std::string("chat_template_") +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string render(const Json& tools = nullptr) {
    const auto chat = ChatTemplate::load(folder_);
    if (!chat) return "load: " + chat.error().message();
    const auto text = chat->render({Json::array({{{"role", "user"}, {"content", "hi"}}}), tools});
    return text ? *text : "render: " + text.error().message();
  }

  fs::path folder_;
};

TEST_F(ChatTemplateFiles, NoTemplateSaysWhatToPass) {
  const auto chat = ChatTemplate::load(folder_);
  ASSERT_FALSE(chat);
  EXPECT_EQ(chat.error().code(), Code::kNotFound);
  EXPECT_NE(chat.error().message().find("--chat-template"), std::string::npos);
  write_file(folder_ / "tokenizer_config.json", R"({"bos_token": "<s>"})");
  EXPECT_EQ(ChatTemplate::load(folder_).error().code(), Code::kNotFound);
}

TEST_F(ChatTemplateFiles, ConfigHoldsTemplateAndTokens) {
  write_file(folder_ / "tokenizer_config.json", R"({
    "bos_token": {"__type": "AddedToken", "content": "<s>"}, "eos_token": "</s>",
    "unk_token": null, "image_token": "<img>",
    "chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ image_token }}{{ unk_token is defined }}"})");
  EXPECT_EQ(render(), "<s>hi</s><img>False");
}

TEST_F(ChatTemplateFiles, JinjaFileWins) {
  write_file(folder_ / "tokenizer_config.json", R"({"chat_template": "config"})");
  EXPECT_EQ(render(), "config");
  write_file(folder_ / "chat_template.jinja", "file {{ tools }}");
  EXPECT_EQ(render(), "file None");
  write_file(folder_ / "additional_chat_templates/tool_use.jinja", "tools");
  EXPECT_EQ(render(), "file None");
  EXPECT_EQ(render(Json::array()), "tools");
}

TEST_F(ChatTemplateFiles, ListOfTemplates) {
  write_file(folder_ / "tokenizer_config.json", R"({"chat_template": [
    {"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"},
    {"name": "rag", "template": "{% include 'unused' %}"}]})");
  EXPECT_EQ(render(), "plain");
  EXPECT_EQ(render(Json::array({Json::object()})), "tools");
  write_file(folder_ / "tokenizer_config.json",
             R"({"chat_template": [{"name": "rag", "template": ""}]})");
  EXPECT_NE(render().find("none is named default"), std::string::npos);
  write_file(folder_ / "tokenizer_config.json", R"({"chat_template": [1]})");
  EXPECT_NE(render().find("without name or template"), std::string::npos);
  write_file(folder_ / "tokenizer_config.json", R"({"chat_template": 5})");
  EXPECT_NE(render().find("neither a string nor a list"), std::string::npos);
}

TEST_F(ChatTemplateFiles, SpecialTokensMapIsTheOlderFile) {
  write_file(folder_ / "chat_template.jinja", "{{ bos_token }}|{{ eos_token }}");
  write_file(folder_ / "special_tokens_map.json",
             R"({"bos_token": {"content": "<map>"}, "eos_token": "</map>"})");
  EXPECT_EQ(render(), "<map>|</map>");
  write_file(folder_ / "tokenizer_config.json", R"({"bos_token": "<s>"})");
  EXPECT_EQ(render(), "<map>|</map>");
  write_file(folder_ / "tokenizer_config.json",
             R"({"bos_token": "<s>", "added_tokens_decoder": {}})");
  EXPECT_EQ(render(), "<s>|");
}

TEST_F(ChatTemplateFiles, BrokenFilesAreNamed) {
  write_file(folder_ / "tokenizer_config.json", "{");
  EXPECT_NE(render().find("tokenizer_config.json is not a JSON object"), std::string::npos);
  write_file(folder_ / "tokenizer_config.json", R"({"chat_template": "a\n{% if %}"})");
  EXPECT_NE(render().find("line 2 of the chat template: TemplateSyntaxError"), std::string::npos)
      << render();
  write_file(folder_ / "chat_template.jinja", "\xff");
  EXPECT_NE(render().find("not valid UTF-8"), std::string::npos);
}

Result<std::string> render_source(const std::string& source, Json messages,
                                  Json kwargs = Json::object(), Json tools = nullptr) {
  const auto chat = ChatTemplate::from_source(source, {{"bos_token", "<s>"}});
  if (!chat) return error(chat.error());
  return chat->render({std::move(messages), std::move(tools), std::move(kwargs)});
}

std::string message_of(const Result<std::string>& result) {
  return result ? "no error: " + *result : result.error().message();
}

TEST(ChatTemplate, BadInputIsNamed) {
  EXPECT_NE(message_of(render_source("", "text")).find("messages must be a JSON array"),
            std::string::npos);
  EXPECT_NE(message_of(render_source("", Json::array({{{"role", "user"}}, "x"})))
                .find("message 1 must be a JSON object, not string"),
            std::string::npos);
  EXPECT_NE(message_of(render_source("", Json::array({{{"content", "x"}}})))
                .find("message 0 has no \"role\""),
            std::string::npos);
  EXPECT_NE(message_of(render_source("", Json::array({{{"role", 1}}})))
                .find("the \"role\" of message 0 must be a string"),
            std::string::npos);
  EXPECT_NE(message_of(render_source("", Json::array(), Json::object(), 7))
                .find("tools must be a JSON array"),
            std::string::npos);
  EXPECT_NE(message_of(render_source("", Json::array(), 7)).find("kwargs"), std::string::npos);
  EXPECT_NE(message_of(render_source("", Json::array(), {{"messages", 1}})).find("\"messages\""),
            std::string::npos);
  EXPECT_NE(message_of(render_source("", Json::array(), {{"documents", Json::array({1})}}))
                .find("document 0"),
            std::string::npos);
}

TEST(ChatTemplate, VariablesAndTheirDefaults) {
  EXPECT_EQ(*render_source("{{ bos_token }} {{ add_generation_prompt }} {{ documents }} {{ x }}",
                           Json::array()),
            "<s> False None ");
  EXPECT_EQ(*render_source("{{ bos_token }} {{ add_generation_prompt }} {{ documents }} {{ x }}",
                           Json::array(),
                           {{"bos_token", "B"},
                            {"add_generation_prompt", true},
                            {"documents", Json::array({{{"title", "t"}}})},
                            {"x", 1.5}}),
            "B True [{'title': 't'}] 1.5");
}

TEST(ChatTemplate, ReasoningGoesByThreeNames) {
  const std::string source = "{{ messages[0] | tojson }}";
  EXPECT_EQ(*render_source(source, Json::array({{{"role", "a"}, {"reasoning", "r"}}})),
            R"({"thinking": "r", "role": "a", "reasoning": "r", "reasoning_content": "r"})");
  EXPECT_EQ(
      *render_source(source,
                     Json::array({{{"role", "a"}, {"reasoning_content", "r"}, {"thinking", "t"}}})),
      R"({"thinking": "t", "role": "a", "reasoning_content": "r"})");
  EXPECT_EQ(*render_source(source, Json::array({{{"role", "a"}, {"thinking", nullptr}}})),
            R"({"role": "a", "thinking": null})");
}

TEST(ChatTemplate, ContinuesTheFinalMessage) {
  const std::string source =
      "{% for m in messages %}[{{ m.content | trim }}]{% endfor %}{{ "
      "messages[-1].reasoning_content }}";
  const Json spaced = Json::array({{{"role", "user"}, {"content", "Hello  "}}});
  EXPECT_EQ(*render_source(source, spaced, {{"continue_final_message", true}}), "[Hello");
  EXPECT_EQ(
      *render_source("<{{ messages[0].content }}>", spaced, {{"continue_final_message", true}}),
      "<Hello  ");
  EXPECT_EQ(*render_source(source, spaced, {{"continue_final_message", false}}), "[Hello]");
  const Json thinks = Json::array({{{"role", "a"}, {"content", "c"}, {"reasoning", "why"}}});
  EXPECT_EQ(*render_source(source, thinks, {{"continue_final_message", "reasoning"}}), "[c]why");
  const Json blocks = Json::array(
      {{{"role", "a"},
        {"content", Json::array({{{"type", "text"}, {"text", "one"}}, {{"type", "image"}}})}}});
  EXPECT_EQ(*render_source("{% for b in messages[0].content %}{{ b.text }};{% endfor %}", blocks,
                           {{"continue_final_message", true}}),
            "one");
}

TEST(ChatTemplate, WhatCannotBeContinued) {
  const Json kwargs = {{"continue_final_message", true}};
  const Json hi = Json::array({{{"role", "user"}, {"content", "hi"}}});
  EXPECT_NE(message_of(render_source("{{ content }}", Json::array(), kwargs)).find("no message"),
            std::string::npos);
  EXPECT_NE(message_of(render_source("{{ content }}", Json::array({{{"role", "a"}}}), kwargs))
                .find("has no \"content\""),
            std::string::npos);
  EXPECT_NE(message_of(render_source("x", hi, kwargs)).find("does not read"), std::string::npos);
  EXPECT_NE(message_of(render_source("{{ content }}", hi, kwargs)).find("does not print"),
            std::string::npos);
  EXPECT_NE(message_of(render_source("{{ content }}",
                                     Json::array({{{"role", "a"}, {"content", 5}}}), kwargs))
                .find("is not a string"),
            std::string::npos);
  EXPECT_NE(
      message_of(render_source("{{ content }}",
                               Json::array({{{"role", "a"}, {"content", Json::array()}}}), kwargs))
          .find("no text to continue"),
      std::string::npos);
}

TEST(ChatTemplate, OneTemplateServesManyThreads) {
  const auto chat = ChatTemplate::from_source(
      "{% for m in messages %}{{ m.content }}{{ loop.index }}{% endfor %}", Json::object());
  ASSERT_TRUE(chat);
  Json messages = Json::array();
  std::string expected;
  for (int i = 0; i < 50; ++i) {
    messages.push_back({{"role", "user"}, {"content", "m"}});
    expected += "m" + std::to_string(i + 1);
  }
  std::vector<std::string> texts(4);
  std::vector<std::thread> threads;
  for (std::string& text : texts) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) text = *chat->render({messages});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) EXPECT_EQ(text, expected);
}

}  // namespace
}  // namespace fathom
