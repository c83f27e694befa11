/* The serving face: engines, requests, events, bad input. */
#include "check.h"

static const char* kOptions =
    "{\"max_num_seqs\": 4, \"max_num_batched_tokens\": 16, \"kv_memory_bytes\": 4000000,"
    " \"max_model_len\": 200, \"threads\": 2}";

struct answer {
  int32_t ids[256];
  size_t count;
  size_t text_bytes;
  int terminals;
  int32_t reason;
  int32_t completion_tokens;
  uint64_t seed;
  float first_logprob;
  float first_top;
};

static fathom_request request_of(const int32_t* ids, size_t count, const char* sampling) {
  fathom_request request;
  memset(&request, 0, sizeof request);
  request.size = sizeof request;
  request.prompt_ids = ids;
  request.prompt_count = count;
  request.sampling_json = sampling;
  return request;
}

/* Reads events until the queue has no more; `answers` are indexed by fathom_request.user. */
static void read_all(fathom_queue* queue, struct answer* answers, fathom_buffer* error) {
  const fathom_event* event = NULL;
  fathom_status status;
  while ((status = fathom_queue_poll(queue, 60000, &event, error)) == FATHOM_OK) {
    struct answer* answer = &answers[(size_t)event->user];
    CHECK(event->size == sizeof *event);
    CHECK(answer->terminals == 0);
    CHECK(strlen(event->request_id) > 0);
    CHECK(event->text[event->text_bytes] == '\0');
    if (answer->count == 0 && event->token_count > 0 && event->logprobs != NULL) {
      answer->first_logprob = event->logprobs[0];
      CHECK(event->top_begin[1] - event->top_begin[0] == 2);
      answer->first_top = event->top_logprobs[0];
      CHECK(event->top_logprobs[0] >= event->top_logprobs[1]);
    }
    for (size_t i = 0; i < event->token_count; ++i) {
      answer->ids[answer->count++] = event->token_ids[i];
    }
    answer->text_bytes += event->text_bytes;
    if (event->finished) {
      ++answer->terminals;
      answer->reason = event->finish_reason;
      answer->completion_tokens = event->completion_tokens;
      answer->seed = event->seed;
      CHECK(event->prompt_tokens > 0);
    }
    fathom_event_free(event);
    event = NULL;
  }
  CHECK(status == FATHOM_NOT_FOUND);
  CHECK(event == NULL);
}

static void test_requests(fathom_engine* engine, fathom_buffer* error) {
  static const int32_t prompt[] = {5, 100, 7, 33, 250};
  fathom_queue* queue = fathom_queue_new();
  static struct answer alone[8], together[8];
  char sampling[8][200];
  memset(alone, 0, sizeof alone);
  memset(together, 0, sizeof together);
  for (size_t i = 0; i < 8; ++i) {
    snprintf(sampling[i], sizeof sampling[i],
             "{\"temperature\": %s, \"seed\": %zu, \"max_tokens\": %zu, \"ignore_eos\": true,"
             " \"logprobs\": 2}",
             i % 2 ? "0.9" : "0", i, 10 + i);
    fathom_request request = request_of(prompt, 1 + i % 5, sampling[i]);
    request.user = (void*)i;
    CHECK_OK(fathom_engine_submit(engine, queue, &request, NULL, error), error);
    read_all(queue, alone, error);
  }
  for (size_t i = 0; i < 8; ++i) {
    fathom_request request = request_of(prompt, 1 + i % 5, sampling[i]);
    request.user = (void*)i;
    CHECK_OK(fathom_engine_submit(engine, queue, &request, NULL, error), error);
  }
  read_all(queue, together, error);
  for (size_t i = 0; i < 8; ++i) {
    CHECK(alone[i].terminals == 1 && together[i].terminals == 1);
    CHECK(alone[i].reason == FATHOM_FINISH_LENGTH);
    CHECK(alone[i].count == 10 + i && alone[i].completion_tokens == (int32_t)(10 + i));
    CHECK(alone[i].seed == i);
    CHECK(memcmp(&alone[i], &together[i], sizeof alone[i]) == 0); /* logprobs bit for bit */
    CHECK(i % 2 || alone[i].first_logprob == alone[i].first_top); /* greedy takes the best */
  }
  fathom_queue_free(queue);
}

/* Choices share a prompt and are otherwise requests of their own; scores equal what was chosen. */
static void test_choices_and_scores(fathom_engine* engine, fathom_buffer* error) {
  static int32_t prompt[64];
  fathom_queue* queue = fathom_queue_new();
  const fathom_event* event = NULL;
  uint64_t numbers[3];
  int32_t cached[3] = {-1, -1, -1};
  int32_t tokens[3][8];
  size_t counts[3] = {0, 0, 0};
  uint64_t seeds[3];
  float logprobs[8];
  fathom_request request = request_of(
      prompt, 40, "{\"max_tokens\": 8, \"ignore_eos\": true, \"seed\": 9, \"logprobs\": 2}");
  for (int32_t i = 0; i < 40; ++i) prompt[i] = 3 + i;
  request.id = "many";
  request.cache_salt = "choices";
  CHECK_OK(fathom_engine_submit_n(engine, queue, &request, 3, numbers, error), error);
  while (fathom_queue_poll(queue, 60000, &event, error) == FATHOM_OK) {
    const int32_t choice = event->choice;
    char id[24];
    snprintf(id, sizeof id, "many-%d", (int)choice);
    CHECK(strcmp(event->request_id, id) == 0);
    CHECK(event->number == numbers[choice]);
    CHECK(event->prompt_logprobs == NULL && event->prompt_logprob_count == 0);
    for (size_t i = 0; i < event->token_count; ++i) {
      if (choice == 2) logprobs[counts[2]] = event->logprobs[i];
      tokens[choice][counts[choice]++] = event->token_ids[i];
    }
    if (event->finished) {
      cached[choice] = event->cached_prompt_tokens;
      seeds[choice] = event->seed;
    }
    fathom_event_free(event);
  }
  CHECK(cached[0] == 0 && cached[1] == 32 && cached[2] == 32);
  CHECK(seeds[0] == 9 && seeds[1] != seeds[2]);
  CHECK(counts[0] == 8 && counts[2] == 8);

  memcpy(&prompt[40], tokens[2], sizeof tokens[2]);
  request = request_of(prompt, 48, "{\"max_tokens\": 0, \"prompt_logprobs\": 2}");
  CHECK_OK(fathom_engine_submit(engine, queue, &request, NULL, error), error);
  CHECK_OK(fathom_queue_poll(queue, 60000, &event, error), error);
  CHECK(event->finished == 1 && event->finish_reason == FATHOM_FINISH_LENGTH);
  CHECK(event->prompt_logprob_count == 48 && event->completion_tokens == 0);
  CHECK(event->prompt_top_begin[1] == 0 && event->prompt_top_begin[48] == 94);
  CHECK(memcmp(&event->prompt_logprobs[40], logprobs, sizeof logprobs) == 0);
  CHECK(event->prompt_top_logprobs[0] >= event->prompt_top_logprobs[1]);
  fathom_event_free(event);
  fathom_queue_free(queue);
}

static void test_timeouts_and_older_callers(fathom_engine* engine, fathom_buffer* error) {
  static const int32_t prompt[] = {1, 2, 3};
  static struct answer answers[1];
  fathom_queue* queue = fathom_queue_new();
  const fathom_event* event = NULL;
  fathom_request request = request_of(prompt, 3, "{\"max_tokens\": 150, \"ignore_eos\": true}");
  request.timeout_seconds = 1e-6;
  CHECK_OK(fathom_engine_submit(engine, queue, &request, NULL, error), error);
  while (fathom_queue_poll(queue, 60000, &event, error) == FATHOM_OK) {
    if (event->finished) {
      CHECK(event->finish_reason == FATHOM_FINISH_ERROR && event->error_status == FATHOM_TIMEOUT);
    }
    fathom_event_free(event);
  }
  request.timeout_seconds = -1;
  CHECK_FAILS(fathom_engine_submit(engine, queue, &request, NULL, error), FATHOM_INVALID_ARGUMENT,
              error, "timeout_seconds");
  CHECK_FAILS(fathom_engine_submit_n(engine, queue, &request, 0, NULL, error),
              FATHOM_INVALID_ARGUMENT, error, "n is 0");

  /* A caller from before these members existed. */
  request = request_of(prompt, 3, "{\"max_tokens\": 4, \"ignore_eos\": true}");
  request.size = offsetof(fathom_request, cache_salt);
  request.cache_salt = (const char*)1;
  request.timeout_seconds = -7;
  memset(answers, 0, sizeof answers);
  CHECK_OK(fathom_engine_submit(engine, queue, &request, NULL, error), error);
  read_all(queue, answers, error);
  CHECK(answers[0].count == 4);
  fathom_queue_free(queue);
}

/* The only answer that the schema leaves, from a model of random weights. */
static void test_response_format(fathom_engine* engine, fathom_buffer* error) {
  static const int32_t prompt[] = {1, 2, 3};
  static struct answer answers[1];
  fathom_queue* queue = fathom_queue_new();
  fathom_request request = request_of(prompt, 3,
                                      "{\"max_tokens\": 40, \"response_format\": {\"type\": "
                                      "\"json_schema\", \"json_schema\": {\"schema\": {\"enum\": "
                                      "[\"ab\"]}, \"strict\": true}}}");
  memset(answers, 0, sizeof answers);
  const fathom_status status = fathom_engine_submit(engine, queue, &request, NULL, error);
  if (status == FATHOM_UNSUPPORTED) {
    puts("response_format: skipped, built without xgrammar");
  } else {
    CHECK_OK(status, error);
    read_all(queue, answers, error);
    CHECK(answers[0].terminals == 1 && answers[0].reason == FATHOM_FINISH_STOP);
    CHECK(answers[0].completion_tokens >= 3);
  }
  fathom_queue_free(queue);
}

static void test_cancel(fathom_engine* engine, fathom_buffer* error) {
  static const int32_t prompt[] = {1, 2, 3};
  static struct answer answers[1];
  fathom_queue* queue = fathom_queue_new();
  fathom_request request =
      request_of(prompt, 3, "{\"max_tokens\": 150, \"ignore_eos\": true, \"seed\": -1}");
  uint64_t number = 0;
  memset(answers, 0, sizeof answers);
  request.id = "mine";
  CHECK_OK(fathom_engine_submit(engine, queue, &request, &number, error), error);
  CHECK(number > 0);
  CHECK_FAILS(fathom_engine_submit(engine, queue, &request, NULL, error), FATHOM_INVALID_ARGUMENT,
              error, "\"mine\"");
  CHECK_OK(fathom_engine_cancel(engine, number, error), error);
  CHECK_OK(fathom_engine_cancel(engine, number, error), error);
  CHECK_OK(fathom_engine_cancel(engine, 123456789, error), error);
  read_all(queue, answers, error);
  CHECK(answers[0].terminals == 1 && answers[0].reason == FATHOM_FINISH_CANCELLED);
  CHECK(answers[0].seed == UINT64_MAX);

  /* A queue that goes away takes its requests along. */
  CHECK_OK(fathom_engine_submit(engine, queue, &request, NULL, error), error);
  fathom_queue_free(queue);
}

static void test_bad_requests(fathom_engine* engine, fathom_buffer* error) {
  static const int32_t prompt[] = {1, 2, 3};
  static const int32_t outside[] = {1, 512};
  fathom_queue* queue = fathom_queue_new();
  const fathom_event* event = NULL;
  fathom_request request = request_of(prompt, 3, NULL);
#define REFUSED(part)                                                                              \
  CHECK_FAILS(fathom_engine_submit(engine, queue, &request, NULL, error), FATHOM_INVALID_ARGUMENT, \
              error, part)
  CHECK(fathom_engine_submit(NULL, queue, &request, NULL, error) == FATHOM_INVALID_ARGUMENT);
  CHECK(fathom_engine_submit(engine, NULL, &request, NULL, NULL) == FATHOM_INVALID_ARGUMENT);
  CHECK_FAILS(fathom_engine_submit(engine, queue, NULL, NULL, error), FATHOM_INVALID_ARGUMENT,
              error, "fathom_request is NULL");
  request.size = 0;
  REFUSED("fathom_request.size is 0");
  request.size = sizeof request;
  request.prompt_text = "both";
  REFUSED("exactly one");
  request.prompt_text = NULL;
  request.prompt_ids = NULL;
  REFUSED("exactly one");
  request = request_of(outside, 2, NULL);
  REFUSED("512");
  request = request_of(prompt, 0, NULL);
  REFUSED("no tokens");
  request = request_of(prompt, 3, "{\"max_tokens\": 198}");
  REFUSED("198");
  request.sampling_json = "{\"response_format\": {\"type\": \"xml\"}}";
  REFUSED("response_format");
  request.sampling_json = "{\"temprature\": 1}";
  REFUSED("unknown key \"temprature\"");
  request.sampling_json = "[1]";
  REFUSED("sampling_json is not a JSON object");
  request.sampling_json = "{\"temperature\": \"hot\"}";
  REFUSED("temperature is \"hot\"");
  request.sampling_json = "{\"max_tokens\": 1e99}";
  REFUSED("max_tokens");
  request.sampling_json = "{\"max_tokens\": 99999999999999999999}";
  REFUSED("max_tokens");
  request.sampling_json = "{\"top_p\": 0}";
  REFUSED("top_p is 0");
  request.sampling_json = "{\"logit_bias\": {\"x\": 1}}";
  REFUSED("logit_bias");
  request.sampling_json = "{\"logit_bias\": {\"512\": 1}}";
  REFUSED("logit_bias names token 512");
  request.sampling_json = "{\"stop\": 3}";
  REFUSED("stop is 3");
  request.sampling_json = "{\"stop_token_ids\": [1e9]}";
  REFUSED("stop_token_ids");
  request.sampling_json = "{\"stop\": ";
  REFUSED("not a JSON object");
  {
    char* deep = malloc(1000001);
    memset(deep, '[', 1000000);
    deep[1000000] = '\0';
    request.sampling_json = deep;
    REFUSED("nested");
    request.sampling_json = NULL;
    request.prompt_ids = NULL;
    request.messages_json = deep;
    REFUSED("nested");
    free(deep);
  }
#undef REFUSED
  CHECK(fathom_queue_poll(queue, 0, &event, error) == FATHOM_NOT_FOUND);
  CHECK(fathom_queue_poll(NULL, 0, &event, error) == FATHOM_INVALID_ARGUMENT);
  CHECK(fathom_queue_poll(queue, 0, NULL, error) == FATHOM_INVALID_ARGUMENT);
  CHECK(fathom_engine_cancel(NULL, 1, error) == FATHOM_INVALID_ARGUMENT);
  fathom_queue_free(queue);
}

static void test_open_errors(const char* model, fathom_buffer* error) {
  fathom_engine* engine = NULL;
  CHECK(fathom_engine_open(NULL, NULL, &engine, error) == FATHOM_INVALID_ARGUMENT);
  CHECK(fathom_engine_open(model, NULL, NULL, error) == FATHOM_INVALID_ARGUMENT);
  CHECK_FAILS(fathom_engine_open("/no/such/folder", NULL, &engine, error), FATHOM_NOT_FOUND, error,
              "/no/such/folder");
  CHECK_FAILS(fathom_engine_open(model, "{\"block_sise\": 8}", &engine, error),
              FATHOM_INVALID_ARGUMENT, error, "unknown key \"block_sise\"");
  CHECK_FAILS(fathom_engine_open(model, "{\"block_size\": 9}", &engine, error),
              FATHOM_INVALID_ARGUMENT, error, "block_size is 9");
  CHECK_FAILS(fathom_engine_open(model, "{\"isa\": \"sse\"}", &engine, error),
              FATHOM_INVALID_ARGUMENT, error, "isa is \"sse\"");
  CHECK_FAILS(fathom_engine_open(model, "{\"kv_dtype\": \"int3\"}", &engine, error),
              FATHOM_INVALID_ARGUMENT, error, "kv_dtype");
  CHECK_FAILS(fathom_engine_open(model, "{\"prefix_caching\": 1}", &engine, error),
              FATHOM_INVALID_ARGUMENT, error, "true or false");
  CHECK_FAILS(fathom_engine_open(model, "{\"request_timeout_seconds\": -1}", &engine, error),
              FATHOM_INVALID_ARGUMENT, error, "request_timeout_seconds is -1");
  CHECK_FAILS(fathom_engine_open(model, "nonsense", &engine, error), FATHOM_INVALID_ARGUMENT, error,
              "not a JSON object");
  CHECK(engine == NULL);
}

static void test_descriptions(fathom_engine* engine, fathom_buffer* error) {
  fathom_buffer* json = fathom_buffer_new();
  fathom_metrics metrics;
  CHECK_OK(fathom_engine_info(engine, json, error), error);
  CHECK(strstr(fathom_buffer_data(json), "\"max_model_len\":200") != NULL);
  CHECK(strstr(fathom_buffer_data(json), "\"fingerprint\":\"fp_") != NULL);
  CHECK(strlen(fathom_buffer_data(json)) == fathom_buffer_size(json));
  CHECK(fathom_engine_info(NULL, json, error) == FATHOM_INVALID_ARGUMENT);
  memset(&metrics, 0xff, sizeof metrics);
  metrics.size = sizeof metrics;
  CHECK_OK(fathom_engine_metrics(engine, &metrics, error), error);
  CHECK(metrics.size == sizeof metrics);
  CHECK(metrics.kv_pages_total > 0 && metrics.weight_bytes > 0);
  CHECK(metrics.requests_length == 16);
  CHECK(metrics.kv_pages_used == 0 && metrics.prefix_query_tokens > 0 && metrics.timeouts == 0);
  metrics.size = 4;
  CHECK_FAILS(fathom_engine_metrics(engine, &metrics, error), FATHOM_INVALID_ARGUMENT, error,
              "fathom_metrics.size is 4");
  CHECK(fathom_engine_metrics(engine, NULL, error) == FATHOM_INVALID_ARGUMENT);
  fathom_buffer_free(json);
}

/* What a newer caller adds to a structure is ignored; what the library adds it leaves out. */
static void test_larger_structures(fathom_engine* engine, fathom_buffer* error) {
  struct {
    fathom_metrics metrics;
    uint64_t later;
  } newer;
  memset(&newer, 0x5a, sizeof newer);
  newer.metrics.size = sizeof newer;
  CHECK_OK(fathom_engine_metrics(engine, &newer.metrics, error), error);
  CHECK(newer.later == 0x5a5a5a5a5a5a5a5aULL);
  CHECK(newer.metrics.size == sizeof newer);
}

static void test_close_with_live_requests(const char* model, fathom_buffer* error) {
  static const int32_t prompt[] = {9, 8, 7};
  static struct answer answers[3];
  fathom_engine* engine = NULL;
  fathom_queue* queue = fathom_queue_new();
  memset(answers, 0, sizeof answers);
  CHECK_OK(fathom_engine_open(model, kOptions, &engine, error), error);
  for (size_t i = 0; i < 3; ++i) {
    fathom_request request = request_of(prompt, 3, "{\"max_tokens\": 190, \"ignore_eos\": true}");
    request.user = (void*)i;
    CHECK_OK(fathom_engine_submit(engine, queue, &request, NULL, error), error);
  }
  fathom_engine_close(engine);
  read_all(queue, answers, error);
  for (size_t i = 0; i < 3; ++i) CHECK(answers[i].terminals == 1);
  fathom_queue_free(queue);
}

int main(int argc, char** argv) {
  fathom_engine* engine = NULL;
  fathom_buffer* error = fathom_buffer_new();
  fathom_queue* queue;
  fathom_request request;
  static const int32_t prompt[] = {1};
  if (argc != 2) return 2;

  CHECK(strcmp(fathom_status_name(FATHOM_OK), "ok") == 0);
  CHECK(strcmp(fathom_status_name(FATHOM_TIMEOUT), "timeout") == 0);
  CHECK(strcmp(fathom_status_name(-7), "unknown") == 0);
  CHECK(strcmp(fathom_status_name(1000), "unknown") == 0);
  CHECK(strlen(fathom_version()) > 0);
  CHECK(fathom_abi_version() == FATHOM_ABI_VERSION);
  CHECK(strcmp(fathom_buffer_data(NULL), "") == 0 && fathom_buffer_size(NULL) == 0);
  fathom_buffer_free(NULL);
  fathom_engine_close(NULL);
  fathom_queue_free(NULL);
  fathom_event_free(NULL);

  test_open_errors(argv[1], error);
  CHECK_OK(fathom_engine_open(argv[1], kOptions, &engine, error), error);
  test_requests(engine, error);
  test_descriptions(engine, error);
  test_larger_structures(engine, error);
  test_choices_and_scores(engine, error);
  test_timeouts_and_older_callers(engine, error);
  test_response_format(engine, error);
  test_cancel(engine, error);
  test_bad_requests(engine, error);
  CHECK_OK(fathom_engine_drain(engine, error), error);
  queue = fathom_queue_new();
  request = request_of(prompt, 1, NULL);
  CHECK_FAILS(fathom_engine_submit(engine, queue, &request, NULL, error), FATHOM_UNAVAILABLE, error,
              "shutting down");
  fathom_queue_free(queue);
  fathom_engine_close(engine);
  test_close_with_live_requests(argv[1], error);
  fathom_buffer_free(error);
  return finish_test();
}
