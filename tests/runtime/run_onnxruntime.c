/* What run_model.c does to an artefact, done by ONNX Runtime's C interface to the ONNX file: for
 * comparing peak memory. Its outputs are of the runtime's own making.
 *
 *   run_onnxruntime MODEL.onnx [--threads N] [--repeat N] [SYMBOL=VALUE ...] */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */

#include <onnxruntime_c_api.h>

#define PROGRAM "run_onnxruntime"
#include "tests/runtime/measure.h"

#define MAX_RANK 16

static const OrtApi* api;

static void check(OrtStatus* status) {
  if (status != NULL) stop(api->GetErrorMessage(status));
}

static uint64_t size_of(ONNXTensorElementDataType type) {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64: return 8;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32: return 4;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16: return 2;
    default: return 1;
  }
}

static enum element_kind kind_of(ONNXTensorElementDataType type) {
  return type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT || type == ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE ||
                 type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 ||
                 type == ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16
             ? FLOATS
             : INTEGERS;
}

static uint64_t tensor_bytes(const OrtValue* value) {
  OrtTensorTypeAndShapeInfo* info;
  ONNXTensorElementDataType type;
  size_t elements;
  check(api->GetTensorTypeAndShape(value, &info));
  check(api->GetTensorElementType(info, &type));
  check(api->GetTensorShapeElementCount(info, &elements));
  api->ReleaseTensorTypeAndShapeInfo(info);
  return elements * size_of(type);
}

/* A seeded tensor for input `index`. */
static OrtValue* make_input(const OrtSession* session, size_t index, int count, char** arguments, void** data,
                            uint64_t* bytes) {
  OrtTypeInfo* type_info;
  const OrtTensorTypeAndShapeInfo* info;
  ONNXTensorElementDataType type;
  OrtMemoryInfo* memory;
  OrtValue* value;
  int64_t dims[MAX_RANK];
  const char* symbols[MAX_RANK];
  size_t rank, axis;
  check(api->SessionGetInputTypeInfo(session, index, &type_info));
  check(api->CastTypeInfoToTensorInfo(type_info, &info));
  check(api->GetTensorElementType(info, &type));
  check(api->GetDimensionsCount(info, &rank));
  if (rank > MAX_RANK) stop("an input has too many axes");
  check(api->GetDimensions(info, dims, rank));
  check(api->GetSymbolicDimensions(info, symbols, rank));
  *bytes = size_of(type);
  for (axis = 0; axis < rank; ++axis) {
    if (dims[axis] < 0) dims[axis] = symbol_value(symbols[axis], count, arguments);
    *bytes *= (uint64_t)dims[axis];
  }
  *data = seeded_data(*bytes, size_of(type), kind_of(type));
  check(api->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory));
  check(api->CreateTensorWithDataAsOrtValue(memory, *data, (size_t)*bytes, dims, rank, type, &value));
  api->ReleaseMemoryInfo(memory);
  api->ReleaseTypeInfo(type_info);
  return value;
}

int main(int count, char** arguments) {
  OrtEnv* environment;
  OrtSessionOptions* options;
  OrtSession* session;
  OrtAllocator* allocator;
  size_t input_count, output_count, i;
  char *input_names[MAX_PORTS], *output_names[MAX_PORTS];
  void* data[MAX_PORTS];
  OrtValue *inputs[MAX_PORTS], *outputs[MAX_PORTS];
  int32_t repeat, run, threads;
  uint64_t io_bytes = 0, bytes;
  double best = 1e300;

  if (count < 2) stop("usage: run_onnxruntime MODEL.onnx [--threads N] [--repeat N] [SYMBOL=VALUE ...]");
  repeat = option_value("--repeat", count, arguments);
  threads = option_value("--threads", count, arguments);
  api = OrtGetApiBase()->GetApi(ORT_API_VERSION);
  if (api == NULL) stop("the library is older than the header");
  check(api->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "run_onnxruntime", &environment));
  check(api->CreateSessionOptions(&options));
  check(api->SetIntraOpNumThreads(options, threads));
  check(api->SetInterOpNumThreads(options, 1));
  check(api->CreateSession(environment, arguments[1], options, &session));
  check(api->GetAllocatorWithDefaultOptions(&allocator));
  check(api->SessionGetInputCount(session, &input_count));
  check(api->SessionGetOutputCount(session, &output_count));
  if (input_count > MAX_PORTS || output_count > MAX_PORTS) stop("too many ports");
  for (i = 0; i < input_count; ++i) {
    check(api->SessionGetInputName(session, i, allocator, &input_names[i]));
    inputs[i] = make_input(session, i, count, arguments, &data[i], &bytes);
    io_bytes += bytes;
  }
  for (i = 0; i < output_count; ++i)
    check(api->SessionGetOutputName(session, i, allocator, &output_names[i]));

  for (run = 0; run < repeat; ++run) {
    const double begin = now_ms();
    double time;
    for (i = 0; i < output_count; ++i) outputs[i] = NULL;
    check(api->Run(session, NULL, (const char* const*)input_names, (const OrtValue* const*)inputs,
                   input_count, (const char* const*)output_names, output_count, outputs));
    time = now_ms() - begin;
    if (time < best) best = time;
    if (run + 1 < repeat)
      for (i = 0; i < output_count; ++i) api->ReleaseValue(outputs[i]);
  }
  for (i = 0; i < output_count; ++i) io_bytes += tensor_bytes(outputs[i]);
  printf(
      "{\"version\": \"%s\", \"threads\": %d, \"min_ms\": %.6f, \"inputs_outputs\": %llu, "
      "\"peak\": %lld}\n",
      OrtGetApiBase()->GetVersionString(), (int)threads, best, (unsigned long long)io_bytes, peak_bytes());
  for (i = 0; i < input_count; ++i) {
    api->ReleaseValue(inputs[i]);
    free(data[i]);
  }
  for (i = 0; i < output_count; ++i) api->ReleaseValue(outputs[i]);
  api->ReleaseSession(session);
  api->ReleaseSessionOptions(options);
  api->ReleaseEnv(environment);
  return 0;
}
