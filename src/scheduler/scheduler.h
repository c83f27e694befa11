// Scheduler: which rows of which sequences the next step computes.
//
// First come, first served within a priority; continuous batching with prompt chunks and decode
// rows mixed; preemption by recomputation when pages run out. Knows token ids, counts and pages; no
// model, no device, no clock. Used by one thread (the engine's).
#pragma once

#include <cstdint>
#include <memory>
#include <set>
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
};

// The part of a sequence that a step computes.
struct ScheduledRows {
  SequenceId id = 0;
  int32_t first_row = 0;
  int32_t rows = 0;
  int32_t recomputed = 0;  // of these, computed once before a preemption
  int32_t logit_row = -1;  // index into StepPlan::logit_rows: the next token is chosen from it
};

struct ScheduledStep {
  StepPlan plan;
  std::vector<ScheduledRows> sequences;  // in the order of the plan's sequences
  std::vector<SequenceId> preempted;     // lost their pages while this step was planned

  bool empty() const { return sequences.empty(); }
};

class Scheduler {
 public:
  // `cache` must outlive the scheduler, which alone opens and closes its sequences.
  static Result<std::unique_ptr<Scheduler>> create(const SchedulerOptions& options, KvCache* cache);

  // Accepts a sequence that will have at most prompt + max_tokens tokens, or refuses one that can
  // never fit, with the numbers. Lower priority runs earlier.
  Status check(int64_t prompt_tokens, int64_t max_tokens) const;
  Status add(SequenceId id, std::vector<int32_t> prompt, int32_t max_tokens, int priority);
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
    int32_t scheduled = 0;  // rows in the step being planned
    int64_t pending() const { return static_cast<int64_t>(tokens.size()) - computed; }
  };

  Scheduler(const SchedulerOptions& options, KvCache* cache) : options_(options), cache_(cache) {}
  Sequence& at(const Key& key) { return sequences_.at(key.second); }
  void schedule_decode(ScheduledStep* step);
  void schedule_prefill(ScheduledStep* step);
  void admit(ScheduledStep* step);
  bool make_room(const Key& key, int64_t tokens, ScheduledStep* step);
  void preempt(const Key& key, ScheduledStep* step);
  int64_t promised_pages() const;
  void build(ScheduledStep* step);

  SchedulerOptions options_;
  KvCache* cache_;
  std::unordered_map<SequenceId, Sequence> sequences_;
  std::set<Key> running_;
  std::set<Key> waiting_;
  int32_t budget_ = 0;      // rows left in the step being planned
  std::vector<Key> order_;  // running_ when planning began; preemption changes running_
};

}  // namespace fathom
