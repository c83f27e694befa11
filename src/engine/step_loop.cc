// The step loop and its mailbox.
#include "engine/step_loop.h"

#include <fmt/format.h>

#include <cmath>
#include <exception>
#include <utility>

#include "core/clock.h"
#include "core/log.h"
#include "sampler/logprobs.h"

namespace fathom {

namespace {

Result<KvPool> allocate_pool(const KvLayout& layout, int32_t page_size, int64_t page_count) {
  KvPool pool;
  for (const KvGroup& group : layout.groups) {
    KvMemory memory;
    memory.page_size = page_size;
    memory.page_count = page_count;
    memory.page_stride = group.bytes_per_entry * static_cast<size_t>(page_size);
    FATHOM_ASSIGN(HugeBuffer buffer, HugeBuffer::allocate(memory.page_stride * page_count));
    memory.base = buffer.data();
    pool.bytes += buffer.size();
    pool.buffers.push_back(std::move(buffer));
    pool.memory.push_back(memory);
  }
  return pool;
}

}  // namespace

Result<std::unique_ptr<StepLoop>> StepLoop::start(Parts parts) {
  auto loop = std::unique_ptr<StepLoop>(new StepLoop(std::move(parts)));
  const Parts& p = loop->parts_;
  FATHOM_ASSIGN(KvCache cache, KvCache::create(p.model->kv_layout(), p.block_size, p.page_count));
  loop->cache_ = std::make_unique<KvCache>(std::move(cache));
  FATHOM_ASSIGN(loop->scheduler_, Scheduler::create(p.scheduler, loop->cache_.get()));
  FATHOM_ASSIGN(loop->kv_, allocate_pool(p.model->kv_layout(), p.block_size, p.page_count));
  loop->scratch_.resize(p.model->pool().size());
  loop->counters_.kv_pages_total = p.page_count;
  loop->counters_.kv_memory_bytes = loop->kv_.bytes;
  loop->counters_.weight_bytes = p.model->weight_bytes();
  loop->publish();
  loop->thread_ = std::thread([raw = loop.get()] { raw->run(); });
  return loop;
}

StepLoop::~StepLoop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    mailbox_.closing = true;
  }
  work_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status StepLoop::check(int64_t prompt_tokens, int64_t max_tokens) const {
  return scheduler_->check(prompt_tokens, max_tokens);
}

Status StepLoop::refusal(const std::vector<Submission>& submissions) const {
  if (draining_ || mailbox_.closing) {
    return Status(Code::kUnavailable, "The engine is shutting down; no requests are accepted.");
  }
  for (const Submission& submission : submissions) {
    if (accepted_.count(submission.stream->request_id()) == 0) continue;
    return Status(Code::kInvalidArgument,
                  fmt::format("A request with the id \"{}\" is running already.",
                              submission.stream->request_id()));
  }
  const size_t running = static_cast<size_t>(parts_.scheduler.max_num_seqs);
  const size_t limit = static_cast<size_t>(parts_.max_queued_requests) + running;
  if (accepted_.size() + submissions.size() > limit) {
    const size_t waiting = accepted_.size() > running ? accepted_.size() - running : 0;
    return Status(Code::kUnavailable,
                  fmt::format("{} requests are waiting already (max_queued_requests is {}); "
                              "try again later.",
                              waiting, parts_.max_queued_requests));
  }
  return Status();
}

Status StepLoop::submit(std::vector<Submission> submissions) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    FATHOM_RETURN_IF_ERROR(refusal(submissions));
    for (Submission& submission : submissions) {
      accepted_.insert(submission.stream->request_id());
      mailbox_.submissions.push_back(std::move(submission));
    }
    accepted_count_ += submissions.size();
    open_streams_ += submissions.size();
  }
  work_.notify_all();
  return Status();
}

void StepLoop::count_refusal() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++refused_count_;
}

void StepLoop::cancel(const std::string& request_id) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (accepted_.count(request_id) == 0) return;
    mailbox_.cancellations.push_back(request_id);
  }
  work_.notify_all();
}

void StepLoop::drain() {
  std::unique_lock<std::mutex> lock(mutex_);
  draining_ = true;
  finished_.wait(lock, [this] { return open_streams_ == 0; });
}

EngineMetrics StepLoop::metrics() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  EngineMetrics metrics = published_;
  metrics.requests_accepted = accepted_count_;
  metrics.requests_refused = refused_count_;
  // What lies in the mailbox waits too.
  metrics.waiting = static_cast<int>(accepted_.size()) - metrics.running;
  return metrics;
}

void StepLoop::run() {
  while (true) {
    Mailbox mail = wait_for_work();
    for (Submission& submission : mail.submissions) accept(std::move(submission));
    for (const std::string& id : mail.cancellations) cancel_live(id);
    if (mail.closing) return close_all();
    end_overdue(now_seconds());
    if (!live_.empty()) step();
    publish();
  }
}

StepLoop::Mailbox StepLoop::wait_for_work() {
  std::unique_lock<std::mutex> lock(mutex_);
  work_.wait(lock, [this] { return !live_.empty() || !mailbox_.empty(); });
  return std::exchange(mailbox_, Mailbox{{}, {}, mailbox_.closing});
}

void StepLoop::accept(Submission submission) {
  const SequenceId id = next_id_++;
  auto request = std::make_unique<LiveRequest>(submission, id, parts_.shared);
  names_[request->request_id()] = id;
  if (std::isfinite(submission.deadline)) deadlines_.insert({submission.deadline, id});
  live_[id] = std::move(request);
  const Status status = scheduler_->add(id, spec_of(&submission, id));
  if (!status.ok()) end(id, FinishReason::kError, status);
}

SequenceSpec StepLoop::spec_of(Submission* submission, SequenceId id) {
  SequenceSpec spec;
  spec.prompt = std::move(submission->prompt);
  spec.max_tokens = submission->sampling.max_tokens;
  spec.priority = submission->priority;
  spec.salt = std::move(submission->cache_salt);
  spec.score_prompt = submission->prompt_logprobs >= 0;
  if (submission->choice == 0) group_ = id;
  if (submission->choice >= 0) spec.group = group_;
  return spec;
}

void StepLoop::cancel_live(const std::string& request_id) {
  const auto found = names_.find(request_id);
  if (found != names_.end()) end(found->second, FinishReason::kCancelled, Status());
}

void StepLoop::end_overdue(double now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const SequenceId id = deadlines_.begin()->second;
    const LiveRequest& request = *live_.at(id);
    ++counters_.timeouts;
    end(id, FinishReason::kError,
        Status(Code::kTimeout, fmt::format("The request's time is over: it was given {:.3f} "
                                           "seconds and had {} tokens by then.",
                                           request.deadline() - request.submit_time(),
                                           request.completion_tokens())));
  }
}

void StepLoop::end(SequenceId id, FinishReason reason, const Status& status) {
  retire(id, live_.at(id)->finish(reason, status, now_seconds()));
}

// A reader that has seen the terminal event finds the pages free and the counters up to date.
void StepLoop::retire(SequenceId id, StreamEvent terminal) {
  switch (terminal.finish_reason) {
    case FinishReason::kStop:
      ++counters_.requests_stopped;
      break;
    case FinishReason::kLength:
      ++counters_.requests_length;
      break;
    case FinishReason::kCancelled:
      ++counters_.requests_cancelled;
      break;
    case FinishReason::kError:
      ++counters_.requests_failed;
      break;
  }
  const auto found = live_.find(id);
  const std::unique_ptr<LiveRequest> request = std::move(found->second);
  live_.erase(found);
  names_.erase(request->request_id());
  deadlines_.erase({request->deadline(), id});
  scheduler_->remove(id);
  publish();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    accepted_.erase(request->request_id());
  }
  request->stream().push(std::move(terminal));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    --open_streams_;
  }
  finished_.notify_all();
}

void StepLoop::close_all() {
  while (!live_.empty()) end(live_.begin()->first, FinishReason::kCancelled, Status());
}

void StepLoop::step() {
  const double begin = now_seconds();
  scheduler_->plan(&step_);
  for (const SequenceId id : step_.preempted) {
    live_.at(id)->on_preempted();
    ++counters_.preemptions;
  }
  for (const Admission& a : step_.admitted) live_.at(a.id)->on_admitted(a.cached);
  for (const ScheduledRows& rows : step_.sequences) live_.at(rows.id)->on_scheduled(begin);
  Status status =
      step_.empty() ? Status(Code::kInternal, "The scheduler found nothing to do.") : compute();
  if (!status.ok()) {
    log::error("A step of {} rows failed: {}", step_.plan.rows(), status.message());
    if (step_.empty()) return close_all();
    for (const ScheduledRows& rows : step_.sequences) end(rows.id, FinishReason::kError, status);
    return;
  }
  scheduler_->commit(step_);
  sample_rows();
  const double now = now_seconds();
  ++counters_.steps;
  counters_.step_seconds += now - begin;
  for (const ScheduledRows& rows : step_.sequences) counters_.recomputed_tokens += rows.recomputed;
  deliver(now);
}

// The forward pass. Whatever a model throws ends in a status: the thread must outlive one step.
Status StepLoop::compute() try {
  const size_t needed =
      step_.plan.logit_rows.size() * static_cast<size_t>(parts_.model->config().vocab_size);
  if (logits_.size() < needed) logits_.resize(needed);
  return parts_.model->step(step_.plan, kv_.memory, logits_.data());
} catch (const std::exception& exception) {
  return Status(Code::kOutOfMemory, fmt::format("The forward pass failed: {}.", exception.what()));
}

// Rows are shared out among the threads; what comes of each depends on that row alone.
void StepLoop::sample_rows() {
  tasks_.clear();
  for (const ScheduledRows& rows : step_.sequences) {
    for (int32_t i = 0; i < rows.scored; ++i) {
      RowTask& task = tasks_.emplace_back();
      task.id = rows.id;
      task.logit_row = rows.scored_row + i;
      task.scored_token = scheduler_->tokens(rows.id)[rows.scored_position + i + 1];
    }
    if (rows.logit_row < 0) continue;
    RowTask& task = tasks_.emplace_back();
    task.id = rows.id;
    task.logit_row = rows.logit_row;
  }
  parts_.model->pool().parallel_for(
      static_cast<int64_t>(tasks_.size()),
      [this](int64_t i, int worker) { run_task(&tasks_[i], &scratch_[worker]); });
}

void StepLoop::run_task(RowTask* task, SamplerScratch* scratch) {
  const LiveRequest& request = *live_.at(task->id);
  const size_t width = static_cast<size_t>(parts_.model->config().vocab_size);
  const float* row = &logits_[static_cast<size_t>(task->logit_row) * width];
  try {
    if (task->scored_token >= 0) {
      task->score = score_token(row, parts_.shared.vocabulary, task->scored_token,
                                request.wanted_prompt_logprobs(), &scratch->ids);
    } else if (request.wants_tokens()) {
      const int64_t position = static_cast<int64_t>(scheduler_->tokens(task->id).size());
      task->token = request.sampler().sample(row, position, scratch);
    }
  } catch (const std::exception& exception) {
    task->token = error(Code::kOutOfMemory, fmt::format("Sampling failed: {}.", exception.what()));
    task->score = error(task->token.error());
  }
}

void StepLoop::deliver(double now) {
  for (size_t i = 0; i < tasks_.size();) {
    const SequenceId id = tasks_[i].id;
    bool alive = true;
    for (; i < tasks_.size() && tasks_[i].id == id; ++i) {
      alive = alive && deliver_task(&tasks_[i], now);
    }
  }
}

// False: the request has ended.
bool StepLoop::deliver_task(RowTask* task, double now) {
  const SequenceId id = task->id;
  LiveRequest& request = *live_.at(id);
  if (task->scored_token >= 0) {
    if (!task->score) return end(id, FinishReason::kError, task->score.error()), false;
    request.add_prompt_logprobs(std::move(*task->score));
    return true;
  }
  if (!task->token) return end(id, FinishReason::kError, task->token.error()), false;
  if (request.completion_tokens() == 0) counters_.prompt_tokens += scheduler_->tokens(id).size();
  if (!request.wants_tokens()) return retire(id, request.finish_scoring(now)), false;
  ++counters_.completion_tokens;
  if (std::optional<StreamEvent> terminal = request.take(*task->token, now)) {
    return retire(id, std::move(*terminal)), false;
  }
  scheduler_->append(id, task->token->id);
  return true;
}

void StepLoop::publish() {
  counters_.running = scheduler_->running();
  counters_.kv_pages_used = cache_->owned_pages();
  counters_.kv_pages_cached = cache_->cached_pages();
  counters_.prefix_query_tokens = scheduler_->prefix_query_tokens();
  counters_.prefix_hit_tokens = scheduler_->prefix_hit_tokens();
  counters_.prefix_evictions = cache_->evictions();
  const std::lock_guard<std::mutex> lock(mutex_);
  published_ = counters_;
}

}  // namespace fathom
