// Admission, batching, chunked prefill and preemption over the page lists of a KvCache.
#include "scheduler/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace fathom {

Result<std::unique_ptr<Scheduler>> Scheduler::create(const SchedulerOptions& options,
                                                     KvCache* cache) {
  if (options.max_num_seqs < 1 || options.max_num_batched_tokens < options.max_num_seqs) {
    return error(Code::kInvalidArgument,
                 fmt::format("max_num_seqs is {} and max_num_batched_tokens {}; a step must have "
                             "room for one row of at least one and of every running sequence.",
                             options.max_num_seqs, options.max_num_batched_tokens));
  }
  if (options.max_model_len < 1) {
    return error(Code::kInvalidArgument,
                 fmt::format("max_model_len is {}; it must be at least 1.", options.max_model_len));
  }
  return std::unique_ptr<Scheduler>(new Scheduler(options, cache));
}

Status Scheduler::check(int64_t prompt_tokens, int64_t max_tokens) const {
  if (prompt_tokens < 1) {
    return Status(Code::kInvalidArgument, "The prompt has no tokens; at least one is needed.");
  }
  if (max_tokens < 1) {
    return Status(Code::kInvalidArgument,
                  fmt::format("max_tokens is {}; it must be at least 1.", max_tokens));
  }
  if (prompt_tokens > options_.max_model_len || max_tokens > options_.max_model_len ||
      prompt_tokens + max_tokens > options_.max_model_len) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("The prompt has {} tokens and max_tokens is {}, but the context holds "
                    "{} tokens in all (max_model_len); shorten the prompt or lower "
                    "max_tokens.",
                    prompt_tokens, max_tokens, options_.max_model_len));
  }
  // The last token is chosen, but its own entries are never written.
  const int64_t pages = cache_->pages_for(prompt_tokens + max_tokens - 1);
  if (pages > cache_->page_count()) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("The prompt has {} tokens and max_tokens is {}, which takes {} KV pages of {} "
                    "tokens, but there are only {}; lower max_tokens or give the KV cache more "
                    "memory.",
                    prompt_tokens, max_tokens, pages, cache_->page_size(), cache_->page_count()));
  }
  return Status();
}

Status Scheduler::add(SequenceId id, std::vector<int32_t> prompt, int32_t max_tokens,
                      int priority) {
  FATHOM_RETURN_IF_ERROR(check(static_cast<int64_t>(prompt.size()), max_tokens));
  Sequence sequence;
  sequence.tokens = std::move(prompt);
  sequence.priority = priority;
  if (!sequences_.emplace(id, std::move(sequence)).second) {
    return Status(Code::kInternal,
                  fmt::format("Sequence {} was added to the scheduler twice.", id));
  }
  waiting_.insert({priority, id});
  return Status();
}

void Scheduler::remove(SequenceId id) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  const Key key{found->second.priority, id};
  if (found->second.handle >= 0) cache_->close(found->second.handle);
  running_.erase(key);
  waiting_.erase(key);
  sequences_.erase(found);
}

void Scheduler::plan(ScheduledStep* step) {
  step->plan.clear();
  step->sequences.clear();
  step->preempted.clear();
  budget_ = options_.max_num_batched_tokens;
  order_.assign(running_.begin(), running_.end());
  for (const Key& key : order_) at(key).scheduled = 0;
  schedule_decode(step);
  schedule_prefill(step);
  admit(step);
  build(step);
}

// Every running sequence that has one token to compute gets its row: there are at most max_num_seqs
// of them and the budget is not smaller.
void Scheduler::schedule_decode(ScheduledStep* step) {
  for (const Key& key : order_) {
    Sequence& sequence = at(key);
    if (sequence.handle < 0 || sequence.pending() != 1) continue;
    // Without a page it waits for an earlier sequence to finish.
    if (!make_room(key, sequence.computed + 1, step)) continue;
    sequence.scheduled = 1;
    --budget_;
  }
}

void Scheduler::schedule_prefill(ScheduledStep* step) {
  for (const Key& key : order_) {
    Sequence& sequence = at(key);
    if (sequence.handle < 0 || sequence.pending() == 1) continue;
    int64_t rows = std::min<int64_t>(sequence.pending(), budget_);
    if (rows > 0 && !make_room(key, sequence.computed + rows, step)) {
      // Nobody later is left to preempt: as many rows as the free pages hold.
      const int64_t held = static_cast<int64_t>(cache_->pages(sequence.handle).size());
      const int64_t room = (held + cache_->free_pages()) * cache_->page_size();
      rows = std::min(rows, room - sequence.computed);
      if (rows > 0 && !cache_->reserve(sequence.handle, sequence.computed + rows)) rows = 0;
    }
    if (rows <= 0) continue;
    sequence.scheduled = static_cast<int32_t>(rows);
    budget_ -= sequence.scheduled;
  }
}

// Starts waiting sequences in order, while the pages of their whole text are free beyond what the
// running ones still need for theirs; otherwise a newcomer would be preempted soon after.
void Scheduler::admit(ScheduledStep* step) {
  if (!step->preempted.empty()) return;
  int64_t available = cache_->free_pages() - promised_pages();
  while (!waiting_.empty() && running() < options_.max_num_seqs && budget_ > 0) {
    const Key key = *waiting_.begin();
    Sequence& sequence = at(key);
    const int64_t needed = cache_->pages_for(static_cast<int64_t>(sequence.tokens.size()));
    if (needed > available) return;
    available -= needed;
    const int64_t rows = std::min<int64_t>(sequence.pending(), budget_);
    sequence.handle = cache_->open();
    cache_->reserve(sequence.handle, rows);
    sequence.scheduled = static_cast<int32_t>(rows);
    budget_ -= sequence.scheduled;
    waiting_.erase(waiting_.begin());
    running_.insert(key);
  }
}

int64_t Scheduler::promised_pages() const {
  int64_t pages = 0;
  for (const Key& key : running_) {
    const Sequence& sequence = sequences_.at(key.second);
    pages += cache_->pages_missing(sequence.handle, static_cast<int64_t>(sequence.tokens.size()));
  }
  return pages;
}

// Reserves pages for the first `tokens` positions, preempting later sequences as far as needed.
bool Scheduler::make_room(const Key& key, int64_t tokens, ScheduledStep* step) {
  const KvCache::Handle handle = at(key).handle;
  while (!cache_->reserve(handle, tokens)) {
    const Key last = *std::prev(running_.end());
    if (last == key) return false;
    preempt(last, step);
  }
  return true;
}

void Scheduler::preempt(const Key& key, ScheduledStep* step) {
  Sequence& sequence = at(key);
  cache_->close(sequence.handle);
  sequence.handle = -1;
  sequence.computed = 0;
  budget_ += sequence.scheduled;
  sequence.scheduled = 0;
  running_.erase(key);
  waiting_.insert(key);
  step->preempted.push_back(key.second);
}

void Scheduler::build(ScheduledStep* step) {
  StepPlan& plan = step->plan;
  for (const Key& key : running_) {
    const Sequence& sequence = at(key);
    if (sequence.scheduled == 0) continue;
    ScheduledRows rows;
    rows.id = key.second;
    rows.first_row = plan.rows();
    rows.rows = sequence.scheduled;
    rows.recomputed = static_cast<int32_t>(
        std::clamp<int64_t>(sequence.ever_computed - sequence.computed, 0, sequence.scheduled));
    const int32_t index = static_cast<int32_t>(step->sequences.size());
    for (int64_t p = sequence.computed; p < sequence.computed + sequence.scheduled; ++p) {
      plan.tokens.push_back(sequence.tokens[p]);
      plan.positions.push_back(static_cast<int32_t>(p));
      plan.sequences.push_back(index);
    }
    if (sequence.scheduled == sequence.pending()) {
      rows.logit_row = static_cast<int32_t>(plan.logit_rows.size());
      plan.logit_rows.push_back(plan.rows() - 1);
    }
    cache_->append_to(sequence.handle, &plan.page_tables);
    step->sequences.push_back(rows);
  }
}

void Scheduler::commit(const ScheduledStep& step) {
  for (const ScheduledRows& rows : step.sequences) {
    Sequence& sequence = sequences_.at(rows.id);
    sequence.computed += rows.rows;
    sequence.ever_computed = std::max(sequence.ever_computed, sequence.computed);
    sequence.scheduled = 0;
  }
}

void Scheduler::append(SequenceId id, int32_t token) {
  sequences_.at(id).tokens.push_back(token);
}

const std::vector<int32_t>& Scheduler::tokens(SequenceId id) const {
  return sequences_.at(id).tokens;
}

Status Scheduler::check_integrity() const {
  if (running_.size() + waiting_.size() != sequences_.size() || running() > options_.max_num_seqs) {
    return Status(Code::kInternal,
                  fmt::format("{} running and {} waiting sequences do not make up {}.",
                              running_.size(), waiting_.size(), sequences_.size()));
  }
  int64_t held = 0;
  for (const auto& [id, sequence] : sequences_) {
    const bool is_running = running_.count({sequence.priority, id}) != 0;
    if (is_running != (sequence.handle >= 0)) {
      return Status(Code::kInternal, fmt::format("Sequence {} is in the wrong queue.", id));
    }
    if (!is_running) {
      if (sequence.computed != 0) {
        return Status(Code::kInternal, fmt::format("Waiting sequence {} has computed rows.", id));
      }
      continue;
    }
    held += static_cast<int64_t>(cache_->pages(sequence.handle).size());
    if (cache_->pages_missing(sequence.handle, sequence.computed) != 0) {
      return Status(Code::kInternal, fmt::format("Sequence {} has rows without pages.", id));
    }
  }
  if (held + cache_->free_pages() < cache_->page_count()) {
    return Status(Code::kInternal, "KV pages belong to no running sequence.");
  }
  return cache_->check_integrity();
}

}  // namespace fathom
