// API keys: files, comparison, limits under a clock that tests move.
#include "http/api_keys.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

std::string file_error(const std::string& text) {
  const auto keys = parse_api_keys(text, "keys.txt");
  return keys ? "" : keys.error().message();
}

TEST(ApiKeyFile, ReadsLines) {
  const auto keys = parse_api_keys("# team a\nsk-one\r\n\nsk-two", "f");
  ASSERT_TRUE(keys) << keys.error().message();
  ASSERT_EQ(keys->size(), 2u);
  EXPECT_EQ((*keys)[0].name, "line-2");
  EXPECT_EQ((*keys)[1].name, "line-4");
  EXPECT_EQ((*keys)[0].sha256, make_api_key("", "sk-one").sha256);
}

TEST(ApiKeyFile, ReadsJsonWithLimits) {
  const auto keys = parse_api_keys(R"({"keys": [
      {"name": "a", "key": "sk-one", "requests_per_second": 0.5, "tokens_per_minute": 100,
       "concurrency": 2},
      {"name": "b",
       "sha256": "2C26B46B68FFC68FF99B453C1D30413413422D706483BFA0F98A5E886266E7AE"}]})",
                                   "f");
  ASSERT_TRUE(keys) << keys.error().message();
  EXPECT_EQ((*keys)[0].limits.requests_per_second, 0.5);
  EXPECT_EQ((*keys)[0].limits.tokens_per_minute, 100);
  EXPECT_EQ((*keys)[0].limits.concurrency, 2);
  EXPECT_EQ((*keys)[1].sha256, make_api_key("", "foo").sha256);  // FIPS 180-4 of "foo"
}

TEST(ApiKeyFile, RefusesWhatIsNoKey) {
  for (const char* text : {"",
                           "\n\n",
                           "# only a comment",
                           "two words",
                           "tab\tinside",
                           "caf\xc3\xa9",
                           "[]",
                           "{}",
                           "{\"keys\": 1}",
                           "{\"keys\": [], \"more\": 1}",
                           "[1]",
                           "[{}]",
                           "[{\"name\": \"a\"}]",
                           "[{\"key\": \"k\"}]",
                           "[{\"name\": \"a\", \"key\": \"\"}]",
                           "[{\"name\": \"a\", \"key\": 1}]",
                           "[{\"name\": \"a\", \"key\": \"k\", \"rps\": 1}]",
                           "[{\"name\": \"a\", \"key\": \"k\", \"concurrency\": -1}]",
                           "[{\"name\": \"a\", \"key\": \"k\", \"concurrency\": 1.5}]",
                           "[{\"name\": \"a\", \"key\": \"k\", \"concurrency\": 1e30}]",
                           "[{\"name\": \"a\", \"key\": \"k\", \"tokens_per_minute\": \"9\"}]",
                           "[{\"name\": \"a\", \"sha256\": \"12\"}]",
                           "[{\"name\": \"a\", \"key\": \"k\", \"sha256\": "
                           "\"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae\"}]",
                           "[{\"name\": \"a\", \"key\": \"k\"}",
                           "{\"keys\": [{\"name\": \"a\", \"key\": \"k\"}]"}) {
    EXPECT_NE(file_error(text).find("keys.txt"), std::string::npos) << text;
  }
}

TEST(ApiKeyFile, DoesNotRepeatKeysInMessages) {
  EXPECT_EQ(file_error("sk-secret with space").find("secret"), std::string::npos);
  EXPECT_EQ(file_error(R"([{"name": "a", "key": "sk-secret", "rps": 1}])").find("secret"),
            std::string::npos);
}

TEST(ApiKeys, FindsByTheWholeKeyOnly) {
  ApiKeys keys;
  EXPECT_FALSE(keys.required());
  ASSERT_TRUE(keys.replace({make_api_key("a", "sk-one"), make_api_key("b", "sk-two")}).ok());
  EXPECT_TRUE(keys.required());
  EXPECT_EQ(keys.find("sk-one"), "a");
  EXPECT_EQ(keys.find("sk-two"), "b");
  for (const char* wrong : {"", "sk-", "sk-on", "sk-one ", "sk-onee", "SK-ONE", "a"}) {
    EXPECT_EQ(keys.find(wrong), std::nullopt) << wrong;
  }
}

TEST(ApiKeys, KeepsTheOldOnesWhenTheNewOnesContradict) {
  ApiKeys keys;
  ASSERT_TRUE(keys.replace({make_api_key("a", "sk-one")}).ok());
  EXPECT_FALSE(keys.replace({make_api_key("x", "k1"), make_api_key("x", "k2")}).ok());
  EXPECT_FALSE(keys.replace({make_api_key("x", "k1"), make_api_key("y", "k1")}).ok());
  EXPECT_EQ(keys.find("sk-one"), "a");
  EXPECT_EQ(keys.find("k1"), std::nullopt);
}

class KeyLimitsTest : public testing::Test {
 protected:
  void use(KeyLimits limits) {
    ASSERT_TRUE(keys.replace({make_api_key("a", "sk-one", limits)}).ok());
  }
  double now = 1000;
  ApiKeys keys{[this] { return now; }};
};

TEST_F(KeyLimitsTest, RequestsPerSecond) {
  use({2, 0, 0});
  EXPECT_EQ(keys.admit("a").refusal, "");
  EXPECT_EQ(keys.admit("a").refusal, "");
  const ApiKeys::Grant refused = keys.admit("a");
  EXPECT_NE(refused.refusal.find("2 requests per second"), std::string::npos);
  EXPECT_DOUBLE_EQ(refused.retry_after, 0.5);
  now += 0.5;
  EXPECT_EQ(keys.admit("a").refusal, "");
  EXPECT_NE(keys.admit("a").refusal, "");
  now += 1000;  // what was not used does not pile up
  EXPECT_EQ(keys.admit("a").refusal, "");
  EXPECT_EQ(keys.admit("a").refusal, "");
  EXPECT_NE(keys.admit("a").refusal, "");
}

TEST_F(KeyLimitsTest, LessThanOneRequestPerSecond) {
  use({0.1, 0, 0});
  EXPECT_EQ(keys.admit("a").refusal, "");
  EXPECT_NEAR(keys.admit("a").retry_after, 10, 1e-9);
  now += 9.9;
  EXPECT_NE(keys.admit("a").refusal, "");
  now += 0.2;
  EXPECT_EQ(keys.admit("a").refusal, "");
}

TEST_F(KeyLimitsTest, TokensPerMinute) {
  use({0, 600, 0});
  EXPECT_EQ(keys.admit("a").refusal, "");
  keys.charge("a", 599);
  EXPECT_EQ(keys.admit("a").refusal, "");
  keys.charge("a", 601);  // 600 too many
  const ApiKeys::Grant refused = keys.admit("a");
  EXPECT_NE(refused.refusal.find("600 tokens per minute"), std::string::npos);
  EXPECT_NEAR(refused.retry_after, 60.1, 0.01);
  now += 60.2;
  EXPECT_EQ(keys.admit("a").refusal, "");
}

TEST_F(KeyLimitsTest, ConcurrencyCountsSlots) {
  use({0, 0, 2});
  ApiKeys::Grant one = keys.admit("a"), two = keys.admit("a");
  EXPECT_NE(one.slot, nullptr);
  EXPECT_NE(keys.admit("a").refusal.find("2 requests running"), std::string::npos);
  one.slot.reset();
  EXPECT_EQ(keys.admit("a").refusal, "");  // and gives its own slot back
  ApiKeys::Grant three = keys.admit("a");
  EXPECT_EQ(three.refusal, "");
  use({0, 0, 3});  // what runs still counts
  const ApiKeys::Grant four = keys.admit("a");
  EXPECT_EQ(four.refusal, "");
  EXPECT_NE(keys.admit("a").refusal, "");
}

TEST_F(KeyLimitsTest, ReloadDoesNotGiveNewTokens) {
  use({0, 60, 0});
  keys.charge("a", 1000);
  use({0, 60, 0});
  EXPECT_NE(keys.admit("a").refusal, "");
  ASSERT_TRUE(keys.replace({make_api_key("b", "sk-one", {0, 60, 0})}).ok());
  EXPECT_EQ(keys.admit("b").refusal, "");
}

}  // namespace
}  // namespace fathom
