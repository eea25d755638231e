// The main of exported executables: reads tensors from .npy files, runs the linked model, and writes its
// outputs.
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "error.h"
#include "foreign_text.h"
#include "generate.h"
#include "machine.h"
#include "new_file.h"
#include "npy.h"
#include "serve.h"
#include "tc_runtime.h"

extern "C" const tc_descriptor tc_model_descriptor;

// Weak, so that the generator is linked into programs of language models alone: those for which the linker is
// asked for this symbol (link_executable in codegen/llvm/artefact/link.cc). In other programs it is null.
extern "C" __attribute__((weak)) int tc_generate(const char* program, tc_model* model, int count,
                                                 char** arguments);

namespace tc::runtime {
namespace {

enum ExitCode { kDone = 0, kWrongInput = 1, kUsage = 2, kMissingInstructions = 3 };

constexpr size_t kMaxOfPath = 4096;

struct Options {
  const char* output_dir = nullptr;
  int64_t repeat = 1;
  int64_t threads = 0;
  bool json = false;
  bool profile = false;
};

struct Port {
  tc_port_info info;
  const char* path = nullptr;  // inputs
  NpyArray array;              // contents
  bool unbounded = false;      // outputs: they are in the context's memory
  char* file = nullptr;        // outputs: the file that was written
};

// The whole state of this process. All memory is owned here, so that a run that stops early frees it too.
struct Program {
  const char* name = "model";
  Options options;
  tc_model* model = nullptr;
  tc_context* context = nullptr;
  tc_model_info info = {};
  int32_t input_count = 0, output_count = 0;
  Port* inputs = nullptr;
  Port* outputs = nullptr;
  tc_shape* shapes = nullptr;  // of the inputs
  tc_input_buffer* input_buffers = nullptr;
  tc_output_buffer* output_buffers = nullptr;
  uint64_t* nanoseconds = nullptr;       // of each run
  uint64_t* step_nanoseconds = nullptr;  // of each step, summed over the runs
  uint64_t last = 0;                     // the clock's value after the last step
  Counter counter = Counter::None;       // the core's counter, for profiles
  uint64_t* step_counts = nullptr;       // its counts of each step, summed over the runs
  uint64_t last_count = 0;
  int core = 0;  // on which last_count was read
};

void free_memory(Program& program) {
  for (int32_t i = 0; program.inputs != nullptr && i < program.input_count; ++i)
    free(program.inputs[i].array.data);
  for (int32_t i = 0; program.outputs != nullptr && i < program.output_count; ++i) {
    free(program.outputs[i].array.data);
    free(program.outputs[i].file);
  }
  free(program.inputs);
  free(program.outputs);
  free(program.shapes);
  free(program.input_buffers);
  free(program.output_buffers);
  free(program.nanoseconds);
  free(program.step_counts);
  free(program.step_nanoseconds);
  tc_context_destroy(program.context);
  tc_model_close(program.model);
}

__attribute__((noreturn)) void end(Program& program, int code) {
  free_memory(program);
  exit(code);
}

// A name in the form in which it is printed.
struct Shown {
  char text[kMaxOfText];
  explicit Shown(const char* name, size_t most = kMaxOfName) {
    show_name(name, strlen(name), text, sizeof text, most);
  }
};

// Prints a text; invisible characters become escapes.
void vsay(FILE* file, const char* format, va_list arguments) {
  char text[kMaxOfText];
  write_text(text, sizeof text, format, arguments);
  fputs(text, file);
}

__attribute__((format(printf, 2, 3))) void say(FILE* file, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsay(file, format, arguments);
  va_end(arguments);
}

__attribute__((format(printf, 3, 4), noreturn)) void stop(Program& program, int code, const char* format,
                                                          ...) {
  say(stderr, "%s: ", program.name);
  va_list arguments;
  va_start(arguments, format);
  vsay(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  end(program, code);
}

template <class T>
T* allocate(Program& program, int64_t count) {
  void* memory = calloc(static_cast<size_t>(count) + 1, sizeof(T));
  if (memory == nullptr) stop(program, kWrongInput, "out of memory");
  return static_cast<T*>(memory);
}

// "f32 [batch, 3, 224, 224]".
const char* type_text(const tc_port_info& info, char* text, size_t size) {
  size_t length = static_cast<size_t>(snprintf(text, size, "%s [", tc_dtype_name(info.dtype)));
  for (int32_t i = 0; i < info.rank && length < size; ++i) {
    const char* comma = i > 0 ? ", " : "";
    if (info.dims[i] >= 0)
      length += static_cast<size_t>(
          snprintf(text + length, size - length, "%s%lld", comma, static_cast<long long>(info.dims[i])));
    else
      length += static_cast<size_t>(snprintf(text + length, size - length, "%s%s", comma,
                                             info.symbols[i] != nullptr ? Shown(info.symbols[i]).text : "?"));
  }
  if (length < size) snprintf(text + length, size - length, "]");
  return text;
}

const char* array_text(const NpyArray& array, char* text, size_t size) {
  tc_port_info info = {};
  info.dtype = array.dtype;
  info.rank = array.rank;
  for (int32_t i = 0; i < array.rank; ++i) info.dims[i] = array.dims[i];
  return type_text(info, text, size);
}

void print_usage(const Program& program, FILE* file) {
  say(file,
      "usage: %s --input NAME=FILE.npy ... --output-dir FOLDER [--repeat N] [--threads N] "
      "[--json] [--profile]\n"
      "       %s --serve THREADS\n",
      program.name, program.name);
  if (tc_generate != nullptr)
    say(file, "       %s generate ...  (run it without more to see its options)\n", program.name);
  say(file, "Runs the model '%s', compiled for %s (%s).\n", program.info.model, program.info.target,
      program.info.provenance);
  char text[512];
  for (int32_t i = 0; i < program.input_count; ++i)
    say(file, "  input  %s: %s\n", Shown(program.inputs[i].info.name).text,
        type_text(program.inputs[i].info, text, sizeof text));
  for (int32_t i = 0; i < program.output_count; ++i)
    say(file, "  output %s: %s\n", Shown(program.outputs[i].info.name).text,
        type_text(program.outputs[i].info, text, sizeof text));
  fprintf(file,
          "  --output-dir FOLDER  write each output there as NAME.npy; made where missing\n"
          "  --repeat N           run N times; the times are of all runs (default 1)\n"
          "  --threads N          threads, 0 for the model's default\n"
          "  --json               print one JSON object instead of text\n"
          "  --profile            print the time of each step, and on RISC-V its cycles or ticks\n"
          "  --serve THREADS      run at the command of tc-agent, with no other option\n"
          "Exit codes: 0 done, 1 an input is wrong, 2 wrong usage, 3 the machine lacks "
          "instructions.\n");
}

__attribute__((format(printf, 2, 3), noreturn)) void wrong_usage(Program& program, const char* format, ...) {
  say(stderr, "%s: ", program.name);
  va_list arguments;
  va_start(arguments, format);
  vsay(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  print_usage(program, stderr);
  end(program, kUsage);
}

// The model's handle and ports.
void open_model(Program& program) {
  const tc_status status = tc_model_open_linked(&tc_model_descriptor, &program.model);
  if (status != TC_OK)
    stop(program, status == TC_ERROR_TARGET ? kMissingInstructions : kWrongInput, "%s", tc_last_error());
  program.info.struct_size = sizeof program.info;
  tc_model_get_info(program.model, &program.info);
  program.input_count = tc_model_input_count(program.model);
  program.output_count = tc_model_output_count(program.model);
  program.inputs = allocate<Port>(program, program.input_count);
  program.outputs = allocate<Port>(program, program.output_count);
  for (int32_t i = 0; i < program.input_count; ++i) {
    program.inputs[i].info.struct_size = sizeof(tc_port_info);
    tc_model_input_info(program.model, i, &program.inputs[i].info);
  }
  for (int32_t i = 0; i < program.output_count; ++i) {
    program.outputs[i].info.struct_size = sizeof(tc_port_info);
    tc_model_output_info(program.model, i, &program.outputs[i].info);
  }
}

// Names of inputs and of files may both contain '=': the longest input name that matches counts.
void take_input(Program& program, const char* argument) {
  Port* best = nullptr;
  size_t best_length = 0;
  for (int32_t i = 0; i < program.input_count; ++i) {
    const char* name = program.inputs[i].info.name;
    const size_t length = strlen(name);
    if (strncmp(argument, name, length) != 0 || argument[length] != '=') continue;
    if (best != nullptr && length < best_length) continue;
    best = &program.inputs[i];
    best_length = length;
  }
  if (best == nullptr) {
    if (strchr(argument, '=') == nullptr)
      wrong_usage(program, "--input takes NAME=FILE.npy, not '%s'", argument);
    wrong_usage(program, "'%s' names no input of the model", argument);
  }
  if (best->path != nullptr) wrong_usage(program, "input '%s' is given twice", best->info.name);
  best->path = argument + best_length + 1;
}

int64_t take_number(Program& program, const char* option, const char* text, int64_t minimum,
                    int64_t maximum) {
  char* end;
  errno = 0;
  const long long value = strtoll(text, &end, 10);
  if (*text == 0 || *end != 0 || errno != 0 || value < minimum || value > maximum)
    wrong_usage(program, "%s takes a number from %lld to %lld, not '%s'", option,
                static_cast<long long>(minimum), static_cast<long long>(maximum), text);
  return value;
}

void parse_options(Program& program, int count, char** arguments) {
  Options& options = program.options;
  for (int i = 1; i < count; ++i) {
    const char* argument = arguments[i];
    // The value of `--name VALUE` or `--name=VALUE`; null where the argument is another option.
    const auto value_of = [&](const char* name) -> const char* {
      const size_t length = strlen(name);
      if (strncmp(argument, name, length) != 0) return nullptr;
      if (argument[length] == '=') return argument + length + 1;
      if (argument[length] != 0) return nullptr;
      if (i + 1 >= count) wrong_usage(program, "%s needs a value", name);
      return arguments[++i];
    };
    if (strcmp(argument, "--json") == 0) {
      options.json = true;
    } else if (strcmp(argument, "--profile") == 0) {
      options.profile = true;
    } else if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
      print_usage(program, stdout);
      end(program, kDone);
    } else if (const char* input = value_of("--input")) {
      take_input(program, input);
    } else if (const char* folder = value_of("--output-dir")) {
      options.output_dir = folder;
    } else if (const char* repeat = value_of("--repeat")) {
      options.repeat = take_number(program, "--repeat", repeat, 1, 1000000);
    } else if (const char* threads = value_of("--threads")) {
      options.threads = take_number(program, "--threads", threads, 0, TC_MAX_THREADS);
    } else {
      wrong_usage(program, "unknown argument '%s'", argument);
    }
  }
}

void read_inputs(Program& program) {
  char wanted[512], got[512], why[512];
  for (int32_t i = 0; i < program.input_count; ++i) {
    Port& port = program.inputs[i];
    type_text(port.info, wanted, sizeof wanted);
    if (port.path == nullptr)
      wrong_usage(program, "input '%s' is missing: give --input %s=FILE.npy (%s)", port.info.name,
                  Shown(port.info.name).text, wanted);
    if (!read_npy(port.path, &port.array, why, sizeof why))
      stop(program, kWrongInput, "input '%s': %s: %s; expected %s", port.info.name, port.path, why, wanted);
    if (!is_npy_of(port.array, port.info.dtype))
      stop(program, kWrongInput, "input '%s': %s holds %s; expected %s", port.info.name, port.path,
           array_text(port.array, got, sizeof got), wanted);
  }
}

void bind_shapes(Program& program) {
  if (tc_context_create(program.model, static_cast<int32_t>(program.options.threads), &program.context) !=
      TC_OK)
    stop(program, kWrongInput, "%s", tc_last_error());
  program.shapes = allocate<tc_shape>(program, program.input_count);
  for (int32_t i = 0; i < program.input_count; ++i)
    program.shapes[i] = {program.inputs[i].array.dims, program.inputs[i].array.rank, 0};
  if (tc_context_bind(program.context, program.shapes, program.input_count) != TC_OK)
    stop(program, kWrongInput, "%s", tc_last_error());
  for (int32_t i = 0; i < program.output_count; ++i) {
    NpyArray& array = program.outputs[i].array;
    array.dtype = program.outputs[i].info.dtype;
    if (tc_context_output_shape(program.context, i, array.dims, &array.rank, &array.bytes) != TC_OK)
      stop(program, kWrongInput, "%s", tc_last_error());
    program.outputs[i].unbounded = false;
    for (int32_t axis = 0; axis < array.rank; ++axis)
      if (array.dims[axis] < 0) program.outputs[i].unbounded = true;
    if (program.outputs[i].unbounded) continue;
    array.data = aligned_alloc(64, (array.bytes + 127) / 64 * 64);
    if (array.data == nullptr)
      stop(program, kWrongInput, "no memory for output '%s'", program.outputs[i].info.name);
  }
}

void step_done(void* user, int32_t step) {
  auto& program = *static_cast<Program*>(user);
  const uint64_t now = now_nanoseconds();
  const bool known = step >= 0 && step < program.info.step_count;
  if (known) program.step_nanoseconds[step] += now - program.last;
  program.last = now;
  if (program.counter == Counter::None) return;
  const uint64_t count = read_counter(program.counter);
  const int core = sched_getcpu();
  // Each core has its own counter, so a step during which the thread moves to another core is not counted.
  if (known && core == program.core) program.step_counts[step] += count - program.last_count;
  program.last_count = count;
  program.core = core;
}

long long counts_of_run(const Program& program, int32_t step) {
  return static_cast<long long>(program.step_counts[step] / static_cast<uint64_t>(program.options.repeat));
}

int compare_times(const void* left, const void* right) {
  const uint64_t a = *static_cast<const uint64_t*>(left), b = *static_cast<const uint64_t*>(right);
  return a < b ? -1 : a > b;
}

void run(Program& program) {
  program.input_buffers = allocate<tc_input_buffer>(program, program.input_count);
  program.output_buffers = allocate<tc_output_buffer>(program, program.output_count);
  for (int32_t i = 0; i < program.input_count; ++i)
    program.input_buffers[i] = {program.inputs[i].array.data, program.inputs[i].array.bytes};
  for (int32_t i = 0; i < program.output_count; ++i)
    program.output_buffers[i] = {program.outputs[i].array.data, program.outputs[i].array.bytes};
  program.step_nanoseconds = allocate<uint64_t>(program, program.info.step_count);
  program.step_counts = allocate<uint64_t>(program, program.info.step_count);
  program.nanoseconds = allocate<uint64_t>(program, program.options.repeat);
  if (program.options.profile) {
    program.counter = find_counter();
    tc_context_set_profile(program.context, step_done, &program);
  }
  for (int64_t i = 0; i < program.options.repeat; ++i) {
    if (program.counter != Counter::None) {
      program.last_count = read_counter(program.counter);
      program.core = sched_getcpu();
    }
    const uint64_t begin = program.last = now_nanoseconds();
    if (tc_context_run(program.context, program.input_buffers, program.input_count, program.output_buffers,
                       program.output_count) != TC_OK)
      stop(program, kWrongInput, "%s", tc_last_error());
    program.nanoseconds[i] = now_nanoseconds() - begin;
  }
  for (int32_t i = 0; i < program.output_count; ++i) {
    NpyArray& array = program.outputs[i].array;
    const void* data = nullptr;
    if (tc_context_result_shape(program.context, i, array.dims, &array.rank, &array.bytes) != TC_OK ||
        tc_context_result_data(program.context, i, &data) != TC_OK)
      stop(program, kWrongInput, "%s", tc_last_error());
    if (!program.outputs[i].unbounded) continue;
    array.data = aligned_alloc(64, (array.bytes + 127) / 64 * 64);
    if (array.data == nullptr)
      stop(program, kWrongInput, "no memory for output '%s'", program.outputs[i].info.name);
    if (array.bytes > 0) memcpy(array.data, data, array.bytes);
  }
  qsort(program.nanoseconds, static_cast<size_t>(program.options.repeat), sizeof(uint64_t), compare_times);
}

// A file name made from the output's name: characters other than letters, digits, '_', '-' and '.' become
// '_'. Where an earlier output has the same file name, the output's number is added.
void file_name(const Program& program, int32_t index, char* name, size_t size) {
  const char* text = program.outputs[index].info.name;
  size_t length = 0;
  for (; text[length] != 0 && length + 32 < size; ++length) {
    const char c = text[length];
    const bool kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '-' || (c == '.' && length > 0);
    name[length] = kept ? c : '_';
  }
  if (length == 0) name[length++] = '_';
  name[length] = 0;
  for (int32_t i = 0; i < index; ++i) {
    char other[256];
    file_name(program, i, other, sizeof other);
    if (strcmp(other, name) != 0) continue;
    snprintf(name + length, size - length, ".%d", index);
    return;
  }
}

void write_outputs(Program& program) {
  const char* folder = program.options.output_dir;
  if (folder == nullptr) return;
  remove_new_file_at_signals();
  if (mkdir(folder, 0777) != 0 && errno != EEXIST)
    stop(program, kWrongInput, "%s: the folder cannot be made: %s", folder, strerror(errno));
  for (int32_t i = 0; i < program.output_count; ++i) {
    Port& port = program.outputs[i];
    char name[256], why[512];
    file_name(program, i, name, sizeof name);
    const size_t size = strlen(folder) + strlen(name) + sizeof "/.npy";
    if (size > kMaxOfPath) stop(program, kWrongInput, "%s: the folder's name is too long", folder);
    port.file = allocate<char>(program, static_cast<int64_t>(size));
    snprintf(port.file, size, "%s/%s.npy", folder, name);
    if (!write_npy(port.file, port.array, why, sizeof why))
      stop(program, kWrongInput, "output '%s': %s: %s", port.info.name, port.file, why);
  }
}

double milliseconds(uint64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-6; }

uint64_t median(const Program& program) {
  const int64_t n = program.options.repeat;
  return (program.nanoseconds[(n - 1) / 2] + program.nanoseconds[n / 2]) / 2;
}

void print_text(const Program& program, const tc_memory_info& memory) {
  char text[512];
  const int32_t threads = tc_context_threads_used(program.context);
  say(stdout, "model  %s for %s, %d thread%s\n", Shown(program.info.model).text, program.info.target, threads,
      threads == 1 ? "" : "s");
  for (int32_t i = 0; i < program.input_count; ++i)
    say(stdout, "input  %s: %s from %s\n", Shown(program.inputs[i].info.name).text,
        array_text(program.inputs[i].array, text, sizeof text),
        Shown(program.inputs[i].path, kMaxOfLine).text);
  for (int32_t i = 0; i < program.output_count; ++i) {
    const Port& port = program.outputs[i];
    say(stdout, "output %s: %s", Shown(port.info.name).text, array_text(port.array, text, sizeof text));
    if (port.file != nullptr) say(stdout, " to %s", Shown(port.file, kMaxOfLine).text);
    putchar('\n');
  }
  printf("memory constants %.3f MB, arena %.3f MB, scratch %.3f MB\n",
         static_cast<double>(memory.constant_bytes) * 1e-6, static_cast<double>(memory.arena_bytes) * 1e-6,
         static_cast<double>(memory.scratch_bytes) * 1e-6);
  printf("time   min %.3f ms, median %.3f ms of %lld run%s\n", milliseconds(program.nanoseconds[0]),
         milliseconds(median(program)), static_cast<long long>(program.options.repeat),
         program.options.repeat == 1 ? "" : "s");
  if (!program.options.profile) return;
  uint64_t total = 0;
  for (int32_t i = 0; i < program.info.step_count; ++i) total += program.step_nanoseconds[i];
  for (int32_t i = 0; i < program.info.step_count; ++i) {
    printf("step   %4d %10.3f ms %5.1f %%", i,
           milliseconds(program.step_nanoseconds[i]) / static_cast<double>(program.options.repeat),
           total > 0 ? 100.0 * static_cast<double>(program.step_nanoseconds[i]) / static_cast<double>(total)
                     : 0.0);
    if (program.counter != Counter::None)
      printf(" %12lld %s", counts_of_run(program, i), counter_name(program.counter));
    say(stdout, "  %s\n", Shown(tc_model_step_name(program.model, i), kMaxOfLine).text);
  }
}

// Prints the whole text as a JSON string, in ASCII; bytes that are not UTF-8 become the replacement
// character.
void print_json_string(const char* text) {
  putchar('"');
  for (size_t left = strlen(text); left > 0;) {
    const auto character = foreign_text::character_at(text, left);
    const uint32_t code = character.valid ? character.code : 0xfffd;
    if (code == '"' || code == '\\') printf("\\%c", static_cast<char>(code));
    else if (code >= 32 && code < 127) putchar(static_cast<int>(code));
    else if (code < 0x10000) printf("\\u%04x", code);
    else printf("\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + (code & 0x3ff));
    text += character.size;
    left -= character.size;
  }
  putchar('"');
}

void print_json_ports(const Port* ports, int32_t count, bool input) {
  for (int32_t i = 0; i < count; ++i) {
    printf("%s{\"name\": ", i > 0 ? ", " : "");
    print_json_string(ports[i].info.name);
    printf(", \"dtype\": \"%s\", \"shape\": [", tc_dtype_name(ports[i].array.dtype));
    for (int32_t axis = 0; axis < ports[i].array.rank; ++axis)
      printf("%s%lld", axis > 0 ? ", " : "", static_cast<long long>(ports[i].array.dims[axis]));
    printf("], \"file\": ");
    if (input || ports[i].file != nullptr) print_json_string(input ? ports[i].path : ports[i].file);
    else printf("null");
    putchar('}');
  }
}

void print_json(const Program& program, const tc_memory_info& memory) {
  printf("{\"model\": ");
  print_json_string(program.info.model);
  printf(", \"target\": ");
  print_json_string(program.info.target);
  printf(", \"threads\": %d, \"repeat\": %lld, \"inputs\": [", tc_context_threads_used(program.context),
         static_cast<long long>(program.options.repeat));
  print_json_ports(program.inputs, program.input_count, true);
  printf("], \"outputs\": [");
  print_json_ports(program.outputs, program.output_count, false);
  printf("], \"memory\": {\"constants\": %lld, \"arena\": %lld, \"scratch\": %lld}",
         static_cast<long long>(memory.constant_bytes), static_cast<long long>(memory.arena_bytes),
         static_cast<long long>(memory.scratch_bytes));
  printf(", \"min_ms\": %.6f, \"median_ms\": %.6f", milliseconds(program.nanoseconds[0]),
         milliseconds(median(program)));
  if (program.options.profile) {
    printf(", \"steps\": [");
    for (int32_t i = 0; i < program.info.step_count; ++i) {
      printf("%s{\"label\": ", i > 0 ? ", " : "");
      print_json_string(tc_model_step_name(program.model, i));
      printf(", \"ms\": %.6f",
             milliseconds(program.step_nanoseconds[i]) / static_cast<double>(program.options.repeat));
      if (program.counter != Counter::None)
        printf(", \"%s\": %lld", counter_name(program.counter), counts_of_run(program, i));
      printf("}");
    }
    printf("]");
  }
  printf("}\n");
}

int run_program(int count, char** arguments) {
  Program program;
  if (count > 0 && arguments[0] != nullptr) program.name = arguments[0];
  open_model(program);
  if (count == 3 && strcmp(arguments[1], "--serve") == 0) {
    const int64_t threads = take_number(program, "--serve", arguments[2], 0, TC_MAX_THREADS);
    end(program, serve(program.model, static_cast<int>(threads)));
  }
  if (count >= 2 && strcmp(arguments[1], "generate") == 0) {
    if (tc_generate == nullptr) stop(program, kWrongInput, "%s", kGeneratesNothing);
    tc_model* model = program.model;
    program.model = nullptr;
    end(program, tc_generate(program.name, model, count - 2, arguments + 2));
  }
  parse_options(program, count, arguments);
  read_inputs(program);
  bind_shapes(program);
  run(program);
  write_outputs(program);
  tc_memory_info memory = {};
  memory.struct_size = sizeof memory;
  tc_context_memory(program.context, &memory);
  if (program.options.json) print_json(program, memory);
  else print_text(program, memory);
  free_memory(program);
  return fflush(stdout) == 0 ? kDone : kWrongInput;
}

}  // namespace
}  // namespace tc::runtime

int main(int count, char** arguments) { return tc::runtime::run_program(count, arguments); }
