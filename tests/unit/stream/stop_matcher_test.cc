// StopMatcher against a search of the whole text, for every way to cut it.
#include "stream/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace fathom {
namespace {

struct Found {
  std::string text;
  std::string stop;
};

// What the whole text should give: the match that is complete first, the longest of those.
Found expected(const std::string& text, const std::vector<std::string>& stops, bool include) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::string best;
    for (const std::string& stop : stops) {
      const bool here = !stop.empty() && stop.size() <= end &&
                        text.compare(end - stop.size(), stop.size(), stop) == 0;
      if (here && stop.size() > best.size()) best = stop;
    }
    if (!best.empty()) return {text.substr(0, include ? end : end - best.size()), best};
  }
  return {text, ""};
}

TEST(StopMatcher, FindsAStopAcrossPieces) {
  StopMatcher matcher({"\nUser:", "###"});
  EXPECT_EQ(matcher.push("Hi.\nUs").emit, "Hi.");
  EXPECT_EQ(matcher.push("e").emit, "");
  const auto last = matcher.push("r: more");
  EXPECT_TRUE(last.stopped);
  EXPECT_EQ(last.emit, "");
  EXPECT_EQ(matcher.matched_stop(), "\nUser:");
  EXPECT_EQ(matcher.push("after").emit, "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, GivesBackWhatOnlyLookedLikeAStop) {
  StopMatcher matcher({"###"});
  EXPECT_EQ(matcher.push("a##").emit, "a");
  EXPECT_EQ(matcher.push("b#").emit, "##b");
  EXPECT_EQ(matcher.finish(), "#");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopMatcher, WithoutStopsNothingIsHeldBack) {
  StopMatcher matcher({"", ""});
  EXPECT_EQ(matcher.push("abc").emit, "abc");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, IncludeStop) {
  StopMatcher matcher({"</s>"}, true);
  EXPECT_EQ(matcher.push("x</").emit, "x");
  EXPECT_EQ(matcher.push("s>y").emit, "</s>");
}

TEST(StopMatcher, EveryCutGivesTheSame) {
  std::mt19937 random(11);
  const auto letters = [&](size_t count) {
    std::string text(count, 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 3);
    return text;
  };
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::string> stops(1 + random() % 3);
    for (std::string& stop : stops) stop = letters(1 + random() % 5);
    const std::string text = letters(random() % 30);
    const bool include = random() % 2 == 0;
    const Found want = expected(text, stops, include);
    StopMatcher matcher(stops, include);
    std::string got;
    for (size_t at = 0; at < text.size();) {
      const size_t size = 1 + random() % 4;
      got += matcher.push(std::string_view(text).substr(at, size)).emit;
      // What has been emitted is never more than what will stand in the end.
      ASSERT_LE(got.size(), want.text.size());
      at += size;
    }
    got += matcher.finish();
    EXPECT_EQ(got, want.text);
    EXPECT_EQ(matcher.matched_stop(), want.stop);
  }
}

}  // namespace
}  // namespace fathom
