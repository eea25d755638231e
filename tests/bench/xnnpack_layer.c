/* One layer by XNNPACK's operators, as tests/bench/riscv.py asks for it, run several times on seeded data.
 *
 *   xnnpack_layer --repeat N KIND NUMBER...
 *   convolution N C H W FEATURES KERNEL STRIDE PADDING GROUPS RELU
 *   product ROWS INNER COLUMNS        the right side is constant
 *   max_pooling | average_pooling N C H W KERNEL STRIDE PADDING
 *   softmax ROWS COLUMNS
 *   sigmoid | tanh | gelu COUNT
 *
 * Pictures are NHWC. Prints the peak memory and a checksum of the output. Strict C99. */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */

#include <math.h>
#include <xnnpack.h>

#define PROGRAM "xnnpack_layer"
#include "tests/runtime/measure.h"

#define MAX_NUMBERS 16

static const char* kind;
static size_t numbers[MAX_NUMBERS];

static void check(enum xnn_status status) {
  if (status != xnn_status_success) stop("XNNPACK refused");
}

/* XNNPACK may read 16 bytes behind an array. */
static float* data_of(size_t count) {
  return (float*)seeded_data(count * sizeof(float) + XNN_EXTRA_BYTES, sizeof(float), FLOATS);
}

static int is(const char* name) { return strcmp(kind, name) == 0; }

struct layer {
  xnn_operator_t operator;
  float* output;
  size_t output_count;
};

static void make_convolution(struct layer* layer) {
  const size_t *n = numbers, group_inputs = n[1] / n[8], group_outputs = n[4] / n[8];
  const uint32_t kernel = (uint32_t)n[5], stride = (uint32_t)n[6], padding = (uint32_t)n[7];
  size_t workspace = 0, alignment = 0, height, width;
  check(xnn_create_convolution2d_nhwc_f32(
      padding, padding, padding, padding, kernel, kernel, stride, stride, 1, 1, (uint32_t)n[8], group_inputs,
      group_outputs, n[1], n[4], data_of(n[4] * kernel * kernel * group_inputs), data_of(n[4]),
      n[9] ? 0.0f : -INFINITY, INFINITY, 0, NULL, NULL, &layer->operator));
  check(xnn_reshape_convolution2d_nhwc_f32(layer->operator, n[0], n[2], n[3], &workspace, &alignment, &height,
                                           &width, NULL));
  layer->output_count = n[0] * height * width * n[4];
  layer->output = data_of(layer->output_count);
  check(xnn_setup_convolution2d_nhwc_f32(layer->operator,
                                         workspace ? data_of(workspace / sizeof(float) + 64) : NULL,
                                         data_of(n[0] * n[1] * n[2] * n[3]), layer->output));
}

static void make_product(struct layer* layer) {
  const size_t* n = numbers;
  check(xnn_create_fully_connected_nc_f32(n[1], n[2], n[1], n[2], data_of(n[1] * n[2]), data_of(n[2]),
                                          -INFINITY, INFINITY, 0, NULL, NULL, &layer->operator));
  check(xnn_reshape_fully_connected_nc_f32(layer->operator, n[0], NULL));
  layer->output_count = n[0] * n[2];
  layer->output = data_of(layer->output_count);
  check(xnn_setup_fully_connected_nc_f32(layer->operator, data_of(n[0] * n[1]), layer->output));
}

static void make_pooling(struct layer* layer) {
  const size_t* n = numbers;
  const uint32_t kernel = (uint32_t)n[4], stride = (uint32_t)n[5], padding = (uint32_t)n[6];
  const float* input = data_of(n[0] * n[1] * n[2] * n[3]);
  size_t workspace = 0, alignment = 0, height, width;
  if (is("max_pooling")) {
    check(xnn_create_max_pooling2d_nhwc_f32(padding, padding, padding, padding, kernel, kernel, stride,
                                            stride, 1, 1, -INFINITY, INFINITY, 0, &layer->operator));
    check(xnn_reshape_max_pooling2d_nhwc_f32(layer->operator, n[0], n[2], n[3], n[1], n[1], n[1], &height,
                                             &width, NULL));
  } else {
    check(xnn_create_average_pooling2d_nhwc_f32(padding, padding, padding, padding, kernel, kernel, stride,
                                                stride, -INFINITY, INFINITY, 0, &layer->operator));
    check(xnn_reshape_average_pooling2d_nhwc_f32(layer->operator, n[0], n[2], n[3], n[1], n[1], n[1],
                                                 &workspace, &alignment, &height, &width, NULL));
  }
  layer->output_count = n[0] * height * width * n[1];
  layer->output = data_of(layer->output_count);
  if (is("max_pooling")) {
    check(xnn_setup_max_pooling2d_nhwc_f32(layer->operator, input, layer->output));
  } else {
    check(xnn_setup_average_pooling2d_nhwc_f32(
        layer->operator, workspace ? data_of(workspace / sizeof(float) + 64) : NULL, input, layer->output));
  }
}

static void make_softmax(struct layer* layer) {
  check(xnn_create_softmax_nc_f32(0, &layer->operator));
  check(xnn_reshape_softmax_nc_f32(layer->operator, numbers[1], numbers[1], numbers[1], numbers[0], NULL));
  layer->output_count = numbers[0] * numbers[1];
  layer->output = data_of(layer->output_count);
  check(xnn_setup_softmax_nc_f32(layer->operator, data_of(layer->output_count), layer->output));
}

static void make_unary(struct layer* layer) {
  const enum xnn_unary_operator type = is("sigmoid") ? xnn_unary_sigmoid
                                       : is("tanh")  ? xnn_unary_tanh
                                                     : xnn_unary_gelu;
  const size_t count = numbers[0];
  check(xnn_create_unary_elementwise_nc(type, xnn_datatype_fp32, xnn_datatype_fp32, NULL, NULL, NULL, 0,
                                        &layer->operator));
  check(xnn_reshape_unary_elementwise_nc(layer->operator, 1, count, count, count, NULL));
  layer->output_count = count;
  layer->output = data_of(count);
  check(xnn_setup_unary_elementwise_nc(layer->operator, data_of(count), layer->output));
}

int main(int count, char** arguments) {
  struct layer layer = {NULL, NULL, 0};
  double sum = 0;
  int32_t repeat, run;
  size_t i;
  if (count < 5 || count > 4 + MAX_NUMBERS) stop("usage: xnnpack_layer --repeat N KIND NUMBER...");
  repeat = atoi(arguments[2]);
  kind = arguments[3];
  for (i = 4; i < (size_t)count; ++i) numbers[i - 4] = (size_t)atoll(arguments[i]);
  check(xnn_initialize(NULL));
  if (is("convolution")) {
    make_convolution(&layer);
  } else if (is("product")) {
    make_product(&layer);
  } else if (is("max_pooling") || is("average_pooling")) {
    make_pooling(&layer);
  } else if (is("softmax")) {
    make_softmax(&layer);
  } else if (is("sigmoid") || is("tanh") || is("gelu")) {
    make_unary(&layer);
  } else {
    stop("an unknown kind");
  }
  for (run = 0; run < repeat; ++run) check(xnn_run_operator(layer.operator, NULL));
  for (i = 0; i < layer.output_count; ++i) sum += layer.output[i];
  printf("{\"peak\": %lld, \"sum\": %.9g}\n", peak_bytes(), sum);
  return 0;
}
