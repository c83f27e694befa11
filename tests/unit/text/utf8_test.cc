// UTF-8 repair against the examples of the Unicode standard, and unfinished ends.
#include "text/utf8.h"

#include <gtest/gtest.h>

#include <random>

#include "text/byte_alphabet.h"

namespace fathom {
namespace {

// Tables 3-8 to 3-11 of the Unicode standard, version 15.
TEST(Utf8, MaximalInvalidParts) {
  const auto count = [](const std::string& text) {
    const std::string repaired = repair_utf8(text);
    EXPECT_TRUE(is_valid_utf8(repaired));
    size_t marks = 0;
    for (size_t at = 0; (at = repaired.find(kReplacementCharacter, at)) != repaired.npos; at += 3)
      ++marks;
    return marks;
  };
  EXPECT_EQ(count("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), 8u);
  EXPECT_EQ(count("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), 8u);
  EXPECT_EQ(count("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), 7u);
  EXPECT_EQ(count("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), 4u);
}

TEST(Utf8, EveryCodePointThereAndBack) {
  for (uint32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text;
    append_utf8(text, code);
    const Utf8Step step = decode_utf8(text);
    ASSERT_TRUE(step.valid && step.code == code && step.size == text.size()) << code;
    ASSERT_EQ(unfinished_utf8_tail(text), 0u);
    for (size_t cut = 1; cut < text.size(); ++cut) {
      ASSERT_EQ(unfinished_utf8_tail("x" + text.substr(0, cut)), cut) << code;
    }
  }
}

TEST(Utf8, PiecewiseRepairIsWholeRepair) {
  std::mt19937 random(3);
  const std::string alphabet = "a\x80\xBF\xC2\xC0\xE0\xA0\x9F\xED\xF0\x90\x8F\xF4\xF5\xFF\xE4";
  for (int round = 0; round < 20000; ++round) {
    std::string text(random() % 12, 0), got, pending;
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    for (const char c : text) {
      pending += c;
      const size_t done = pending.size() - unfinished_utf8_tail(pending);
      got += repair_utf8(pending.substr(0, done));
      pending.erase(0, done);
      ASSERT_LE(pending.size(), 3u);
    }
    ASSERT_EQ(got + repair_utf8(pending), repair_utf8(text));
  }
}

TEST(ByteAlphabet, IsABijection) {
  std::string bytes(256, 0);
  for (size_t i = 0; i < 256; ++i) bytes[i] = static_cast<char>(i);
  std::string back;
  ASSERT_TRUE(from_byte_letters(to_byte_letters(bytes), back));
  EXPECT_EQ(back, bytes);
  EXPECT_EQ(to_byte_letters(" \n\x80"), "ĠĊĢ");
  EXPECT_FALSE(from_byte_letters("中", back));
  EXPECT_FALSE(from_byte_letters(" ", back));
}

}  // namespace
}  // namespace fathom
