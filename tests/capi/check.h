/* What the C tests check with. */
#ifndef TESTS_CAPI_CHECK_H
#define TESTS_CAPI_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fathom/fathom.h"

static int failures = 0;

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                               \
    }                                                                           \
  } while (0)

/* The call fails with this status and a message that has `part` in it. */
#define CHECK_FAILS(call, status, error, part)                                   \
  do {                                                                           \
    const fathom_status got_ = (call);                                           \
    if (got_ != (status) || strstr(fathom_buffer_data(error), (part)) == NULL) { \
      fprintf(stderr, "%s:%d: %s: %s, \"%s\"\n", __FILE__, __LINE__, #call,      \
              fathom_status_name(got_), fathom_buffer_data(error));              \
      ++failures;                                                                \
    }                                                                            \
  } while (0)

#define CHECK_OK(call, error)                                               \
  do {                                                                      \
    const fathom_status got_ = (call);                                      \
    if (got_ != FATHOM_OK) {                                                \
      fprintf(stderr, "%s:%d: %s: %s, \"%s\"\n", __FILE__, __LINE__, #call, \
              fathom_status_name(got_), fathom_buffer_data(error));         \
      exit(1);                                                              \
    }                                                                       \
  } while (0)

static inline int finish_test(void) {
  if (failures > 0) fprintf(stderr, "%d checks failed\n", failures);
  return failures > 0 ? 1 : 0;
}

#endif
