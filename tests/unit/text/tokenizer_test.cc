// Tokenizer against the vectors of the `tokenizers` library and llama.cpp.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/tokenizer_data.h"

namespace fathom {
namespace {

using testing::shared_tokenizer;
using Ids = std::vector<int32_t>;

Ids encode(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options = {}) {
  auto ids = tokenizer.encode(text, options);
  EXPECT_TRUE(ids) << ids.error().message();
  return ids ? *ids : Ids{};
}

struct Family {
  const char* tokenizer;
  const char* vectors;
};

class Vectors : public ::testing::TestWithParam<Family> {};

INSTANTIATE_TEST_SUITE_P(Tokenizer, Vectors,
                         ::testing::Values(Family{"deepseek-v3", "v3"},
                                           Family{"deepseek-llm", "llm"},
                                           Family{"deepseek-coder", "coder"}),
                         [](const auto& info) { return std::string(info.param.vectors); });

TEST_P(Vectors, EncodeAsTheLibrary) {
  const Tokenizer& tokenizer = shared_tokenizer(GetParam().tokenizer);
  const nlohmann::json all = testing::vectors(GetParam().vectors);
  ASSERT_GE(all["encode"].size(), 200u);
  for (const auto& entry : all["encode"]) {
    const auto text = entry["text"].get<std::string>();
    const auto ids = entry["ids"].get<Ids>();
    EXPECT_EQ(encode(tokenizer, text), ids) << text;
    const Ids plain = entry.contains("ids_plain") ? entry["ids_plain"].get<Ids>() : ids;
    EXPECT_EQ(encode(tokenizer, text, {false, false}), plain) << text;
  }
}

TEST_P(Vectors, DecodeGivesTheTextBack) {
  const Tokenizer& tokenizer = shared_tokenizer(GetParam().tokenizer);
  const nlohmann::json all = testing::vectors(GetParam().vectors);
  for (const auto& entry : all["encode"]) {
    EXPECT_EQ(tokenizer.decode(entry["ids"].get<Ids>(), false), entry["text"].get<std::string>());
  }
}

TEST_P(Vectors, DecodeAnyIds) {
  const Tokenizer& tokenizer = shared_tokenizer(GetParam().tokenizer);
  const nlohmann::json all = testing::vectors(GetParam().vectors);
  ASSERT_GE(all["decode"].size(), 70u);
  for (const auto& entry : all["decode"]) {
    const auto ids = entry["ids"].get<Ids>();
    const bool skip = entry["skip_special_tokens"].get<bool>();
    std::string joined;
    for (const auto& piece : entry["pieces"]) joined += piece.get<std::string>();
    EXPECT_EQ(tokenizer.decode(ids, skip), joined + entry["tail"].get<std::string>());
    if (!entry.value("differs_from_bytes", false)) {
      EXPECT_EQ(tokenizer.decode(ids, skip), entry["text"].get<std::string>());
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      if (skip && tokenizer.is_special(ids[i])) continue;
      std::string hex;
      for (const unsigned char byte : tokenizer.token_bytes(ids[i])) {
        constexpr char kDigits[] = "0123456789abcdef";
        hex += {kDigits[byte >> 4], kDigits[byte & 15]};
      }
      EXPECT_EQ(hex, entry["bytes_hex"][i].get<std::string>()) << ids[i];
    }
  }
}

TEST(Tokenizer, AgreesWithLlamaCpp) {
  const Tokenizer& tokenizer = shared_tokenizer("deepseek-llm");
  const auto all = nlohmann::json::parse(testing::plain_file("ggml_llm_vectors.json"));
  ASSERT_EQ(all["encode"].size(), 47u);
  for (const auto& entry : all["encode"]) {
    EXPECT_EQ(encode(tokenizer, entry["text"].get<std::string>()), entry["ids"].get<Ids>());
  }
}

TEST(Tokenizer, GoldenTextsOfV3) {
  const std::vector<std::pair<std::string, Ids>> golden = {
      {"", {}},
      {" ", {223}},
      {"  ", {262}},
      {"\n", {201}},
      {"\n\n", {271}},
      {"\r\n", {204, 201}},
      {"\t", {200}},
      {"Hello, world!", {19923, 14, 2058, 3}},
      {"hello world  ", {33310, 2058, 262}},
      {"a  b   c    d", {67, 223, 291, 262, 274, 361, 283}},
      {"1234567890", {6895, 18009, 25744, 18}},
      {"3.14159", {21, 16, 9926, 3318}},
      {"99 bottles, 100 bottles", {1977, 35967, 14, 223, 1457, 35967}},
      {"v1.2.3-rc4", {88, 19, 16, 20, 16, 21, 15, 6921, 22}},
      {"x->y", {90, 2105, 91}},
      {"a::b", {67, 2366, 68}},
      {"你好世界", {30594, 3427}},
      {"中文123英文", {21134, 6895, 21207}},
      {"こんにちは", {4549, 7245, 2298, 12457, 2841}},
      {"a🙂b", {67, 80300, 227, 68}},
      {"naïve café", {2720, 91223, 57664}},
      {"Привет мир", {24797, 8919, 74779}},
      {"\u00a0nbsp", {2162, 28706}},
      {"\u3000ideographic space", {18524, 681, 8566, 3987}},
      {"  \n  \n  ", {36320, 262}},
      {"line1\n\nline2", {1836, 19, 271, 1836, 20}},
      {"<｜User｜>hello<｜Assistant｜>", {128803, 33310, 128804}},
  };
  for (const auto& [text, ids] : golden)
    EXPECT_EQ(encode(shared_tokenizer("deepseek-v3"), text), ids);
}

TEST(Tokenizer, KnowsItsTokens) {
  const Tokenizer& v3 = shared_tokenizer("deepseek-v3");
  EXPECT_EQ(v3.vocab_size(), 128815);
  EXPECT_EQ(v3.bos_id(), 0);
  EXPECT_EQ(v3.eos_id(), 1);
  EXPECT_EQ(v3.pad_id(), 1);
  EXPECT_EQ(v3.token_id("<｜User｜>"), 128803);
  EXPECT_EQ(v3.token_id("Ġthe"), encode(v3, " the").at(0));
  EXPECT_EQ(v3.token_id("no such token"), std::nullopt);
  EXPECT_EQ(v3.token_text(128804), "<｜Assistant｜>");
  EXPECT_TRUE(v3.is_added(128803));
  EXPECT_FALSE(v3.is_special(128803));
  EXPECT_TRUE(v3.is_special(0));
  EXPECT_FALSE(v3.is_added(33310));
  for (const int32_t id : {-1, 128815, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(v3.token_bytes(id), "");
    EXPECT_EQ(v3.token_text(id), "");
    EXPECT_FALSE(v3.is_special(id));
  }
  EXPECT_EQ(v3.decode({-5, 33310, 128815}, false), "hello");
}

// The released files leave BOS to tokenizer_config.json: their post-processor adds nothing.
TEST(Tokenizer, PromptsGetOneBos) {
  for (const char* name : {"deepseek-v3", "deepseek-llm", "deepseek-coder"}) {
    const Tokenizer& tokenizer = shared_tokenizer(name);
    EXPECT_FALSE(tokenizer.adds_bos());
    EXPECT_FALSE(tokenizer.adds_eos());
    EXPECT_TRUE(tokenizer.wants_bos());
    const Ids ids = encode(tokenizer, "hello");
    EXPECT_EQ(encode(tokenizer, "hello", {true, true}), ids);
    Ids with_bos = ids;
    with_bos.insert(with_bos.begin(), *tokenizer.bos_id());
    EXPECT_EQ(*tokenizer.encode_prompt("hello"), with_bos);
    EXPECT_EQ(*tokenizer.encode_prompt("<｜begin▁of▁sentence｜>hello"), with_bos);
    EXPECT_EQ(*tokenizer.encode_prompt(""), Ids{*tokenizer.bos_id()});
  }
}

TEST(Tokenizer, LettersThatAreAddedTokensSurvive) {
  const Tokenizer& llm = shared_tokenizer("deepseek-llm");
  EXPECT_EQ(encode(llm, "Führer"), (Ids{37, 100014, 71, 6245}));
  EXPECT_EQ(llm.decode({37, 100014, 71, 6245}, true), "Führer");
  EXPECT_EQ(encode(llm, "ø", {false, false}), Ids{100002});
}

TEST(Tokenizer, InvalidUtf8BecomesReplacementCharacters) {
  const Tokenizer& v3 = shared_tokenizer("deepseek-v3");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a\xFFz", "a\uFFFDz"},
      {"\xE4\xBD", "\uFFFD"},  // a truncated character: one
      {"\xE4\xBDz", "\uFFFDz"},
      {"\xF0\x9F\x99\xF0\x9F\x99\x82", "\uFFFD🙂"},
      {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},            // a surrogate: each byte
      {"\xC0\x80", "\uFFFD\uFFFD"},                      // overlong
      {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},  // beyond U+10FFFF
      {"\x80\x80", "\uFFFD\uFFFD"},
  };
  for (const auto& [bytes, repaired] : cases) {
    EXPECT_EQ(encode(v3, bytes), encode(v3, repaired));
    EXPECT_EQ(v3.decode(encode(v3, bytes), false), repaired);
  }
}

TEST(Tokenizer, LongTextsOfOneKind) {
  const Tokenizer& v3 = shared_tokenizer("deepseek-v3");
  const Tokenizer& llm = shared_tokenizer("deepseek-llm");
  constexpr size_t kBytes = 1 << 18;
  for (const char* unit :
       {"a", " ", "\n", "1", "!", "é", "中", "\u0301", "🙂", "aB", " \n", "a "}) {
    std::string text;
    while (text.size() < kBytes) text += unit;
    for (const Tokenizer* tokenizer : {&v3, &llm}) {
      EXPECT_EQ(tokenizer->decode(encode(*tokenizer, text + "1"), false), text + "1");
    }
  }
}

TEST(Tokenizer, ThreadsShareOne) {
  const Tokenizer& v3 = shared_tokenizer("deepseek-v3");
  std::string text;
  const nlohmann::json all = testing::vectors("v3");
  for (const auto& entry : all["encode"]) text += entry["text"].get<std::string>();
  const Ids expected = encode(v3, text);
  std::vector<std::thread> threads;
  std::vector<Ids> results(4);
  for (Ids& result : results) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) result = *v3.encode(text);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Ids& result : results) EXPECT_EQ(result, expected);
}

}  // namespace
}  // namespace fathom
