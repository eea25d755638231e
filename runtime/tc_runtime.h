/* The C interface of compiled models: open an artefact, bind shapes, run it, look inside.
 *
 * Handles are opaque. A function that can fail returns a tc_status; tc_last_error() then holds one
 * sentence that says what is wrong, where and what was expected. Nothing throws, nothing aborts.
 *
 * Threads. A tc_model is immutable and may be used from any number of threads. A tc_context is one
 * run in progress: give each user thread its own (a context that is already running answers
 * TC_ERROR_BUSY). All contexts of a process share one pool of worker threads; a run that finds
 * workers taken by other runs goes on with those that are free, at the least with the calling
 * thread alone. Results do not depend on it. Idle workers sleep.
 *
 * Structures that the caller hands in start with `struct_size`: set it to sizeof the structure.
 * Strings and arrays that the runtime hands out belong to the model and live as long as it. */
#ifndef TC_RUNTIME_TC_RUNTIME_H_
#define TC_RUNTIME_TC_RUNTIME_H_

#include <stdint.h>

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tc_status {
  TC_OK = 0,
  TC_ERROR_ARGUMENT = 1, /* the call is wrong: a null pointer, an index, a buffer's size */
  TC_ERROR_MODEL = 2,    /* not an artefact, a damaged one, or one of another version */
  TC_ERROR_TARGET = 3,   /* this machine cannot run the artefact's code */
  TC_ERROR_SHAPE = 4,    /* an input's shape does not fit the model */
  TC_ERROR_MEMORY = 5,   /* memory that the model needs cannot be had */
  TC_ERROR_BUSY = 6,     /* the context is running in another thread */
  TC_ERROR_SIZE = 7      /* the run computed a size that is out of its bounds; the context stays usable */
} tc_status;

typedef struct tc_model tc_model;
typedef struct tc_context tc_context;

#define TC_MAX_RANK 16
#define TC_MAX_THREADS 1024

/* What a model says of itself. */
typedef struct tc_model_info {
  uint64_t struct_size;
  const char* model;      /* name */
  const char* target;     /* canonical target string */
  const char* features;   /* CPU features that it needs, separated by spaces */
  const char* provenance; /* compiler version and options */
  int64_t constant_bytes; /* read-only data, shared by all contexts */
  int64_t scratch_bytes;  /* per thread */
  int32_t symbol_count;
  int32_t step_count;
  int32_t default_threads; /* what a context gets that asks for 0 threads */
  int32_t reserved;
} tc_model_info;

/* One input or output. dims[i] is -1 where the size is not fixed; symbols[i] is then the name of
 * the symbol that it equals, or null where it is computed from symbols (outputs only). */
typedef struct tc_port_info {
  uint64_t struct_size;
  const char* name;
  int32_t dtype; /* enum tc_dtype */
  int32_t rank;
  int64_t dims[TC_MAX_RANK];
  const char* symbols[TC_MAX_RANK];
} tc_port_info;

/* Bytes that a context keeps, and those of the model's constants. */
typedef struct tc_memory_info {
  uint64_t struct_size;
  int64_t constant_bytes;
  int64_t arena_bytes;   /* with what runs grew beside it; 0 while no shapes are bound */
  int64_t scratch_bytes; /* of all threads together */
} tc_memory_info;

typedef struct tc_shape {
  const int64_t* dims;
  int32_t rank;
  int32_t reserved;
} tc_shape;

/* Dense row-major elements, aligned to their size. `bytes` must be exactly what the shape needs.
 * The model reads and writes the caller's memory in place. */
typedef struct tc_input_buffer {
  const void* data;
  uint64_t bytes;
} tc_input_buffer;
typedef struct tc_output_buffer {
  void* data;
  uint64_t bytes;
} tc_output_buffer;

/* The calling thread's latest error, "" where it had none. Valid until its next failing call. */
const char* tc_last_error(void);

/* Version of this library, "major.minor.patch". */
const char* tc_runtime_version(void);

/* Cores that the calling process may use: those of its affinity mask, hyper-threads of one core
 * counted once, no more than its control group's quota. At least 1. */
int32_t tc_core_count(void);

/* How long a waiting thread polls before it sleeps, in microseconds; 100 at the start. 0 always
 * sleeps: best where other programs need the cores. For the whole process. */
void tc_set_spin_time(uint32_t microseconds);

/* Size of an element in bytes; 0 for an unknown type. Names are "f32", "i64", "bool", …, null for
 * an unknown type. */
int64_t tc_dtype_size(int32_t dtype);
const char* tc_dtype_name(int32_t dtype);

/* Opens a shared artefact (.so). Reads the file's header first: a file that is no artefact, is cut
 * short, or is built for another kind of processor is refused before any of it is executed, as is
 * one whose contents do not have the checksum at the file's end, which is read whole for it. Then
 * checks the interface version and that this machine has every CPU feature that the code uses.
 * An artefact is native code: open only files that you trust as you trust a program. */
tc_status tc_model_open(const char* path, tc_model** model);

typedef enum tc_open_flags {
  TC_OPEN_UNCHECKED = 1, /* do not compare the checksum: the file is not read whole, and may have none */
  TC_OPEN_UNTRUSTED =
      2 /* refuse a file that is not what tc's linker makes, before the system's loader has it: opening
           runs none of its code. Binding and running do, without any wall. */
} tc_open_flags;

/* The same with flags of tc_open_flags, 0 for none. */
tc_status tc_model_open_with(const char* path, uint32_t flags, tc_model** model);

/* The same for a model linked into the program: `extern const tc_descriptor NAME;`. */
tc_status tc_model_open_linked(const tc_descriptor* descriptor, tc_model** model);

/* Releases the handle; the model itself goes with its last context. Null is allowed. */
void tc_model_close(tc_model* model);

tc_status tc_model_get_info(const tc_model* model, tc_model_info* info);
/* -1 for a handle that is not a model. */
int32_t tc_model_input_count(const tc_model* model);
int32_t tc_model_output_count(const tc_model* model);
tc_status tc_model_input_info(const tc_model* model, int32_t index, tc_port_info* info);
tc_status tc_model_output_info(const tc_model* model, int32_t index, tc_port_info* info);
/* The input that output `index` may share memory with, or -1: an output that is this input with a few
 * elements changed, such as the keys and values of attention. tc_context_run takes one buffer for both then,
 * and writes only what changes; where the buffers are apart it copies the input first. No two outputs have
 * one input. */
int32_t tc_model_output_in_place(const tc_model* model, int32_t index);
/* Name and range of a symbol. Any of the last three may be null. */
tc_status tc_model_symbol_info(const tc_model* model, int32_t index, const char** name, int64_t* minimum,
                               int64_t* maximum);
/* Label of a step of the plan, null for an index out of range. */
const char* tc_model_step_name(const tc_model* model, int32_t step);

/* A context that runs on up to `threads` threads, the calling one included; 0 takes the model's
 * default. Allocates everything where all shapes are fixed; else tc_context_bind does. */
tc_status tc_context_create(tc_model* model, int32_t threads, tc_context** context);
void tc_context_destroy(tc_context* context);

/* Sets the shapes of all inputs, in the model's order, and solves the symbols from them: the one
 * call after creation that allocates. Needed once before the first run where the model has
 * symbols, then whenever shapes change; costs next to nothing where they did not. On an error the
 * context keeps no shapes. */
tc_status tc_context_bind(tc_context* context, const tc_shape* shapes, int32_t count);

/* Sizes under the bound shapes. `dims` has room for TC_MAX_RANK; any pointer may be null. */
tc_status tc_context_input_shape(const tc_context* context, int32_t index, int64_t* dims, int32_t* rank,
                                 uint64_t* bytes);
tc_status tc_context_output_shape(const tc_context* context, int32_t index, int64_t* dims, int32_t* rank,
                                  uint64_t* bytes);
/* Sizes of an output that the last run gave: those of tc_context_output_shape, but where the run computes a
 * size that is what a buffer must have room for at most. The elements lie densely at the buffer's begin.
 * There a size without a bound is -1, and the output takes no buffer: null and 0 bytes; see
 * tc_context_result_data. */
tc_status tc_context_result_shape(const tc_context* context, int32_t index, int64_t* dims, int32_t* rank,
                                  uint64_t* bytes);
/* Where the elements of an output lie after a run: in the caller's buffer, or, where the output has no bound,
 * in the context's memory until it runs or is bound again or is destroyed. */
tc_status tc_context_result_data(const tc_context* context, int32_t index, const void** data);
tc_status tc_context_memory(const tc_context* context, tc_memory_info* info);

/* Runs the model once: reads all inputs, writes all outputs, returns when done. Outputs must not
 * overlap each other or inputs, but that an output may have the very buffer of the input that
 * tc_model_output_in_place tells. Allocates nothing. The floating-point mode of the calling thread is
 * set to the default for the run and then restored. */
tc_status tc_context_run(tc_context* context, const tc_input_buffer* inputs, int32_t input_count,
                         const tc_output_buffer* outputs, int32_t output_count);

/* Threads that the last run used. */
int32_t tc_context_threads_used(const tc_context* context);

/* Has `step_done(user, step)` called on the calling thread after each step of the plan; null ends
 * that. Steps inside loops and branches have numbers of their own, which follow that of the loop, and
 * are reported each time; the loop itself is reported once, at its end. */
tc_status tc_context_set_profile(tc_context* context, void (*step_done)(void* user, int32_t step),
                                 void* user);

#ifdef __cplusplus
}
#endif
#endif
