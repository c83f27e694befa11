// Regex: Oniguruma's notation and matches, and cost that stays linear.
#include "text/regex.h"

#include <gtest/gtest.h>

#include "text/normalizer.h"

namespace fathom {
namespace {

using Strings = std::vector<std::string>;

Strings matches(std::string_view pattern, const std::string& text) {
  const auto regex = Regex::compile(pattern);
  EXPECT_TRUE(regex) << regex.error().message();
  if (!regex) return {};
  const CodePoints in(text);
  std::vector<uint8_t> classes(in.count());
  regex->classify(in.codes.data(), in.count(), classes.data());
  Regex::Scratch scratch;
  std::vector<Regex::Match> found;
  const Status status = regex->find_all(classes.data(), 0, in.count(), scratch, found);
  EXPECT_TRUE(status.ok()) << status.message();
  Strings out;
  for (const auto& match : found) {
    out.push_back(
        text.substr(in.offsets[match.begin], in.offsets[match.end] - in.offsets[match.begin]));
  }
  return out;
}

// The right-hand sides were read out of `tokenizers` 0.23.3 (Oniguruma 6.9).
TEST(Regex, MeansWhatOnigurumaMeans) {
  EXPECT_EQ(matches("a{,2}", "aaaa"), (Strings{"aa", "aa"}));
  EXPECT_EQ(matches("a{2}?b", "ab"), (Strings{"b"}));  // "twice or not at all"
  EXPECT_EQ(matches("(?m).", "a\n"), (Strings{"a", "\n"}));
  EXPECT_EQ(matches(".", "a\n"), (Strings{"a"}));
  EXPECT_EQ(matches("a$", "a\nb"), (Strings{"a"}));
  EXPECT_EQ(matches("^b", "a\nb"), (Strings{"b"}));
  EXPECT_EQ(matches(R"(\h+)", "xafg"), (Strings{"af"}));
  EXPECT_EQ(matches(R"(\R)", "\r\n\n"), (Strings{"\r\n", "\n"}));
  EXPECT_EQ(matches("[a-c&&b-d&&c]", "abcd"), (Strings{"c"}));
  EXPECT_EQ(matches("[]a]", "a]"), (Strings{"a", "]"}));
  EXPECT_EQ(matches("(?<=a|bc)d", "ad bcd d"), (Strings{"d", "d"}));
  EXPECT_EQ(matches("(?i:k)", "kK\u212A"), (Strings{"k", "K", "\u212A"}));
  EXPECT_EQ(matches(R"((?i)\p{Lu})", "aA"), (Strings{"A"}));  // case of a property is not ignored
  EXPECT_EQ(matches(R"((?i)[\p{Lu}])", "aA"), (Strings{"a", "A"}));
  EXPECT_EQ(matches("(?i)a(?-i)b|c", "AB Ab C c Ac"), (Strings{"Ab", "Ac"}));
  EXPECT_EQ(matches("a|ab", "ab"), (Strings{"a"}));  // the first alternative, not the longest
  EXPECT_EQ(matches("(?>a+)a|b", "aab"), (Strings{"b"}));
  EXPECT_EQ(matches("(?:ab?)*+", "abaab"), (Strings{"abaab"}));
  EXPECT_EQ(matches("a*", "baa"), (Strings{"", "aa"}));
  EXPECT_EQ(matches(R"([\u4e00-\u9fff]+)", "a中文"), (Strings{"中文"}));
}

TEST(Regex, WordsDifferInsideOfClasses) {
  EXPECT_EQ(matches(R"(\w+)", "x² y"), (Strings{"x²", "y"}));
  EXPECT_EQ(matches(R"([\w]+)", "x² y"), (Strings{"x", "y"}));
  EXPECT_EQ(matches(R"([^\w\s])", "x²!"), (Strings{"²", "!"}));
  EXPECT_EQ(matches(R"(\bfoo\b)", "foo² foo foo1"), (Strings{"foo"}));
  EXPECT_EQ(matches("[[:punct:]]+", "a$+.x"), (Strings{"$+."}));
}

TEST(Regex, UnicodeIsTheLibrarysNotTheSystems) {
  EXPECT_EQ(matches(R"(\p{Lo})", "\U00031350"), (Strings{"\U00031350"}));  // Unicode 15
  EXPECT_EQ(matches(R"(\p{Lu})", "\uA7CB"), (Strings{"\uA7CB"}));          // Unicode 16
  EXPECT_EQ(matches(R"(\s)", "\u180E"), Strings{});                        // white space up to 6.2
}

TEST(Regex, RefusesByName) {
  const std::pair<const char*, const char*> bad[] = {
      {"(a)\\1", "\\1"},
      {"\\X", "\\X"},
      {"a\\Kb", "\\K"},
      {"\\G", "\\G"},
      {"\\p{Foo}", "\"Foo\""},
      {"(?P<n>a)", "not supported"},
      {"(?s).", "not supported"},
      {"[z-a]", "from high to low"},
      {"[a", "never closed"},
      {"(a", "never closed"},
      {"a)", "without an opening"},
      {"*a", "follows nothing"},
      {"a{1001}", "1000"},
      {"[\\w-z]", "starts with a class"},
      {"\\", "backslash"},
      {"(?i)ss", "equals several"},
      {"(?i:ß)", "equals several"},
      {"[[:foo:]]", "[:foo:]"},
      {"\\xFF", "not one"},
      {"a????????????????????????", "stacks"},
      {"(((a{999}){999}){999})", "instructions"},
      {"((((){999}){999}){999}){999}", "instructions"},
  };
  for (const auto& [pattern, message] : bad) {
    const auto regex = Regex::compile(pattern);
    ASSERT_FALSE(regex) << pattern;
    EXPECT_NE(regex.error().message().find(message), std::string::npos)
        << pattern << ": " << regex.error().message();
  }
  EXPECT_FALSE(Regex::compile(std::string(100000, '(')));
  EXPECT_FALSE(Regex::compile(std::string(5000, '(')));
  EXPECT_FALSE(Regex::compile(std::string(5000, '[')));
}

// A loop that fails is remembered: these would take 10^10 steps otherwise.
TEST(Regex, StaysLinear) {
  const size_t n = 100000;
  EXPECT_EQ(matches(R"(\s+$)", std::string(n, ' ') + "1").size(), 0u);
  EXPECT_EQ(matches(R"(\s+(?!\S)|\s+$)", std::string(n, ' ') + "1").size(), 1u);
  EXPECT_EQ(matches(R"(\s*[\r\n]+|\s+(?!\S)|\s+)", std::string(n, ' ') + "x").size(), 2u);
  EXPECT_EQ(matches("a*b", std::string(n, 'a')).size(), 0u);
  EXPECT_EQ(matches("(?:ab)+c|ab", std::string(100, 'a') + "ab").size(), 1u);
}

TEST(Regex, GivesUpOnWhatBacktracksWithoutBound) {
  for (const char* pattern : {"(?:a|a)*b", "(?:a*)*b", "(?:a+)+b", "(?<=a*b)c|(?:a|aa)+$b"}) {
    const auto regex = Regex::compile(pattern);
    ASSERT_TRUE(regex) << regex.error().message();
    const CodePoints in(std::string(2000, 'a'));
    std::vector<uint8_t> classes(in.count());
    regex->classify(in.codes.data(), in.count(), classes.data());
    Regex::Scratch scratch;
    std::vector<Regex::Match> found;
    const Status status = regex->find_all(classes.data(), 0, in.count(), scratch, found);
    EXPECT_FALSE(status.ok()) << pattern;
    EXPECT_NE(status.message().find("too many steps"), std::string::npos);
  }
}

}  // namespace
}  // namespace fathom
