/* What run_model.c does to an artefact, done by OpenVINO's C interface to the ONNX file: for comparing
 * peak memory. Latency hint, one stream, float32. Every unknown size takes the value of the one SYMBOL.
 *
 *   run_openvino MODEL.onnx [--threads N] [--repeat N] [SYMBOL=VALUE] */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */

#include <openvino/c/openvino.h>

#define PROGRAM "run_openvino"
#include "tests/runtime/measure.h"

#define MAX_RANK 16

static void check(ov_status_e status) {
  if (status != OK) stop(ov_get_last_err_msg());
}

static uint64_t size_of(ov_element_type_e type) {
  switch (type) {
    case F64:
    case I64:
    case U64: return 8;
    case F32:
    case I32:
    case U32: return 4;
    case F16:
    case BF16:
    case I16:
    case U16: return 2;
    default: return 1;
  }
}

static enum element_kind kind_of(ov_element_type_e type) {
  return type == F64 || type == F32 || type == F16 || type == BF16 ? FLOATS : INTEGERS;
}

static int64_t unknown_size(int count, char** arguments) {
  int i;
  for (i = 2; i < count; ++i) {
    const char* value = strchr(arguments[i], '=');
    if (value != NULL) return atoll(value + 1);
  }
  stop("the model has an unknown size: give SYMBOL=VALUE");
  return 0;
}

/* The sizes of input `index`, the unknown ones given. */
static size_t sizes_of(const ov_model_t* model, size_t index, int count, char** arguments, int64_t* dims,
                       ov_element_type_e* type) {
  ov_output_const_port_t* port;
  ov_partial_shape_t shape;
  size_t axis, rank;
  check(ov_model_const_input_by_index(model, index, &port));
  check(ov_port_get_element_type(port, type));
  check(ov_port_get_partial_shape(port, &shape));
  if (shape.rank.min != shape.rank.max || shape.rank.max > MAX_RANK) stop("an input has too many axes");
  rank = (size_t)shape.rank.max;
  for (axis = 0; axis < rank; ++axis)
    dims[axis] =
        shape.dims[axis].min == shape.dims[axis].max ? shape.dims[axis].max : unknown_size(count, arguments);
  ov_partial_shape_free(&shape);
  ov_output_const_port_free(port);
  return rank;
}

int main(int count, char** arguments) {
  ov_core_t* core;
  ov_model_t* model;
  ov_compiled_model_t* compiled;
  ov_infer_request_t* request;
  ov_tensor_t* tensors[MAX_PORTS];
  ov_version_t version;
  ov_element_type_e types[MAX_PORTS];
  ov_partial_shape_t shapes[MAX_PORTS];
  int64_t dims[MAX_PORTS][MAX_RANK];
  size_t input_count, output_count, ports[MAX_PORTS], ranks[MAX_PORTS], axis, i, size;
  void* data[MAX_PORTS];
  char threads[16];
  int32_t repeat, run;
  uint64_t io_bytes = 0;
  double best = 1e300;

  if (count < 2) stop("usage: run_openvino MODEL.onnx [--threads N] [--repeat N] [SYMBOL=VALUE]");
  repeat = option_value("--repeat", count, arguments);
  snprintf(threads, sizeof threads, "%d", (int)option_value("--threads", count, arguments));
  check(ov_core_create(&core));
  check(ov_core_read_model(core, arguments[1], NULL, &model));
  check(ov_model_inputs_size(model, &input_count));
  check(ov_model_outputs_size(model, &output_count));
  if (input_count > MAX_PORTS || output_count > MAX_PORTS) stop("too many ports");
  for (i = 0; i < input_count; ++i) {
    ports[i] = i;
    ranks[i] = sizes_of(model, i, count, arguments, dims[i], &types[i]);
    check(ov_partial_shape_create_static((int64_t)ranks[i], dims[i], &shapes[i]));
  }
  check(ov_model_reshape_by_port_indexes(model, ports, shapes, input_count));
  check(ov_core_compile_model(core, model, "CPU", 8, &compiled, "PERFORMANCE_HINT", "LATENCY", "NUM_STREAMS",
                              "1", "INFERENCE_NUM_THREADS", threads, "INFERENCE_PRECISION_HINT", "f32"));
  ov_model_free(model);
  check(ov_compiled_model_create_infer_request(compiled, &request));
  for (i = 0; i < input_count; ++i) {
    const uint64_t element = size_of(types[i]);
    uint64_t bytes = element;
    ov_shape_t shape;
    for (axis = 0; axis < ranks[i]; ++axis) bytes *= (uint64_t)dims[i][axis];
    data[i] = seeded_data(bytes, element, kind_of(types[i]));
    check(ov_shape_create((int64_t)ranks[i], dims[i], &shape));
    check(ov_tensor_create_from_host_ptr(types[i], shape, data[i], &tensors[i]));
    check(ov_infer_request_set_input_tensor_by_index(request, i, tensors[i]));
    ov_shape_free(&shape);
    ov_partial_shape_free(&shapes[i]);
    io_bytes += bytes;
  }

  for (run = 0; run < repeat; ++run) {
    const double begin = now_ms();
    double time;
    check(ov_infer_request_infer(request));
    time = now_ms() - begin;
    if (time < best) best = time;
  }
  for (i = 0; i < output_count; ++i) {
    ov_tensor_t* output;
    check(ov_infer_request_get_output_tensor_by_index(request, i, &output));
    check(ov_tensor_get_byte_size(output, &size));
    io_bytes += size;
    ov_tensor_free(output);
  }
  check(ov_get_openvino_version(&version));
  printf(
      "{\"version\": \"%s\", \"threads\": %s, \"min_ms\": %.6f, \"inputs_outputs\": %llu, \"peak\": %lld}\n",
      version.buildNumber, threads, best, (unsigned long long)io_bytes, peak_bytes());
  ov_version_free(&version);
  for (i = 0; i < input_count; ++i) {
    ov_tensor_free(tensors[i]);
    free(data[i]);
  }
  ov_infer_request_free(request);
  ov_compiled_model_free(compiled);
  ov_core_free(core);
  return 0;
}
