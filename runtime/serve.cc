// Runs a model on the commands of an agent, on tensors in memory that both share (see serve.h).
#include "serve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tc::runtime {
namespace {

constexpr int kFailed = 1;

int fail(const char* what, const char* why) {
  fprintf(stderr, "serve: %s: %s\n", what, why);
  return kFailed;
}

int fail_with_status(tc_status status) {
  fprintf(stderr, "serve: %s\n", tc_last_error());
  return status == TC_ERROR_MEMORY ? kServeOutOfMemory : kFailed;
}

// Maps the tensor behind a descriptor; null where that fails.
void* map_tensor(int descriptor, uint64_t bytes, bool writable) {
  alignas(64) static uint8_t empty[64];
  struct stat file;
  if (fstat(descriptor, &file) != 0) return nullptr;
  if (static_cast<uint64_t>(file.st_size) != bytes) {
    errno = EMSGSIZE;
    return nullptr;
  }
  if (bytes == 0) return empty;
  void* memory =
      mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, descriptor, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

bool reply(char letter) {
  for (;;) {
    const ssize_t written = write(STDOUT_FILENO, &letter, 1);
    if (written == 1) return true;
    if (written < 0 && errno != EINTR) return false;
  }
}

// Reads `count` bytes; returns how many came before the end of input.
size_t receive(uint8_t* bytes, size_t count) {
  size_t done = 0;
  while (done < count) {
    const ssize_t got = read(STDIN_FILENO, bytes + done, count - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

}  // namespace

int serve(tc_model* model, int threads) {
  const int32_t input_count = tc_model_input_count(model);
  const int32_t output_count = tc_model_output_count(model);
  tc_context* context = nullptr;
  tc_status status = tc_context_create(model, threads, &context);
  if (status != TC_OK) return fail_with_status(status);

  auto* inputs =
      static_cast<tc_input_buffer*>(calloc(static_cast<size_t>(input_count) + 1, sizeof(tc_input_buffer)));
  auto* outputs =
      static_cast<tc_output_buffer*>(calloc(static_cast<size_t>(output_count) + 1, sizeof(tc_output_buffer)));
  if (inputs == nullptr || outputs == nullptr) {
    fail("tensors", "out of memory");
    return kServeOutOfMemory;
  }
  char what[64];
  for (int32_t i = 0; i < input_count; ++i) {
    uint64_t bytes = 0;
    status = tc_context_input_shape(context, i, nullptr, nullptr, &bytes);
    if (status != TC_OK) return fail_with_status(status);
    const int descriptor = kFirstDataDescriptor + i;
    inputs[i] = {map_tensor(descriptor, bytes, false), bytes};
    if (inputs[i].data == nullptr) {
      snprintf(what, sizeof what, "input %d (%llu bytes)", i, static_cast<unsigned long long>(bytes));
      return fail(what, strerror(errno));
    }
  }
  for (int32_t i = 0; i < output_count; ++i) {
    uint64_t bytes = 0;
    status = tc_context_output_shape(context, i, nullptr, nullptr, &bytes);
    if (status != TC_OK) return fail_with_status(status);
    const int descriptor = kFirstDataDescriptor + input_count + i;
    outputs[i] = {map_tensor(descriptor, bytes, true), bytes};
    if (outputs[i].data == nullptr) {
      snprintf(what, sizeof what, "output %d (%llu bytes)", i, static_cast<unsigned long long>(bytes));
      return fail(what, strerror(errno));
    }
  }

  if (!reply('R')) return fail("standard output", strerror(errno));
  for (;;) {
    uint8_t command[5];
    const size_t got = receive(command, sizeof command);
    if (got == 0) break;
    if (got != sizeof command || command[0] != 'N')
      return fail("standard input", "not a command of 'N' and four bytes");
    const uint32_t runs = command[1] | static_cast<uint32_t>(command[2]) << 8 |
                          static_cast<uint32_t>(command[3]) << 16 | static_cast<uint32_t>(command[4]) << 24;
    for (uint32_t run = 0; run < runs && status == TC_OK; ++run)
      status = tc_context_run(context, inputs, input_count, outputs, output_count);
    if (status != TC_OK) return fail_with_status(status);
    if (!reply('D')) return fail("standard output", strerror(errno));
  }
  tc_context_destroy(context);
  free(inputs);
  free(outputs);
  return 0;
}

}  // namespace tc::runtime
