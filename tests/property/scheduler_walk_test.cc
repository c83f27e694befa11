// Random walks over scheduler and KV cache: submit, fork, continue, cancel, evict, step, and what
// follows from too few pages. After every operation nothing is leaked, owned twice or out of order.
// Every step writes into its page slots what a model would: a hash of exactly this sequence's
// prefix; and every position that a sequence has computed, or took from the cache, must hold that
// hash.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <deque>
#include <map>
#include <vector>

#include "scheduler/scheduler.h"

namespace fathom {
namespace {

constexpr int32_t kAlphabet = 4;  // tokens of the walk; few, so that equal beginnings are common

struct Shape {
  int32_t max_num_seqs = 1, budget = 1, page_size = 8, scored_budget = 1;
  int64_t pages = 1, max_model_len = 2;
  bool prefix_caching = true;
  bool colliding_hash = false;
};

// One step of a walk, as RapidCheck makes and shrinks it.
struct Operation {
  int kind = 0, a = 0, b = 0, c = 0;
};
std::ostream& operator<<(std::ostream& out, const Operation& o) {
  return out << "{" << o.kind << " " << o.a << " " << o.b << " " << o.c << "}";
}
uint64_t mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ (value + 0x9E3779B97F4A7C15u)) * 0xBF58476D1CE4E5B9u;
  return hash ^ (hash >> 29);
}

uint64_t colliding_hash(uint64_t, const void*, size_t) {
  return 7;
}

// What the walk knows about a sequence, without asking the scheduler.
struct Expected {
  std::vector<int32_t> tokens;
  std::vector<uint64_t> hashes;  // of the prefix that ends with each token
  uint64_t root = 0;             // pages may be shared only where roots are equal
  int32_t max_tokens = 0;
  int64_t prompt = 0;
  bool scores = false;
  int64_t scored = 0;
  int64_t computed = 0;

  void push(int32_t token) {
    hashes.push_back(mixed(hashes.empty() ? root : hashes.back(), static_cast<uint64_t>(token)));
    tokens.push_back(token);
  }
};

class Walk {
 public:
  explicit Walk(const Shape& shape)
      : shape_(shape), memory_(static_cast<size_t>(shape.pages * shape.page_size), 0) {
    KvLayout layout;
    layout.groups.push_back({"kv", KvGrowth::kPerToken, 1, 0, 4});
    cache_ = std::make_unique<KvCache>(std::move(
        *KvCache::create(layout, shape.page_size, shape.pages,
                         shape.colliding_hash ? colliding_hash : PrefixIndex::default_hash)));
    SchedulerOptions options;
    options.max_num_seqs = shape.max_num_seqs;
    options.max_num_batched_tokens = shape.budget;
    options.max_model_len = shape.max_model_len;
    options.prefix_caching = shape.prefix_caching;
    options.max_scored_rows = shape.scored_budget;
    scheduler_ = std::move(*Scheduler::create(options, cache_.get()));
  }

  void perform(const Operation& o) {
    if (o.kind < 3) {
      submit(family_prompt(o), o, 1);
    } else if (o.kind == 3) {
      submit(family_prompt(o), o, 2 + o.c % 3);
    } else if (o.kind == 4) {
      submit(next_turn(o), o, 1);
    } else if (o.kind == 5) {
      cancel(static_cast<size_t>(o.a));
    } else if (o.kind == 6) {
      if (o.c % 8 == 0) cache_->drop_cached();
    } else {
      step();
    }
    check();
  }

  // Everything that was submitted ends after finitely many steps.
  void run_out() {
    int64_t steps = static_cast<int64_t>(live_.size()) * shape_.max_model_len * 4;
    while (!live_.empty()) {
      RC_ASSERT(steps-- > 0);
      step();
      check();
    }
    RC_ASSERT(cache_->owned_pages() == 0);
    RC_ASSERT(shape_.prefix_caching || cache_->cached_pages() == 0);
  }

  size_t preemptions() const { return preemptions_; }
  size_t cached_tokens() const { return cached_tokens_; }
  uint64_t evictions() const { return cache_->evictions(); }

 private:
  // Prompts of a few families that part ways somewhere.
  static std::vector<int32_t> family_prompt(const Operation& o) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < o.a; ++i) {
      const int deviation = i >= o.b * 2 ? 1 + o.c % 2 : 0;
      tokens.push_back((i * i / 3 + o.c % 3 + deviation) % kAlphabet);
    }
    return tokens;
  }

  // A conversation goes on: what a finished sequence has, and more.
  std::vector<int32_t> next_turn(const Operation& o) const {
    if (finished_.empty()) return {};
    std::vector<int32_t> tokens = finished_[static_cast<size_t>(o.a) % finished_.size()];
    for (int i = 0; i < o.c; ++i) tokens.push_back(i % kAlphabet);
    return tokens;
  }

  void submit(const std::vector<int32_t>& tokens, const Operation& o, int choices) {
    const int64_t prompt = static_cast<int64_t>(tokens.size());
    const int32_t max_tokens = o.b;
    const int64_t positions = prompt + std::max(max_tokens, 1) - 1;
    const bool fits = prompt >= 1 && prompt + max_tokens <= shape_.max_model_len &&
                      cache_->pages_for(positions) <= shape_.pages;
    const SequenceId first = next_id_;
    for (int i = 0; i < choices; ++i) {
      const SequenceId id = next_id_++;
      SequenceSpec spec;
      spec.prompt = tokens;
      spec.max_tokens = max_tokens;
      spec.priority = o.c % 5 == 0 ? o.b % 3 - 1 : 0;
      spec.salt = std::string(static_cast<size_t>(o.c % 2), 'x');
      spec.score_prompt = i == 0 && o.c % 7 == 0;
      if (choices > 1) spec.group = first;
      Expected expected;
      expected.root = shape_.prefix_caching ? spec.salt.size() : 100 + first;
      for (const int32_t token : tokens) expected.push(token);
      expected.max_tokens = max_tokens;
      expected.prompt = prompt;
      expected.scores = spec.score_prompt;
      RC_ASSERT(scheduler_->add(id, std::move(spec)).ok() == fits);
      if (fits) live_[id] = std::move(expected);
    }
  }

  void cancel(size_t which) {
    if (live_.empty()) return;
    end(std::next(live_.begin(), static_cast<ptrdiff_t>(which % live_.size()))->first);
  }

  void end(SequenceId id) {
    scheduler_->remove(id);
    finished_.push_back(std::move(live_.at(id).tokens));
    if (finished_.size() > 6) finished_.pop_front();
    live_.erase(id);
  }

  void step() {
    scheduler_->plan(&step_);
    check();
    RC_ASSERT(step_.empty() == live_.empty());
    RC_ASSERT(step_.plan.rows() <= shape_.budget);
    for (const SequenceId id : step_.preempted) live_.at(id).computed = 0;
    preemptions_ += step_.preempted.size();
    check_admissions();
    check_rows();
    compute();
    scheduler_->commit(step_);
    for (const ScheduledRows& rows : step_.sequences) {
      Expected& expected = live_.at(rows.id);
      expected.computed += rows.rows;
      expected.scored += rows.scored;
      if (rows.logit_row < 0) continue;
      RC_ASSERT(!expected.scores || expected.scored == expected.prompt - 1);
      if (expected.max_tokens == 0) {
        end(rows.id);
        continue;
      }
      expected.push(static_cast<int32_t>(expected.hashes.back() % kAlphabet));
      if (static_cast<int64_t>(expected.tokens.size()) == expected.prompt + expected.max_tokens) {
        end(rows.id);
      } else {
        scheduler_->append(rows.id, expected.tokens.back());
      }
    }
  }

  void check() const {
    const Status status = scheduler_->check_integrity();
    if (!status.ok()) RC_FAIL(status.message());
    RC_ASSERT(scheduler_->running() + scheduler_->waiting() == static_cast<int>(live_.size()));
  }

  void check_admissions() {
    for (const Admission& admission : step_.admitted) {
      Expected& expected = live_.at(admission.id);
      RC_ASSERT(expected.computed == 0);
      RC_ASSERT(admission.cached % shape_.page_size == 0);
      RC_ASSERT(admission.cached < static_cast<int64_t>(expected.tokens.size()));
      RC_ASSERT(!expected.scores || expected.scored == expected.prompt - 1 ||
                admission.cached <= expected.scored);
      expected.computed = admission.cached;
      cached_tokens_ += static_cast<size_t>(admission.cached);
    }
  }

  // The rows of each sequence continue where it stopped, hold its own tokens and have their pages;
  // logits are wanted of exactly the rows that are scored or chosen from.
  void check_rows() const {
    const StepPlan& plan = step_.plan;
    std::vector<int32_t> logit_rows;
    int32_t scored = 0;
    for (size_t s = 0; s < step_.sequences.size(); ++s) {
      const ScheduledRows& rows = step_.sequences[s];
      const Expected& expected = live_.at(rows.id);
      RC_ASSERT(rows.rows >= 1);
      const int64_t end = expected.computed + rows.rows;
      for (int32_t i = 0; i < rows.rows; ++i) {
        const int32_t row = rows.first_row + i;
        const int64_t position = expected.computed + i;
        RC_ASSERT(plan.positions[row] == position);
        RC_ASSERT(plan.tokens[row] == expected.tokens[position]);
        RC_ASSERT(plan.sequences[row] == static_cast<int32_t>(s));
        const bool is_scored =
            expected.scores && position >= expected.scored && position < expected.prompt - 1;
        const bool is_last = position == static_cast<int64_t>(expected.tokens.size()) - 1;
        if (is_scored && position == expected.scored) {
          RC_ASSERT(rows.scored_row == static_cast<int32_t>(logit_rows.size()));
          RC_ASSERT(rows.scored_position == position);
        }
        if (is_last) RC_ASSERT(rows.logit_row == static_cast<int32_t>(logit_rows.size()));
        if (is_scored || is_last) logit_rows.push_back(row);
        if (is_scored) ++scored;
      }
      const PageTable& table = plan.page_tables[0];
      const int64_t pages = table.begin[s + 1] - table.begin[s];
      RC_ASSERT(pages * shape_.page_size >= end);
      RC_ASSERT((rows.logit_row >= 0) == (end == static_cast<int64_t>(expected.tokens.size())));
    }
    RC_ASSERT(plan.logit_rows == logit_rows);
    RC_ASSERT(scored <= shape_.scored_budget);
  }

  // Writes what a model would, then reads what it would.
  void compute() {
    for (int pass = 0; pass < 2; ++pass) {
      for (size_t s = 0; s < step_.sequences.size(); ++s) {
        const ScheduledRows& rows = step_.sequences[s];
        const Expected& expected = live_.at(rows.id);
        const PageTable& table = step_.plan.page_tables[0];
        const int64_t first = pass == 0 ? expected.computed : 0;
        for (int64_t p = first; p < expected.computed + rows.rows; ++p) {
          const int64_t page = table.pages[table.begin[s] + p / shape_.page_size];
          uint64_t& slot =
              memory_[static_cast<size_t>(page * shape_.page_size + p % shape_.page_size)];
          if (pass == 0) {
            slot = expected.hashes[p];
          } else {
            RC_ASSERT(slot == expected.hashes[p]);
          }
        }
      }
    }
  }

  Shape shape_;
  std::vector<uint64_t> memory_;  // [pages * page_size] what a model would keep there
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<Scheduler> scheduler_;
  ScheduledStep step_;
  std::map<SequenceId, Expected> live_;
  std::deque<std::vector<int32_t>> finished_;  // tokens of the latest
  SequenceId next_id_ = 0;
  size_t preemptions_ = 0;
  size_t cached_tokens_ = 0;
};

Shape any_shape() {
  Shape shape;
  shape.max_num_seqs = *rc::gen::inRange(1, 9);
  shape.budget = shape.max_num_seqs + *rc::gen::inRange(0, 40);
  shape.page_size = *rc::gen::element(8, 16, 32);
  shape.scored_budget = *rc::gen::inRange(1, 20);
  shape.pages = *rc::gen::inRange(1, 40);
  shape.max_model_len = *rc::gen::inRange(2, 250);
  shape.prefix_caching = *rc::gen::inRange(0, 4) != 0;
  shape.colliding_hash = *rc::gen::inRange(0, 4) == 0;
  return shape;
}

rc::Gen<std::vector<Operation>> operations(int most) {
  const auto operation = rc::gen::map(
      rc::gen::tuple(rc::gen::inRange(0, 14), rc::gen::inRange(0, 120), rc::gen::inRange(0, 60),
                     rc::gen::inRange(0, 30)),
      [](const std::tuple<int, int, int, int>& t) {
        return Operation{std::get<0>(t), std::get<1>(t), std::get<2>(t), std::get<3>(t)};
      });
  return rc::gen::resize(most, rc::gen::container<std::vector<Operation>>(operation));
}

// 100 walks of about 1,500 operations each, and the steps until all is done.
TEST(SchedulerWalk, NothingLeaksAndEveryPrefixIsItsOwn) {
  size_t performed = 0, preemptions = 0, cached = 0, evictions = 0;
  const bool passed = rc::check("scheduler and cache", [&] {
    Walk walk(any_shape());
    const std::vector<Operation> all = *operations(3000);
    for (const Operation& operation : all) walk.perform(operation);
    walk.run_out();
    performed += all.size();
    preemptions += walk.preemptions();
    cached += walk.cached_tokens();
    evictions += walk.evictions();
  });
  EXPECT_TRUE(passed);
  std::printf("%zu operations, %zu preemptions, %zu cached tokens, %zu evictions\n", performed,
              preemptions, cached, evictions);
  // Otherwise the walks do not reach what they are for.
  EXPECT_GE(performed, 100000u);
  EXPECT_GT(preemptions, 200u);
  EXPECT_GT(cached, 10000u);
  EXPECT_GT(evictions, 1000u);
}

// Sequences that share full pages: references follow owners through any order of operations.
TEST(KvCacheWalk, ReferencesEqualOwners) {
  const bool passed = rc::check("shared pages", [] {
    KvLayout layout;
    layout.groups.push_back({"kv", KvGrowth::kPerToken, 1, 0, 4});
    KvCache cache = std::move(*KvCache::create(layout, 8, *rc::gen::inRange(1, 40)));
    struct Open {
      KvCache::Handle handle;
      std::vector<int32_t> tokens;
    };
    std::vector<Open> open;
    for (const Operation& o : *operations(400)) {
      const size_t index = open.empty() ? 0 : static_cast<size_t>(o.a) % open.size();
      if (o.kind < 4 || open.empty()) {
        std::vector<int32_t> tokens(120, o.c % 2);
        for (size_t i = static_cast<size_t>(o.b); i < tokens.size(); ++i) tokens[i] += o.c % 3;
        const bool shares = o.c % 5 != 0;
        open.push_back({shares ? cache.open("") : cache.open(), tokens});
        const int64_t found = cache.find_prefix("", tokens, o.a).pages * int64_t{8};
        RC_ASSERT(found <= o.a);
        RC_ASSERT(cache.adopt_prefix(open.back().handle, tokens, o.a) == (shares ? found : 0));
      } else if (o.kind < 6) {
        cache.close(open[index].handle);
        open.erase(open.begin() + static_cast<ptrdiff_t>(index));
      } else if (o.kind == 6 && o.c == 0) {
        cache.drop_cached();
        RC_ASSERT(cache.cached_pages() == 0);
      } else if (o.kind < 10) {
        const bool enough = cache.pages_missing(open[index].handle, o.a) <= cache.free_pages();
        RC_ASSERT(cache.reserve(open[index].handle, o.a) == enough);
      } else {
        const auto held = static_cast<int64_t>(cache.pages(open[index].handle).size()) * 8;
        cache.publish(open[index].handle, open[index].tokens, std::min<int64_t>(held, o.a));
      }
      const Status status = cache.check_integrity();
      if (!status.ok()) RC_FAIL(status.message());
    }
    for (const Open& sequence : open) cache.close(sequence.handle);
    RC_ASSERT(cache.free_pages() == cache.page_count());
    cache.drop_cached();
    RC_ASSERT(cache.check_integrity().ok());
  });
  EXPECT_TRUE(passed);
}

}  // namespace
}  // namespace fathom
