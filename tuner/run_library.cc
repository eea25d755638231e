// Running a compiled library in this process on seeded data.
#include "tuner/run_library.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "ir/error.h"
#include "ir/temporary_folder.h"
#include "runtime/rpc/sample_data.h"
#include "runtime/tc_runtime.h"

namespace tc {
namespace {

void check(tc_status status) {
  if (status != TC_OK) fail(ErrorKind::Internal, "a reference does not run: ", tc_last_error());
}

// A tensor whose floats have all bits set: a NaN that no arithmetic produces. Agents accept any value in its
// place.
Tensor unwritten(const PortInfo& port) {
  Tensor tensor(port.dtype, sizes_of(port));
  if (is_float(port.dtype)) std::fill(tensor.bytes.begin(), tensor.bytes.end(), 0xff);
  return tensor;
}

}  // namespace

TemporaryFile::TemporaryFile(const std::string& folder) {
  path_ = (folder.empty() ? temporary_folder() : folder) + "/tc-XXXXXX";
  const int descriptor = mkstemp(path_.data());
  if (descriptor < 0)
    fail(ErrorKind::Device, "cannot make a temporary file ", path_, "; set TMPDIR to a folder with room");
  close(descriptor);
}

TemporaryFile::~TemporaryFile() { unlink(path_.c_str()); }

std::vector<int64_t> sizes_of(const PortInfo& port) {
  std::vector<int64_t> sizes;
  for (const Dim& dim : port.shape) sizes.push_back(dim.constant());
  return sizes;
}

Tensor sample_data(DType dtype, const std::vector<int64_t>& shape, uint64_t seed, uint64_t port) {
  Tensor tensor(dtype, shape);
  const int64_t count = tensor.count();
  for (int64_t i = 0; i < count; ++i) {
    const auto element = static_cast<uint64_t>(i);
    if (is_float(dtype)) tensor.set(i, runtime::sample_float(seed, port, element));
    else tensor.set_int(i, runtime::sample_integer(seed, port, element));
  }
  return tensor;
}

std::vector<Bytes> run_on_samples(const std::string& library, const std::vector<PortInfo>& inputs,
                                  const std::vector<PortInfo>& outputs, uint64_t seed) {
  tc_model* opened = nullptr;
  check(tc_model_open(library.c_str(), &opened));
  const std::unique_ptr<tc_model, void (*)(tc_model*)> model(opened, tc_model_close);
  tc_context* created = nullptr;
  check(tc_context_create(opened, 1, &created));
  const std::unique_ptr<tc_context, void (*)(tc_context*)> context(created, tc_context_destroy);

  std::vector<Bytes> in, out;
  std::vector<tc_input_buffer> input_buffers;
  std::vector<tc_output_buffer> output_buffers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    in.push_back(sample_data(inputs[i].dtype, sizes_of(inputs[i]), seed, i).bytes);
    input_buffers.push_back({in.back().data(), in.back().size()});
  }
  for (const PortInfo& port : outputs) {
    out.push_back(unwritten(port).bytes);
    output_buffers.push_back({out.back().data(), out.back().size()});
  }
  check(tc_context_run(created, input_buffers.data(), static_cast<int32_t>(in.size()), output_buffers.data(),
                       static_cast<int32_t>(out.size())));
  return out;
}

}  // namespace tc
