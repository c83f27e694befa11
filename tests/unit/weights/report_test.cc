// Names that are near each other, and messages that list every offender.
#include "weights/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rapidcheck.h>

#include "weights/names.h"

namespace fathom {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The textbook recurrence, without a band.
int full_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> table(a.size() + 1, std::vector<int>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        table[i][j] = static_cast<int>(i + j);
      } else {
        table[i][j] = std::min({table[i - 1][j] + 1, table[i][j - 1] + 1,
                                table[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      }
    }
  }
  return table[a.size()][b.size()];
}

TEST(EditDistance, EqualsTheFullTableUpToItsLimit) {
  EXPECT_TRUE(rc::check([] {
    const auto letters = rc::gen::container<std::string>(rc::gen::inRange('a', 'd'));
    const std::string a = *letters;
    const std::string b = *letters;
    const int limit = *rc::gen::inRange(0, 12);
    RC_ASSERT(edit_distance(a, b, limit) == std::min(full_distance(a, b), limit + 1));
  }));
}

TEST(NearestName, FindsTheMisspelledNameOfTheSameLayer) {
  const std::vector<std::string> known = {"model.layers.1.mlp.gate.weight",
                                          "model.layers.3.mlp.gate.weight",
                                          "model.layers.3.mlp.up_proj.weight", "model.norm.weight"};
  EXPECT_EQ(nearest_name("model.layers.3.mlp.gate.weigth", known),
            "model.layers.3.mlp.gate.weight");
  EXPECT_EQ(nearest_name("model.layers.17.mlp.up_proj.weight", known),
            "model.layers.3.mlp.up_proj.weight");
  EXPECT_EQ(nearest_name("optimizer_state", known), std::nullopt);
  EXPECT_EQ(nearest_name("", known), std::nullopt);
  EXPECT_EQ(nearest_name("model.norm.weight", {}), std::nullopt);
  EXPECT_EQ(nearest_name(std::string(100'000, 'a'), known), std::nullopt);
}

TEST(OffenderReport, ListsEverythingWithTheNearestNames) {
  OffenderReport report;
  EXPECT_TRUE(report.to_status("nothing is wrong").ok());
  report.set_stored_names({"model.norm.wight", "lm_head.weight"});
  report.set_model_names({"model.norm.weight", "lm_head.weight"});
  report.missing("model.norm.weight", describe_tensor(DType::kBF16, {64}));
  report.unexpected("model.norm.wight", describe_tensor(DType::kBF16, {64}), "model.safetensors");
  report.add({"wrong shape", "lm_head.weight", "BF16 [2, 3]", "BF16 [3, 2]", "model.safetensors"});
  const Status status = report.to_status("the weights do not fit config.json");
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_EQ(
      status.message(),
      "the weights do not fit config.json (3 problems):\n"
      "  missing tensor model.norm.weight: expected BF16 [64]; the nearest stored name is "
      "model.norm.wight\n"
      "  unexpected tensor model.norm.wight in model.safetensors: BF16 [64]; the nearest known "
      "name is "
      "model.norm.weight\n"
      "  wrong shape lm_head.weight in model.safetensors: expected BF16 [2, 3], found BF16 [3, 2]");
}

TEST(OffenderReport, CountsWhatItDoesNotList) {
  OffenderReport report;
  for (int i = 0; i < 100'000; ++i) report.missing("tensor" + std::to_string(i), "");
  EXPECT_EQ(report.size(), 100'000u);
  EXPECT_LE(report.offenders().size(), OffenderReport::kMaxKept);
  const std::string message = report.to_status("bad").message();
  EXPECT_THAT(message, HasSubstr("(100000 problems)"));
  EXPECT_THAT(message, HasSubstr("tensor999\n"));
  EXPECT_THAT(message, Not(HasSubstr("tensor1000")));
  EXPECT_THAT(message, HasSubstr("and 99000 more"));
}

TEST(OffenderReport, ShowsHostileNamesHarmlessly) {
  OffenderReport report;
  report.add({"duplicate tensor", "\x1b[2J\nred\x7f", "", "", ""});
  report.add({"duplicate tensor", std::string(5'000'000, 'x'), "", "", ""});
  std::string accents;
  for (int i = 0; i < 1000; ++i) accents += "\xc3\xa9";
  report.add({"duplicate tensor", "x" + accents, "", "", ""});
  const std::string message = report.to_status("bad").message();
  EXPECT_THAT(message, HasSubstr("\\x1b[2J\\x0ared\\x7f"));
  EXPECT_THAT(message, HasSubstr("(5000000 bytes)"));
  EXPECT_LT(message.size(), 2000u);
  EXPECT_THAT(message, HasSubstr("\xc3\xa9... (2001 bytes)"));  // cut between characters
}

}  // namespace
}  // namespace fathom
