// Contexts: solve symbols from shapes, allocate one block of memory, and run.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <new>

#include "error.h"
#include "machine.h"
#include "memory_present.h"
#include "model.h"
#include "pool.h"
#include "run_fault.h"
#include "segments.h"

using tc::runtime::fail;
using tc::runtime::kMaxBytes;

struct tc_context {
  uint32_t tag = 0;  // kTag while the handle is valid
  std::atomic<uint32_t> running{0};
  tc_model* model = nullptr;
  int32_t threads = 1;
  int32_t threads_used = 0;
  bool bound = false;
  int64_t* symbols = nullptr;
  int64_t* input_dims = nullptr;  // all dimensions of all inputs, in order
  int64_t* output_dims = nullptr;
  int64_t* result_dims = nullptr;  // of the last run's outputs
  int64_t* input_bytes = nullptr;  // per input
  int64_t* output_bytes = nullptr;
  bool has_results = false;            // `result_dims` are set
  const void** output_data = nullptr;  // of the last run's outputs
  tc::runtime::Segments segments;
  int64_t bytes_present = 0;  // of memory present; 0: not determined yet
  tc::runtime::RunFault fault;
  const void** inputs = nullptr;  // per run
  void** outputs = nullptr;
  tc_frame* frames = nullptr;  // per thread
  // One block: the arena, then the scratch of each thread.
  uint8_t* memory = nullptr;
  int64_t memory_bytes = 0;
  int64_t arena_bytes = 0;
  tc::runtime::ScratchBytes scratch;
  void (*step_done)(void* user, int32_t step) = nullptr;
  void* user = nullptr;
  tc::runtime::Barrier barrier;
  tc::runtime::Team team;

  static constexpr uint32_t kTag = 0x63747831;
};

namespace tc::runtime {
namespace {

bool valid(const tc_context* context) { return context != nullptr && context->tag == tc_context::kTag; }

tc_status bad_context(const char* function) {
  return fail(TC_ERROR_ARGUMENT, "%s: the context handle is null or destroyed", function);
}

int64_t total_rank(const tc_port* ports, int32_t count) {
  int64_t total = 0;
  for (int32_t i = 0; i < count; ++i) total += ports[i].rank;
  return total;
}

template <class T>
bool allocate(T*& pointer, int64_t count) {
  pointer = static_cast<T*>(calloc(static_cast<size_t>(count) + 1, sizeof(T)));
  return pointer != nullptr;
}

constexpr int64_t kHugePage = int64_t{2} << 20;

void free_memory(tc_context& context) {
  if (context.memory != nullptr) munmap(context.memory, static_cast<size_t>(context.memory_bytes));
  context.memory = nullptr;
  context.memory_bytes = 0;
}

// Maps `bytes`, aligned to huge pages where they are many: huge pages save much of the time of address
// translation. Null where the system has no memory.
uint8_t* map_memory(int64_t bytes) {
  const int64_t slack = bytes >= kHugePage ? kHugePage : 0;
  void* mapped = mmap(nullptr, static_cast<size_t>(bytes + slack), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* start = static_cast<uint8_t*>(mapped);
  if (slack == 0) return start;
  const int64_t before = -reinterpret_cast<intptr_t>(start) & (kHugePage - 1);
  if (before > 0) munmap(start, static_cast<size_t>(before));
  if (slack > before) munmap(start + before + bytes, static_cast<size_t>(slack - before));
  madvise(start + before, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return start + before;
}

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// Makes room for the arena and all threads' scratch memory. Keeps the present block where it is large enough
// and at most twice as large as needed.
tc_status reserve(tc_context& context, int64_t arena_bytes) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t needed = round_up(round_up(arena_bytes, 64) + context.scratch.before(context.threads), page);
  if (needed > context.memory_bytes || needed < context.memory_bytes / 2) {
    free_memory(context);
    if (needed > 0) {
      const MemoryPresent present = memory_present();
      context.memory = needed <= present.bytes ? map_memory(needed) : nullptr;
      if (context.memory == nullptr) return refuse_memory(context.model->descriptor->model, needed, present);
    }
    context.memory_bytes = needed;
  }
  context.arena_bytes = arena_bytes;
  return TC_OK;
}

// Checks one input's shape and takes the values of symbols from it. A symbol without a value yet is -1;
// `first_input` and `first_axis` record which input's axis gave a symbol its value.
tc_status match_shape(const tc_descriptor& d, int32_t index, const tc_shape& shape, int64_t* symbols,
                      int32_t* first_input, int32_t* first_axis) {
  const tc_port& port = d.inputs[index];
  if (shape.rank != port.rank)
    return fail(TC_ERROR_SHAPE, "input '%s' has rank %d; the model expects rank %d", port.name, shape.rank,
                port.rank);
  if (shape.rank > 0 && shape.dims == nullptr)
    return fail(TC_ERROR_ARGUMENT, "tc_context_bind: the sizes of input '%s' are null", port.name);
  for (int32_t axis = 0; axis < port.rank; ++axis) {
    const long long size = shape.dims[axis];
    if (size < 0) return fail(TC_ERROR_SHAPE, "input '%s': axis %d has the size %lld", port.name, axis, size);
    const int32_t symbol = port.dims[axis].symbol;
    if (symbol < 0) {
      const long long expected = port.dims[axis].value;
      if (size != expected)
        return fail(TC_ERROR_SHAPE, "input '%s': axis %d is %lld; the model expects %lld", port.name, axis,
                    size, expected);
      continue;
    }
    const tc_symbol& row = d.symbols[symbol];
    if (symbols[symbol] < 0) {
      if (size < row.minimum || size > row.maximum)
        return fail(TC_ERROR_SHAPE, "input '%s': axis %d ('%s') is %lld; the model takes %lld to %lld",
                    port.name, axis, row.name, size, static_cast<long long>(row.minimum),
                    static_cast<long long>(row.maximum));
      symbols[symbol] = size;
      first_input[symbol] = index;
      first_axis[symbol] = axis;
    } else if (symbols[symbol] != size) {
      return fail(TC_ERROR_SHAPE,
                  "input '%s': axis %d ('%s') is %lld, but axis %d of input '%s' makes '%s' %lld", port.name,
                  axis, row.name, size, first_axis[symbol], d.inputs[first_input[symbol]].name, row.name,
                  static_cast<long long>(symbols[symbol]));
    }
  }
  return TC_OK;
}

// Whether the output's size has no bound before the run; `dims` are the sizes that bind() gave.
bool has_no_bound(const tc_port& port, const int64_t* dims) {
  for (int32_t i = 0; i < port.rank; ++i)
    if (port.dims[i].symbol == -3 && dims[i] == -1) return true;
  return false;
}

// Bytes of all ports under the given sizes; -1 where there is no bound.
tc_status count_bytes(const tc_port* ports, int32_t count, const int64_t* dims, int64_t* bytes,
                      const char* kind) {
  for (int32_t i = 0; i < count; ++i) {
    bytes[i] = byte_count(dims, ports[i].rank, ports[i].dtype);
    if (bytes[i] < 0 && !has_no_bound(ports[i], dims))
      return fail(TC_ERROR_SHAPE, "%s '%s' is too large for these shapes", kind, ports[i].name);
    dims += ports[i].rank;
  }
  return TC_OK;
}

bool same_shapes(const tc_context& context, const tc_shape* shapes) {
  const tc_descriptor& d = *context.model->descriptor;
  const int64_t* dims = context.input_dims;
  for (int32_t i = 0; i < d.input_count; ++i) {
    const int32_t rank = d.inputs[i].rank;
    if (shapes[i].rank != rank || (rank > 0 && shapes[i].dims == nullptr)) return false;
    if (rank > 0 && memcmp(shapes[i].dims, dims, sizeof(int64_t) * static_cast<size_t>(rank)) != 0)
      return false;
    dims += rank;
  }
  return true;
}

tc_status bind_shapes(tc_context& context, const tc_shape* shapes) {
  const tc_descriptor& d = *context.model->descriptor;
  context.bound = false;
  int32_t* first_input;
  int32_t* first_axis;
  const bool room = allocate(first_input, d.symbol_count);
  if (!allocate(first_axis, d.symbol_count) || !room) {
    free(first_input);
    free(first_axis);
    return fail(TC_ERROR_MEMORY, "model '%s': out of memory", d.model);
  }
  for (int32_t i = 0; i < d.symbol_count; ++i) context.symbols[i] = -1;
  tc_status status = TC_OK;
  int64_t* dims = context.input_dims;
  for (int32_t i = 0; i < d.input_count && status == TC_OK; ++i) {
    status = match_shape(d, i, shapes[i], context.symbols, first_input, first_axis);
    if (status != TC_OK) break;
    for (int32_t axis = 0; axis < d.inputs[i].rank; ++axis) *dims++ = shapes[i].dims[axis];
  }
  free(first_input);
  free(first_axis);
  if (status != TC_OK) return status;
  const int64_t arena_bytes = d.bind(context.symbols, context.output_dims);
  const ScratchBytes scratch = scratch_for(d, context.symbols);
  if (arena_bytes < 0 || arena_bytes > kMaxBytes || scratch.other < 0)
    return fail(TC_ERROR_SHAPE, "model '%s': these shapes are too large, or too small for a window", d.model);
  status = count_bytes(d.inputs, d.input_count, context.input_dims, context.input_bytes, "input");
  if (status != TC_OK) return status;
  status = count_bytes(d.outputs, d.output_count, context.output_dims, context.output_bytes, "output");
  if (status != TC_OK) return status;
  context.scratch = scratch;
  status = reserve(context, arena_bytes);
  context.bound = status == TC_OK;
  context.has_results = false;
  return status;
}

// Binds a model without symbols.
tc_status bind_fixed(tc_context& context) {
  const tc_descriptor& d = *context.model->descriptor;
  tc_shape* shapes;
  int64_t* dims;
  const bool room = allocate(shapes, d.input_count);
  if (!allocate(dims, total_rank(d.inputs, d.input_count)) || !room) {
    free(shapes);
    free(dims);
    return fail(TC_ERROR_MEMORY, "model '%s': out of memory", d.model);
  }
  int64_t* next = dims;
  for (int32_t i = 0; i < d.input_count; ++i) {
    shapes[i] = {next, d.inputs[i].rank, 0};
    for (int32_t axis = 0; axis < d.inputs[i].rank; ++axis) *next++ = d.inputs[i].dims[axis].value;
  }
  const tc_status status = bind_shapes(context, shapes);
  free(shapes);
  free(dims);
  return status;
}

void destroy(tc_context* context) {
  context->tag = 0;
  free_memory(*context);
  destroy_segments(context->segments);
  free(context->output_data);
  free(context->symbols);
  free(context->input_dims);
  free(context->output_dims);
  free(context->result_dims);
  free(context->input_bytes);
  free(context->output_bytes);
  free(context->inputs);
  free(context->outputs);
  free(context->frames);
  release(context->model);
  context->~tc_context();
  free(context);
}

void wait_for_threads(const tc_frame* frame) {
  if (frame->threads > 1) static_cast<tc_context*>(frame->owner)->barrier.arrive_and_wait();
}

void note_wrong_size(const tc_frame* frame, int32_t step, int64_t size, int64_t bound) {
  static_cast<tc_context*>(frame->owner)->fault = {RunFault::Kind::Size, step, size, bound, 0};
}

void note_unrelated(const tc_frame* frame, int32_t step, int64_t left, int64_t right) {
  static_cast<tc_context*>(frame->owner)->fault = {RunFault::Kind::Relation, step, left, right, 0};
}

void grow(const tc_frame* frame, int32_t step, int32_t segment, int64_t bytes, int64_t size, int64_t limit) {
  tc_context& context = *static_cast<tc_context*>(frame->owner);
  // Determined once, since a loop may grow a segment in each iteration.
  if (limit <= 0 && context.bytes_present == 0) context.bytes_present = memory_present().bytes;
  const int64_t all = limit > 0 ? limit : context.bytes_present / 2;
  grow_segment(context.segments, segment, bytes,
               all - context.memory_bytes - context.model->descriptor->constant_bytes);
  if (context.segments.places[segment] == nullptr)
    context.fault = {RunFault::Kind::Memory, step, size, bytes > kMaxBytes ? -1 : bytes, all};
}

void report_step(const tc_frame* frame, int32_t step) {
  tc_context& context = *static_cast<tc_context*>(frame->owner);
  context.step_done(context.user, step);
}

// Checks one buffer and stores its pointer.
template <class Pointer>
tc_status check_buffer(const char* kind, const tc_port& port, Pointer data, uint64_t bytes,
                       int64_t expected) {
  if (bytes != static_cast<uint64_t>(expected))
    return fail(TC_ERROR_ARGUMENT, "%s '%s': the buffer has %llu bytes; the shape needs %lld", kind,
                port.name, static_cast<unsigned long long>(bytes), static_cast<long long>(expected));
  if (data == nullptr && expected > 0)
    return fail(TC_ERROR_ARGUMENT, "%s '%s': the buffer is null", kind, port.name);
  const auto alignment = static_cast<uintptr_t>(tc_dtype_size(port.dtype));
  if (reinterpret_cast<uintptr_t>(data) % alignment != 0)
    return fail(TC_ERROR_ARGUMENT, "%s '%s': the buffer is not aligned to its elements' %d bytes", kind,
                port.name, static_cast<int>(alignment));
  return TC_OK;
}

tc_status check_buffers(tc_context& context, const tc_input_buffer* inputs, const tc_output_buffer* outputs) {
  const tc_descriptor& d = *context.model->descriptor;
  for (int32_t i = 0; i < d.input_count; ++i) {
    const tc_status status =
        check_buffer("input", d.inputs[i], inputs[i].data, inputs[i].bytes, context.input_bytes[i]);
    if (status != TC_OK) return status;
    context.inputs[i] = inputs[i].data;
  }
  for (int32_t i = 0; i < d.output_count; ++i) {
    if (context.output_bytes[i] < 0 && (outputs[i].data != nullptr || outputs[i].bytes != 0))
      return fail(TC_ERROR_ARGUMENT,
                  "output '%s': its size has no bound, so that it takes no buffer; give null and "
                  "read tc_context_result_data after the run",
                  d.outputs[i].name);
    const tc_status status = check_buffer("output", d.outputs[i], outputs[i].data, outputs[i].bytes,
                                          context.output_bytes[i] < 0 ? 0 : context.output_bytes[i]);
    if (status != TC_OK) return status;
    context.outputs[i] = outputs[i].data;
  }
  return check_in_place(d, {context.inputs, context.input_bytes}, {context.outputs, context.output_bytes});
}

void run_frames(tc_context& context) {
  const tc_descriptor& d = *context.model->descriptor;
  take_workers(context.team, context.threads - 1);
  const int32_t threads = context.team.count + 1;
  const uint64_t spin = spin_time();
  context.barrier.reset(threads, spin);
  context.threads_used = threads;
  uint8_t* scratch = context.memory + round_up(context.arena_bytes, 64);
  for (int32_t i = 0; i < threads; ++i) {
    tc_frame& frame = context.frames[i];
    frame.inputs = const_cast<void* const*>(context.inputs);
    frame.outputs = context.outputs;
    frame.arena = context.memory;
    frame.scratch = scratch + context.scratch.before(i);
    frame.symbols = context.symbols;
    frame.thread = i;
    frame.threads = threads;
    frame.barrier = wait_for_threads;
    frame.step_done = context.step_done != nullptr ? report_step : nullptr;
    frame.owner = &context;
    frame.output_dims = context.result_dims;
    frame.wrong_size = note_wrong_size;
    frame.segments = context.segments.places;
    frame.grow = grow;
    frame.unrelated = note_unrelated;
    frame.output_data = context.output_data;
  }
  context.fault = {};
  for (int32_t i = 0; i < d.output_count; ++i) context.output_data[i] = context.outputs[i];
  memcpy(context.result_dims, context.output_dims,
         sizeof(int64_t) * static_cast<size_t>(total_rank(d.outputs, d.output_count)));
  const FloatMode mode = set_default_float_mode();
  start(context.team, d.run, context.frames + 1);
  d.run(context.frames);
  finish(context.team, spin);
  restore_float_mode(mode);
}

// Whether the run finished, with outputs that fit into their buffers.
tc_status check_results(tc_context& context) {
  const tc_descriptor& d = *context.model->descriptor;
  if (context.fault.step >= 0) {
    if (context.fault.kind == RunFault::Kind::Memory) clear_segments(context.segments);
    return tell(d, context.fault);
  }
  const int64_t* dims = context.result_dims;
  for (int32_t i = 0; i < d.output_count; ++i) {
    const int64_t bytes = byte_count(dims, d.outputs[i].rank, d.outputs[i].dtype);
    const bool fits = context.output_bytes[i] < 0 ? context.output_data[i] != nullptr || bytes == 0
                                                  : bytes <= context.output_bytes[i];
    if (bytes < 0 || !fits)
      return fail(TC_ERROR_MODEL, "model '%s': output '%s' does not fit its buffer; compile the model again",
                  d.model, d.outputs[i].name);
    dims += d.outputs[i].rank;
  }
  context.has_results = true;
  return TC_OK;
}

// Marks the context as running while this object exists; `taken` is false where another thread is running it.
class Running {
 public:
  explicit Running(tc_context& context) : context_(context) {
    taken = context.running.exchange(1, std::memory_order_acquire) == 0;
  }
  ~Running() {
    if (taken) context_.running.store(0, std::memory_order_release);
  }
  bool taken;

 private:
  tc_context& context_;
};

tc_status busy(const tc_context& context) {
  return fail(TC_ERROR_BUSY,
              "a context of model '%s' is running in another thread; give each thread "
              "its own",
              context.model->descriptor->model);
}

// The inputs or the outputs of a context: dimensions of all of them, one after the other; bytes of each.
struct Ports {
  const tc_port* ports;
  int32_t count;
  const int64_t *all_dims, *all_bytes;
};

// Where the caller wants the shape of one port to be written; null pointers are skipped.
struct ShapeWanted {
  int64_t* dims;
  int32_t* rank;
  uint64_t* bytes;
};

tc_status port_shape(const char* function, const tc_context& context, const Ports& of, int32_t index,
                     const ShapeWanted& wanted) {
  const auto& [ports, count, first_dims, all_bytes] = of;
  const auto& [dims, rank, bytes] = wanted;
  if (index < 0 || index >= count)
    return fail(TC_ERROR_ARGUMENT, "%s: index %d is out of range; the model has %d", function, index, count);
  if (!context.bound)
    return fail(TC_ERROR_SHAPE, "%s: model '%s' has no shapes yet; call tc_context_bind first", function,
                context.model->descriptor->model);
  const int64_t* all_dims = first_dims + total_rank(ports, index);
  if (rank != nullptr) *rank = ports[index].rank;
  if (bytes != nullptr) *bytes = all_bytes[index] < 0 ? 0 : static_cast<uint64_t>(all_bytes[index]);
  for (int32_t i = 0; dims != nullptr && i < ports[index].rank; ++i) dims[i] = all_dims[i];
  return TC_OK;
}

}  // namespace
}  // namespace tc::runtime

using namespace tc::runtime;

extern "C" {

tc_status tc_context_create(tc_model* model, int32_t threads, tc_context** context) {
  if (context == nullptr) return fail(TC_ERROR_ARGUMENT, "tc_context_create: context is null");
  *context = nullptr;
  if (!tc::runtime::valid(model)) return bad_model("tc_context_create");
  if (threads < 0 || threads > TC_MAX_THREADS)
    return fail(TC_ERROR_ARGUMENT,
                "tc_context_create: %d threads; give 1 to %d, or 0 for the "
                "model's default",
                threads, TC_MAX_THREADS);
  const tc_descriptor& d = *model->descriptor;
  void* memory = aligned_alloc(alignof(tc_context), sizeof(tc_context));
  if (memory == nullptr) return fail(TC_ERROR_MEMORY, "model '%s': out of memory", d.model);
  tc_context* made = new (memory) tc_context;
  model->users.fetch_add(1, std::memory_order_relaxed);
  made->model = model;
  made->threads = threads > 0 ? threads : model->default_threads;
  if (!allocate(made->symbols, d.symbol_count) ||
      !allocate(made->input_dims, total_rank(d.inputs, d.input_count)) ||
      !allocate(made->output_dims, total_rank(d.outputs, d.output_count)) ||
      !allocate(made->result_dims, total_rank(d.outputs, d.output_count)) ||
      !allocate(made->input_bytes, d.input_count) || !allocate(made->output_bytes, d.output_count) ||
      !allocate(made->inputs, d.input_count) || !allocate(made->outputs, d.output_count) ||
      !allocate(made->output_data, d.output_count) || !make_segments(made->segments, d.segment_count) ||
      !allocate(made->frames, made->threads)) {
    destroy(made);
    return fail(TC_ERROR_MEMORY, "model '%s': out of memory", d.model);
  }
  if (d.symbol_count == 0) {
    if (const tc_status status = bind_fixed(*made); status != TC_OK) {
      destroy(made);
      return status;
    }
  }
  made->tag = tc_context::kTag;
  *context = made;
  return TC_OK;
}

void tc_context_destroy(tc_context* context) {
  if (valid(context)) destroy(context);
}

tc_status tc_context_bind(tc_context* context, const tc_shape* shapes, int32_t count) {
  if (!valid(context)) return bad_context("tc_context_bind");
  const tc_descriptor& d = *context->model->descriptor;
  if (count != d.input_count)
    return fail(TC_ERROR_ARGUMENT, "tc_context_bind: %d shapes; model '%s' has %d inputs", count, d.model,
                d.input_count);
  if (shapes == nullptr && count > 0) return fail(TC_ERROR_ARGUMENT, "tc_context_bind: shapes is null");
  Running running(*context);
  if (!running.taken) return busy(*context);
  if (context->bound && same_shapes(*context, shapes)) return TC_OK;
  return bind_shapes(*context, shapes);
}

tc_status tc_context_input_shape(const tc_context* context, int32_t index, int64_t* dims, int32_t* rank,
                                 uint64_t* bytes) {
  if (!valid(context)) return bad_context("tc_context_input_shape");
  const tc_descriptor& d = *context->model->descriptor;
  const Ports inputs = {d.inputs, d.input_count, context->input_dims, context->input_bytes};
  return port_shape("tc_context_input_shape", *context, inputs, index, {dims, rank, bytes});
}

tc_status tc_context_output_shape(const tc_context* context, int32_t index, int64_t* dims, int32_t* rank,
                                  uint64_t* bytes) {
  if (!valid(context)) return bad_context("tc_context_output_shape");
  const tc_descriptor& d = *context->model->descriptor;
  const Ports outputs = {d.outputs, d.output_count, context->output_dims, context->output_bytes};
  return port_shape("tc_context_output_shape", *context, outputs, index, {dims, rank, bytes});
}

tc_status tc_context_result_shape(const tc_context* context, int32_t index, int64_t* dims, int32_t* rank,
                                  uint64_t* bytes) {
  if (!valid(context)) return bad_context("tc_context_result_shape");
  if (context->bound && !context->has_results)
    return fail(TC_ERROR_ARGUMENT,
                "tc_context_result_shape: model '%s' has no results yet; call "
                "tc_context_run first",
                context->model->descriptor->model);
  const tc_descriptor& d = *context->model->descriptor;
  const Ports outputs = {d.outputs, d.output_count, context->result_dims, context->output_bytes};
  const tc_status status =
      port_shape("tc_context_result_shape", *context, outputs, index, {dims, rank, nullptr});
  if (status == TC_OK && bytes != nullptr)
    *bytes = static_cast<uint64_t>(byte_count(context->result_dims + total_rank(d.outputs, index),
                                              d.outputs[index].rank, d.outputs[index].dtype));
  return status;
}

tc_status tc_context_result_data(const tc_context* context, int32_t index, const void** data) {
  if (!valid(context)) return bad_context("tc_context_result_data");
  const tc_descriptor& d = *context->model->descriptor;
  if (index < 0 || index >= d.output_count)
    return fail(TC_ERROR_ARGUMENT, "tc_context_result_data: index %d is out of range; the model has %d",
                index, d.output_count);
  if (!context->has_results)
    return fail(TC_ERROR_ARGUMENT,
                "tc_context_result_data: model '%s' has no results yet; call tc_context_run first", d.model);
  if (data == nullptr) return fail(TC_ERROR_ARGUMENT, "tc_context_result_data: data is null");
  *data = context->output_data[index];
  return TC_OK;
}

tc_status tc_context_memory(const tc_context* context, tc_memory_info* info) {
  if (!valid(context)) return bad_context("tc_context_memory");
  tc_memory_info filled = {};
  filled.constant_bytes = context->model->descriptor->constant_bytes;
  filled.arena_bytes = context->bound ? context->arena_bytes + context->segments.all_bytes : 0;
  filled.scratch_bytes = context->scratch.before(context->threads);
  return hand_out("tc_context_memory", filled, info);
}

tc_status tc_context_run(tc_context* context, const tc_input_buffer* inputs, int32_t input_count,
                         const tc_output_buffer* outputs, int32_t output_count) {
  if (!valid(context)) return bad_context("tc_context_run");
  const tc_descriptor& d = *context->model->descriptor;
  if (input_count != d.input_count || output_count != d.output_count)
    return fail(TC_ERROR_ARGUMENT, "tc_context_run: %d inputs and %d outputs; model '%s' has %d and %d",
                input_count, output_count, d.model, d.input_count, d.output_count);
  if ((inputs == nullptr && input_count > 0) || (outputs == nullptr && output_count > 0))
    return fail(TC_ERROR_ARGUMENT, "tc_context_run: inputs or outputs is null");
  Running running(*context);
  if (!running.taken) return busy(*context);
  if (!context->bound)
    return fail(TC_ERROR_SHAPE,
                "tc_context_run: model '%s' has no shapes yet; call "
                "tc_context_bind first",
                d.model);
  if (const tc_status status = check_buffers(*context, inputs, outputs); status != TC_OK) return status;
  context->has_results = false;
  run_frames(*context);
  return check_results(*context);
}

int32_t tc_context_threads_used(const tc_context* context) {
  return valid(context) ? context->threads_used : 0;
}

tc_status tc_context_set_profile(tc_context* context, void (*step_done)(void* user, int32_t step),
                                 void* user) {
  if (!valid(context)) return bad_context("tc_context_set_profile");
  Running running(*context);
  if (!running.taken) return busy(*context);
  context->step_done = step_done;
  context->user = user;
  return TC_OK;
}
}
