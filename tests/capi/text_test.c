/* The text face: a tokenizer's folder without weights. */
#include "check.h"

static const char* kText = "Hello, w\xc3\xb6rld! \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x99\x82 123\n";

static void test_round_trip(fathom_text* text, fathom_buffer* error) {
  fathom_buffer* ids = fathom_buffer_new();
  fathom_buffer* utf8 = fathom_buffer_new();
  fathom_decoder* decoder = NULL;
  char joined[200] = "";
  size_t count;
  const int32_t* list;
  CHECK_OK(fathom_text_encode(text, kText, strlen(kText), 0, ids, error), error);
  count = fathom_buffer_size(ids) / sizeof(int32_t);
  CHECK(count > 5);
  list = (const int32_t*)(const void*)fathom_buffer_data(ids);
  CHECK_OK(fathom_text_decode(text, list, count, 0, utf8, error), error);
  CHECK(strcmp(fathom_buffer_data(utf8), kText) == 0);
  CHECK_OK(fathom_decoder_new(text, 1, &decoder, error), error);
  for (size_t i = 0; i < count; ++i) {
    CHECK_OK(fathom_decoder_push(decoder, &list[i], 1, utf8, error), error);
    strncat(joined, fathom_buffer_data(utf8), sizeof joined - strlen(joined) - 1);
  }
  CHECK_OK(fathom_decoder_finish(decoder, utf8, error), error);
  CHECK(fathom_buffer_size(utf8) == 0);
  CHECK(strcmp(joined, kText) == 0);
  CHECK(fathom_decoder_push(decoder, NULL, 1, utf8, error) == FATHOM_INVALID_ARGUMENT);
  CHECK(fathom_decoder_push(NULL, list, 1, utf8, error) == FATHOM_INVALID_ARGUMENT);
  fathom_decoder_free(decoder);
  CHECK_OK(fathom_text_encode(text, NULL, 0, FATHOM_ENCODE_ADD_SPECIAL, ids, error), error);
  CHECK_OK(fathom_text_encode(text, "\xff\xfe", 2, FATHOM_ENCODE_PLAIN, ids, error), error);
  fathom_buffer_free(ids);
  fathom_buffer_free(utf8);
}

static void test_render_and_parse(fathom_text* text, fathom_buffer* error) {
  static const char* kMessages = "[{\"role\": \"user\", \"content\": \"Hi\"}]";
  fathom_buffer* utf8 = fathom_buffer_new();
  fathom_parser* parser = NULL;
  size_t with_generation;
  CHECK_OK(fathom_text_render(text, kMessages, NULL, NULL, utf8, error), error);
  CHECK(strstr(fathom_buffer_data(utf8), "Hi") != NULL);
  with_generation = fathom_buffer_size(utf8);
  CHECK_OK(
      fathom_text_render(text, kMessages, NULL, "{\"add_generation_prompt\": false}", utf8, error),
      error);
  CHECK(fathom_buffer_size(utf8) < with_generation);
  CHECK_FAILS(fathom_text_render(text, "{}", NULL, NULL, utf8, error), FATHOM_INVALID_ARGUMENT,
              error, "messages must be");
  CHECK_FAILS(fathom_text_render(text, kMessages, "3", NULL, utf8, error), FATHOM_INVALID_ARGUMENT,
              error, "tools must be");
  CHECK_FAILS(fathom_text_render(text, kMessages, NULL, "[]", utf8, error), FATHOM_INVALID_ARGUMENT,
              error, "template_kwargs must be");
  CHECK(fathom_text_render(text, NULL, NULL, NULL, utf8, error) == FATHOM_INVALID_ARGUMENT);
  CHECK(fathom_text_render(NULL, kMessages, NULL, NULL, utf8, error) == FATHOM_INVALID_ARGUMENT);

  CHECK_OK(fathom_parser_new(text, NULL, 0, &parser, error), error);
  CHECK_OK(fathom_parser_feed(parser, "Hello", 5, utf8, error), error);
  CHECK(strstr(fathom_buffer_data(utf8), "\"kind\":\"content\"") != NULL);
  CHECK(strstr(fathom_buffer_data(utf8), "\"text\":\"Hello\"") != NULL);
  CHECK_OK(fathom_parser_finish(parser, utf8, error), error);
  CHECK(fathom_parser_feed(parser, NULL, 2, utf8, error) == FATHOM_INVALID_ARGUMENT);
  CHECK(fathom_parser_feed(NULL, "a", 1, utf8, error) == FATHOM_INVALID_ARGUMENT);
  CHECK(fathom_parser_new(NULL, NULL, 0, &parser, error) == FATHOM_INVALID_ARGUMENT);
  fathom_parser_free(parser);
  fathom_parser_free(NULL);
  fathom_buffer_free(utf8);
}

static void test_bad_input(fathom_text* text, fathom_buffer* error) {
  static const int32_t odd[] = {-5, 1 << 30, 3};
  fathom_buffer* out = fathom_buffer_new();
  fathom_decoder* decoder = NULL;
  CHECK_FAILS(fathom_text_encode(text, "a", 1, 64, out, error), FATHOM_INVALID_ARGUMENT, error,
              "flags is 64");
  CHECK(fathom_text_encode(text, NULL, 3, 0, out, error) == FATHOM_INVALID_ARGUMENT);
  CHECK(fathom_text_encode(NULL, "a", 1, 0, out, error) == FATHOM_INVALID_ARGUMENT);
  CHECK(fathom_text_encode(text, "a", 1, 0, NULL, error) == FATHOM_INVALID_ARGUMENT);
  CHECK(fathom_text_decode(text, NULL, 2, 0, out, error) == FATHOM_INVALID_ARGUMENT);
  CHECK_OK(fathom_text_decode(text, odd, 3, 0, out, error), error); /* unknown ids give nothing */
  CHECK(fathom_text_info(NULL, out, error) == FATHOM_INVALID_ARGUMENT);
  CHECK(fathom_decoder_new(NULL, 0, &decoder, error) == FATHOM_INVALID_ARGUMENT);
  CHECK(decoder == NULL);
  fathom_buffer_free(out);
}

int main(int argc, char** argv) {
  fathom_text* text = NULL;
  fathom_buffer* error = fathom_buffer_new();
  fathom_buffer* json = fathom_buffer_new();
  if (argc != 2) return 2;
  CHECK_FAILS(fathom_text_open("/no/such/folder", NULL, &text, error), FATHOM_NOT_FOUND, error,
              "/no/such/folder");
  CHECK(fathom_text_open(NULL, NULL, &text, error) == FATHOM_INVALID_ARGUMENT);
  CHECK(text == NULL);
  fathom_text_close(NULL);
  fathom_decoder_free(NULL);
  CHECK_OK(fathom_text_open(argv[1], NULL, &text, error), error);
  CHECK_OK(fathom_text_info(text, json, error), error);
  CHECK(strstr(fathom_buffer_data(json), "\"vocab_size\":512") != NULL);
  test_round_trip(text, error);
  test_render_and_parse(text, error);
  test_bad_input(text, error);
  fathom_text_close(text);
  fathom_buffer_free(json);
  fathom_buffer_free(error);
  return finish_test();
}
