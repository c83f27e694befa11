// Generation: runs a request's choices on the engine and feeds what they say to its reply.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "http/api/reply.h"
#include "http/api/service.h"
#include "http/api/structured.h"

namespace fathom::api {

// A checked request, ready to run.
struct Job {
  std::string endpoint;  // the route's path
  Dialect dialect = Dialect::kOpenAi;
  std::string model;
  GenerationParams params;
  std::vector<std::vector<int32_t>> prompts;  // each gets params.n choices
  Structure structure;
  std::unique_ptr<Reply> reply;
  std::vector<std::string> ignored_fields;
  Json body;  // for the request log
};

// Refuses prompts that leave no room for an answer.
ApiResult<void> check_room(const Service& service, const Job& job);

// Lives from start() to the terminal event of its last choice. The engine's thread only posts
// wake-ups; everything else happens on the connection's thread.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  // Submits all choices or answers with the error.
  static void start(std::shared_ptr<const Service> service, std::shared_ptr<Exchange> exchange,
                    Job job);

 private:
  struct Choice {
    std::shared_ptr<TokenStream> stream;
    bool finished = false;
    double submitted = 0;    // now_seconds()
    double last_token = -1;  // -1: none yet
    int64_t charged = 0;     // completion tokens that were charged
    bool prompt_charged = false;
    // For the request log.
    std::vector<int32_t> token_ids;
    std::string text;
    std::vector<TokenLogprobs> logprobs;
    FinishReason finish_reason = FinishReason::kStop;
  };

  Generation(std::shared_ptr<const Service> service, std::shared_ptr<Exchange> exchange, Job job);
  ApiResult<void> submit();
  ApiResult<Request> engine_request(const std::vector<int32_t>& prompt);
  void wake();
  void drain();
  void handle(size_t index, const StreamEvent& event);
  void measure(size_t index, const StreamEvent& event);
  void charge(size_t index, const StreamEvent& event);
  void record(Choice* choice, const StreamEvent& event) const;
  void fail(const ApiError& error);
  void cancel_all();
  void log_answer() const;
  AnswerHead head() const;
  std::vector<std::pair<std::string, std::string>> headers() const;

  std::shared_ptr<const Service> service_;
  std::shared_ptr<Exchange> exchange_;
  Job job_;
  std::vector<Choice> choices_;
  size_t open_ = 0;        // choices whose terminal event was not read
  bool answered_ = false;  // the reply has ended, or there is nobody to read it
  int64_t created_ = 0;
  std::atomic<bool> awake_{false};  // a drain is on its way
};

}  // namespace fathom::api
