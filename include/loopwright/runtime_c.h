/* The runtime as a stable C interface. Needs loopwright_runtime alone: no compiler, no IR.
 *
 *   loopwright_runtime* runtime;
 *   loopwright_plan* plan;
 *   const char* databases[] = {"loopwright.db"};
 *   loopwright_options options = {sizeof options, databases, 1, LOOPWRIGHT_FALLBACK, 0};
 *   if (loopwright_open(&options, &runtime) != LOOPWRIGHT_OK) puts(loopwright_last_error());
 *   if (loopwright_make_plan(runtime, "rmsnorm", &plan) != LOOPWRIGHT_OK) puts(loopwright_last_error());
 *   loopwright_run(plan, tensors, 3);
 *
 * Functions that return int32_t give LOOPWRIGHT_OK or the number of an ErrorCode (base.h), whose word is
 * loopwright_error_name(code); the message is loopwright_last_error(). No exception leaves any of them. A null handle or
 * a null out-parameter is wrong_arguments. A runtime and a plan may be used from many threads at once; freeing them may
 * not overlap their use. A plan stays valid when its runtime is closed.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LOOPWRIGHT_C_VERSION 3 /* grows when functions or trailing struct members are added; none ever go */

enum { LOOPWRIGHT_OK = 0 };

/* Element types; the numbers of DType. */
enum {
  LOOPWRIGHT_BOOL = 0,
  LOOPWRIGHT_I8 = 1,
  LOOPWRIGHT_U8 = 2,
  LOOPWRIGHT_I16 = 3,
  LOOPWRIGHT_I32 = 4,
  LOOPWRIGHT_I64 = 5,
  LOOPWRIGHT_F16 = 6,
  LOOPWRIGHT_BF16 = 7,
  LOOPWRIGHT_F32 = 8,
  LOOPWRIGHT_F64 = 9
};

/* What happens at sizes without a tuned range; see OnMiss in runtime.h. */
enum { LOOPWRIGHT_STRICT = 0, LOOPWRIGHT_FALLBACK = 1, LOOPWRIGHT_JIT = 2 };

/* Roles of a plan's tensors; the numbers of ArgRole. */
enum { LOOPWRIGHT_INPUT = 0, LOOPWRIGHT_OUTPUT = 1, LOOPWRIGHT_INOUT = 2 };

typedef struct loopwright_runtime loopwright_runtime;
typedef struct loopwright_plan loopwright_plan;

typedef struct {
  size_t size; /* sizeof(loopwright_options) of the caller's header */
  const char* const* databases; /* most important first */
  int32_t database_count;
  int32_t on_miss;
  int32_t workers; /* 0 = the machine's */
  const char* device; /* "cpu", "cuda" or "cuda:N"; null = "cpu" */
} loopwright_options;

typedef struct {
  void* data;
  const int64_t* shape;   /* rank values */
  const int64_t* strides; /* elements; null = dense row-major */
  int32_t rank;
  int32_t dtype;
} loopwright_tensor;

typedef struct {
  const char* name; /* lives as long as the plan */
  int32_t rank;
  int32_t dtype;
  int32_t role;
} loopwright_tensor_info;

typedef struct {
  const char* name; /* lives as long as the plan */
  int64_t lo, hi;
} loopwright_symbol_info;

/* LOOPWRIGHT_C_VERSION of the library that is linked. */
int32_t loopwright_c_version(void);
/* The library's version, e.g. "0.1.0". */
const char* loopwright_version(void);

/* Message of the last failure in the calling thread, "" when there was none. Valid until the next call of this thread. */
const char* loopwright_last_error(void);
/* `out_of_range` and so on; "unknown" for a number that is no ErrorCode. */
const char* loopwright_error_name(int32_t code);

/* Null options: no database. */
int32_t loopwright_open(const loopwright_options* options, loopwright_runtime** runtime);
void loopwright_close(loopwright_runtime* runtime);
/* One note for each database: opened, or why not. Null behind the last. Lives as long as the runtime. */
const char* loopwright_note(const loopwright_runtime* runtime, int32_t index);
int32_t loopwright_flush_wanted(const loopwright_runtime* runtime);
/* Opens the databases anew; plans made before keep what they were made of. On an error nothing changes. */
int32_t loopwright_reload(const loopwright_runtime* runtime);

/* By the graph's name or its digest. */
int32_t loopwright_make_plan(const loopwright_runtime* runtime, const char* name_or_digest, loopwright_plan** plan);
void loopwright_free_plan(loopwright_plan* plan);
/* Tensors that `loopwright_run` takes, in order. -1 for a null plan. */
int32_t loopwright_tensor_count(const loopwright_plan* plan);
int32_t loopwright_symbol_count(const loopwright_plan* plan);
int32_t loopwright_describe_tensor(const loopwright_plan* plan, int32_t index, loopwright_tensor_info* info);
int32_t loopwright_describe_symbol(const loopwright_plan* plan, int32_t index, loopwright_symbol_info* info);

/* Plan::run: everything is checked. */
int32_t loopwright_run(const loopwright_plan* plan, const loopwright_tensor* tensors, int32_t count);
/* Plan::launch, the hot call: pointers in the order of the tensors, symbol values in the order of the symbols; neither
 * is checked for null or length, and no message is set. */
int32_t loopwright_launch(const loopwright_plan* plan, void* const* pointers, const int64_t* symbols);

/* The same on a CUstream (cudaStream_t) of the plan's GPU; null is its default stream. `launch` returns when everything is
 * queued, `run` when it is done. */
int32_t loopwright_run_on(const loopwright_plan* plan, const loopwright_tensor* tensors, int32_t count, void* stream);
int32_t loopwright_launch_on(const loopwright_plan* plan, void* const* pointers, const int64_t* symbols, void* stream);
/* Plan::launch_graph: `launch_on` for calls that repeat, as one CUDA graph where that takes the host less. */
int32_t loopwright_launch_graph(const loopwright_plan* plan, void* const* pointers, const int64_t* symbols, void* stream);

/* Text for people; free it with loopwright_free_text. */
int32_t loopwright_explain(const loopwright_plan* plan, const int64_t* symbols, int32_t count, char** text);
void loopwright_free_text(char* text);

#ifdef __cplusplus
}
#endif
