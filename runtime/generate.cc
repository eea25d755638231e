// Reads the tokens of a prompt and then those that the model gives, with its keys and values in place.
#include "generate.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "foreign_text.h"
#include "machine.h"
#include "tokenizer.h"

namespace tc::runtime {
namespace {

enum ExitCode { kDone = 0, kWrongInput = 1, kUsage = 2 };

// A run reads at most so many tokens of a prompt; tc.generate reads the same parts.
constexpr int64_t kPart = 256;
// Slots of the first caches, which are doubled until prompt and answer fit.
constexpr int64_t kFewestSlots = 256;

struct Run {
  const char* program = nullptr;
  tc_model* model = nullptr;
  const char *tokens_text = nullptr, *prompt = nullptr, *tokenizer_path = nullptr, *ends_text = nullptr;
  int64_t most = 256, threads = 0;
  bool json = false;

  Tokenizer tokenizer;
  Tokens prompt_tokens, ends, answer;
  tc_context* context = nullptr;
  int32_t input_count = 0, output_count = 0;
  int32_t ids = -1, length = -1, logits = -1;  // their inputs and output
  int64_t slots_limit = 0;                     // of the model's caches
  tc_port_info* ports = nullptr;               // of inputs
  tc_shape* shapes = nullptr;
  tc_input_buffer* inputs = nullptr;
  tc_output_buffer* outputs = nullptr;
  int64_t read = 0;  // tokens that the model has read
  float* numbers = nullptr;
  uint64_t numbers_bytes = 0;
  // A letter of the answer whose last bytes are missing.
  char waiting[4];
  size_t waiting_bytes = 0;
};

__attribute__((format(printf, 2, 3))) bool fail(const Run& run, const char* format, ...) {
  char text[kMaxOfText];
  va_list arguments;
  va_start(arguments, format);
  write_text(text, sizeof text, format, arguments);
  va_end(arguments);
  char name[kMaxOfText];
  show_name(run.program, strlen(run.program), name, sizeof name);
  fprintf(stderr, "%s: %s\n", name, text);
  return false;
}

void free_memory(Run& run) {
  for (int32_t i = 0; run.inputs != nullptr && i < run.input_count; ++i) {
    const bool is_cache = i != run.ids && i != run.length;
    if (is_cache) free(const_cast<void*>(run.inputs[i].data));
  }
  free(run.ports);
  free(run.shapes);
  free(run.inputs);
  free(run.outputs);
  free(run.numbers);
  free(run.prompt_tokens.data);
  free(run.ends.data);
  free(run.answer.data);
  if (run.tokenizer.mapped != nullptr) close_tokenizer(&run.tokenizer);
  tc_context_destroy(run.context);
  tc_model_close(run.model);
}

constexpr const char* kUsageText =
    "usage: %s generate --tokens NUMBER,NUMBER,... [--end NUMBER,...] [--max-tokens N] [--threads N] "
    "[--json]\n"
    "       %s generate --tokenizer FILE (--prompt TEXT | --tokens NUMBER,...) ...\n"
    "Continues a prompt with the tokens that the model finds likeliest.\n"
    "  --tokens NUMBERS   the prompt as numbers of tokens\n"
    "  --tokenizer FILE   turns texts into tokens and back: what python -m tc generate MODEL\n"
    "                     --export PROGRAM writes beside the program\n"
    "  --prompt TEXT      the prompt as a text\n"
    "  --end NUMBERS      tokens that end the answer, in addition to the tokenizer's\n"
    "  --max-tokens N     tokens of the answer at most (default 256)\n"
    "  --threads N        threads, 0 for the model's default\n"
    "  --json             print one JSON object instead of text\n";

// --- arguments -----------------------------------------------------------------------------------------

bool take_number(const Run& run, const char* option, const char* text, int64_t most, int64_t* number) {
  char* end;
  errno = 0;
  const long long value = strtoll(text, &end, 10);
  if (*text == 0 || *end != 0 || errno != 0 || value < 0 || value > most)
    return fail(run, "%s takes a number from 0 to %lld, not '%s'", option, static_cast<long long>(most),
                text);
  *number = value;
  return true;
}

bool take_numbers(const Run& run, const char* option, const char* text, Tokens* numbers) {
  for (const char* next = text;;) {
    char* end;
    errno = 0;
    const long long value = strtoll(next, &end, 10);
    if (end == next || errno != 0 || value < 0 || (*end != ',' && *end != 0))
      return fail(run, "%s takes numbers of tokens with commas between them, not '%s'", option, text);
    if (!add_token(numbers, value)) return fail(run, "out of memory");
    if (*end == 0) return true;
    next = end + 1;
  }
}

// The exit code of wrong usage, or kDone.
int take_arguments(Run& run, int count, char** arguments) {
  for (int i = 0; i < count; ++i) {
    const char* name = arguments[i];
    if (strcmp(name, "--json") == 0) {
      run.json = true;
      continue;
    }
    struct {
      const char* name;
      const char** value;
      int64_t *number, most;
    } const options[] = {{"--tokens", &run.tokens_text, nullptr, 0},
                         {"--prompt", &run.prompt, nullptr, 0},
                         {"--tokenizer", &run.tokenizer_path, nullptr, 0},
                         {"--end", &run.ends_text, nullptr, 0},
                         {"--max-tokens", nullptr, &run.most, int64_t{1} << 31},
                         {"--threads", nullptr, &run.threads, TC_MAX_THREADS}};
    const auto* option = options;
    const auto* const last = options + sizeof options / sizeof options[0];
    while (option != last && strcmp(option->name, name) != 0) ++option;
    if (option == last) {
      fail(run, "unknown argument '%s'", name);
      fprintf(stderr, kUsageText, "MODEL", "MODEL");
      return kUsage;
    }
    if (i + 1 >= count) return fail(run, "%s needs a value", name), kUsage;
    const char* value = arguments[++i];
    if (option->value != nullptr) *option->value = value;
    else if (!take_number(run, name, value, option->most, option->number)) return kUsage;
  }
  const bool has_one = (run.tokens_text != nullptr) != (run.prompt != nullptr);
  if (!has_one || (run.prompt != nullptr && run.tokenizer_path == nullptr)) {
    fail(run, has_one ? "--prompt needs --tokenizer FILE, which turns the text into tokens"
                      : "give the prompt either by --tokens or by --prompt");
    fprintf(stderr, kUsageText, "MODEL", "MODEL");
    return kUsage;
  }
  return kDone;
}

bool read_prompt(Run& run) {
  char why[512];
  if (run.tokenizer_path != nullptr && !open_tokenizer(run.tokenizer_path, &run.tokenizer, why, sizeof why))
    return fail(run, "'%s': %s", run.tokenizer_path, why);
  if (run.ends_text != nullptr && !take_numbers(run, "--end", run.ends_text, &run.ends)) return false;
  if (run.tokens_text != nullptr) {
    if (!take_numbers(run, "--tokens", run.tokens_text, &run.prompt_tokens)) return false;
  } else if (!encode(run.tokenizer, run.prompt, strlen(run.prompt), &run.prompt_tokens, why, sizeof why)) {
    return fail(run, "the prompt: %s", why);
  }
  return run.prompt_tokens.count > 0 || fail(run, "a prompt has at least one token; give a text");
}

// --- the model -----------------------------------------------------------------------------------------

template <class T>
bool allocate(const Run& run, int64_t count, T** memory) {
  *memory = static_cast<T*>(calloc(static_cast<size_t>(count) + 1, sizeof(T)));
  return *memory != nullptr || fail(run, "out of memory");
}

// Finds the inputs and outputs of a module that tc makes of a language model's file.
bool find_ports(Run& run) {
  run.input_count = tc_model_input_count(run.model);
  run.output_count = tc_model_output_count(run.model);
  if (!allocate(run, run.input_count, &run.ports) || !allocate(run, run.input_count, &run.shapes) ||
      !allocate(run, run.input_count, &run.inputs) || !allocate(run, run.output_count, &run.outputs))
    return false;
  bool good = true;
  for (int32_t i = 0; i < run.input_count; ++i) {
    tc_port_info& port = run.ports[i];
    port.struct_size = sizeof port;
    good = good && tc_model_input_info(run.model, i, &port) == TC_OK;
    if (!good) break;
    const bool is_sequence = port.dtype == TC_I64 && (port.rank < 1 || port.dims[0] == 1);
    if (strcmp(port.name, "input_ids") == 0 && is_sequence && port.rank == 2) run.ids = i;
    else if (strcmp(port.name, "length") == 0 && is_sequence && port.rank == 1) run.length = i;
    else good = port.dtype == TC_F32 && port.rank == 4 && port.dims[0] == 1 && port.dims[2] < 0;
  }
  int32_t in_place = 0;
  for (int32_t i = 0; i < run.output_count; ++i) {
    if (tc_model_output_in_place(run.model, i) >= 0) ++in_place;
    else run.logits = run.logits < 0 ? i : run.output_count;
  }
  tc_port_info logits = {};
  logits.struct_size = sizeof logits;
  good = good && run.ids >= 0 && run.length >= 0 && run.logits >= 0 && run.logits < run.output_count &&
         in_place == run.input_count - 2 && tc_model_output_info(run.model, run.logits, &logits) == TC_OK &&
         logits.dtype == TC_F32 && logits.rank > 0 && logits.dims[logits.rank - 1] > 0;
  if (!good) return fail(run, "%s", kGeneratesNothing);
  run.slots_limit = INT64_MAX;
  for (int32_t symbol = 0;; ++symbol) {
    const char* name = nullptr;
    int64_t maximum = 0;
    if (tc_model_symbol_info(run.model, symbol, &name, nullptr, &maximum) != TC_OK) break;
    if (name != nullptr && strcmp(name, "capacity") == 0) run.slots_limit = maximum;
  }
  return true;
}

// Caches with slots for the prompt and the answer, as far as the model's context has them.
bool make_caches(Run& run) {
  const int64_t wanted = static_cast<int64_t>(run.prompt_tokens.count) + run.most;
  if (static_cast<int64_t>(run.prompt_tokens.count) > run.slots_limit)
    return fail(run, "the prompt has %lld tokens, and the model's context has room for %lld",
                static_cast<long long>(run.prompt_tokens.count), static_cast<long long>(run.slots_limit));
  int64_t slots = kFewestSlots;
  while (slots < wanted) slots *= 2;
  if (slots > run.slots_limit) slots = run.slots_limit;
  run.slots_limit = slots;
  for (int32_t i = 0; i < run.input_count; ++i) {
    run.shapes[i] = {run.ports[i].dims, run.ports[i].rank, 0};
    if (i == run.ids || i == run.length) continue;
    run.ports[i].dims[2] = slots;
    uint64_t bytes = sizeof(float);
    for (int32_t axis = 0; axis < 4; ++axis)
      if (run.ports[i].dims[axis] <= 0 ||
          __builtin_mul_overflow(bytes, static_cast<uint64_t>(run.ports[i].dims[axis]), &bytes))
        return fail(run, "the cache '%s' is too large", run.ports[i].name);
    void* memory = calloc(1, bytes);
    if (memory == nullptr) return fail(run, "no memory for the cache '%s'", run.ports[i].name);
    run.inputs[i] = {memory, bytes};
  }
  for (int32_t i = 0; i < run.output_count; ++i) {
    const int32_t input = tc_model_output_in_place(run.model, i);
    if (input < 0) continue;
    run.outputs[i] = {const_cast<void*>(run.inputs[input].data), run.inputs[input].bytes};
  }
  if (tc_context_create(run.model, static_cast<int32_t>(run.threads), &run.context) != TC_OK)
    return fail(run, "%s", tc_last_error());
  return true;
}

// The model reads tokens; `next` becomes the likeliest one after them.
bool read_tokens(Run& run, const int64_t* tokens, int64_t count, int64_t* next) {
  run.ports[run.ids].dims[1] = count;
  run.inputs[run.ids] = {tokens, static_cast<uint64_t>(count) * sizeof *tokens};
  run.inputs[run.length] = {&run.read, sizeof run.read};
  int64_t dims[TC_MAX_RANK];
  int32_t rank = 0;
  uint64_t bytes = 0;
  if (tc_context_bind(run.context, run.shapes, run.input_count) != TC_OK ||
      tc_context_output_shape(run.context, run.logits, dims, &rank, &bytes) != TC_OK)
    return fail(run, "%s", tc_last_error());
  if (bytes > run.numbers_bytes) {
    free(run.numbers);
    run.numbers_bytes = 0;
    run.numbers = static_cast<float*>(aligned_alloc(64, (bytes + 63) / 64 * 64));
    if (run.numbers == nullptr) return fail(run, "no memory for the logits");
    run.numbers_bytes = bytes;
  }
  run.outputs[run.logits] = {run.numbers, bytes};
  if (tc_context_run(run.context, run.inputs, run.input_count, run.outputs, run.output_count) != TC_OK)
    return fail(run, "%s", tc_last_error());
  run.read += count;
  const int64_t vocabulary = dims[rank - 1];
  const float* last = run.numbers + bytes / sizeof(float) - vocabulary;
  *next = 0;
  for (int64_t i = 1; i < vocabulary; ++i)
    if (last[i] > last[*next]) *next = i;
  return true;
}

// --- the answer ----------------------------------------------------------------------------------------

bool ends(const Run& run, int64_t token) {
  for (size_t i = 0; i < run.ends.count; ++i)
    if (run.ends.data[i] == token) return true;
  return run.tokenizer.mapped != nullptr && is_end(run.tokenizer, token);
}

// Prints whole letters; those that would control a terminal as escapes.
void print_bytes(Run& run, const char* text, size_t bytes, bool is_last) {
  char shown[kMaxOfText];
  for (size_t at = 0; at < bytes || is_last; ++at) {
    if (at < bytes) run.waiting[run.waiting_bytes++] = text[at];
    if (run.waiting_bytes == 0) break;
    const auto letter = foreign_text::character_at(run.waiting, run.waiting_bytes);
    const auto first = static_cast<uint8_t>(run.waiting[0]);
    const size_t needed = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
    if (!letter.valid && run.waiting_bytes < needed && !(is_last && at >= bytes)) continue;
    const size_t size = letter.valid ? letter.size : 1;
    show_lines(run.waiting, size, shown, sizeof shown);
    fputs(shown, stdout);
    run.waiting_bytes -= size;
    memmove(run.waiting, run.waiting + size, run.waiting_bytes);
  }
}

void print_token(Run& run, int64_t token) {
  if (run.json) return;
  if (run.tokenizer.mapped == nullptr) {
    printf("%s%lld", run.answer.count > 1 ? " " : "", static_cast<long long>(token));
  } else {
    size_t bytes = 0;
    const char* text = text_of(run.tokenizer, token, &bytes);
    print_bytes(run, text, bytes, false);
  }
  fflush(stdout);
}

struct Times {
  uint64_t prompt = 0, answer = 0;
};

double rate(int64_t count, uint64_t nanoseconds) {
  return nanoseconds > 0 ? 1e9 * static_cast<double>(count) / static_cast<double>(nanoseconds) : 0;
}

void print_numbers(const Tokens& tokens) {
  for (size_t i = 0; i < tokens.count; ++i)
    printf("%s%lld", i > 0 ? ", " : "", static_cast<long long>(tokens.data[i]));
}

void print_end(Run& run, const Times& times) {
  const auto prompt = static_cast<int64_t>(run.prompt_tokens.count), behind = run.read - prompt;
  if (run.json) {
    printf("{\"prompt\": [");
    print_numbers(run.prompt_tokens);
    printf("], \"tokens\": [");
    print_numbers(run.answer);
    printf("], \"prompt_seconds\": %.6f, \"seconds\": %.6f}\n", static_cast<double>(times.prompt) * 1e-9,
           static_cast<double>(times.answer) * 1e-9);
    return;
  }
  print_bytes(run, nullptr, 0, true);
  putchar('\n');
  fprintf(stderr, "prompt %lld tokens, %.1f tokens/s; answer %lld tokens, %.1f tokens/s\n",
          static_cast<long long>(prompt), rate(prompt, times.prompt),
          static_cast<long long>(run.answer.count), rate(behind, times.answer));
}

bool answer(Run& run) {
  Times times;
  uint64_t begin = now_nanoseconds();
  int64_t next = 0;
  const auto count = static_cast<int64_t>(run.prompt_tokens.count);
  for (int64_t first = 0; first < count && run.most > 0; first += kPart) {
    const int64_t part = count - first < kPart ? count - first : kPart;
    if (!read_tokens(run, run.prompt_tokens.data + first, part, &next)) return false;
  }
  times.prompt = now_nanoseconds() - begin;
  begin = now_nanoseconds();
  while (run.most > 0 && !ends(run, next)) {
    if (!add_token(&run.answer, next)) return fail(run, "out of memory");
    print_token(run, next);
    if (static_cast<int64_t>(run.answer.count) == run.most || run.read >= run.slots_limit) break;
    const int64_t token = next;
    if (!read_tokens(run, &token, 1, &next)) return false;
  }
  times.answer = now_nanoseconds() - begin;
  print_end(run, times);
  return fflush(stdout) == 0 || fail(run, "the output cannot be written: %s", strerror(errno));
}

}  // namespace
}  // namespace tc::runtime

int tc_generate(const char* program, tc_model* model, int count, char** arguments) {
  using namespace tc::runtime;
  Run run;
  run.program = program;
  run.model = model;
  int code = take_arguments(run, count, arguments);
  if (code == kDone && !(find_ports(run) && read_prompt(run) && make_caches(run) && answer(run)))
    code = kWrongInput;
  free_memory(run);
  return code;
}
