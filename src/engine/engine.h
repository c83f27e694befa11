// Engine: a model, its tokenizer and its requests; the step loop that turns prompts into streams.
//
// One thread of its own runs plan, forward, sample, push and owns scheduler, KV cache and
// sequences. Every method may be called from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/status.h"
#include "model/model.h"
#include "stream/token_stream.h"
#include "text/tokenizer.h"
#include "types/model_config.h"
#include "types/sampling_params.h"
#include "types/token_mask.h"

namespace fathom {

class ChatTemplate;
struct EngineParts;

struct EngineOptions {
  ModelOptions model;
  int max_num_seqs = 64;             // sequences that run at once; at most max_num_batched_tokens
  int max_num_batched_tokens = 512;  // rows of one step
  int block_size = 16;               // tokens per KV page: 8, 16, 32, 64 or 128
  uint64_t kv_memory_bytes = 0;      // 0 = from free memory and what max_num_seqs can use
  int64_t max_model_len = 0;  // tokens of prompt and answer; 0 = the model's, memory allowing
  int max_queued_requests = 1 << 16;   // more are refused with kUnavailable
  std::string chat_template_file;      // "" = the model's own
  bool prefix_caching = true;          // full pages of equal beginnings are computed once; no bit
                                       // of an answer depends on it
  double request_timeout_seconds = 0;  // from submit to the last token, of every request; 0 = none
  std::optional<uint64_t> default_seed;  // in default_sampling(); absent: requests without a seed
                                         // get one that is drawn
};

// A rendered conversation. All three are JSON texts; "" = absent.
struct ChatPrompt {
  std::string messages;         // array of {"role", "content", ...}
  std::string tools;            // array of function descriptions
  std::string template_kwargs;  // object: add_generation_prompt (default true), thinking, ...
};
struct TextPrompt {
  std::string text;
  bool add_special_tokens = true;  // exactly one BOS, if the tokenizer adds one
  bool parse_special = true;       // false: what looks like a special token is plain text
};
using TokenPrompt = std::vector<int32_t>;
using Prompt = std::variant<TokenPrompt, TextPrompt, ChatPrompt>;

struct Request {
  std::string id;  // unique among live requests; "" = the engine makes one
  Prompt prompt;
  SamplingParams sampling;  // start from Engine::default_sampling() for the model's defaults
  int priority = 0;         // lower runs earlier; equal: first come, first served. Whoever was
                            // overtaken often becomes urgent: nobody starves
  std::string cache_salt;   // pages are shared only between requests with equal salts
  // From submit to the last token; 0 = none. The shorter of this and request_timeout_seconds
  // counts. When it is over, waiting or running, the request ends with kError and a kTimeout
  // status; the tokens and text so far were delivered.
  double timeout_seconds = 0;
  // -1 = none. n: log-probabilities of every prompt token but the first, given those before it, and
  // the n best there; in the first event. sampling.max_tokens may be 0 then: the request ends with
  // kLength once the prompt was computed. Such prompts are always computed, not taken from the
  // prefix cache.
  int32_t prompt_logprobs = -1;
  std::shared_ptr<TokenMask> token_mask;  // structured output, this request's own; nullptr = none.
                                          // Not with ignore_eos
  size_t stream_capacity = 0;  // events that may wait for the reader; 0 = the whole answer.
                               // A reader that falls further behind ends its request with an error
  std::function<void()> on_event;  // called by the engine's thread after each event; must be quick
};

// A snapshot; counters since the engine was opened.
struct EngineMetrics {
  int running = 0;  // sequences with KV pages
  int waiting = 0;  // accepted, not started or preempted
  int64_t kv_pages_total = 0;
  int64_t kv_pages_used = 0;    // by running sequences
  int64_t kv_pages_cached = 0;  // kept for the prefix cache only: taken when others need room
  uint64_t kv_memory_bytes = 0;
  uint64_t weight_bytes = 0;
  uint64_t requests_accepted = 0;
  uint64_t requests_refused = 0;
  uint64_t requests_stopped = 0;  // finished, by reason
  uint64_t requests_length = 0;
  uint64_t requests_cancelled = 0;
  uint64_t requests_failed = 0;
  uint64_t prompt_tokens = 0;      // of requests that have their first token
  uint64_t completion_tokens = 0;  // sampled
  uint64_t recomputed_tokens = 0;  // rows spent on resuming preempted sequences
  uint64_t preemptions = 0;
  uint64_t prefix_query_tokens = 0;  // prompt tokens looked up in the prefix cache
  uint64_t prefix_hit_tokens = 0;    // of these, found
  uint64_t prefix_evictions = 0;     // cached pages that made room
  uint64_t timeouts = 0;             // of requests_failed, those whose time was over
  uint64_t steps = 0;
  double step_seconds = 0;  // time spent in steps
};

// The seed of choice i of a request with n > 1: the request's own for i = 0, else 53 bits of a
// fixed hash of (seed, i).
uint64_t choice_seed(uint64_t seed, int i);

class Engine {
 public:
  // `model`: a folder, a folder inside the Hugging Face cache, or org/name[@revision] found in that
  // cache. Without tokenizer.json the engine takes and gives ids only.
  static Result<std::unique_ptr<Engine>> open(const std::string& model,
                                              const EngineOptions& options);
  // The same from parts that the caller made.
  static Result<std::unique_ptr<Engine>> assemble(EngineParts parts, const EngineOptions& options);
  // Ends live requests with a kCancelled event.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Checks everything at once (ranges, ids, length, whether it can ever fit) and refuses with a
  // message that has the numbers; what is accepted gets exactly one terminal event.
  Result<std::shared_ptr<TokenStream>> submit(Request request);
  // `n` choices of one request (1 to 128), all accepted or none. Choice i has the id "ID-i" and the
  // seed choice_seed(seed, i), so that each can be had again by itself. The prompt is computed
  // once: the others wait for the first one's, then share its full pages and compute the rest of
  // the last one; without prefix caching too. With
  // prompt_logprobs each computes it and has them.
  // `listener` makes the on_event of each choice; absent: Request::on_event serves all.
  using ListenerOfChoice = std::function<std::function<void()>(int choice)>;
  Result<std::vector<std::shared_ptr<TokenStream>>> submit_many(
      Request request, int n, const ListenerOfChoice& listener = {});
  void cancel(const std::string& request_id);  // unknown or finished ids are ignored
  void drain();  // refuses new requests, returns when the last live one has finished
  EngineMetrics metrics() const;

  // Ids that submit() would give to the model for this prompt.
  Result<std::vector<int32_t>> encode_prompt(const Prompt& prompt) const;

  const Tokenizer* tokenizer() const;         // nullptr: the folder has none
  const ChatTemplate* chat_template() const;  // nullptr: the folder has none
  const ModelConfig& config() const;
  int64_t max_model_len() const;            // the one in force
  const EngineOptions& options() const;     // with automatic values filled in
  std::string fingerprint() const;          // "fp_" and 16 hex digits, for system_fingerprint
  SamplingParams default_sampling() const;  // generation_config.json over the built-in defaults
  const std::vector<int32_t>& stop_ids() const;  // end-of-sequence ids, ascending
  std::string name() const;                      // what open() was given

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom
