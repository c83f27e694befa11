// What a step contains when prompts share beginnings: hits, forks, scores, and who may overtake
// whom.
#include <gtest/gtest.h>

#include <numeric>
#include <optional>

#include "scheduler/scheduler.h"

namespace fathom {
namespace {

class SchedulerPrefixTest : public ::testing::Test {
 protected:
  void make(const SchedulerOptions& options, int64_t pages) {
    KvLayout layout;
    layout.groups.push_back({"kv", KvGrowth::kPerToken, 1, 0, 4});
    cache_.emplace(std::move(*KvCache::create(layout, 8, pages)));
    scheduler_ = std::move(*Scheduler::create(options, &*cache_));
  }
  static SchedulerOptions options(int32_t budget = 64, bool caching = true) {
    SchedulerOptions options;
    options.max_num_seqs = 4;
    options.max_num_batched_tokens = budget;
    options.max_model_len = 1000;
    options.prefix_caching = caching;
    return options;
  }
  static SequenceSpec spec(int32_t prompt, int32_t max_tokens = 100) {
    SequenceSpec spec;
    spec.prompt.resize(prompt);
    std::iota(spec.prompt.begin(), spec.prompt.end(), 0);
    spec.max_tokens = max_tokens;
    return spec;
  }
  void add(SequenceId id, SequenceSpec spec) {
    const Status status = scheduler_->add(id, std::move(spec));
    ASSERT_TRUE(status.ok()) << status.message();
  }
  using Rows = std::vector<std::pair<SequenceId, int32_t>>;
  // One step; every sequence whose logits were wanted gets one more token.
  Rows run() {
    scheduler_->plan(&step_);
    scheduler_->commit(step_);
    Rows all;
    for (const ScheduledRows& rows : step_.sequences) {
      all.push_back({rows.id, rows.rows});
      if (rows.logit_row >= 0) scheduler_->append(rows.id, 7);
    }
    const Status status = scheduler_->check_integrity();
    EXPECT_TRUE(status.ok()) << status.message();
    return all;
  }
  int64_t cached(SequenceId id) const {
    for (const Admission& admission : step_.admitted) {
      if (admission.id == id) return admission.cached;
    }
    return -1;
  }

  std::optional<KvCache> cache_;
  std::unique_ptr<Scheduler> scheduler_;
  ScheduledStep step_;
};

TEST_F(SchedulerPrefixTest, ComputesOnlyWhatIsNotCached) {
  make(options(), 32);
  add(1, spec(20));
  EXPECT_EQ(run(), (Rows{{1, 20}}));
  EXPECT_EQ(cached(1), 0);
  add(2, spec(30));
  EXPECT_EQ(run(), (Rows{{1, 1}, {2, 14}}));
  EXPECT_EQ(cached(2), 16);
  EXPECT_EQ(step_.plan.positions[1], 16);
  EXPECT_EQ(scheduler_->prefix_query_tokens(), 50u);
  EXPECT_EQ(scheduler_->prefix_hit_tokens(), 16u);
  scheduler_->remove(1);
  scheduler_->remove(2);
  EXPECT_EQ(cache_->owned_pages(), 0);
  SequenceSpec salted = spec(30);
  salted.salt = "mine";
  add(3, std::move(salted));
  EXPECT_EQ(run(), (Rows{{3, 30}}));
}

// The last prompt token is computed also when all of its page is cached: its logits are needed.
TEST_F(SchedulerPrefixTest, AHitLeavesTheLastToken) {
  make(options(), 32);
  add(1, spec(24));
  run();
  add(2, spec(24));
  EXPECT_EQ(run(), (Rows{{1, 1}, {2, 8}}));
  EXPECT_EQ(cached(2), 16);
  EXPECT_GE(step_.sequences[1].logit_row, 0);
}

// A chat: the second turn begins with the first one's prompt and answer.
TEST_F(SchedulerPrefixTest, TheNextTurnFindsTheAnswerToo) {
  make(options(), 32);
  add(1, spec(10));
  for (int i = 0; i < 8; ++i) run();
  SequenceSpec turn;
  turn.prompt = scheduler_->tokens(1);  // 18, of which 17 are computed
  turn.prompt.push_back(9);
  turn.max_tokens = 5;
  scheduler_->remove(1);
  add(2, std::move(turn));
  EXPECT_EQ(run(), (Rows{{2, 3}}));
  EXPECT_EQ(cached(2), 16);
}

TEST_F(SchedulerPrefixTest, WithoutCachingNothingIsFound) {
  make(options(64, false), 32);
  add(1, spec(24));
  run();
  add(2, spec(24));
  EXPECT_EQ(run(), (Rows{{1, 1}, {2, 24}}));
  scheduler_->remove(1);
  scheduler_->remove(2);
  EXPECT_EQ(cache_->cached_pages(), 0);
  EXPECT_EQ(scheduler_->prefix_query_tokens(), 0u);
}

TEST_F(SchedulerPrefixTest, ChoicesWaitForTheirPromptAndShareIt) {
  for (const bool caching : {true, false}) {
    make(options(8, caching), 32);
    for (SequenceId id = 1; id <= 3; ++id) {
      SequenceSpec choice = spec(20, 50);
      choice.group = 1;
      add(id, std::move(choice));
    }
    EXPECT_EQ(run(), (Rows{{1, 8}}));
    EXPECT_EQ(run(), (Rows{{1, 8}}));  // the full pages are computed; 2 and 3 need only the rest
    EXPECT_EQ(run(), (Rows{{1, 4}, {2, 4}}));
    EXPECT_EQ(cached(2), 16);
    EXPECT_EQ(run(), (Rows{{1, 1}, {2, 1}, {3, 4}}));
    EXPECT_EQ(cache_->owned_pages(), 5);
    for (SequenceId id = 1; id <= 3; ++id) scheduler_->remove(id);
    EXPECT_EQ(cache_->cached_pages(), caching ? 2 : 0);
    EXPECT_TRUE(scheduler_->check_integrity().ok());
  }
}

TEST_F(SchedulerPrefixTest, OthersPassChoicesThatWait) {
  make(options(8), 32);
  for (SequenceId id = 1; id <= 2; ++id) {
    SequenceSpec choice = spec(21, 50);
    choice.group = 1;
    add(id, std::move(choice));
  }
  run();
  SequenceSpec other = spec(3);
  other.salt = "other";
  other.priority = -1;
  add(3, std::move(other));
  EXPECT_EQ(run(), (Rows{{1, 8}}));
  scheduler_->remove(1);  // the first choice goes: the next one takes over, with what is computed
  EXPECT_EQ(run(), (Rows{{3, 3}, {2, 5}}));
  EXPECT_EQ(cached(2), 16);
}

// A preempted sequence resumes from the pages that were not taken meanwhile.
TEST_F(SchedulerPrefixTest, ResumesFromTheCache) {
  make(options(), 4);
  add(1, spec(8, 17));
  SequenceSpec second = spec(16, 9);
  second.salt = "second";
  add(2, std::move(second));
  EXPECT_EQ(run(), (Rows{{1, 8}, {2, 16}}));
  while (step_.preempted.empty()) run();
  EXPECT_EQ(step_.preempted, (std::vector<SequenceId>{2}));
  scheduler_->remove(1);
  EXPECT_EQ(run(), (Rows{{2, 9}}));  // its second page was taken, its first is there
  EXPECT_EQ(cached(2), 8);
  EXPECT_EQ(step_.sequences[0].recomputed, 8);
}

TEST_F(SchedulerPrefixTest, ScoresEveryPromptRowButTheLast) {
  SchedulerOptions limited = options(16);
  limited.max_scored_rows = 6;
  make(limited, 32);
  add(1, spec(20));
  run();
  run();
  SequenceSpec scoring = spec(20, 0);
  scoring.score_prompt = true;
  add(2, std::move(scoring));
  EXPECT_EQ(run(), (Rows{{1, 1}, {2, 6}}));  // not from the cache, and no more rows than allowed
  EXPECT_EQ(cached(2), 0);
  EXPECT_EQ(step_.sequences[1].scored, 6);
  EXPECT_EQ(step_.sequences[1].scored_row, 1);
  EXPECT_EQ(step_.sequences[1].logit_row, -1);
  EXPECT_EQ(step_.plan.logit_rows, (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6}));
  run();
  EXPECT_EQ(step_.sequences[1].scored_position, 6);
  EXPECT_EQ(run(), (Rows{{1, 1}, {2, 6}}));
  EXPECT_EQ(run(), (Rows{{1, 1}, {2, 2}}));  // position 18 is the last that scores a token
  EXPECT_EQ(step_.sequences[1].scored, 1);
  EXPECT_EQ(step_.sequences[1].logit_row, 2);
}

TEST_F(SchedulerPrefixTest, PrioritiesStarveNobody) {
  SchedulerOptions one = options(16);
  one.max_num_seqs = 1;
  make(one, 32);
  SequenceSpec humble = spec(4, 2);
  humble.priority = 1000;
  add(1, std::move(humble));
  SequenceId next = 2;
  int served = 0;
  for (; served < 1000; ++served) {
    add(next, spec(4, 2));  // somebody more urgent is always there
    add(next + 1, spec(4, 2));
    next += 2;
    const Rows rows = run();
    if (rows[0].first == 1) break;
    scheduler_->remove(rows[0].first);
  }
  EXPECT_EQ(served, Scheduler::kPatience);
}

}  // namespace
}  // namespace fathom
