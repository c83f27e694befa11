// What a step contains: order, chunks, budgets, preemption, refusals.
#include "scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <numeric>
#include <optional>

namespace fathom {
namespace {

class SchedulerTest : public ::testing::Test {
 protected:
  void make(int32_t max_num_seqs, int32_t budget, int32_t page_size, int64_t pages,
            int64_t max_model_len = 1000) {
    KvLayout layout;
    layout.groups.push_back({"kv", KvGrowth::kPerToken, 1, 0, 4});
    cache_.emplace(std::move(*KvCache::create(layout, page_size, pages)));
    scheduler_ = std::move(*Scheduler::create({max_num_seqs, budget, max_model_len}, &*cache_));
  }
  static SequenceSpec spec(std::vector<int32_t> tokens, int32_t max_tokens, int priority = 0) {
    SequenceSpec spec;
    spec.prompt = std::move(tokens);
    spec.max_tokens = max_tokens;
    spec.priority = priority;
    return spec;
  }
  void add(SequenceId id, int32_t prompt, int32_t max_tokens, int priority = 0) {
    std::vector<int32_t> tokens(prompt);
    std::iota(tokens.begin(), tokens.end(), static_cast<int32_t>(id) * 1000);
    const Status status = scheduler_->add(id, spec(tokens, max_tokens, priority));
    ASSERT_TRUE(status.ok()) << status.message();
  }
  // One step; every sequence whose logits were wanted gets one more token.
  const ScheduledStep& run() {
    scheduler_->plan(&step_);
    EXPECT_LE(step_.plan.rows(), 1000);
    scheduler_->commit(step_);
    for (const ScheduledRows& rows : step_.sequences) {
      if (rows.logit_row >= 0) scheduler_->append(rows.id, 7);
    }
    const Status status = scheduler_->check_integrity();
    EXPECT_TRUE(status.ok()) << status.message();
    return step_;
  }
  std::vector<std::pair<SequenceId, int32_t>> rows_of(const ScheduledStep& step) {
    std::vector<std::pair<SequenceId, int32_t>> rows;
    for (const ScheduledRows& sequence : step.sequences) {
      rows.push_back({sequence.id, sequence.rows});
    }
    return rows;
  }
  using Rows = std::vector<std::pair<SequenceId, int32_t>>;

  std::optional<KvCache> cache_;
  std::unique_ptr<Scheduler> scheduler_;
  ScheduledStep step_;
};

TEST_F(SchedulerTest, ChunksPromptsAndMixesThemWithDecodeRows) {
  make(4, 8, 8, 64);
  add(1, 5, 10);
  add(2, 10, 10);
  EXPECT_EQ(rows_of(run()), (Rows{{1, 5}, {2, 3}}));
  EXPECT_EQ(step_.plan.logit_rows, (std::vector<int32_t>{4}));
  EXPECT_EQ(step_.plan.positions, (std::vector<int32_t>{0, 1, 2, 3, 4, 0, 1, 2}));
  EXPECT_EQ(step_.plan.tokens[5], 2000);
  EXPECT_EQ(rows_of(run()), (Rows{{1, 1}, {2, 7}}));
  EXPECT_EQ(step_.plan.logit_rows, (std::vector<int32_t>{0, 7}));
  EXPECT_EQ(rows_of(run()), (Rows{{1, 1}, {2, 1}}));
  EXPECT_EQ(step_.plan.tokens, (std::vector<int32_t>{7, 7}));
  EXPECT_EQ(step_.plan.positions, (std::vector<int32_t>{6, 10}));
}

TEST_F(SchedulerTest, ALongPromptDoesNotDelayRunningStreams) {
  make(4, 4, 8, 64);
  add(1, 2, 50);
  run();
  add(2, 100, 10);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(rows_of(run()), (Rows{{1, 1}, {2, 3}}));
  }
}

TEST_F(SchedulerTest, ServesInOrderOfPriorityThenArrival) {
  make(1, 16, 8, 64);
  add(1, 4, 5);
  add(2, 4, 5);
  add(3, 4, 5, -1);
  EXPECT_EQ(rows_of(run()), (Rows{{3, 4}}));
  scheduler_->remove(3);
  EXPECT_EQ(rows_of(run()), (Rows{{1, 4}}));
  scheduler_->remove(1);
  EXPECT_EQ(rows_of(run()), (Rows{{2, 4}}));
  EXPECT_EQ(scheduler_->waiting(), 0);
}

TEST_F(SchedulerTest, NobodyOvertakesTheHeadOfTheQueue) {
  make(8, 64, 8, 4);
  add(1, 16, 2);  // two pages
  add(2, 24, 2);  // three: must wait
  add(3, 4, 2);   // would fit
  EXPECT_EQ(rows_of(run()), (Rows{{1, 16}}));
  scheduler_->remove(1);
  EXPECT_EQ(rows_of(run()), (Rows{{2, 24}, {3, 4}}));
}

TEST_F(SchedulerTest, PreemptsTheLatestAndRecomputesIt) {
  make(4, 64, 8, 3);
  add(1, 8, 10);
  add(2, 8, 8);
  EXPECT_EQ(rows_of(run()), (Rows{{1, 8}, {2, 8}}));
  // Both need a second page; one is left, and 1 came first.
  EXPECT_EQ(rows_of(run()), (Rows{{1, 1}}));
  EXPECT_TRUE(step_.preempted.empty());  // 2 keeps its page and waits
  for (int i = 0; i < 7; ++i) run();
  EXPECT_EQ(rows_of(run()), (Rows{{1, 1}}));  // needs a third page
  EXPECT_EQ(step_.preempted, (std::vector<SequenceId>{2}));
  EXPECT_EQ(scheduler_->waiting(), 1);
  scheduler_->remove(1);
  const ScheduledStep& resumed = run();
  EXPECT_EQ(rows_of(resumed), (Rows{{2, 9}}));
  EXPECT_EQ(resumed.sequences[0].recomputed, 8);
  EXPECT_EQ(resumed.plan.logit_rows, (std::vector<int32_t>{8}));
  EXPECT_EQ(resumed.plan.tokens[8], 7);  // the token that it had been given
}

TEST_F(SchedulerTest, RefusesWhatCanNeverFitWithTheNumbers) {
  make(4, 64, 8, 3, 100);
  EXPECT_TRUE(scheduler_->check(15, 10).ok());  // 24 positions are written
  const Status pages = scheduler_->check(16, 10);
  EXPECT_EQ(pages.code(), Code::kInvalidArgument);
  for (const char* number : {"16", "10", "4 KV pages of 8", "only 3"}) {
    EXPECT_NE(pages.message().find(number), std::string::npos) << pages.message();
  }
  const Status context = scheduler_->check(91, 10);
  for (const char* number : {"91", "10", "100"}) {
    EXPECT_NE(context.message().find(number), std::string::npos) << context.message();
  }
  EXPECT_FALSE(scheduler_->check(0, 10).ok());
  EXPECT_FALSE(scheduler_->check(10, -1).ok());
  EXPECT_TRUE(scheduler_->check(24, 0).ok());  // scoring only
  EXPECT_FALSE(scheduler_->check(25, 0).ok());
  EXPECT_FALSE(scheduler_->check(INT64_MAX, INT64_MAX).ok());
  EXPECT_FALSE(scheduler_->add(1, spec(std::vector<int32_t>(200), 1)).ok());
  add(2, 4, 2);
  EXPECT_FALSE(scheduler_->add(2, spec({1, 2}, 1)).ok());
}

TEST_F(SchedulerTest, RefusesABudgetThatCannotServeAllRunningSequences) {
  make(4, 64, 8, 3);
  EXPECT_FALSE(Scheduler::create({8, 4, 100}, &*cache_));
  EXPECT_FALSE(Scheduler::create({0, 4, 100}, &*cache_));
  EXPECT_FALSE(Scheduler::create({4, 4, 0}, &*cache_));
}

TEST_F(SchedulerTest, RemovalFreesPagesAtAnyMoment) {
  make(2, 4, 8, 10);
  add(1, 30, 2);
  add(2, 30, 2);
  add(3, 30, 2);
  run();
  scheduler_->remove(1);  // in the middle of its prompt
  scheduler_->remove(3);  // in the queue
  scheduler_->remove(99);
  run();
  scheduler_->remove(2);
  EXPECT_EQ(cache_->free_pages(), 10);
  scheduler_->plan(&step_);
  EXPECT_TRUE(step_.empty());
}

// A prompt in mid-chunk that finds no page waits for an earlier sequence and goes on afterwards.
TEST_F(SchedulerTest, APromptWithoutPagesGoesOnWhenOthersFinish) {
  make(4, 8, 8, 4);
  add(1, 8, 17);
  run();
  add(2, 16, 2);
  EXPECT_EQ(rows_of(run()), (Rows{{1, 1}, {2, 7}}));
  for (int i = 0; i < 7; ++i) run();
  scheduler_->remove(1);
  while (!scheduler_->contains(2) || scheduler_->tokens(2).size() < 17) run();
  EXPECT_EQ(scheduler_->tokens(2).size(), 17u);
}

}  // namespace
}  // namespace fathom
