/* The binary contract between generated code and the runtime: what a compiled model exports, and what the
 * runtime passes to it. Plain C. Only append to it, and raise TC_ABI_VERSION with each change. */
#ifndef TC_RUNTIME_ABI_H_
#define TC_RUNTIME_ABI_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TC_ABI_MAGIC 0x30314354u /* "TC10" */
/* A runtime accepts models of all versions up to its own. Version 2 added sizes that a run computes, version
 * 3 such sizes without a bound and relations between sizes that a run checks, version 4 scratch memory that
 * depends on sizes, version 5 less scratch memory for the first thread, version 6 outputs in the memory of
 * inputs, version 7 constants in a file beside the artefact. A model has the least version that has all it
 * needs. */
#define TC_ABI_VERSION 7u
/* How many inputs a model may have, and how many outputs. */
#define TC_MOST_PORTS 65536
/* Symbol of the descriptor in every artefact. It is weak; the file NAME.so, NAME.a or NAME.o also has the
 * symbol NAME_descriptor. */
#define TC_DESCRIPTOR_SYMBOL "tc_model_descriptor"

/* Element types, in the order of tc::DType. An element of fewer than 8 bits takes a whole byte, with the
 * value in the low bits; the other bits are ignored in inputs. */
enum tc_dtype {
  TC_F32,
  TC_F64,
  TC_F16,
  TC_BF16,
  TC_I8,
  TC_I16,
  TC_I32,
  TC_I64,
  TC_U8,
  TC_U16,
  TC_U32,
  TC_U64,
  TC_BOOL,
  TC_F8E4M3FN,
  TC_F8E4M3FNUZ,
  TC_F8E5M2,
  TC_F8E5M2FNUZ,
  TC_F8E8M0,
  TC_F4E2M1,
  TC_I4,
  TC_U4,
  TC_I2,
  TC_U2
};

/* One run on one thread. All threads of a run get the same pointers and their own `thread`. */
typedef struct tc_frame {
  void* const* inputs; /* one pointer per model input, 64-byte aligned */
  void* const* outputs;
  uint8_t* arena;         /* of the size that bind() returned, 64-byte aligned */
  uint8_t* scratch;       /* this thread's scratch memory, 64-byte aligned */
  const int64_t* symbols; /* values in the order of the descriptor */
  int32_t thread, threads;
  /* Waits until all threads of the run have called it. Never null; does nothing for one thread. */
  void (*barrier)(const struct tc_frame*);
  /* For profiling; may be null. Thread 0 calls it after step `step`. */
  void (*step_done)(const struct tc_frame*, int32_t step);
  void* owner; /* the runtime's */
  /* From version 2 on. run() writes the sizes of all dimensions of all outputs, in order, here. */
  int64_t* output_dims;
  /* Called by thread 0 where step `step` computes a size that is not within 0 to `bound`; run() then returns
   * on all threads. */
  void (*wrong_size)(const struct tc_frame*, int32_t step, int64_t size, int64_t bound);
  /* From version 3 on. Memory in addition to the arena: one pointer per segment of the descriptor. */
  uint8_t* const* segments;
  /* Called by thread 0: makes room for `bytes` in segment `segment`, which keeps its contents. `size` is the
   * tensor size that needs the room, for the error text. `limit` is the memory that the model may use in all;
   * 0 means half of what the machine has. The segment becomes null where `bytes` is negative or the memory
   * cannot be had; run() then returns on all threads. */
  void (*grow)(const struct tc_frame*, int32_t step, int32_t segment, int64_t bytes, int64_t size,
               int64_t limit);
  /* Called by thread 0 where the sizes of step `step` do not have the relation that the step's label names;
   * run() then returns on all threads. */
  void (*unrelated)(const struct tc_frame*, int32_t step, int64_t left, int64_t right);
  /* For each output without a bound, whose buffer is null, run() writes here where its elements are. */
  const void** output_data;
} tc_frame;

/* A dimension of an input or output: a number (symbol == -1) or, for inputs, the value of a symbol. A
 * dimension of an output that is neither has symbol == -2, and bind() computes it. From version 2 on, symbol
 * == -3 is a dimension of an output that the run computes: bind() gives its upper bound, run() its value, and
 * the elements are dense at the beginning of the buffer. From version 3 on, bind() gives -1 where there is no
 * bound; the output then has no buffer. */
typedef struct tc_dim {
  int64_t value;
  int32_t symbol;
  int32_t reserved;
} tc_dim;
typedef struct tc_port {
  const char* name;
  int32_t dtype;
  int32_t rank;
  const tc_dim* dims;
} tc_port;
typedef struct tc_symbol {
  const char* name;
  int64_t minimum, maximum;
} tc_symbol;

typedef struct tc_descriptor {
  uint32_t magic, abi_version;
  uint64_t struct_size;
  const char* model;
  const char* target; /* canonical target string */
  /* Space-separated CPU features that the code needs ("avx2 fma", "v"); the runtime refuses a
   * machine without them. */
  const char* features;
  const char* provenance;
  int32_t input_count, output_count, symbol_count, step_count;
  const tc_port* inputs;
  const tc_port* outputs;
  const tc_symbol* symbols;
  const char* const* steps; /* labels, step_count of them */
  /* Returns the bytes of the arena for these symbols, and writes the sizes of all dimensions of all outputs,
   * in order. Negative where a size overflows or a symbol is out of range. */
  int64_t (*bind)(const int64_t* symbols, int64_t* output_dims);
  void (*run)(const tc_frame* frame);
  int64_t scratch_bytes; /* per thread */
  const uint8_t* constants;
  int64_t constant_bytes;
  int32_t default_threads; /* 0: as many as the machine has cores */
  int32_t segment_count;   /* from version 3 on; 0 before */
  /* From version 4 on, where struct_size includes it; may be null. Returns the scratch bytes that a thread
   * needs for these symbols, if they are more than scratch_bytes; negative where a size overflows. */
  int64_t (*scratch)(const int64_t* symbols);
  /* From version 5 on: the scratch bytes of thread 0, used instead of scratch_bytes. Thread 0 has the rest of
   * what it needs in the arena. */
  int64_t first_scratch_bytes;
  /* From version 6 on: for each output, the index of the input that may be in the same memory, or -1; null
   * where no output has one. No two outputs have the same input. Where both are in the same memory, run()
   * does not copy the elements that stay unchanged. */
  const int32_t* in_place;
  /* From version 7 on: the name, without a folder, of the file beside the artefact that has the constants,
   * and the checksum at the file's end; null where they are inside. Else `constants` is null, and the runtime
   * writes to `*weights` where it has mapped the constant_bytes bytes, before the first run. */
  const char* weights_file;
  uint64_t weights_checksum;
  const uint8_t** weights;
} tc_descriptor;

#ifdef __cplusplus
}
#endif
#endif
