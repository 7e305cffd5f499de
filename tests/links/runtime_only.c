/* The C interface from C, linked with the runtime alone. */
#include <stdio.h>

#include "loopwright/runtime_c.h"

int main(void) {
  const char* databases[] = {"no_such_file.db"};
  loopwright_options options = {sizeof options, databases, 1, LOOPWRIGHT_FALLBACK, 0};
  loopwright_runtime* runtime = NULL;
  loopwright_plan* plan = NULL;
  if (loopwright_c_version() != LOOPWRIGHT_C_VERSION) return 1;
  if (loopwright_open(&options, &runtime) != LOOPWRIGHT_OK) {
    puts(loopwright_last_error());
    return 1;
  }
  if (loopwright_note(runtime, 0) == NULL) return 1;
  if (loopwright_make_plan(runtime, "no_such_graph", &plan) == LOOPWRIGHT_OK) return 1;
  puts(loopwright_last_error());
  loopwright_close(runtime);
  return 0;
}
