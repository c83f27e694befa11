// Random walks over scheduler and KV cache: submit, cancel, step, and everything that follows from
// too few pages. After every operation nothing is leaked, owned twice or out of order, and every
// sequence computes each of its positions exactly once per life.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <numeric>
#include <vector>

#include "scheduler/scheduler.h"

namespace fathom {
namespace {

struct Shape {
  int32_t max_num_seqs, budget, page_size;
  int64_t pages, max_model_len;
};

// What the walk knows about a sequence, without asking the scheduler.
struct Expected {
  std::vector<int32_t> tokens;
  int32_t max_tokens = 0;
  int32_t prompt = 0;
  int64_t computed = 0;
};

class Walk {
 public:
  explicit Walk(const Shape& shape) : shape_(shape) {
    KvLayout layout;
    layout.groups.push_back({"kv", KvGrowth::kPerToken, 1, 0, 4});
    cache_ = std::make_unique<KvCache>(
        std::move(*KvCache::create(layout, shape.page_size, shape.pages)));
    scheduler_ = std::move(
        *Scheduler::create({shape.max_num_seqs, shape.budget, shape.max_model_len}, cache_.get()));
  }

  void submit(int32_t prompt, int32_t max_tokens, int priority) {
    const SequenceId id = next_id_++;
    std::vector<int32_t> tokens(prompt);
    std::iota(tokens.begin(), tokens.end(), static_cast<int32_t>(id * 7));
    const bool fits = prompt >= 1 && max_tokens >= 1 &&
                      prompt + max_tokens <= shape_.max_model_len &&
                      cache_->pages_for(prompt + max_tokens - 1) <= shape_.pages;
    RC_ASSERT(scheduler_->add(id, tokens, max_tokens, priority).ok() == fits);
    if (fits) live_[id] = {tokens, max_tokens, prompt};
  }

  void cancel(size_t which) {
    if (live_.empty()) return;
    const auto victim = std::next(live_.begin(), which % live_.size());
    scheduler_->remove(victim->first);
    live_.erase(victim);
  }

  void step() {
    scheduler_->plan(&step_);
    check();
    RC_ASSERT(step_.empty() == live_.empty());
    RC_ASSERT(step_.plan.rows() <= shape_.budget);
    for (const SequenceId id : step_.preempted) live_.at(id).computed = 0;
    preemptions_ += step_.preempted.size();
    check_rows();
    scheduler_->commit(step_);
    for (const ScheduledRows& rows : step_.sequences) {
      Expected& expected = live_.at(rows.id);
      expected.computed += rows.rows;
      if (rows.logit_row < 0) continue;
      expected.tokens.push_back(static_cast<int32_t>(expected.tokens.size()));
      if (static_cast<int32_t>(expected.tokens.size()) == expected.prompt + expected.max_tokens) {
        scheduler_->remove(rows.id);
        live_.erase(rows.id);
      } else {
        scheduler_->append(rows.id, expected.tokens.back());
      }
    }
  }

  // Everything that was submitted ends after finitely many steps.
  void run_out() {
    int64_t steps = static_cast<int64_t>(live_.size()) * shape_.max_model_len * 4;
    while (!live_.empty()) {
      RC_ASSERT(steps-- > 0);
      step();
    }
    RC_ASSERT(cache_->free_pages() == cache_->page_count());
  }

  size_t preemptions() const { return preemptions_; }

  void check() const {
    const Status status = scheduler_->check_integrity();
    if (!status.ok()) RC_FAIL(status.message());
    RC_ASSERT(scheduler_->running() + scheduler_->waiting() == static_cast<int>(live_.size()));
  }

 private:
  // The rows of each sequence continue where it stopped, hold its own tokens and have their pages.
  void check_rows() const {
    const StepPlan& plan = step_.plan;
    std::map<int32_t, int> page_users;
    size_t logit_rows = 0;
    for (size_t s = 0; s < step_.sequences.size(); ++s) {
      const ScheduledRows& rows = step_.sequences[s];
      const Expected& expected = live_.at(rows.id);
      RC_ASSERT(rows.rows >= 1);
      for (int32_t i = 0; i < rows.rows; ++i) {
        const int32_t row = rows.first_row + i;
        const int64_t position = expected.computed + i;
        RC_ASSERT(plan.positions[row] == position);
        RC_ASSERT(plan.tokens[row] == expected.tokens[position]);
        RC_ASSERT(plan.sequences[row] == static_cast<int32_t>(s));
      }
      const PageTable& table = plan.page_tables[0];
      const int64_t pages = table.begin[s + 1] - table.begin[s];
      RC_ASSERT(pages * shape_.page_size >= expected.computed + rows.rows);
      for (int32_t i = table.begin[s]; i < table.begin[s + 1]; ++i) ++page_users[table.pages[i]];
      const bool complete =
          expected.computed + rows.rows == static_cast<int64_t>(expected.tokens.size());
      RC_ASSERT((rows.logit_row >= 0) == complete);
      if (complete) {
        RC_ASSERT(plan.logit_rows[rows.logit_row] == rows.first_row + rows.rows - 1);
        ++logit_rows;
      }
    }
    RC_ASSERT(plan.logit_rows.size() == logit_rows);
    for (const auto& [page, users] : page_users) RC_ASSERT(users == 1);
  }

  Shape shape_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<Scheduler> scheduler_;
  ScheduledStep step_;
  std::map<SequenceId, Expected> live_;
  SequenceId next_id_ = 0;
  size_t preemptions_ = 0;
};

Shape any_shape() {
  Shape shape;
  shape.max_num_seqs = *rc::gen::inRange(1, 9);
  shape.budget = shape.max_num_seqs + *rc::gen::inRange(0, 40);
  shape.page_size = *rc::gen::element(8, 16, 32);
  shape.pages = *rc::gen::inRange(1, 24);
  shape.max_model_len = *rc::gen::inRange(2, 200);
  return shape;
}

// 100 walks of 1,000 operations and the steps until all is done.
TEST(SchedulerWalk, NothingLeaksAndEverythingEnds) {
  size_t preemptions = 0;
  const bool passed = rc::check("scheduler and cache", [&preemptions] {
    Walk walk(any_shape());
    const auto operations = *rc::gen::container<std::vector<std::tuple<int, int, int>>>(
        1000,
        rc::gen::tuple(rc::gen::inRange(0, 10), rc::gen::inRange(0, 120), rc::gen::inRange(0, 60)));
    for (const auto& [kind, a, b] : operations) {
      if (kind < 3) {
        walk.submit(a, b, kind == 0 ? b % 3 - 1 : 0);
      } else if (kind == 3) {
        walk.cancel(static_cast<size_t>(a));
      } else {
        walk.step();
      }
      walk.check();
    }
    walk.run_out();
    preemptions += walk.preemptions();
  });
  EXPECT_TRUE(passed);
  EXPECT_GT(preemptions, 100u);  // otherwise the walks do not reach what they are for
}

// Sequences that share full pages: references follow owners through any order of operations.
TEST(KvCacheWalk, ReferencesEqualOwners) {
  const bool passed = rc::check("shared pages", [] {
    KvLayout layout;
    layout.groups.push_back({"kv", KvGrowth::kPerToken, 1, 0, 4});
    KvCache cache = std::move(*KvCache::create(layout, 8, *rc::gen::inRange(1, 40)));
    std::vector<KvCache::Handle> open;
    const auto operations = *rc::gen::container<std::vector<std::tuple<int, int, int>>>(
        200,
        rc::gen::tuple(rc::gen::inRange(0, 4), rc::gen::inRange(0, 100), rc::gen::inRange(0, 120)));
    for (const auto& [kind, which, amount] : operations) {
      const size_t index = open.empty() ? 0 : static_cast<size_t>(which) % open.size();
      if (kind == 0 || open.empty()) {
        open.push_back(cache.open());
      } else if (kind == 1) {
        const auto pages = static_cast<int32_t>(cache.pages(open[index]).size());
        open.push_back(cache.open_shared(open[index], amount % (pages + 1)));
      } else if (kind == 2) {
        cache.close(open[index]);
        open.erase(open.begin() + static_cast<ptrdiff_t>(index));
      } else {
        const bool enough = cache.pages_missing(open[index], amount) <= cache.free_pages();
        RC_ASSERT(cache.reserve(open[index], amount) == enough);
      }
      const Status status = cache.check_integrity();
      if (!status.ok()) RC_FAIL(status.message());
    }
    for (const KvCache::Handle handle : open) cache.close(handle);
    RC_ASSERT(cache.free_pages() == cache.page_count());
    RC_ASSERT(cache.check_integrity().ok());
  });
  EXPECT_TRUE(passed);
}

}  // namespace
}  // namespace fathom
