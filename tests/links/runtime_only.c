/* The C interface from C: that it compiles and links is the first proof; then every misuse must come back as a number. */
#include <stdio.h>
#include <string.h>

#include "loopwright/runtime_c.h"

static int failures = 0;

static void expect(int good, const char* what) {
  if (good) return;
  printf("failed: %s (last error: %s)\n", what, loopwright_last_error());
  ++failures;
}

static int is(int32_t code, const char* word) { return strcmp(loopwright_error_name(code), word) == 0; }

int main(void) {
  const char* databases[] = {"no_such_file.db"};
  loopwright_options options = {sizeof options, databases, 1, LOOPWRIGHT_FALLBACK, 1};
  loopwright_runtime* runtime = NULL;
  loopwright_plan* plan = NULL;
  loopwright_tensor tensor = {NULL, NULL, NULL, 0, LOOPWRIGHT_F32};
  loopwright_tensor_info tensor_info;
  loopwright_symbol_info symbol_info;
  char* text = NULL;

  expect(loopwright_c_version() == LOOPWRIGHT_C_VERSION, "the library is as new as the header");
  expect(strlen(loopwright_version()) >= 5, "a version");
  expect(strcmp(loopwright_last_error(), "") == 0, "no error yet");
  expect(strcmp(loopwright_error_name(12345), "unknown") == 0, "a number that is no error");

  expect(loopwright_open(&options, &runtime) == LOOPWRIGHT_OK && runtime != NULL, "open although the database is missing");
  expect(loopwright_note(runtime, 0) != NULL && strstr(loopwright_note(runtime, 0), "no_such_file.db") != NULL, "a note");
  expect(loopwright_note(runtime, 1) == NULL && loopwright_note(runtime, -1) == NULL, "no further note");
  expect(is(loopwright_make_plan(runtime, "nothing", &plan), "not_found") && plan == NULL, "an unknown plan");
  expect(strstr(loopwright_last_error(), "nothing") != NULL, "the message names the plan");
  expect(loopwright_flush_wanted(runtime) == LOOPWRIGHT_OK, "nothing to write");
  expect(strcmp(loopwright_last_error(), "") == 0, "a success clears the message");

  expect(is(loopwright_open(&options, NULL), "wrong_arguments"), "open into nothing");
  options.on_miss = 17;
  expect(is(loopwright_open(&options, &runtime), "wrong_arguments") && runtime == NULL, "an unknown policy");
  options.on_miss = LOOPWRIGHT_FALLBACK;
  options.databases = NULL;
  expect(is(loopwright_open(&options, &runtime), "wrong_arguments"), "a null list");
  options.size = sizeof(size_t); /* a header from before the other members */
  expect(loopwright_open(&options, &runtime) == LOOPWRIGHT_OK, "older options");
  loopwright_close(runtime);
  expect(loopwright_open(NULL, &runtime) == LOOPWRIGHT_OK, "no options");

  expect(is(loopwright_make_plan(NULL, "x", &plan), "wrong_arguments"), "a null runtime");
  expect(is(loopwright_make_plan(runtime, NULL, &plan), "wrong_arguments"), "a null name");
  expect(is(loopwright_run(NULL, &tensor, 1), "wrong_arguments"), "a null plan");
  expect(is(loopwright_explain(NULL, NULL, 0, &text), "wrong_arguments"), "explain nothing");
  expect(is(loopwright_describe_tensor(NULL, 0, &tensor_info), "wrong_arguments"), "describe nothing");
  expect(is(loopwright_describe_symbol(NULL, 0, &symbol_info), "wrong_arguments"), "describe nothing");
  expect(is(loopwright_flush_wanted(NULL), "wrong_arguments"), "flush nothing");
  expect(loopwright_tensor_count(NULL) == -1 && loopwright_symbol_count(NULL) == -1, "count nothing");
  loopwright_close(runtime);
  loopwright_close(NULL);
  loopwright_free_plan(NULL);
  loopwright_free_text(NULL);
  return failures == 0 ? 0 : 1;
}
