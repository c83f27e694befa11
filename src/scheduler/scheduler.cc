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
  if (options.max_scored_rows < 1) {
    return error(
        Code::kInvalidArgument,
        fmt::format("max_scored_rows is {}; it must be at least 1.", options.max_scored_rows));
  }
  return std::unique_ptr<Scheduler>(new Scheduler(options, cache));
}

Status Scheduler::check(int64_t prompt_tokens, int64_t max_tokens) const {
  if (prompt_tokens < 1) {
    return Status(Code::kInvalidArgument, "The prompt has no tokens; at least one is needed.");
  }
  if (max_tokens < 0) {
    return Status(Code::kInvalidArgument,
                  fmt::format("max_tokens is {}; it must be at least 0.", max_tokens));
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
  const int64_t pages = cache_->pages_for(prompt_tokens + std::max<int64_t>(max_tokens, 1) - 1);
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

Status Scheduler::add(SequenceId id, SequenceSpec spec) {
  FATHOM_RETURN_IF_ERROR(check(static_cast<int64_t>(spec.prompt.size()), spec.max_tokens));
  if (contains(id)) {
    return Status(Code::kInternal,
                  fmt::format("Sequence {} was added to the scheduler twice.", id));
  }
  Sequence& sequence = sequences_[id];
  sequence.tokens = std::move(spec.prompt);
  sequence.prompt_tokens = static_cast<int64_t>(sequence.tokens.size());
  sequence.priority = spec.priority;
  sequence.group = spec.group;
  sequence.score_prompt = spec.score_prompt;
  if (options_.prefix_caching) {
    sequence.scope = std::move(spec.salt);
  } else if (spec.group) {
    sequence.scope = fmt::format("group {}", *spec.group);
  }
  if (spec.group) ++groups_[*spec.group];
  waiting_.insert({sequence.priority, id});
  waiting_ids_.insert(id);
  return Status();
}

void Scheduler::remove(SequenceId id) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  const Sequence& sequence = found->second;
  const Key key{sequence.priority, id};
  if (sequence.handle >= 0) cache_->close(sequence.handle);
  running_.erase(key);
  waiting_.erase(key);
  waiting_ids_.erase(id);
  if (sequence.group && --groups_.at(*sequence.group) == 0) groups_.erase(*sequence.group);
  sequences_.erase(found);
  // Without prefix caching pages stay findable for the sake of a group only.
  if (!options_.prefix_caching && groups_.empty()) cache_->drop_cached();
}

void Scheduler::plan(ScheduledStep* step) {
  step->plan.clear();
  step->sequences.clear();
  step->preempted.clear();
  step->admitted.clear();
  budget_ = options_.max_num_batched_tokens;
  scored_budget_ = options_.max_scored_rows;
  order_.assign(running_.begin(), running_.end());
  for (const Key& key : order_) {
    at(key).scheduled = 0;
    at(key).scheduled_scored = 0;
  }
  schedule_decode(step);
  schedule_prefill(step);
  admit(step);
  age(*step);
  build(step);
}

// Of the next `rows` rows of a sequence, those whose logits are wanted for the prompt's scores: the
// row of position p scores the token at p + 1.
int32_t Scheduler::scored_rows(const Sequence& sequence, int64_t rows) const {
  if (!sequence.score_prompt) return 0;
  const int64_t first = std::max(sequence.computed, sequence.scored);
  const int64_t end = std::min(sequence.computed + rows, sequence.prompt_tokens - 1);
  return static_cast<int32_t>(std::max<int64_t>(0, end - first));
}

int64_t Scheduler::rows_in_budget(const Sequence& sequence) const {
  const int64_t rows = std::min<int64_t>(sequence.pending(), budget_);
  const int64_t excess = scored_rows(sequence, rows) - scored_budget_;
  if (excess <= 0) return rows;
  // Cuts behind the last scored row that is left, with what comes after the prompt's scored part.
  const int64_t first = std::max(sequence.computed, sequence.scored);
  return std::min(rows, first + scored_budget_ - sequence.computed);
}

void Scheduler::schedule(Sequence* sequence, int64_t rows) {
  sequence->scheduled = static_cast<int32_t>(rows);
  sequence->scheduled_scored = scored_rows(*sequence, rows);
  budget_ -= sequence->scheduled;
  scored_budget_ -= sequence->scheduled_scored;
}

// Every running sequence that has one token to compute gets its row: there are at most max_num_seqs
// of them and the budget is not smaller.
void Scheduler::schedule_decode(ScheduledStep* step) {
  for (const Key& key : order_) {
    Sequence& sequence = at(key);
    if (sequence.handle < 0 || sequence.pending() != 1) continue;
    // Without a page it waits for an earlier sequence to finish.
    if (!make_room(key, sequence.computed + 1, step)) continue;
    schedule(&sequence, 1);
  }
}

void Scheduler::schedule_prefill(ScheduledStep* step) {
  for (const Key& key : order_) {
    Sequence& sequence = at(key);
    if (sequence.handle < 0 || sequence.pending() == 1) continue;
    int64_t rows = rows_in_budget(sequence);
    if (rows > 0 && !make_room(key, sequence.computed + rows, step)) {
      // Nobody later is left to preempt: as many rows as the free pages hold.
      const int64_t held = static_cast<int64_t>(cache_->pages(sequence.handle).size());
      const int64_t room = (held + cache_->free_pages()) * cache_->page_size();
      rows = std::min(rows, room - sequence.computed);
      if (rows > 0 && !cache_->reserve(sequence.handle, sequence.computed + rows)) rows = 0;
    }
    if (rows > 0) schedule(&sequence, rows);
  }
}

// Starts waiting sequences in order, while the pages of their whole text are free beyond what the
// running ones still need for theirs; otherwise a newcomer would be preempted soon after. Nobody
// overtakes the first that finds no room.
void Scheduler::admit(ScheduledStep* step) {
  if (!step->preempted.empty()) return;
  int64_t available = cache_->free_pages() - promised_pages();
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    if (running() >= options_.max_num_seqs || budget_ == 0) return;
    const Key key = *next;
    if (waits_for_group(at(key))) {
      ++next;
      continue;
    }
    if (!try_start(key, &available, step)) return;
    next = waiting_.erase(next);
    waiting_ids_.erase(key.second);
    running_.insert(key);
  }
}

// Positions that may come from the cache: the last one is computed for its logits, and so are those
// that were not scored yet.
int64_t Scheduler::cacheable(const Sequence& sequence) const {
  const int64_t most = static_cast<int64_t>(sequence.tokens.size()) - 1;
  const bool to_score = sequence.score_prompt && sequence.scored < sequence.prompt_tokens - 1;
  return to_score ? std::min(most, sequence.scored) : most;
}

bool Scheduler::try_start(const Key& key, int64_t* available, ScheduledStep* step) {
  Sequence& sequence = at(key);
  const int64_t limit = cacheable(sequence);
  KvCache::Prefix prefix;
  if (sequence.scope) prefix = cache_->find_prefix(*sequence.scope, sequence.tokens, limit);
  // Shared pages that others own cost nothing.
  const int64_t needed = cache_->pages_for(static_cast<int64_t>(sequence.tokens.size())) -
                         (prefix.pages - prefix.unowned);
  if (needed > *available) return false;
  sequence.computed = int64_t{prefix.pages} * cache_->page_size();
  const int64_t rows = rows_in_budget(sequence);
  if (rows == 0) {
    sequence.computed = 0;
    return false;
  }
  *available -= needed;
  sequence.handle = cache_->open(sequence.scope);
  cache_->adopt_prefix(sequence.handle, sequence.tokens, limit);
  cache_->reserve(sequence.handle, sequence.computed + rows);
  schedule(&sequence, rows);
  step->admitted.push_back({key.second, sequence.computed});
  if (sequence.scope && !sequence.admitted_before) {
    prefix_query_tokens_ += static_cast<uint64_t>(sequence.prompt_tokens);
    prefix_hit_tokens_ += static_cast<uint64_t>(sequence.computed);
  }
  sequence.admitted_before = true;
  return true;
}

// Another of its group is computing pages that it can use.
bool Scheduler::waits_for_group(const Sequence& sequence) const {
  if (!sequence.group || groups_.at(*sequence.group) == 1) return false;
  const int64_t page = cache_->page_size();
  const int64_t shared = (sequence.prompt_tokens - 1) / page * page;
  return std::any_of(running_.begin(), running_.end(), [&](const Key& key) {
    const Sequence& other = sequences_.at(key.second);
    return other.group == sequence.group && other.computed < shared;
  });
}

// Priorities let later sequences go first, but not without end: the oldest sequence without a row
// in this step counts those that were admitted before it.
void Scheduler::age(const ScheduledStep& step) {
  if (step.admitted.empty()) return;
  std::optional<SequenceId> oldest;
  if (!waiting_ids_.empty()) oldest = *waiting_ids_.begin();
  for (const Key& key : running_) {
    if (at(key).scheduled == 0 && (!oldest || key.second < *oldest)) oldest = key.second;
  }
  if (!oldest) return;
  Sequence& sequence = sequences_.at(*oldest);
  for (const Admission& admission : step.admitted) {
    if (admission.id > *oldest) ++sequence.overtaken;
  }
  if (sequence.overtaken >= kPatience) promote({sequence.priority, *oldest});
}

void Scheduler::promote(const Key& key) {
  Sequence& sequence = at(key);
  int urgent = sequence.priority;
  for (const std::set<Key>* queue : {&running_, &waiting_}) {
    if (!queue->empty()) urgent = std::min(urgent, queue->begin()->first);
  }
  std::set<Key>& queue = sequence.handle >= 0 ? running_ : waiting_;
  queue.erase(key);
  sequence.priority = urgent;
  sequence.overtaken = 0;
  queue.insert({urgent, key.second});
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
  scored_budget_ += sequence.scheduled_scored;
  sequence.scheduled = 0;
  sequence.scheduled_scored = 0;
  running_.erase(key);
  waiting_.insert(key);
  waiting_ids_.insert(key.second);
  step->preempted.push_back(key.second);
}

void Scheduler::build(ScheduledStep* step) {
  for (const Key& key : running_) {
    if (at(key).scheduled > 0) add_rows(key, step);
  }
}

void Scheduler::add_rows(const Key& key, ScheduledStep* step) {
  StepPlan& plan = step->plan;
  const Sequence& sequence = at(key);
  ScheduledRows rows;
  rows.id = key.second;
  rows.first_row = plan.rows();
  rows.rows = sequence.scheduled;
  rows.recomputed = static_cast<int32_t>(
      std::clamp<int64_t>(sequence.ever_computed - sequence.computed, 0, sequence.scheduled));
  rows.scored = sequence.scheduled_scored;
  rows.scored_position = std::max(sequence.computed, sequence.scored);
  const int32_t index = static_cast<int32_t>(step->sequences.size());
  for (int64_t p = sequence.computed; p < sequence.computed + sequence.scheduled; ++p) {
    if (p >= rows.scored_position && p < rows.scored_position + rows.scored) {
      if (rows.scored_row < 0) rows.scored_row = static_cast<int32_t>(plan.logit_rows.size());
      plan.logit_rows.push_back(plan.rows());
    }
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

void Scheduler::commit(const ScheduledStep& step) {
  for (const ScheduledRows& rows : step.sequences) {
    Sequence& sequence = sequences_.at(rows.id);
    sequence.computed += rows.rows;
    sequence.ever_computed = std::max(sequence.ever_computed, sequence.computed);
    sequence.scored += rows.scored;
    sequence.scheduled = 0;
    sequence.scheduled_scored = 0;
    cache_->publish(sequence.handle, sequence.tokens, sequence.computed);
  }
}

void Scheduler::append(SequenceId id, int32_t token) {
  sequences_.at(id).tokens.push_back(token);
}

const std::vector<int32_t>& Scheduler::tokens(SequenceId id) const {
  return sequences_.at(id).tokens;
}

Status Scheduler::check_integrity() const {
  if (running_.size() + waiting_.size() != sequences_.size() ||
      waiting_.size() != waiting_ids_.size() || running() > options_.max_num_seqs) {
    return Status(Code::kInternal,
                  fmt::format("{} running and {} waiting sequences do not make up {}.",
                              running_.size(), waiting_.size(), sequences_.size()));
  }
  int64_t held = 0;
  for (const auto& [id, sequence] : sequences_) {
    const bool is_running = running_.count({sequence.priority, id}) != 0;
    if (is_running != (sequence.handle >= 0) || is_running != (waiting_ids_.count(id) == 0)) {
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
