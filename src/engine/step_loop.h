// StepLoop: the engine's thread. Plan, forward, sample, push, until there is nothing left to do.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/file.h"
#include "core/status.h"
#include "engine/engine.h"
#include "engine/live_request.h"
#include "engine/step_model.h"
#include "kvcache/kv_cache.h"
#include "scheduler/scheduler.h"

namespace fathom {

// KV pages with their memory: one buffer per group of the layout.
struct KvPool {
  std::vector<HugeBuffer> buffers;
  std::vector<KvMemory> memory;
  uint64_t bytes = 0;
};

// Owns scheduler, KV cache and live requests; only its thread touches them. The other threads
// leave submissions and cancellations in a mailbox, which is emptied between steps.
class StepLoop {
 public:
  struct Parts {
    StepModel* model = nullptr;  // must outlive the loop
    LiveRequest::Shared shared;
    SchedulerOptions scheduler;
    int32_t block_size = 16;
    int64_t page_count = 0;
    int max_queued_requests = 0;
  };
  static Result<std::unique_ptr<StepLoop>> start(Parts parts);
  ~StepLoop();  // ends live requests with kCancelled

  // Any thread.
  Status check(int64_t prompt_tokens, int64_t max_tokens) const;  // whether it can ever fit
  Status submit(std::vector<Submission> submissions);             // all or none
  void count_refusal();
  void cancel(const std::string& request_id);
  void drain();
  EngineMetrics metrics() const;

 private:
  // A row of logits: the next token is chosen from it, or a prompt token is scored.
  struct RowTask {
    SequenceId id = 0;
    int32_t logit_row = 0;
    int32_t scored_token = -1;  // -1: choose
    Result<SampledToken> token;
    Result<TokenLogprobs> score;
  };
  struct Mailbox {
    std::vector<Submission> submissions;
    std::vector<std::string> cancellations;
    bool closing = false;
    bool empty() const { return submissions.empty() && cancellations.empty() && !closing; }
  };
  explicit StepLoop(Parts parts) : parts_(std::move(parts)) {}

  void run();
  Status refusal(const std::vector<Submission>& submissions) const;  // holding the mutex
  Mailbox wait_for_work();
  void accept(Submission submission);
  void cancel_live(const std::string& request_id);
  void end_overdue(double now);
  void step();
  Status compute();
  void sample_rows();
  void run_task(RowTask* task, SamplerScratch* scratch);
  void deliver(double now);
  bool deliver_task(RowTask* task, double now);
  SequenceSpec spec_of(Submission* submission, SequenceId id);
  void end(SequenceId id, FinishReason reason, const Status& status);
  void retire(SequenceId id, StreamEvent terminal);
  void close_all();
  void publish();

  // Set up before the thread starts.
  Parts parts_;
  KvPool kv_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<Scheduler> scheduler_;

  // The loop's own.
  std::unordered_map<SequenceId, std::unique_ptr<LiveRequest>> live_;
  std::map<std::string, SequenceId> names_;
  std::set<std::pair<double, SequenceId>> deadlines_;  // of live requests that have one
  SequenceId next_id_ = 0;
  SequenceId group_ = 0;  // the sequence of choice 0 of the request that was accepted last
  ScheduledStep step_;
  std::vector<float> logits_;            // [logit rows, vocab_size]
  std::vector<RowTask> tasks_;           // [logit rows that count]
  std::vector<SamplerScratch> scratch_;  // [threads of the pool]
  EngineMetrics counters_;

  // Shared with the other threads.
  mutable std::mutex mutex_;
  std::condition_variable work_;      // the mailbox has something
  std::condition_variable finished_;  // a terminal event was pushed
  Mailbox mailbox_;
  std::set<std::string> accepted_;  // ids of requests that have not ended
  size_t open_streams_ = 0;         // requests whose terminal event was not pushed
  bool draining_ = false;
  EngineMetrics published_;
  uint64_t refused_count_ = 0;
  uint64_t accepted_count_ = 0;

  std::thread thread_;
};

}  // namespace fathom
