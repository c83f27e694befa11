// Schemas that are wrong, cannot be held, or would cost too much: a Status each, soon.
#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/grammar/grammar_data.h"

namespace fathom {
namespace {

using testing::nano;
using testing::schema_spec;

// The message, or "" if the schema compiles and its mask allows something.
std::string refusal(const std::string& schema) {
  const auto grammar = nano().compiler->compile(schema_spec(schema));
  if (!grammar) {
    EXPECT_EQ(grammar.error().code(), Code::kInvalidArgument) << grammar.error().message();
    EXPECT_FALSE(grammar.error().message().empty());
    return grammar.error().message();
  }
  const auto mask = testing::mask_of(**grammar);
  EXPECT_FALSE(testing::allowed_ids(*mask, *nano().tokenizer).empty()) << schema.substr(0, 200);
  return "";
}

std::string repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

std::string joined(int count, const std::function<std::string(int)>& part) {
  std::string out;
  for (int i = 0; i < count; ++i) out += (i > 0 ? "," : "") + part(i);
  return out;
}

TEST(HostileSchema, NoSchemaAtAll) {
  FATHOM_NEED_GRAMMARS();
  for (const char* text : {"",
                           "{",
                           "nonsense",
                           "[1]",
                           "7",
                           "\"x\"",
                           "null",
                           "{\"type\":7}",
                           "{\"type\":\"elephant\"}",
                           "{\"properties\":[]}",
                           "{\"enum\":[]}",
                           "{\"enum\":3}",
                           "{\"anyOf\":[]}",
                           "{\"anyOf\":{}}",
                           "\xFF{}",
                           "{\"minLength\":-1}",
                           "{\"maxItems\":1e9}",
                           "{\"pattern\":\"(\"}",
                           "{\"type\":\"string\",\"pattern\":\"[\"}",
                           "{\"$ref\":\"#/nowhere\"}",
                           "{\"$ref\":\"http://localhost/x\"}",
                           "{\"$ref\":7}"}) {
    EXPECT_NE(refusal(text), "") << text;
  }
}

TEST(HostileSchema, KeywordsThatCannotBeHeldAreNamed) {
  FATHOM_NEED_GRAMMARS();
  for (const char* keyword : {"not", "if", "contains", "dependentSchemas", "$dynamicRef"}) {
    const std::string message =
        refusal(std::string(R"({"type":"object","properties":{"a":{")") + keyword + R"(":{}}}})");
    EXPECT_NE(message.find(std::string("#/properties/a/") + keyword), std::string::npos) << message;
  }
  EXPECT_NE(refusal(R"({"type":"array","uniqueItems":true})"), "");
  EXPECT_EQ(refusal(R"({"type":"array","uniqueItems":false})"), "");
  // Names of properties and values are no keywords.
  EXPECT_EQ(refusal(R"({"type":"object","properties":{"not":{"const":{"if":1}}}})"), "");
  EXPECT_NE(refusal(R"({"type":"number","multipleOf":0.25})"), "");
  EXPECT_NE(refusal(R"({"type":"string","pattern":"a+","maxLength":3})"), "");
}

TEST(HostileSchema, DeepNesting) {
  FATHOM_NEED_GRAMMARS();
  for (const int depth : {40, 300, 100000}) {
    const std::string text = repeated("{\"items\":", depth) + "{}" + repeated("}", depth);
    EXPECT_EQ(refusal(text) == "", depth == 40) << depth;
    refusal(repeated("{\"anyOf\":[", depth) + "{}" + repeated("]}", depth));
    refusal(repeated("[", depth));
  }
}

TEST(HostileSchema, References) {
  FATHOM_NEED_GRAMMARS();
  EXPECT_NE(refusal(R"({"$ref":"#"})"), "");
  EXPECT_NE(
      refusal(
          R"({"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"})"),
      "");
  // An object that needs itself has no end; either a refusal or a mask is right.
  refusal(R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})");
  // A chain, and a fan that doubles at each level.
  const auto chain = [](int count, int fan) {
    const auto definition = [&](int i) {
      const std::string next = "{\"$ref\":\"#/$defs/d" + std::to_string(i + 1) + "\"}";
      const std::string list = joined(fan, [&](int) { return next; });
      const bool last = i + 1 == count;
      return "\"d" + std::to_string(i) + "\":" +
             (last ? "{\"type\":\"null\"}" : "{\"type\":\"array\",\"prefixItems\":[" + list + "]}");
    };
    return "{\"$defs\":{" + joined(count, definition) + "},\"$ref\":\"#/$defs/d0\"}";
  };
  EXPECT_EQ(refusal(chain(60, 2)), "");
  refusal(chain(900, 1));
  EXPECT_NE(refusal(chain(30000, 1)), "");
}

TEST(HostileSchema, LargeEnumsAndObjects) {
  FATHOM_NEED_GRAMMARS();
  const auto names = [](int count) {
    return joined(count, [](int i) { return "\"value number " + std::to_string(i * 7919) + "\""; });
  };
  EXPECT_EQ(refusal("{\"enum\":[" + names(1000) + "]}"), "");
  EXPECT_NE(refusal("{\"enum\":[" + names(100000) + "]}"), "");
  const auto properties = [](int count) {
    return joined(count,
                  [](int i) { return "\"p" + std::to_string(i) + "\":{\"type\":\"null\"}"; });
  };
  EXPECT_EQ(refusal("{\"type\":\"object\",\"properties\":{" + properties(200) + "}}"), "");
  EXPECT_NE(refusal("{\"type\":\"object\",\"properties\":{" + properties(9000) + "}}"), "");
}

TEST(HostileSchema, LargeCounts) {
  FATHOM_NEED_GRAMMARS();
  EXPECT_EQ(refusal(R"({"type":"string","minLength":10,"maxLength":100000})"), "");
  EXPECT_EQ(refusal(R"({"type":"array","items":{"type":"integer"},"minItems":50,"maxItems":5000})"),
            "");
  EXPECT_NE(refusal(R"({"type":"array","maxItems":100001})"), "");
  std::string nested = "{\"type\":\"null\"}";
  for (int i = 0; i < 8; ++i) {
    nested =
        "{\"type\":\"array\",\"minItems\":100000,\"maxItems\":100000,\"items\":" + nested + "}";
  }
  refusal(nested);
  refusal(R"({"type":"object","minProperties":5000,"maxProperties":90000})");
}

TEST(HostileSchema, Patterns) {
  FATHOM_NEED_GRAMMARS();
  const auto pattern = [](const std::string& regex) {
    return refusal(nlohmann::json{{"type", "string"}, {"pattern", regex}}.dump());
  };
  EXPECT_EQ(pattern("^[a-z]{1,64}@[a-z]{1,255}$"), "");
  EXPECT_EQ(pattern("^\\d{3}-\\d{2}-\\d{4}$"), "");
  EXPECT_NE(pattern("((a{100}){100}){100}"), "");
  EXPECT_NE(pattern("a{1000000}"), "");
  EXPECT_NE(pattern("a{99999999999999999999}"), "");
  EXPECT_NE(pattern(std::string(600, 'a')), "");
  // Determinising these would take 2^30 states.
  pattern("(a|b)*a(a|b){30}");
  pattern("(.*a){12}");
  pattern(repeated("(a|aa)*", 40));
  pattern(repeated("(", 250) + "a" + repeated(")", 250));
  pattern("(?=a)b");
  pattern("(a)\\1");
  pattern("\\p{L}+");
  pattern("[\\uD800]");
}

TEST(HostileSchema, RegularExpressions) {
  FATHOM_NEED_GRAMMARS();
  GrammarSpec spec;
  spec.kind = GrammarSpec::Kind::kRegex;
  for (const char* text : {"(", "[", "a{2", "*", "\xFF", "(?<=x)y"}) {
    spec.text = text;
    const auto grammar = nano().compiler->compile(spec);
    const Code code = grammar ? Code::kOk : grammar.error().code();
    EXPECT_TRUE(code == Code::kOk || code == Code::kInvalidArgument) << text;
  }
}

TEST(HostileSchema, Tools) {
  FATHOM_NEED_GRAMMARS();
  GrammarSpec spec;
  spec.kind = GrammarSpec::Kind::kTools;
  spec.tool_format = ToolFormat::kDeepSeekV31;
  const auto refused = [&] {
    const auto grammar = nano().compiler->compile(spec);
    return !grammar && grammar.error().code() == Code::kInvalidArgument;
  };
  EXPECT_TRUE(refused());  // no tools
  for (const char* name : {"", "a b", "a\"", "<x>", "é", "a\n"}) {
    spec.tools = {{name, ""}};
    EXPECT_TRUE(refused()) << name;
  }
  spec.tools = {{"f", "{\"type\":"}};
  EXPECT_TRUE(refused());
  spec.tools = {{"f", "{\"not\":{}}"}};
  EXPECT_TRUE(refused());
  spec.tools = {{"f", "{\"$ref\":\"#/nowhere\"}"}};
  EXPECT_TRUE(refused());
  spec.tools = {{"f", ""}};
  EXPECT_FALSE(refused());
  spec.tools.assign(1000, {"f", ""});
  EXPECT_TRUE(refused());
  spec.tools = {{"f", ""}};
  spec.tool_format = ToolFormat::kNone;
  EXPECT_TRUE(refused());
}

}  // namespace
}  // namespace fathom
