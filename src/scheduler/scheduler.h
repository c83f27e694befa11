// Scheduler: which rows of which sequences the next step computes.
//
// First come, first served within a priority; continuous batching with prompt chunks and decode
// rows mixed; beginnings that are cached are not computed again; preemption by recomputation when
// pages run out. Nobody starves: whoever was overtaken kPatience times becomes as urgent as the
// most urgent. Knows token ids, counts and pages; no model, no device, no clock. Used by one thread
// (the engine's).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/status.h"
#include "kvcache/kv_cache.h"
#include "types/step_plan.h"

namespace fathom {

using SequenceId = uint64_t;  // chosen by the caller, ascending with arrival

struct SchedulerOptions {
  int32_t max_num_seqs = 64;             // running sequences, at most max_num_batched_tokens
  int32_t max_num_batched_tokens = 512;  // rows of one step
  int64_t max_model_len = 0;             // tokens of prompt and answer of one sequence
  bool prefix_caching = true;
  int32_t max_scored_rows = 128;  // of a step: prompt rows whose logits are wanted take memory
};

struct SequenceSpec {
  std::vector<int32_t> prompt;
  int32_t max_tokens = 0;
  int priority = 0;  // lower runs earlier
  std::string salt;  // with prefix caching: pages are shared among equal salts
  // Sequences with the same prompt that were added one after the other (n > 1). While one of them
  // computes the prompt the others wait, then share its full pages; without prefix caching too.
  std::optional<SequenceId> group;
  bool score_prompt = false;  // logits of every prompt row are wanted: all of them are computed
};

// The part of a sequence that a step computes.
struct ScheduledRows {
  SequenceId id = 0;
  int32_t first_row = 0;
  int32_t rows = 0;
  int32_t recomputed = 0;  // of these, computed once before a preemption
  int32_t scored_row =
      -1;              // index into StepPlan::logit_rows of the first prompt row that is scored
  int32_t scored = 0;  // so many follow one another there
  int64_t scored_position = 0;  // of the first
  int32_t logit_row = -1;       // index into StepPlan::logit_rows: the next token is chosen from it
};

struct Admission {
  SequenceId id = 0;
  int64_t cached = 0;  // positions that were taken from the prefix cache
};

struct ScheduledStep {
  StepPlan plan;
  std::vector<ScheduledRows> sequences;  // in the order of the plan's sequences
  std::vector<SequenceId> preempted;     // lost their pages while this step was planned
  std::vector<Admission> admitted;       // got pages while this step was planned

  bool empty() const { return sequences.empty(); }
};

class Scheduler {
 public:
  static constexpr int32_t kPatience = 64;

  // `cache` must outlive the scheduler, which alone opens and closes its sequences.
  static Result<std::unique_ptr<Scheduler>> create(const SchedulerOptions& options, KvCache* cache);

  // Accepts a sequence that will have at most prompt + max_tokens tokens, or refuses one that can
  // never fit, with the numbers.
  Status check(int64_t prompt_tokens, int64_t max_tokens) const;
  Status add(SequenceId id, SequenceSpec spec);
  // Finished or cancelled, waiting or running: its pages are free for the next plan().
  void remove(SequenceId id);
  bool contains(SequenceId id) const { return sequences_.count(id) != 0; }

  // Plans the next step into `step`. Decode rows come first, then prompt chunks with the rest of
  // the budget, so a long prompt never delays running streams by more than one step. Empty only
  // when there are no sequences.
  void plan(ScheduledStep* step);
  // The step was computed. Then, for each row of logits: append() the token or remove().
  void commit(const ScheduledStep& step);
  void append(SequenceId id, int32_t token);

  const std::vector<int32_t>& tokens(SequenceId id) const;  // prompt and answer so far
  int32_t running() const { return static_cast<int32_t>(running_.size()); }
  int32_t waiting() const { return static_cast<int32_t>(waiting_.size()); }
  // Prompt tokens that were looked up in the prefix cache when they were first scheduled, and
  // found.
  uint64_t prefix_query_tokens() const { return prefix_query_tokens_; }
  uint64_t prefix_hit_tokens() const { return prefix_hit_tokens_; }

  // Consistency of sequences, queues and page lists, KvCache::check_integrity() included.
  Status check_integrity() const;

 private:
  using Key = std::pair<int, SequenceId>;  // priority, arrival: the order of service
  struct Sequence {
    std::vector<int32_t> tokens;
    int64_t computed = 0;         // positions whose KV entries are in pages
    int64_t ever_computed = 0;    // the same, before preemptions
    KvCache::Handle handle = -1;  // -1 = waiting
    int priority = 0;
    int64_t prompt_tokens = 0;
    std::optional<std::string> scope;  // of shared pages; absent: shares none
    std::optional<SequenceId> group;
    bool score_prompt = false;
    int64_t scored = 0;     // prompt rows whose logits were delivered
    int32_t scheduled = 0;  // rows in the step being planned
    int32_t scheduled_scored = 0;
    int32_t overtaken = 0;  // admissions of later sequences while it was stuck
    bool admitted_before = false;
    int64_t pending() const { return static_cast<int64_t>(tokens.size()) - computed; }
  };

  Scheduler(const SchedulerOptions& options, KvCache* cache) : options_(options), cache_(cache) {}
  Sequence& at(const Key& key) { return sequences_.at(key.second); }
  int32_t scored_rows(const Sequence& sequence, int64_t rows) const;
  int64_t rows_in_budget(const Sequence& sequence) const;
  void schedule(Sequence* sequence, int64_t rows);
  void schedule_decode(ScheduledStep* step);
  void schedule_prefill(ScheduledStep* step);
  void admit(ScheduledStep* step);
  bool try_start(const Key& key, int64_t* available, ScheduledStep* step);
  int64_t cacheable(const Sequence& sequence) const;
  bool waits_for_group(const Sequence& sequence) const;
  void age(const ScheduledStep& step);
  void promote(const Key& key);
  bool make_room(const Key& key, int64_t tokens, ScheduledStep* step);
  void preempt(const Key& key, ScheduledStep* step);
  int64_t promised_pages() const;
  void build(ScheduledStep* step);
  void add_rows(const Key& key, ScheduledStep* step);

  SchedulerOptions options_;
  KvCache* cache_;
  std::unordered_map<SequenceId, Sequence> sequences_;
  std::set<Key> running_;
  std::set<Key> waiting_;
  std::set<SequenceId> waiting_ids_;                // the same, by arrival
  std::unordered_map<SequenceId, int32_t> groups_;  // living members
  uint64_t prefix_query_tokens_ = 0;
  uint64_t prefix_hit_tokens_ = 0;
  int32_t budget_ = 0;         // rows left in the step being planned
  int32_t scored_budget_ = 0;  // scored rows left
  std::vector<Key> order_;     // running_ when planning began; preemption changes running_
};

}  // namespace fathom
