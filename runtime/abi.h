/* What a compiled model exports and what the runtime gives it: the binary contract between
 * generated code and the runtime. Plain C; append only, and raise TC_ABI_VERSION on a change. */
#ifndef TC_RUNTIME_ABI_H_
#define TC_RUNTIME_ABI_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TC_ABI_MAGIC 0x30314354u /* "TC10" */
/* A runtime takes models of all versions up to its own. Version 2 has sizes that a run computes, version 3
 * such sizes without a bound and relations of sizes that a run checks, version 4 scratch memory by sizes,
 * version 5 less of it for the first thread, version 6 outputs in the memory of inputs; a model has the least
 * version that has what it needs. */
#define TC_ABI_VERSION 6u
/* Inputs that a model may have, and outputs. */
#define TC_MOST_PORTS 65536
/* Symbol of the descriptor in every artefact: a weak one, beside NAME_descriptor of the file NAME.so, NAME.a
 * or NAME.o. */
#define TC_DESCRIPTOR_SYMBOL "tc_model_descriptor"

/* Element types, in the order of tc::DType. Elements of fewer than 8 bits have a byte each, the value in its
 * low bits, whose other bits are ignored in inputs. */
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
  uint8_t* arena;   /* bind()'s size, 64-byte aligned */
  uint8_t* scratch; /* first_scratch_bytes, scratch_bytes or scratch()'s of this thread, 64-byte aligned */
  const int64_t* symbols; /* values in the order of the descriptor */
  int32_t thread, threads;
  /* Waits until all threads of the run are here. Never null; does nothing for one thread. */
  void (*barrier)(const struct tc_frame*);
  /* Called by thread 0 after step `step` where not null (profiling). */
  void (*step_done)(const struct tc_frame*, int32_t step);
  void* owner; /* the runtime's */
  /* From version 2 on. run() writes the sizes of all dimensions of all outputs, in order, here. */
  int64_t* output_dims;
  /* Called by thread 0 where step `step` finds a size that is not 0 to `bound`; run() returns on all threads
   * then. */
  void (*wrong_size)(const struct tc_frame*, int32_t step, int64_t size, int64_t bound);
  /* From version 3 on. Memory beside the arena: one pointer per segment of the descriptor. */
  uint8_t* const* segments;
  /* Called by thread 0: segment `segment` is to have room for `bytes`, and keeps what it holds. `size` is the
   * size that asks for them, for the error; `limit` is what the model may use in all, 0 for what the machine
   * has. The segment is null where `bytes` are negative or memory is out; run() returns on all threads then.
   * */
  void (*grow)(const struct tc_frame*, int32_t step, int32_t segment, int64_t bytes, int64_t size,
               int64_t limit);
  /* Called by thread 0 where the sizes of step `step` do not have the relation that its label tells; run()
   * returns on all threads then. */
  void (*unrelated)(const struct tc_frame*, int32_t step, int64_t left, int64_t right);
  /* run() writes where the elements of each output lie whose buffer is null: one without a bound. */
  const void** output_data;
} tc_frame;

/* A dimension of an input or output: a number (symbol == -1) or the value of a symbol (inputs); for outputs
 * that are neither, symbol == -2 and bind() tells. From version 2 on, -3 is a dimension of an output that the
 * run computes: bind() tells what it is at most, and run() what it is. Its elements lie densely at the begin
 * of the buffer. From version 3 on bind() tells -1 where there is no bound; the output has no buffer then. */
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
  /* Arena bytes for these symbols; writes the sizes of all dimensions of all outputs in order.
   * Negative where a size overflows or a symbol is out of range. */
  int64_t (*bind)(const int64_t* symbols, int64_t* output_dims);
  void (*run)(const tc_frame* frame);
  int64_t scratch_bytes; /* per thread */
  const uint8_t* constants;
  int64_t constant_bytes;
  int32_t default_threads; /* 0: as many as the machine has cores */
  int32_t segment_count;   /* from version 3 on; 0 before */
  /* From version 4 on, where the descriptor is that large; may be null. What scratch a thread needs for these
   * symbols if that is more than scratch_bytes; negative where a size overflows. */
  int64_t (*scratch)(const int64_t* symbols);
  /* From version 5 on, in place of scratch_bytes for thread 0, which has what it needs beside it in the
   * arena. */
  int64_t first_scratch_bytes;
  /* From version 6 on: for each output the input that run() takes in the same memory, or -1; null where there
   * is none. No two outputs have one input. Where the memory is the same run() does not copy what it keeps.
   */
  const int32_t* in_place;
} tc_descriptor;

#ifdef __cplusplus
}
#endif
#endif
