/* The C interface of compiled models: open an artefact, bind shapes, run it, look inside.
 *
 * Handles are opaque. A function that can fail returns a tc_status; tc_last_error() then returns one sentence
 * that says what is wrong, where, and what was expected. No function throws or aborts.
 *
 * Threads. A tc_model is immutable and may be used from any number of threads. A tc_context has the memory of
 * one run: give each thread of your program its own (a context that is already running returns
 * TC_ERROR_BUSY). All contexts of a process share one pool of worker threads. Where other runs use workers, a
 * run goes on with those that are free, if necessary with the calling thread alone; its results are the same.
 * Idle workers sleep.
 *
 * Structures that the runtime fills in start with `struct_size`: set it to sizeof the structure before the
 * call. Strings and arrays that the runtime returns belong to the model and live as long as it does. */
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
  TC_ERROR_MEMORY = 5,   /* the model's memory cannot be allocated */
  TC_ERROR_BUSY = 6,     /* the context is running in another thread */
  TC_ERROR_SIZE = 7      /* the run computed a size that is out of its bounds; the context stays usable */
} tc_status;

typedef struct tc_model tc_model;
typedef struct tc_context tc_context;

#define TC_MAX_RANK 16
#define TC_MAX_THREADS 1024

/* General information about a model. */
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
  int32_t default_threads; /* the threads of a context that asks for 0 */
  int32_t reserved;
  const char* weights; /* path of the file beside a shared artefact that has its constants, or null */
} tc_model_info;

/* One input or output. dims[i] is -1 where the size is not fixed; symbols[i] is then the name of the symbol
 * that gives the size, or null where the size is computed (outputs only). */
typedef struct tc_port_info {
  uint64_t struct_size;
  const char* name;
  int32_t dtype; /* enum tc_dtype */
  int32_t rank;
  int64_t dims[TC_MAX_RANK];
  const char* symbols[TC_MAX_RANK];
} tc_port_info;

/* The bytes that a context has allocated, and those of the model's constants. */
typedef struct tc_memory_info {
  uint64_t struct_size;
  int64_t constant_bytes;
  int64_t arena_bytes;   /* with the segments that runs added; 0 before shapes are bound */
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

/* The calling thread's latest error; "" where it had none. The text is valid until the thread's next failing
 * call. */
const char* tc_last_error(void);

/* Version of this library, "major.minor.patch". */
const char* tc_runtime_version(void);

/* The number of cores that the calling process may use: those of its affinity mask, with the hyper-threads of
 * a core counted once, but no more than its control group's quota. At least 1. */
int32_t tc_core_count(void);

/* Sets how long a waiting thread polls before it sleeps, in microseconds, for the whole process; the default
 * is 100. With 0, threads sleep immediately, which is best where other programs need the cores. */
void tc_set_spin_time(uint32_t microseconds);

/* Size of an element in bytes, 0 for an unknown type; and the type's name ("f32", "i64", "bool", …), null for
 * an unknown type. */
int64_t tc_dtype_size(int32_t dtype);
const char* tc_dtype_name(int32_t dtype);

/* Opens a shared artefact (.so). Before any of its code is executed, a file is refused that is not an
 * artefact, is cut short, is built for another kind of processor, or whose contents do not match the checksum
 * at its end (the whole file is read for this). Then the function checks the interface version, and that this
 * machine has every CPU feature that the code uses. An artefact is native code: open only files that you
 * trust as you trust a program. Constants that are in a file of their own (weights="separate") are looked for
 * in the artefact's folder, checked likewise, and mapped read-only. */
tc_status tc_model_open(const char* path, tc_model** model);

typedef enum tc_open_flags {
  TC_OPEN_UNCHECKED = 1, /* do not compare the checksum: the file is not read whole, and may have none */
  TC_OPEN_UNTRUSTED =
      2 /* refuse a file that is not exactly what tc's linker makes, before the system's loader opens it:
           opening then runs none of its code. Binding and running do run it, unconfined. */
} tc_open_flags;

/* The same as tc_model_open, with flags of tc_open_flags; 0 for none. */
tc_status tc_model_open_with(const char* path, uint32_t flags, tc_model** model);

/* The same for a model linked into the program: `extern const tc_descriptor NAME;`. */
tc_status tc_model_open_linked(const tc_descriptor* descriptor, tc_model** model);

/* Releases the handle; the model itself is freed with its last context. Null is allowed. */
void tc_model_close(tc_model* model);

tc_status tc_model_get_info(const tc_model* model, tc_model_info* info);
/* -1 for a handle that is not a model. */
int32_t tc_model_input_count(const tc_model* model);
int32_t tc_model_output_count(const tc_model* model);
tc_status tc_model_input_info(const tc_model* model, int32_t index, tc_port_info* info);
tc_status tc_model_output_info(const tc_model* model, int32_t index, tc_port_info* info);
/* The input with which output `index` may share memory, or -1. Such an output is the input with a few
 * elements changed, for instance the keys and values of attention. If both have the same buffer,
 * tc_context_run writes only the elements that change; if they have separate buffers, it copies the input
 * first. No two outputs have the same input. */
int32_t tc_model_output_in_place(const tc_model* model, int32_t index);
/* Name and range of a symbol. Any of the last three may be null. */
tc_status tc_model_symbol_info(const tc_model* model, int32_t index, const char** name, int64_t* minimum,
                               int64_t* maximum);
/* Label of a step of the plan, null for an index out of range. */
const char* tc_model_step_name(const tc_model* model, int32_t step);

/* Makes a context that runs on up to `threads` threads, including the calling one; 0 takes the model's
 * default. Allocates all memory if all shapes are fixed; else tc_context_bind does. */
tc_status tc_context_create(tc_model* model, int32_t threads, tc_context** context);
void tc_context_destroy(tc_context* context);

/* Sets the shapes of all inputs, in the model's order, and solves the symbols from them: the only call after
 * creation that allocates. Needed once before the first run if the model has symbols, and then whenever
 * shapes change; costs almost nothing if they have not changed. After an error the context has no shapes. */
tc_status tc_context_bind(tc_context* context, const tc_shape* shapes, int32_t count);

/* The shape of an input or output under the bound shapes. `dims` has room for TC_MAX_RANK sizes; any of the
 * last three pointers may be null. */
tc_status tc_context_input_shape(const tc_context* context, int32_t index, int64_t* dims, int32_t* rank,
                                 uint64_t* bytes);
tc_status tc_context_output_shape(const tc_context* context, int32_t index, int64_t* dims, int32_t* rank,
                                  uint64_t* bytes);
/* The shape of an output after the last run. It differs from tc_context_output_shape only in sizes that the
 * run computes: for these, tc_context_output_shape gives the upper bound for which the buffer must have room,
 * and the elements are dense at the beginning of the buffer. For a size without a bound
 * tc_context_output_shape gives -1, and the output takes no buffer (null and 0 bytes); see
 * tc_context_result_data. */
tc_status tc_context_result_shape(const tc_context* context, int32_t index, int64_t* dims, int32_t* rank,
                                  uint64_t* bytes);
/* Where the elements of an output are after a run: in the caller's buffer, or, if the output has no bound, in
 * the context's memory. There they are valid until the context runs again, is bound again or is destroyed. */
tc_status tc_context_result_data(const tc_context* context, int32_t index, const void** data);
tc_status tc_context_memory(const tc_context* context, tc_memory_info* info);

/* Runs the model once: reads all inputs, writes all outputs, returns when done. Outputs must not overlap each
 * other or inputs, with one exception: an output may have the same buffer as the input that
 * tc_model_output_in_place gives. Allocates nothing, except for outputs and other tensors without a bound.
 * The floating-point mode of the calling thread is set to the default for the run and then restored. */
tc_status tc_context_run(tc_context* context, const tc_input_buffer* inputs, int32_t input_count,
                         const tc_output_buffer* outputs, int32_t output_count);

/* Threads that the last run used. */
int32_t tc_context_threads_used(const tc_context* context);

/* Makes each run call `step_done(user, step)` on its calling thread after each step of the plan; null ends
 * this. Steps inside loops and branches have their own numbers, which follow that of the loop, and are
 * reported in each iteration; the loop itself is reported once, at its end. */
tc_status tc_context_set_profile(tc_context* context, void (*step_done)(void* user, int32_t step),
                                 void* user);

#ifdef __cplusplus
}
#endif
#endif
