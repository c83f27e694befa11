/* The C interface of fathom, an inference engine for DeepSeek models.
 *
 * Three faces over one library (libfathom.so):
 *   serving  a model, its tokenizer and its scheduler: submit requests, poll their events
 *   step     one forward pass over a plan and KV memory that belong to the caller
 *   text     tokenizer, chat template and output parser of a model folder, without weights
 *
 * Conventions
 *   - Handles are opaque. What a *_open, *_new or *_poll call gives is given back with the
 *     *_close or *_free call of the same type; these accept NULL. Using a handle afterwards is an
 *     error that cannot be detected.
 *   - Calls that can fail return a fathom_status and take `error`, a buffer for the message, which
 *     may be NULL. The message is a sentence: what was wrong, where, what to do. Outputs are left
 *     as they were on failure, except where stated. Nothing throws, aborts or exits on bad input.
 *   - Structures begin with `size`: set it to sizeof of the structure (a newer library then knows
 *     what an older caller has). Structures that the library fills keep to that size. Members that
 *     are zero or NULL mean the default.
 *   - Text is UTF-8. A pointer with a byte count may hold any bytes; `const char *` without a count
 *     ends with a zero byte.
 *   - Enumerations are plain int32_t values; unknown ones are refused.
 *   - "Any thread" in a comment: the call may be made at the same time as any other call on the
 *     same handle, except giving it back. "One thread at a time": the caller takes care of that.
 */
#ifndef FATHOM_FATHOM_H
#define FATHOM_FATHOM_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define FATHOM_API __attribute__((visibility("default")))
#else
#define FATHOM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status, version, buffers ------------------------------------------------------------- */

typedef int32_t fathom_status;
enum {
  FATHOM_OK = 0,
  FATHOM_INVALID_ARGUMENT = 1, /* the caller gave something wrong */
  FATHOM_NOT_FOUND = 2,        /* a file, model or id does not exist */
  FATHOM_UNSUPPORTED = 3,      /* understood, but this build does not do it */
  FATHOM_CORRUPT = 4,          /* a file is damaged */
  FATHOM_OUT_OF_MEMORY = 5,    /* memory would not suffice; the message has the numbers */
  FATHOM_UNAVAILABLE = 6,      /* try again later: queue full, shutting down */
  FATHOM_CANCELLED = 7,
  FATHOM_INTERNAL = 8, /* a defect of fathom itself */
  FATHOM_TIMEOUT = 9   /* the time is over: of fathom_queue_poll, or of a request */
};

/* "ok", "invalid_argument", ...; "unknown" for other values. Static memory. Any thread. */
FATHOM_API const char* fathom_status_name(int32_t status);
/* "0.1.0". Static memory. Any thread. */
FATHOM_API const char* fathom_version(void);
/* Grows when this header changes in a way that old callers would notice. Any thread. */
#define FATHOM_ABI_VERSION 1
FATHOM_API int32_t fathom_abi_version(void);

/* Bytes that a call gives out: a message, text, JSON, or token ids. Each call that writes into a
 * buffer replaces its contents; reuse one to save allocations. One thread at a time. */
typedef struct fathom_buffer fathom_buffer;
/* NULL if there is no memory. */
FATHOM_API fathom_buffer* fathom_buffer_new(void);
FATHOM_API void fathom_buffer_free(fathom_buffer* buffer);
/* Never NULL for a buffer; followed by a zero byte that is not counted; aligned for int32_t. Valid
 * until the next call that writes into the buffer or frees it. "" for NULL. */
FATHOM_API const char* fathom_buffer_data(const fathom_buffer* buffer);
FATHOM_API size_t fathom_buffer_size(const fathom_buffer* buffer); /* bytes; 0 for NULL */

/* ---- Serving face ------------------------------------------------------------------------- */

/* A loaded model with its scheduler, KV cache and one thread that computes. */
typedef struct fathom_engine fathom_engine;
/* Where the events of requests arrive. One may serve any number of requests, of several engines. */
typedef struct fathom_queue fathom_queue;

/* Loads a model: a folder in Hugging Face form, a folder of the Hugging Face cache, or
 * "org/name[@revision]" found in that cache (nothing is downloaded). Takes as long as reading the
 * weights.
 *
 * `options_json`: NULL, or an object with any of these keys; others are refused by name.
 *   max_num_seqs            sequences that run at once (64)
 *   max_num_batched_tokens  rows of one step (512)
 *   block_size              tokens per KV page: 8, 16, 32, 64, 128 (16)
 *   kv_memory_bytes         memory for the KV cache (0 = from free memory)
 *   max_model_len           tokens of prompt and answer (0 = the model's, memory allowing)
 *   max_queued_requests     requests that may wait (65536)
 *   prefix_caching          full pages of equal beginnings are computed once (true); no bit of an
 *                           answer depends on it
 *   request_timeout_seconds from submit to the last token, of every request (0 = none)
 *   chat_template           file that replaces the model's chat template
 *   threads                 0 = one per available processor
 *   isa                     "auto", "scalar", "avx2", "avx512": all give the same bits
 *   kv_dtype                "float32" (default) or "bfloat16"
 *   load_format             "auto" or "dummy": random weights, only config.json is read
 *   mmap                    read weights through a mapping (false)
 *   config_override         object: keys of config.json to replace */
FATHOM_API fathom_status fathom_engine_open(const char* model, const char* options_json,
                                            fathom_engine** engine, fathom_buffer* error);
/* Ends live requests with a cancelled event and gives the memory back. Their queues stay readable.
 */
FATHOM_API void fathom_engine_close(fathom_engine* engine);

/* A JSON object: name, architecture, vocab_size, max_model_len, kv_pages, block_size,
 * kv_memory_bytes, max_num_seqs, max_num_batched_tokens, prefix_caching, weight_bytes, fingerprint,
 * stop_token_ids, has_tokenizer, has_chat_template, default_sampling. Any thread. */
FATHOM_API fathom_status fathom_engine_info(const fathom_engine* engine, fathom_buffer* json,
                                            fathom_buffer* error);

typedef struct fathom_metrics {
  size_t size;
  int32_t running; /* sequences with KV pages */
  int32_t waiting; /* accepted, not started or preempted */
  int64_t kv_pages_total;
  int64_t kv_pages_used;
  uint64_t kv_memory_bytes;
  uint64_t weight_bytes;
  /* Counters since the engine was opened. */
  uint64_t requests_accepted;
  uint64_t requests_refused;
  uint64_t requests_stopped; /* finished, by reason */
  uint64_t requests_length;
  uint64_t requests_cancelled;
  uint64_t requests_failed;
  uint64_t prompt_tokens;
  uint64_t completion_tokens;
  uint64_t recomputed_tokens; /* rows spent on resuming preempted sequences */
  uint64_t preemptions;
  uint64_t steps;
  double step_seconds;
  int64_t kv_pages_cached;      /* not used, but kept for the prefix cache until room is needed */
  uint64_t prefix_query_tokens; /* prompt tokens looked up in the prefix cache */
  uint64_t prefix_hit_tokens;   /* of these, found */
  uint64_t prefix_evictions;    /* cached pages that made room */
  uint64_t timeouts;            /* of requests_failed, those whose time was over */
} fathom_metrics;
/* Any thread. */
FATHOM_API fathom_status fathom_engine_metrics(const fathom_engine* engine, fathom_metrics* metrics,
                                               fathom_buffer* error);

/* Refuses new requests and returns when the last live one has finished. Any thread. */
FATHOM_API fathom_status fathom_engine_drain(fathom_engine* engine, fathom_buffer* error);

/* NULL if there is no memory. */
FATHOM_API fathom_queue* fathom_queue_new(void);
/* Cancels the requests whose events would have arrived here. */
FATHOM_API void fathom_queue_free(fathom_queue* queue);

/* Exactly one of prompt_ids, prompt_text and messages_json is not NULL. */
typedef struct fathom_request {
  size_t size;
  const char* id; /* unique among the engine's live requests; NULL: the engine makes one */

  const int32_t* prompt_ids; /* [prompt_count] */
  size_t prompt_count;

  const char* prompt_text; /* [prompt_text_bytes] */
  size_t prompt_text_bytes;
  int32_t no_special_tokens; /* 1: no BOS is added (0: exactly one, if the tokenizer adds it) */
  int32_t plain_text;        /* 1: what looks like a special token is ordinary text */

  const char* messages_json;        /* array of {"role", "content", ...} */
  const char* tools_json;           /* array; NULL = none */
  const char* template_kwargs_json; /* object: add_generation_prompt (true unless given), ... */

  /* Object, NULL = none; over the model's own defaults (default_sampling of fathom_engine_info).
   * Keys, others are refused by name: temperature (0 = greedy), top_p, top_k, min_p,
   * repetition_penalty, presence_penalty, frequency_penalty, seed, logit_bias ({"id": bias}),
   * max_tokens (absent: the rest of the context), min_tokens, stop (string or list),
   * stop_token_ids, ignore_eos, include_stop, skip_special_tokens, logprobs (n: of the token and
   * the n best), prompt_logprobs (n: the same for the prompt's tokens, in the first event;
   * max_tokens may be 0 then, and the prompt is computed, not taken from the prefix cache),
   * response_format ({"type": "json_object"} or {"type": "json_schema", "json_schema": {"schema":
   * {...}, "strict": true}}: the answer, behind its reasoning, is JSON, valid for the schema;
   * FATHOM_UNSUPPORTED in builds without xgrammar). */
  const char* sampling_json;

  int32_t priority;       /* lower runs earlier; equal: first come, first served */
  size_t stream_capacity; /* events that may wait unread; 0 = the whole answer. A request whose
                             reader falls further behind ends with an error event. */
  void* user;             /* returned in its events */

  const char* cache_salt; /* pages are shared only between requests with equal salts; NULL = "" */
  double timeout_seconds; /* from submit to the last token; 0 = none. When it is over the request
                             ends with FATHOM_FINISH_ERROR and FATHOM_TIMEOUT. */
} fathom_request;

/* Checks the request at once: what can never run is refused here. What is accepted gets events on
 * `queue`, the last of which is its only one with `finished` set. `number` (may be NULL) receives a
 * number that no other request of this process has. Any thread. */
FATHOM_API fathom_status fathom_engine_submit(fathom_engine* engine, fathom_queue* queue,
                                              const fathom_request* request, uint64_t* number,
                                              fathom_buffer* error);
/* `n` choices (1 to 128) of one request: all are accepted or none, the prompt is computed once
 * (with prompt_logprobs: by each).
 * Choice i is a request of its own, with numbers[i] ([n]; may be NULL), the id "ID-i" and a seed
 * that is a fixed function of the request's seed and i: choice 0 has the request's. Any thread. */
FATHOM_API fathom_status fathom_engine_submit_n(fathom_engine* engine, fathom_queue* queue,
                                                const fathom_request* request, int32_t n,
                                                uint64_t* numbers, fathom_buffer* error);
/* The terminal event, with what was computed so far, follows within a step. Numbers of finished or
 * unknown requests are ignored. Any thread. */
FATHOM_API fathom_status fathom_engine_cancel(fathom_engine* engine, uint64_t number,
                                              fathom_buffer* error);

enum {
  FATHOM_FINISH_NONE = 0,      /* not finished */
  FATHOM_FINISH_STOP = 1,      /* end of sequence, stop token or stop string */
  FATHOM_FINISH_LENGTH = 2,    /* max_tokens or the context length */
  FATHOM_FINISH_CANCELLED = 3, /* cancelled, or the engine was closed */
  FATHOM_FINISH_ERROR = 4      /* see error_status and error_message */
};

/* Read-only; owned by the caller until fathom_event_free. */
typedef struct fathom_event {
  size_t size;
  uint64_t number; /* of the request */
  const char* request_id;
  void* user;

  const int32_t* token_ids; /* [token_count] new tokens */
  size_t token_count;
  const char* text; /* [text_bytes] text that became certain; "" without a tokenizer. Stop strings
                       are left out (include_stop keeps them). Valid UTF-8. */
  size_t text_bytes;

  /* NULL unless logprobs were asked for. Of the model's raw distribution, natural logarithm. */
  const float* logprobs;   /* [token_count] of the chosen tokens */
  const size_t* top_begin; /* [token_count + 1]: token t has the entries top_begin[t] to */
  const int32_t* top_ids;  /* top_begin[t + 1] - 1 of top_ids and top_logprobs, best first */
  const float* top_logprobs;

  int32_t finished;        /* 1: the terminal event; the members below are set */
  int32_t finish_reason;   /* FATHOM_FINISH_* */
  const char* stop_string; /* that was found; "" if none */
  int32_t stop_token_id;   /* that was chosen; -1 if none. It is in token_ids, not in text. */
  fathom_status error_status;
  const char* error_message; /* "" without an error */

  int32_t prompt_tokens;
  int32_t completion_tokens;
  int32_t preemptions;    /* times its KV pages were taken away and computed again */
  double queue_seconds;   /* submit to the first step */
  double prefill_seconds; /* first step to first token */
  double decode_seconds;  /* first token to last */
  uint64_t seed;          /* that was used */

  int32_t cached_prompt_tokens; /* of prompt_tokens, found in the prefix cache */
  int32_t choice;               /* of fathom_engine_submit_n: its index; else 0 */

  /* NULL but in the first event of a request with prompt_logprobs: of each prompt token given those
   * before it. The first has none: entry 0 is 0, and nothing is best there. */
  const float* prompt_logprobs;   /* [prompt_logprob_count], the prompt's tokens */
  const size_t* prompt_top_begin; /* [prompt_logprob_count + 1], as top_begin */
  const int32_t* prompt_top_ids;
  const float* prompt_top_logprobs;
  size_t prompt_logprob_count;
} fathom_event;

/* Waits for the next event: negative timeout_ms = without limit, 0 = not at all. FATHOM_TIMEOUT
 * when the time is over (*event is NULL then). FATHOM_NOT_FOUND when no request that was submitted
 * to this queue can send another event. Any thread; each event goes to one caller. */
FATHOM_API fathom_status fathom_queue_poll(fathom_queue* queue, int64_t timeout_ms,
                                           const fathom_event** event, fathom_buffer* error);
FATHOM_API void fathom_event_free(const fathom_event* event);

/* ---- Text face ---------------------------------------------------------------------------- */

/* Tokenizer and chat template of a model folder; weights and config.json are not needed. Where one
 * of the two is missing, the calls that need it fail with FATHOM_NOT_FOUND. */
typedef struct fathom_text fathom_text;
/* Incremental detokenizer of one sequence. */
typedef struct fathom_decoder fathom_decoder;
/* Splits one answer into reasoning, content and tool calls. */
typedef struct fathom_parser fathom_parser;

/* `model` as in fathom_engine_open. `chat_template`: a file that replaces the model's, or NULL. */
FATHOM_API fathom_status fathom_text_open(const char* model, const char* chat_template,
                                          fathom_text** text, fathom_buffer* error);
FATHOM_API void fathom_text_close(fathom_text* text);

/* A JSON object: has_tokenizer, has_chat_template; with a tokenizer vocab_size, bos_token_id,
 * eos_token_id, pad_token_id (null if none), adds_bos, adds_eos. Any thread. */
FATHOM_API fathom_status fathom_text_info(const fathom_text* text, fathom_buffer* json,
                                          fathom_buffer* error);

enum {
  FATHOM_ENCODE_ADD_SPECIAL = 1, /* what the model expects around a text, usually BOS */
  FATHOM_ENCODE_PLAIN = 2        /* what looks like a special token is ordinary text */
};
/* `ids` receives int32_t values: fathom_buffer_size / 4 of them. `flags`: FATHOM_ENCODE_* or 0. Any
 * thread. */
FATHOM_API fathom_status fathom_text_encode(const fathom_text* text, const char* utf8, size_t bytes,
                                            int32_t flags, fathom_buffer* ids,
                                            fathom_buffer* error);
/* Unknown ids give nothing; bytes that are no character become U+FFFD. Any thread. */
FATHOM_API fathom_status fathom_text_decode(const fathom_text* text, const int32_t* ids,
                                            size_t count, int32_t skip_special_tokens,
                                            fathom_buffer* utf8, fathom_buffer* error);
/* Renders a conversation; tools_json and kwargs_json may be NULL. kwargs_json: an object with
 * add_generation_prompt (true unless given), continue_final_message and variables of the template.
 * Any thread. */
FATHOM_API fathom_status fathom_text_render(const fathom_text* text, const char* messages_json,
                                            const char* tools_json, const char* kwargs_json,
                                            fathom_buffer* utf8, fathom_buffer* error);

/* `text` must stay open as long as the decoder. One thread at a time. */
FATHOM_API fathom_status fathom_decoder_new(const fathom_text* text, int32_t skip_special_tokens,
                                            fathom_decoder** decoder, fathom_buffer* error);
FATHOM_API void fathom_decoder_free(fathom_decoder* decoder);
/* The text that became complete with these ids: never half a character, never one lost. */
FATHOM_API fathom_status fathom_decoder_push(fathom_decoder* decoder, const int32_t* ids,
                                             size_t count, fathom_buffer* utf8,
                                             fathom_buffer* error);
/* What is left (U+FFFD for an unfinished character); the decoder then starts afresh. */
FATHOM_API fathom_status fathom_decoder_finish(fathom_decoder* decoder, fathom_buffer* utf8,
                                               fathom_buffer* error);

/* A parser for the format that the model's chat template implies. `prompt` [prompt_bytes]: the
 * rendered conversation, whose end says whether the answer begins inside the reasoning; may be
 * NULL. Independent of `text` afterwards. One thread at a time. */
FATHOM_API fathom_status fathom_parser_new(const fathom_text* text, const char* prompt,
                                           size_t prompt_bytes, fathom_parser** parser,
                                           fathom_buffer* error);
FATHOM_API void fathom_parser_free(fathom_parser* parser);
/* The answer's next piece, special tokens kept (skip_special_tokens false). `json` receives an
 * array of what is certain now: {"kind", "index", "text"}, where kind is "reasoning", "content",
 * "tool_call_begin" (text: the function's name) or "tool_call_arguments" (text: JSON) and index
 * counts tool calls. */
FATHOM_API fathom_status fathom_parser_feed(fathom_parser* parser, const char* utf8, size_t bytes,
                                            fathom_buffer* json, fathom_buffer* error);
/* The answer is over: what was held back. Nothing may be fed afterwards. */
FATHOM_API fathom_status fathom_parser_finish(fathom_parser* parser, fathom_buffer* json,
                                              fathom_buffer* error);

/* ---- Step face ---------------------------------------------------------------------------- */

/* A loaded model without scheduler, tokenizer or KV memory. */
typedef struct fathom_model fathom_model;

/* `options_json`: of fathom_engine_open's keys threads, isa, kv_dtype, load_format, mmap and
 * config_override. */
FATHOM_API fathom_status fathom_model_open(const char* model, const char* options_json,
                                           fathom_model** handle, fathom_buffer* error);
FATHOM_API void fathom_model_close(fathom_model* model);

/* A JSON object: architecture, vocab_size, hidden_size, num_hidden_layers, max_position_embeddings,
 * weight_bytes, fingerprint, kv_groups (array of {name, growth, stride, window, bytes_per_entry}),
 * kv_bytes_per_token. Any thread. */
FATHOM_API fathom_status fathom_model_info(const fathom_model* model, fathom_buffer* json,
                                           fathom_buffer* error);

/* How the entries of a KV group grow with a sequence. */
enum {
  FATHOM_KV_PER_TOKEN = 0,   /* one entry a token */
  FATHOM_KV_PER_STRIDE = 1,  /* one entry every `stride` tokens */
  FATHOM_KV_WINDOW = 2,      /* one entry a token, only the last `window` are read again */
  FATHOM_KV_PER_SEQUENCE = 3 /* one entry a sequence */
};
typedef struct fathom_kv_group {
  size_t size;
  char name[64];
  int32_t growth; /* FATHOM_KV_* */
  int32_t stride;
  int32_t window;
  uint64_t bytes_per_entry; /* all layers together */
} fathom_kv_group;
/* Group `index`; FATHOM_NOT_FOUND behind the last one. Any thread. */
FATHOM_API fathom_status fathom_model_kv_layout(const fathom_model* model, size_t index,
                                                fathom_kv_group* group, fathom_buffer* error);

/* KV memory of one group, owned by the caller: page i starts at base + i * page_stride. What is
 * inside is the model's; it need not be initialised. */
typedef struct fathom_kv_memory {
  size_t size;
  void* base; /* aligned to 4 bytes; 64 is better */
  int64_t page_count;
  int32_t page_size;    /* tokens per page: 8, 16, 32, 64, 128 */
  uint64_t page_stride; /* bytes; at least page_size * bytes_per_entry, a multiple of 4 */
} fathom_kv_memory;

/* The entry of position p of sequence s is in page pages[begin[s] + p / page_size]. */
typedef struct fathom_page_table {
  size_t size;
  const int32_t* pages; /* [page_count] */
  size_t page_count;
  const int32_t* begin; /* [sequence_count + 1], ascending */
  size_t sequence_count;
} fathom_page_table;

/* One forward pass: any mix of prompt chunks and single rows of several sequences. Rows of a
 * sequence are consecutive, with ascending consecutive positions; positions before its first row
 * must have been written to its pages by earlier steps. */
typedef struct fathom_step_plan {
  size_t size;
  const int32_t* tokens;    /* [row_count] token ids */
  const int32_t* positions; /* [row_count] absolute, from 0 */
  const int32_t* sequences; /* [row_count] index into the page tables */
  size_t row_count;
  const int32_t* logit_rows; /* [logit_row_count] rows whose results are wanted, ascending */
  size_t logit_row_count;
  const fathom_page_table* page_tables; /* [group_count], all of the same `size` */
  const fathom_kv_memory* kv;           /* [group_count], all of the same `size` */
  size_t group_count;                   /* groups of the model's KV layout */
} fathom_step_plan;

/* Both may be NULL: the step then only writes the KV cache. Caller's memory, row-major float32. */
typedef struct fathom_step_output {
  size_t size;
  float* logits; /* [logit_row_count, vocab_size] */
  float* hidden; /* [logit_row_count, hidden_size], after the final norm */
} fathom_step_output;

/* A plan with a wrong id, position or page is refused before anything is written. A row's bits
 * depend on its sequence alone, not on the other rows, the page size or the threads. Any thread;
 * calls on one model wait for each other. */
FATHOM_API fathom_status fathom_model_step(fathom_model* model, const fathom_step_plan* plan,
                                           const fathom_step_output* output, fathom_buffer* error);

#ifdef __cplusplus
}
#endif

#endif /* FATHOM_FATHOM_H */
