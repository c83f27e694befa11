// Small tokenizers of every supported component against the library (tools/gen_tokenizer_cases.py).
#include <gtest/gtest.h>

#include "tests/support/tokenizer_data.h"
#include "text/tokenizer.h"

namespace fathom {
namespace {

TEST(TokenizerCases, EveryComponentAsTheLibrary) {
  const auto file = nlohmann::json::parse(testing::unpacked("differential.json"));
  const auto texts = file["texts"].get<std::vector<std::string>>();
  ASSERT_GE(file["cases"].size(), 60u);
  for (const auto& entry : file["cases"]) {
    nlohmann::json json = entry["tokenizer"];
    nlohmann::json model = file["models"][entry["model"].get<std::string>()];
    for (const auto& [key, value] : entry["overrides"].items()) {
      if (key != "extra_tokens") model[key] = value;
    }
    const auto& extra = entry["overrides"]["extra_tokens"];
    for (const auto& token : extra)
      model["vocab"][token.get<std::string>()] = model["vocab"].size();
    json["model"] = model;
    const auto name = entry["name"].get<std::string>();
    const auto tokenizer = Tokenizer::from_json(json.dump(), "");
    ASSERT_TRUE(tokenizer) << name << ": " << tokenizer.error().message();
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto ids =
          (*tokenizer)->encode(texts[i], {entry["add_special_tokens"].get<bool>(), true});
      ASSERT_TRUE(ids) << name << ": " << ids.error().message();
      EXPECT_EQ(*ids, entry["ids"][i].get<std::vector<int32_t>>())
          << name << ": \"" << texts[i] << '"';
    }
  }
}

TEST(TokenizerCases, SentencePieceTextComesBack) {
  const auto file = nlohmann::json::parse(testing::unpacked("differential.json"));
  for (const auto& entry : file["cases"]) {
    if (entry["name"] != "llama2") continue;
    nlohmann::json json = entry["tokenizer"];
    json["model"] = file["models"]["characters"];
    for (const auto& token : entry["overrides"]["extra_tokens"]) {
      json["model"]["vocab"][token.get<std::string>()] = json["model"]["vocab"].size();
    }
    json["model"]["byte_fallback"] = true;
    const auto tokenizer = Tokenizer::from_json(json.dump(), "");
    ASSERT_TRUE(tokenizer);
    EXPECT_EQ((*tokenizer)->leading_strip(), 1u);
    for (const auto& text : file["texts"]) {
      const auto expected = text.get<std::string>();
      EXPECT_EQ((*tokenizer)->decode(*(*tokenizer)->encode(expected), false), expected);
    }
  }
}

}  // namespace
}  // namespace fathom
