// IncrementalDetokenizer against the pieces of the vectors, and against whole decoding.
#include "stream/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/tokenizer_data.h"
#include "text/utf8.h"

namespace fathom {
namespace {

using testing::shared_tokenizer;

const std::pair<const char*, const char*> kFamilies[] = {
    {"deepseek-v3", "v3"}, {"deepseek-llm", "llm"}, {"deepseek-coder", "coder"}};

TEST(IncrementalDetokenizer, PiecesOfTheVectors) {
  for (const auto& [name, vectors] : kFamilies) {
    const nlohmann::json all = testing::vectors(vectors);
    for (const auto& entry : all["decode"]) {
      IncrementalDetokenizer detokenizer(shared_tokenizer(name),
                                         entry["skip_special_tokens"].get<bool>());
      const auto ids = entry["ids"].get<std::vector<int32_t>>();
      for (size_t i = 0; i < ids.size(); ++i) {
        EXPECT_EQ(detokenizer.push(ids[i]), entry["pieces"][i].get<std::string>())
            << name << " " << i;
      }
      EXPECT_EQ(detokenizer.finish(), entry["tail"].get<std::string>());
      EXPECT_EQ(detokenizer.finish(), "");
    }
  }
}

TEST(IncrementalDetokenizer, RandomIdsGiveTheWholeText) {
  std::mt19937 random(7);
  for (const auto& [name, vectors] : kFamilies) {
    const Tokenizer& tokenizer = shared_tokenizer(name);
    for (int round = 0; round < 300; ++round) {
      std::vector<int32_t> ids(random() % 40);
      // Small ids are single bytes: they make the broken characters.
      for (int32_t& id : ids) {
        id = static_cast<int32_t>(random() %
                                  (random() % 2 ? 260u : unsigned(tokenizer.vocab_size()) + 5));
      }
      const bool skip = random() % 2 == 0;
      IncrementalDetokenizer detokenizer(tokenizer, skip);
      std::string text;
      for (const int32_t id : ids) {
        const std::string piece = detokenizer.push(id);
        EXPECT_TRUE(is_valid_utf8(piece));
        text += piece;
      }
      text += detokenizer.finish();
      EXPECT_EQ(text, tokenizer.decode(ids, skip));
    }
  }
}

TEST(IncrementalDetokenizer, LiteralReplacementCharacterIsNotHeldBack) {
  const Tokenizer& v3 = shared_tokenizer("deepseek-v3");
  IncrementalDetokenizer detokenizer(v3, false);
  std::string text;
  const std::vector<int32_t> ids = *v3.encode("a\uFFFD");
  for (const int32_t id : ids) text += detokenizer.push(id);
  EXPECT_EQ(text, "a\uFFFD");
}

}  // namespace
}  // namespace fathom
