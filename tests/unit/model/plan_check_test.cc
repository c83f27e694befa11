// Plans that would read or write outside the cache are refused before anything is touched.
#include "model/plan_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace fathom {
namespace {

using ::testing::HasSubstr;

struct Fixture {
  ModelConfig config;
  KvLayout layout;
  StepPlan plan;
  std::vector<float> memory = std::vector<float>(4 * 8 * 4);
  std::vector<KvMemory> kv;

  // Two sequences: positions 6..9 of one with pages 3, 1; position 0 of the other with page 0.
  Fixture() {
    config.vocab_size = 100;
    config.max_position_embeddings = 64;
    layout.groups.emplace_back();
    layout.groups[0].bytes_per_entry = 16;
    plan.tokens = {5, 6, 7, 99, 0};
    plan.positions = {6, 7, 8, 9, 0};
    plan.sequences = {0, 0, 0, 0, 1};
    plan.page_tables = {{{3, 1, 0}, {0, 2, 3}}};
    plan.logit_rows = {3, 4};
    kv = {{reinterpret_cast<std::byte*>(memory.data()), 4, 8, 8 * 16}};
  }
  std::string message() const { return check_plan(config, layout, plan, kv).message(); }
};

TEST(PlanCheck, AcceptsAMix) {
  EXPECT_EQ(Fixture().message(), "");
  Fixture empty;
  empty.plan.clear();
  empty.plan.page_tables[0].begin.clear();
  EXPECT_EQ(empty.message(), "");
}

TEST(PlanCheck, Refuses) {
  struct Case {
    const char* says;
    std::function<void(Fixture&)> spoil;
  };
  const Case cases[] = {
      {"token 100", [](Fixture& f) { f.plan.tokens[3] = 100; }},
      {"token -1", [](Fixture& f) { f.plan.tokens[0] = -1; }},
      {"position -1", [](Fixture& f) { f.plan.positions[4] = -1; }},
      {"context ends at 64", [](Fixture& f) { f.plan.positions[4] = 64; }},
      {"consecutive", [](Fixture& f) { f.plan.positions[1] = 8; }},
      {"consecutive", [](Fixture& f) { std::swap(f.plan.sequences[1], f.plan.sequences[4]); }},
      {"of sequence 2", [](Fixture& f) { f.plan.sequences[4] = 2; }},
      {"of sequence -1", [](Fixture& f) { f.plan.sequences[4] = -1; }},
      {"5 tokens", [](Fixture& f) { f.plan.positions.pop_back(); }},
      {"has 1 pages", [](Fixture& f) { f.plan.page_tables[0].begin[1] = 1; }},
      {"page 4", [](Fixture& f) { f.plan.page_tables[0].pages[0] = 4; }},
      {"page -1", [](Fixture& f) { f.plan.page_tables[0].pages[2] = -1; }},
      {"page 0 would be written", [](Fixture& f) { f.plan.page_tables[0].pages[1] = 0; }},
      {"do not ascend", [](Fixture& f) { f.plan.page_tables[0].begin[1] = 4; }},
      {"ends at 9", [](Fixture& f) { f.plan.page_tables[0].begin[2] = 9; }},
      {"do not ascend", [](Fixture& f) { f.plan.page_tables[0].begin[0] = -1; }},
      {"logit_rows",
       [](Fixture& f) {
         f.plan.logit_rows = {4, 3};
       }},
      {"logit_rows", [](Fixture& f) { f.plan.logit_rows = {5}; }},
      {"logit_rows", [](Fixture& f) { f.plan.logit_rows = {-1}; }},
      {"page_size", [](Fixture& f) { f.kv[0].page_size = 12; }},
      {"page_stride", [](Fixture& f) { f.kv[0].page_stride = 127; }},
      {"page_stride", [](Fixture& f) { f.kv[0].page_stride = 130; }},
      {"null or not aligned", [](Fixture& f) { f.kv[0].base = nullptr; }},
      {"null or not aligned", [](Fixture& f) { f.kv[0].base += 1; }},
      {"2 memories", [](Fixture& f) { f.kv.push_back(f.kv[0]); }},
      {"0 page tables", [](Fixture& f) { f.plan.page_tables.clear(); }},
  };
  for (const Case& c : cases) {
    Fixture fixture;
    c.spoil(fixture);
    EXPECT_THAT(fixture.message(), HasSubstr(c.says));
  }
}

}  // namespace
}  // namespace fathom
