// Descriptors: checks them, and gives access to their contents.
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include <new>

#include "error.h"
#include "machine.h"
#include "weights.h"

// Weak: tc's linker puts it into programs whose model has its weights in a file (link_executable in
// codegen/llvm/artefact/link.cc).
extern "C" __attribute__((weak)) tc_status tc_map_linked_weights(const tc_descriptor* descriptor);

namespace tc::runtime {
namespace {

constexpr size_t kMaxOfFile = 256;  // of a file's name, with the zero at its end

struct DTypeRow {
  const char* name;
  int64_t size;
};
// In the order of tc_dtype.
constexpr DTypeRow kDTypes[] = {
    {"f32", 4},    {"f64", 8},      {"f16", 2},        {"bf16", 2},   {"i8", 1},         {"i16", 2},
    {"i32", 4},    {"i64", 8},      {"u8", 1},         {"u16", 2},    {"u32", 4},        {"u64", 8},
    {"bool", 1},   {"f8e4m3fn", 1}, {"f8e4m3fnuz", 1}, {"f8e5m2", 1}, {"f8e5m2fnuz", 1}, {"f8e8m0", 1},
    {"f4e2m1", 1}, {"i4", 1},       {"u4", 1},         {"i2", 1},     {"u2", 1}};

tc_status damaged(const char* origin, const char* what) {
  return fail(TC_ERROR_MODEL, "%s: the model's descriptor is damaged (%s); compile the model again", origin,
              what);
}

// What is wrong with a port, or null. Marks the symbols that inputs define.
const char* port_fault(const tc_descriptor& d, const tc_port& port, bool input, uint8_t* defined) {
  if (port.name == nullptr) return "a port without a name";
  if (tc_dtype_size(port.dtype) == 0) return "a port of an unknown element type";
  if (port.rank < 0 || port.rank > TC_MAX_RANK) return "a port's rank is out of range";
  if (port.rank > 0 && port.dims == nullptr) return "a port without sizes";
  for (int32_t i = 0; i < port.rank; ++i) {
    const tc_dim& dim = port.dims[i];
    if (dim.symbol >= d.symbol_count || dim.symbol < (input ? -1 : d.abi_version < 2 ? -2 : -3))
      return "a port's symbol is out of range";
    if (dim.symbol == -1 && (dim.value < 0 || dim.value > kMaxBytes)) return "a port's size is out of range";
    if (input && dim.symbol >= 0) defined[dim.symbol] = 1;
  }
  return nullptr;
}

// What is wrong with the pairs of an input and an output that may share memory, or null. The ports have been
// checked before.
const char* pairs_fault(const tc_descriptor& d) {
  const int32_t* pairs = in_place(d);
  if (pairs == nullptr) return nullptr;
  uint8_t* taken = static_cast<uint8_t*>(calloc(static_cast<size_t>(d.input_count) + 1, 1));
  if (taken == nullptr) return "no memory to check it";
  const char* fault = nullptr;
  for (int32_t i = 0; i < d.output_count && fault == nullptr; ++i) {
    if (pairs[i] < -1 || pairs[i] >= d.input_count) fault = "an output lies in an input that there is not";
    else if (pairs[i] >= 0 && taken[pairs[i]]++ != 0) fault = "two outputs lie in one input";
    else if (pairs[i] >= 0 && d.inputs[pairs[i]].dtype != d.outputs[i].dtype)
      fault = "an output lies in an input of another type";
  }
  free(taken);
  return fault;
}

// What is wrong with what it says of weights in a file beside the artefact, or null.
const char* weights_fault(const tc_descriptor& d) {
  if (!has_weights_beside(d)) return nullptr;
  if (d.weights_file == nullptr || d.weights == nullptr || d.constant_bytes == 0)
    return "it has no weights where it says so";
  const size_t length = strnlen(d.weights_file, kMaxOfFile);
  const bool is_name = length > 0 && length < kMaxOfFile && strchr(d.weights_file, '/') == nullptr &&
                       strcmp(d.weights_file, ".") != 0 && strcmp(d.weights_file, "..") != 0;
  return is_name ? nullptr : "the file of its weights has a name that is none";
}

// What is wrong with the descriptor beyond its magic and version, or null.
const char* descriptor_fault(const tc_descriptor& d) {
  if (d.model == nullptr || d.target == nullptr || d.features == nullptr || d.provenance == nullptr)
    return "a text is missing";
  if (d.bind == nullptr || d.run == nullptr) return "its code is missing";
  if (d.input_count < 0 || d.input_count > kMaxPorts || d.output_count < 0 || d.output_count > kMaxPorts ||
      d.symbol_count < 0 || d.symbol_count > kMaxPorts || d.step_count < 0)
    return "a count is out of range";
  if ((d.input_count > 0 && d.inputs == nullptr) || (d.output_count > 0 && d.outputs == nullptr) ||
      (d.symbol_count > 0 && d.symbols == nullptr) || (d.step_count > 0 && d.steps == nullptr))
    return "a table is missing";
  if (d.scratch_bytes < 0 || d.scratch_bytes > kMaxBytes) return "scratch size is out of range";
  if (d.abi_version >= 5 && (d.first_scratch_bytes < 0 || d.first_scratch_bytes > d.scratch_bytes))
    return "the first thread's scratch size is out of range";
  if (d.constant_bytes < 0 || d.constant_bytes > kMaxBytes) return "constants' size is out of range";
  if (const char* fault = weights_fault(d); fault != nullptr) return fault;
  if (d.default_threads < 0 || d.default_threads > TC_MAX_THREADS)
    return "default number of threads is out of range";
  if (d.segment_count < 0 || d.segment_count > (d.abi_version < 3 ? 0 : kMaxPorts))
    return "a count is out of range";
  uint8_t* defined = static_cast<uint8_t*>(calloc(static_cast<size_t>(d.symbol_count) + 1, 1));
  if (defined == nullptr) return "no memory to check it";
  const char* fault = nullptr;
  for (int32_t i = 0; i < d.input_count && fault == nullptr; ++i)
    fault = port_fault(d, d.inputs[i], true, defined);
  for (int32_t i = 0; i < d.output_count && fault == nullptr; ++i)
    fault = port_fault(d, d.outputs[i], false, defined);
  for (int32_t i = 0; i < d.symbol_count && fault == nullptr; ++i) {
    if (d.symbols[i].name == nullptr) fault = "a symbol without a name";
    else if (defined[i] == 0) fault = "a symbol that no input has";
  }
  free(defined);
  return fault != nullptr ? fault : pairs_fault(d);
}

tc_status fill_port(const char* function, const tc_descriptor& d, const tc_port& port, tc_port_info* info) {
  tc_port_info filled = {};
  filled.name = port.name;
  filled.dtype = port.dtype;
  filled.rank = port.rank;
  for (int32_t i = 0; i < port.rank; ++i) {
    const tc_dim& dim = port.dims[i];
    filled.dims[i] = dim.symbol == -1 ? dim.value : -1;
    filled.symbols[i] = dim.symbol >= 0 ? d.symbols[dim.symbol].name : nullptr;
  }
  return hand_out(function, filled, info);
}

tc_status bad_index(const char* function, int32_t index, int32_t count) {
  return fail(TC_ERROR_ARGUMENT, "%s: index %d is out of range; the model has %d", function, index, count);
}

}  // namespace

int64_t byte_count(const int64_t* dims, int32_t rank, int32_t dtype) {
  int64_t bytes = tc_dtype_size(dtype);
  bool empty = false;
  for (int32_t i = 0; i < rank; ++i) {
    if (dims[i] < 0) return -1;
    if (dims[i] == 0) empty = true;
  }
  if (empty) return 0;
  for (int32_t i = 0; i < rank; ++i)
    if (__builtin_mul_overflow(bytes, dims[i], &bytes) || bytes > kMaxBytes) return -1;
  return bytes;
}

tc_status check_in_place(const tc_descriptor& d, const BuffersOf& inputs, const BuffersOf& outputs) {
  const int32_t* pairs = in_place(d);
  for (int32_t o = 0; pairs != nullptr && o < d.output_count; ++o) {
    if (outputs.bytes[o] <= 0) continue;
    const auto output = reinterpret_cast<uintptr_t>(outputs.data[o]);
    for (int32_t i = 0; i < d.input_count; ++i) {
      const auto input = reinterpret_cast<uintptr_t>(inputs.data[i]);
      const bool apart = output >= input + static_cast<uintptr_t>(inputs.bytes[i]) ||
                         input >= output + static_cast<uintptr_t>(outputs.bytes[o]);
      if (apart || (pairs[o] == i && input == output)) continue;
      if (pairs[o] >= 0)
        return fail(TC_ERROR_ARGUMENT,
                    "tc_context_run: the buffers of input '%s' and output '%s' overlap; give the output the "
                    "buffer of input '%s', or one apart from all inputs",
                    d.inputs[i].name, d.outputs[o].name, d.inputs[pairs[o]].name);
      return fail(TC_ERROR_ARGUMENT,
                  "tc_context_run: the buffers of input '%s' and output '%s' overlap; give the output one "
                  "apart from all inputs",
                  d.inputs[i].name, d.outputs[o].name);
    }
  }
  return TC_OK;
}

ScratchBytes scratch_for(const tc_descriptor& d, const int64_t* symbols) {
  const int64_t by_sizes = d.abi_version < 4 || d.scratch == nullptr ? 0 : d.scratch(symbols);
  if (by_sizes < 0 || by_sizes > kMaxBytes / TC_MAX_THREADS || d.scratch_bytes > kMaxBytes / TC_MAX_THREADS)
    return {-1, -1};
  const auto of = [&](int64_t bytes) { return ((by_sizes > bytes ? by_sizes : bytes) + 63) / 64 * 64; };
  return {of(d.abi_version < 5 ? d.scratch_bytes : d.first_scratch_bytes), of(d.scratch_bytes)};
}

// The size of a descriptor of that version.
size_t size_of_version(uint32_t version) {
  return version < 4   ? offsetof(tc_descriptor, scratch)
         : version < 5 ? offsetof(tc_descriptor, first_scratch_bytes)
         : version < 6 ? offsetof(tc_descriptor, in_place)
         : version < 7 ? offsetof(tc_descriptor, weights_file)
                       : sizeof(tc_descriptor);
}

tc_status bad_model(const char* function) {
  return fail(TC_ERROR_ARGUMENT, "%s: the model handle is null or closed", function);
}

tc_status make_model(const tc_descriptor* descriptor, const char* origin, tc_model** model) {
  const tc_descriptor& d = *descriptor;
  if (d.magic != TC_ABI_MAGIC)
    return fail(TC_ERROR_MODEL, "%s: not a compiled model (its descriptor starts with %08x)", origin,
                d.magic);
  if (d.abi_version < 1 || d.abi_version > TC_ABI_VERSION)
    return fail(TC_ERROR_MODEL,
                "%s: the model has interface version %u, this runtime (%s) takes 1 to %u; compile the "
                "model again, or use the runtime of its compiler",
                origin, d.abi_version, tc_runtime_version(), TC_ABI_VERSION);
  if (d.struct_size < size_of_version(d.abi_version)) return damaged(origin, "it is too short");
  if (const char* fault = descriptor_fault(d)) return damaged(origin, fault);
  char missing[160];
  if (!has_features(d.features, missing, sizeof missing))
    return fail(TC_ERROR_TARGET,
                "%s: compiled for target '%s', which needs the CPU feature %s. Compile for a target "
                "that this machine has",
                origin, d.target, missing);
  if (!enable_features(d.features))
    return fail(TC_ERROR_TARGET,
                "%s: compiled for target '%s', which uses AMX, and the system does not grant its tile "
                "registers. Compile for the target with ',-amx-tile' behind its name",
                origin, d.target);
  void* memory = malloc(sizeof(tc_model));
  if (memory == nullptr) return fail(TC_ERROR_MEMORY, "%s: out of memory", origin);
  tc_model* made = new (memory) tc_model;
  made->descriptor = descriptor;
  made->default_threads = d.default_threads > 0 ? d.default_threads : core_count();
  if (made->default_threads > TC_MAX_THREADS) made->default_threads = TC_MAX_THREADS;
  made->tag = tc_model::kTag;
  *model = made;
  return TC_OK;
}

void release(tc_model* model) {
  if (model->users.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (model->unload != nullptr) model->unload(model->library);
  free(model);
}

}  // namespace tc::runtime

using namespace tc::runtime;

extern "C" {

int32_t tc_core_count(void) { return core_count(); }

int64_t tc_dtype_size(int32_t dtype) {
  if (dtype < 0 || dtype >= static_cast<int32_t>(sizeof kDTypes / sizeof kDTypes[0])) return 0;
  return kDTypes[dtype].size;
}

const char* tc_dtype_name(int32_t dtype) { return tc_dtype_size(dtype) == 0 ? nullptr : kDTypes[dtype].name; }

tc_status tc_model_open_linked(const tc_descriptor* descriptor, tc_model** model) {
  if (model == nullptr) return fail(TC_ERROR_ARGUMENT, "tc_model_open_linked: model is null");
  *model = nullptr;
  if (descriptor == nullptr) return fail(TC_ERROR_ARGUMENT, "tc_model_open_linked: descriptor is null");
  const tc_status status = make_model(descriptor, "linked model", model);
  if (status != TC_OK) return status;
  if (!has_weights_beside(*descriptor)) return TC_OK;
  const tc_status mapped =
      tc_map_linked_weights != nullptr
          ? tc_map_linked_weights(descriptor)
          : damaged("linked model", "its weights are in a file, which only programs that tc links can have");
  if (mapped != TC_OK) {
    tc_model_close(*model);
    *model = nullptr;
  }
  return mapped;
}

void tc_model_close(tc_model* model) {
  if (!valid(model)) return;
  model->tag = 0;
  release(model);
}

tc_status tc_model_get_info(const tc_model* model, tc_model_info* info) {
  if (!valid(model)) return bad_model("tc_model_get_info");
  const tc_descriptor& d = *model->descriptor;
  tc_model_info filled = {};
  filled.model = d.model;
  filled.target = d.target;
  filled.features = d.features;
  filled.provenance = d.provenance;
  filled.constant_bytes = d.constant_bytes;
  filled.scratch_bytes = d.scratch_bytes;
  filled.symbol_count = d.symbol_count;
  filled.step_count = d.step_count;
  filled.default_threads = model->default_threads;
  filled.weights = model->weights;
  return hand_out("tc_model_get_info", filled, info);
}

int32_t tc_model_input_count(const tc_model* model) {
  return valid(model) ? model->descriptor->input_count : -1;
}

int32_t tc_model_output_count(const tc_model* model) {
  return valid(model) ? model->descriptor->output_count : -1;
}

tc_status tc_model_input_info(const tc_model* model, int32_t index, tc_port_info* info) {
  if (!valid(model)) return bad_model("tc_model_input_info");
  const tc_descriptor& d = *model->descriptor;
  if (index < 0 || index >= d.input_count) return bad_index("tc_model_input_info", index, d.input_count);
  return fill_port("tc_model_input_info", d, d.inputs[index], info);
}

tc_status tc_model_output_info(const tc_model* model, int32_t index, tc_port_info* info) {
  if (!valid(model)) return bad_model("tc_model_output_info");
  const tc_descriptor& d = *model->descriptor;
  if (index < 0 || index >= d.output_count) return bad_index("tc_model_output_info", index, d.output_count);
  return fill_port("tc_model_output_info", d, d.outputs[index], info);
}

int32_t tc_model_output_in_place(const tc_model* model, int32_t index) {
  if (!valid(model) || index < 0 || index >= model->descriptor->output_count) return -1;
  const int32_t* pairs = in_place(*model->descriptor);
  return pairs == nullptr ? -1 : pairs[index];
}

tc_status tc_model_symbol_info(const tc_model* model, int32_t index, const char** name, int64_t* minimum,
                               int64_t* maximum) {
  if (!valid(model)) return bad_model("tc_model_symbol_info");
  const tc_descriptor& d = *model->descriptor;
  if (index < 0 || index >= d.symbol_count) return bad_index("tc_model_symbol_info", index, d.symbol_count);
  if (name != nullptr) *name = d.symbols[index].name;
  if (minimum != nullptr) *minimum = d.symbols[index].minimum;
  if (maximum != nullptr) *maximum = d.symbols[index].maximum;
  return TC_OK;
}

const char* tc_model_step_name(const tc_model* model, int32_t step) {
  if (!valid(model) || step < 0 || step >= model->descriptor->step_count) return nullptr;
  return model->descriptor->steps[step];
}
}
