/* Runs a model that was exported as model.o (kind "bare") on each sample of samples.h, and writes which of
 * its outputs is the largest. The program links no library. */
#include "board.h"
#include "model.h"
#include "samples.h" /* SAMPLES, and samples[SAMPLES][MODEL_INPUT_0_ELEMENTS] of MODEL_INPUT_0_TYPE */

static MODEL_OUTPUT_0_TYPE output[MODEL_OUTPUT_0_ELEMENTS];

static void write_number(unsigned long number) {
  char digits[24];
  char* at = digits + sizeof digits - 1;
  *at = 0;
  do {
    *--at = (char)('0' + number % 10);
    number /= 10;
  } while (number > 0);
  board_write(at);
}

static void write_bytes(const unsigned char* bytes, unsigned long count) {
  for (unsigned long i = 0; i < count; ++i) {
    const char text[3] = {"0123456789abcdef"[bytes[i] >> 4], "0123456789abcdef"[bytes[i] & 15], 0};
    board_write(text);
  }
}

static unsigned long stack_used(void) {
  const unsigned char* at = stack_begin;
  while (at < stack_end && *(const unsigned int*)at == (unsigned int)STACK_FILL) at += sizeof(unsigned int);
  return (unsigned long)(stack_end - at);
}

int example_main(void) {
  for (unsigned long sample = 0; sample < SAMPLES; ++sample) {
    const int status = model_run(samples[sample], output, model_arena);
    if (status != MODEL_DONE) {
      board_write("model_run returned ");
      write_number((unsigned long)status);
      board_write("\n");
      return 1;
    }
    unsigned long best = 0;
    for (unsigned long i = 1; i < MODEL_OUTPUT_0_ELEMENTS; ++i) {
      if (output[i] > output[best]) best = i;
    }
    board_write("sample ");
    write_number(sample);
    board_write(": class ");
    write_number(best);
    board_write(", output ");
    write_bytes((const unsigned char*)output, sizeof output);
    board_write("\n");
  }
  board_write("arena ");
  write_number(MODEL_ARENA_BYTES);
  board_write(" bytes, weights ");
  write_number(MODEL_WEIGHTS_BYTES);
  board_write(" bytes, stack ");
  write_number(stack_used());
  board_write(" bytes\n");
  return 0;
}
