// Bounds on JSON texts.
#include "core/json_shape.h"

#include <gtest/gtest.h>

#include <string>

namespace fathom {
namespace {

TEST(JsonShape, AcceptsOrdinaryTexts) {
  for (const char* text : {"", "1", "[[], {}]", R"({"a": [1, 2], "b": "]]]]"})", "]]]", ":::"}) {
    EXPECT_TRUE(check_json_shape(text).ok()) << text;
  }
  EXPECT_TRUE(check_json_shape(std::string(256, '[')).ok());
}

TEST(JsonShape, RefusesDeepNesting) {
  EXPECT_FALSE(check_json_shape(std::string(257, '[')).ok());
  EXPECT_FALSE(check_json_shape(std::string(1000000, '{')).ok());
  // Brackets in strings do not count, escaped quotes do not end strings.
  EXPECT_TRUE(check_json_shape("\"" + std::string(1000, '[') + "\"").ok());
  EXPECT_TRUE(check_json_shape("\"\\\"" + std::string(1000, '[') + "\"").ok());
  EXPECT_FALSE(check_json_shape("\"\\\\\"" + std::string(1000, '[')).ok());
}

TEST(JsonShape, RefusesHugeObjects) {
  std::string text = "{";
  for (int i = 0; i < 10001; ++i) text += "\"" + std::to_string(i) + "\":0,";
  EXPECT_FALSE(check_json_shape(text).ok());
  std::string many = "[";
  for (int i = 0; i < 100000; ++i) many += "{\"a\":0,\"b\":1},";
  EXPECT_TRUE(check_json_shape(many).ok());
}

}  // namespace
}  // namespace fathom
