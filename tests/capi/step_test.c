/* The step face: a plan over the caller's KV memory; any split of a prompt gives the same bits. */
#include "check.h"

enum { kPrompt = 21, kMaxVocab = 4096 };

static int32_t tokens[kPrompt];

/* One sequence: rows [first, first + rows) of the prompt; the logits of the last one. */
static fathom_status run(fathom_model* model, const fathom_kv_memory* kv, const int32_t* pages,
                         size_t page_count, int32_t first, size_t rows, float* logits,
                         fathom_buffer* error) {
  int32_t positions[kPrompt], sequences[kPrompt];
  const int32_t begin[] = {0, (int32_t)page_count};
  const int32_t logit_rows[] = {(int32_t)rows - 1};
  fathom_page_table table;
  fathom_step_plan plan;
  fathom_step_output output;
  for (size_t i = 0; i < rows; ++i) {
    positions[i] = first + (int32_t)i;
    sequences[i] = 0;
  }
  memset(&table, 0, sizeof table);
  table.size = sizeof table;
  table.pages = pages;
  table.page_count = page_count;
  table.begin = begin;
  table.sequence_count = 1;
  memset(&plan, 0, sizeof plan);
  plan.size = sizeof plan;
  plan.tokens = tokens + first;
  plan.positions = positions;
  plan.sequences = sequences;
  plan.row_count = rows;
  plan.logit_rows = logit_rows;
  plan.logit_row_count = 1;
  plan.page_tables = &table;
  plan.kv = kv;
  plan.group_count = 1;
  memset(&output, 0, sizeof output);
  output.size = sizeof output;
  output.logits = logits;
  return fathom_model_step(model, &plan, &output, error);
}

static fathom_kv_memory memory_of(const fathom_kv_group* group, int32_t page_size, int64_t pages) {
  fathom_kv_memory kv;
  memset(&kv, 0, sizeof kv);
  kv.size = sizeof kv;
  kv.page_size = page_size;
  kv.page_count = pages;
  kv.page_stride = (uint64_t)page_size * group->bytes_per_entry;
  kv.base = calloc((size_t)pages, kv.page_stride);
  return kv;
}

static void test_splits(fathom_model* model, const fathom_kv_group* group, size_t vocab,
                        fathom_buffer* error) {
  static float whole[kMaxVocab], parts[kMaxVocab];
  static const int32_t pages8[] = {3, 0, 2};
  static const int32_t pages16[] = {1, 0};
  fathom_kv_memory kv8 = memory_of(group, 8, 4);
  fathom_kv_memory kv16 = memory_of(group, 16, 2);
  CHECK_OK(run(model, &kv8, pages8, 3, 0, kPrompt, whole, error), error);
  CHECK_OK(run(model, &kv16, pages16, 2, 0, 5, parts, error), error);
  CHECK_OK(run(model, &kv16, pages16, 2, 5, 15, parts, error), error);
  CHECK(memcmp(whole, parts, vocab * sizeof(float)) != 0);
  CHECK_OK(run(model, &kv16, pages16, 2, 20, 1, parts, error), error);
  CHECK(memcmp(whole, parts, vocab * sizeof(float)) == 0);
  free(kv8.base);
  free(kv16.base);
}

static void test_bad_plans(fathom_model* model, const fathom_kv_group* group,
                           fathom_buffer* error) {
  static float logits[kMaxVocab];
  static const int32_t outside[] = {4, 0, 1};
  static const int32_t pages[] = {0, 1, 2};
  fathom_kv_memory kv = memory_of(group, 8, 4);
  fathom_kv_memory bad;
  fathom_step_plan plan;
  fathom_step_output output;
  int32_t kept = tokens[3];
  CHECK(run(model, &kv, outside, 3, 0, kPrompt, logits, error) == FATHOM_INVALID_ARGUMENT);
  CHECK(fathom_buffer_size(error) > 0);
  CHECK(run(model, &kv, pages, 2, 0, kPrompt, logits, error) == FATHOM_INVALID_ARGUMENT);
  CHECK(run(model, &kv, pages, 3, -1, 2, logits, error) == FATHOM_INVALID_ARGUMENT);
  tokens[3] = 1 << 30;
  CHECK(run(model, &kv, pages, 3, 0, kPrompt, logits, error) == FATHOM_INVALID_ARGUMENT);
  tokens[3] = kept;
  CHECK(run(model, NULL, pages, 3, 0, kPrompt, logits, error) == FATHOM_INVALID_ARGUMENT);
  bad = kv;
  bad.page_size = 9;
  CHECK(run(model, &bad, pages, 3, 0, kPrompt, logits, error) == FATHOM_INVALID_ARGUMENT);
  bad = kv;
  bad.page_stride = 4;
  CHECK(run(model, &bad, pages, 3, 0, kPrompt, logits, error) == FATHOM_INVALID_ARGUMENT);
  bad = kv;
  bad.base = NULL;
  CHECK(run(model, &bad, pages, 3, 0, kPrompt, logits, error) == FATHOM_INVALID_ARGUMENT);
  bad = kv;
  bad.size = 1;
  CHECK_FAILS(run(model, &bad, pages, 3, 0, kPrompt, logits, error), FATHOM_INVALID_ARGUMENT, error,
              "fathom_kv_memory.size is 1");
  CHECK(run(NULL, &kv, pages, 3, 0, kPrompt, logits, error) == FATHOM_INVALID_ARGUMENT);

  memset(&plan, 0, sizeof plan);
  memset(&output, 0, sizeof output);
  output.size = sizeof output;
  CHECK_FAILS(fathom_model_step(model, &plan, &output, error), FATHOM_INVALID_ARGUMENT, error,
              "fathom_step_plan.size is 0");
  plan.size = sizeof plan;
  plan.row_count = 3;
  CHECK_FAILS(fathom_model_step(model, &plan, &output, error), FATHOM_INVALID_ARGUMENT, error,
              "tokens is NULL");
  plan.row_count = 0;
  plan.group_count = 7;
  CHECK_FAILS(fathom_model_step(model, &plan, &output, error), FATHOM_INVALID_ARGUMENT, error,
              "7 KV groups");
  CHECK(fathom_model_step(model, NULL, &output, error) == FATHOM_INVALID_ARGUMENT);
  CHECK(fathom_model_step(model, &plan, NULL, error) == FATHOM_INVALID_ARGUMENT);
  free(kv.base);
}

int main(int argc, char** argv) {
  fathom_model* model = NULL;
  fathom_buffer* error = fathom_buffer_new();
  fathom_buffer* json = fathom_buffer_new();
  fathom_kv_group group;
  size_t vocab;
  const char* found;
  if (argc != 2) return 2;
  for (int i = 0; i < kPrompt; ++i) tokens[i] = (i * 37 + 5) % 500;

  CHECK_FAILS(fathom_model_open("/no/such/folder", NULL, &model, error), FATHOM_NOT_FOUND, error,
              "/no/such/folder");
  CHECK_FAILS(fathom_model_open(argv[1], "{\"max_num_seqs\": 3}", &model, error),
              FATHOM_INVALID_ARGUMENT, error, "unknown key \"max_num_seqs\"");
  fathom_model_close(NULL);
  CHECK_OK(fathom_model_open(argv[1], "{\"threads\": 2}", &model, error), error);
  CHECK_OK(fathom_model_info(model, json, error), error);
  found = strstr(fathom_buffer_data(json), "\"vocab_size\":");
  CHECK(found != NULL);
  vocab = found == NULL ? 0 : (size_t)atoi(found + strlen("\"vocab_size\":"));
  CHECK(vocab > 0 && vocab <= kMaxVocab);
  memset(&group, 0, sizeof group);
  group.size = sizeof group;
  CHECK_OK(fathom_model_kv_layout(model, 0, &group, error), error);
  CHECK(group.growth == FATHOM_KV_PER_TOKEN && group.bytes_per_entry > 0);
  CHECK(strlen(group.name) > 0);
  CHECK_FAILS(fathom_model_kv_layout(model, 1, &group, error), FATHOM_NOT_FOUND, error, "index 1");

  test_splits(model, &group, vocab, error);
  test_bad_plans(model, &group, error);
  test_splits(model, &group, vocab, error);
  fathom_model_close(model);
  fathom_buffer_free(json);
  fathom_buffer_free(error);
  return finish_test();
}
