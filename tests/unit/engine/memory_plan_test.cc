// KV pages from budgets: automatic, given, too small.
#include "engine/memory_plan.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class MemoryPlanTest : public ::testing::Test {
 protected:
  MemoryPlanTest() {
    layout_.groups.push_back({"latent", KvGrowth::kPerToken, 1, 0, 1024});
    options_.max_num_seqs = 4;
    options_.block_size = 16;  // a page has 16 KiB
  }
  KvLayout layout_;
  EngineOptions options_;
};

TEST_F(MemoryPlanTest, AutomaticTakesWhatAllSequencesCanUse) {
  const auto plan = plan_memory(options_, layout_, 1000, 100 * 1024 * kMiB);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->page_count, 4 * 63);  // 1000 tokens take 63 pages
  EXPECT_EQ(plan->kv_memory_bytes, 4u * 63 * 16 * 1024);
  EXPECT_EQ(plan->max_model_len, 1000);
}

TEST_F(MemoryPlanTest, AutomaticLeavesMemoryToOthers) {
  const auto plan = plan_memory(options_, layout_, 1 << 20, 512 * kMiB);
  ASSERT_TRUE(plan);
  EXPECT_LE(plan->kv_memory_bytes, 256 * kMiB / 10 * 9);
  EXPECT_GT(plan->kv_memory_bytes, 200 * kMiB);
  // The context shrinks to what one sequence can have.
  EXPECT_EQ(plan->max_model_len, plan->page_count * 16);
}

TEST_F(MemoryPlanTest, AGivenBudgetIsKept) {
  options_.kv_memory_bytes = 10 * 16 * 1024 + 5;
  const auto plan = plan_memory(options_, layout_, 1000, 1024 * kMiB);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->page_count, 10);
  EXPECT_EQ(plan->kv_memory_bytes, 10u * 16 * 1024);
  EXPECT_EQ(plan->max_model_len, 160);
}

TEST_F(MemoryPlanTest, WhatDoesNotFitIsRefusedWithNumbers) {
  options_.max_model_len = 1000;
  options_.kv_memory_bytes = 10 * 16 * 1024;
  const auto small = plan_memory(options_, layout_, 1000, 1024 * kMiB);
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().code(), Code::kOutOfMemory);
  EXPECT_NE(small.error().message().find("1000 tokens"), std::string::npos);
  options_.max_model_len = 0;
  options_.kv_memory_bytes = 7;
  const auto tiny = plan_memory(options_, layout_, 1000, 1024 * kMiB);
  ASSERT_FALSE(tiny);
  EXPECT_NE(tiny.error().message().find("has 7 bytes, but 16 tokens of context take 16384 bytes"),
            std::string::npos);
  options_.kv_memory_bytes = 0;
  EXPECT_EQ(plan_memory(options_, layout_, 1000, 100 * kMiB).error().code(), Code::kOutOfMemory);
  options_.kv_memory_bytes = 2048 * kMiB;
  EXPECT_EQ(plan_memory(options_, layout_, 1000, 1024 * kMiB).error().code(), Code::kOutOfMemory);
}

TEST_F(MemoryPlanTest, TheContextIsTheModels) {
  options_.max_model_len = 1001;
  const auto plan = plan_memory(options_, layout_, 1000, 1024 * kMiB);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code(), Code::kInvalidArgument);
  options_.max_model_len = -1;
  EXPECT_FALSE(plan_memory(options_, layout_, 1000, 1024 * kMiB));
}

}  // namespace
}  // namespace fathom
