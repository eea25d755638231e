// One kernel as a program to measure.
#include "tuner/kernel_program.h"

#include <stdlib.h>
#include <unistd.h>

#include <limits>
#include <memory>

#include "ir/error.h"
#include "runtime/rpc/sample_data.h"
#include "runtime/tc_runtime.h"
#include "scheduler/scheduler.h"

namespace tc {
namespace {

constexpr uint64_t kConstantPorts = 1000;

Tensor sample(DType dtype, const std::vector<int64_t>& shape, uint64_t seed, uint64_t port) {
  Tensor tensor(dtype, shape);
  const int64_t count = tensor.count();
  for (int64_t i = 0; i < count; ++i) {
    const auto element = static_cast<uint64_t>(i);
    if (is_float(dtype)) tensor.set(i, runtime::sample_float(seed, port, element));
    else tensor.set_int(i, runtime::sample_integer(seed, port, element));
  }
  return tensor;
}

PortInfo port_of(const Buffer& buffer) {
  PortInfo port;
  port.name = buffer.name;
  port.dtype = buffer.dtype;
  for (const Affine& size : buffer.shape) port.shape.push_back(size.constant());
  return port;
}

std::vector<int64_t> numbers(const Shape& shape) {
  std::vector<int64_t> result;
  for (const Dim& dim : shape) result.push_back(dim.constant());
  return result;
}

TensorPtr constant_of(const Kernel& kernel, const Buffer& buffer, int index, uint64_t seed) {
  const uint64_t port = kConstantPorts + static_cast<uint64_t>(index);
  for (const Packing& packing : kernel.packings) {
    if (packing.buffer != buffer.name) continue;
    return std::make_shared<Tensor>(pack(packing, kernel, sample(buffer.dtype, packing.original_shape, seed, port)));
  }
  return std::make_shared<Tensor>(sample(buffer.dtype, numbers(port_of(buffer).shape), seed, port));
}

Schedule scheduled_as(const KernelProgram& program, const Target& target, const Trace& trace) {
  Schedule schedule(program.kernel, target);
  if (auto refused = schedule.replay(trace)) fail(ErrorKind::Schedule, *refused);
  return schedule;
}

// A file of this process that is gone with the object.
class TemporaryFile {
 public:
  TemporaryFile() {
    const char* folder = getenv("TMPDIR");
    path_ = std::string(folder && *folder ? folder : "/tmp") + "/tc-reference-XXXXXX";
    const int descriptor = mkstemp(path_.data());
    if (descriptor < 0) fail(ErrorKind::Device, "cannot make a temporary file ", path_, "; set TMPDIR to a folder with room");
    close(descriptor);
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void check(tc_status status) {
  if (status != TC_OK) fail(ErrorKind::Internal, "the reference of a kernel does not run: ", tc_last_error());
}

void fill_with_nan(const PortInfo& port, Bytes& bytes) {
  if (!is_float(port.dtype)) return;
  Tensor tensor(port.dtype, numbers(port.shape));
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.set(i, std::numeric_limits<double>::quiet_NaN());
  bytes = std::move(tensor.bytes);
}

}  // namespace

Plan kernel_plan(const ScheduledKernel& scheduled, const Target& target, int threads, uint64_t constants_seed) {
  const Kernel& kernel = scheduled.kernel;
  if (!kernel.parameters.empty())
    fail(ErrorKind::Unsupported, "kernel '", kernel.name, "' has symbolic sizes ('",
         kernel.parameters[0].value.str(), "'); bind them to numbers with shapes=");
  Plan plan;
  plan.model = "kernel";
  plan.target = target.name;
  plan.kernels.push_back(scheduled);
  PlanStep call;
  call.kernel = 0;
  call.label = "kernel";
  call.single_thread = threads == 1;
  for (const Buffer& buffer : kernel.buffers) {
    Location location;
    if (buffer.scope == Scope::Output) {
      location.kind = Location::Kind::Output;
      location.index = static_cast<int>(plan.outputs.size());
      plan.outputs.push_back(port_of(buffer));
    } else if (buffer.scope == Scope::Input) {
      location.kind = Location::Kind::Input;
      location.index = static_cast<int>(plan.inputs.size());
      plan.inputs.push_back(port_of(buffer));
    } else if (buffer.scope == Scope::Constant) {
      location.kind = Location::Kind::Constant;
      location.index = static_cast<int>(plan.constants.size());
      plan.constants.push_back(constant_of(kernel, buffer, location.index, constants_seed));
    } else {
      continue;
    }
    call.locations.push_back(location);
  }
  plan.steps.push_back(std::move(call));
  plan.scratch_bytes = scratch_bytes(scheduled);
  plan.provenance = "a candidate";
  return plan;
}

void build_kernel_program(const KernelProgram& program, const Trace& trace, const Target& target,
                          const std::string& library_folder, const std::string& path) {
  const ScheduledKernel finished = scheduled_as(program, target, trace).finish();
  const Plan plan = kernel_plan(finished, target, program.threads, program.constants_seed);
  link_executable(model_objects(plan, target, TC_DESCRIPTOR_SYMBOL, 1), target, library_folder, path);
}

ProgramPorts program_ports(const KernelProgram& program, const Target& target) {
  const Schedule laid_out = scheduled_as(program, target, program.layout_lines);
  ProgramPorts ports;
  for (const Buffer& buffer : laid_out.kernel().buffers) {
    if (buffer.scope == Scope::Input) ports.inputs.push_back(port_of(buffer));
    if (buffer.scope == Scope::Output) ports.outputs.push_back(port_of(buffer));
  }
  return ports;
}

Bytes sample_tensor(const PortInfo& info, uint64_t seed, uint64_t port) {
  return sample(info.dtype, numbers(info.shape), seed, port).bytes;
}

std::vector<Bytes> reference_outputs(const KernelProgram& program, const Target& target, uint64_t seed) {
  // Layouts are the candidate's target's; the loops run here.
  const ScheduledKernel plain = scheduled_as(program, target, program.layout_lines).finish();
  const Target here = parse_target("native");
  const Plan plan = kernel_plan(plain, here, 1, program.constants_seed);
  const TemporaryFile library;
  link_shared(model_objects(plan, here, TC_DESCRIPTOR_SYMBOL, 1), here, library.path());

  tc_model* opened = nullptr;
  check(tc_model_open(library.path().c_str(), &opened));
  const std::unique_ptr<tc_model, void (*)(tc_model*)> model(opened, tc_model_close);
  tc_context* created = nullptr;
  check(tc_context_create(opened, 1, &created));
  const std::unique_ptr<tc_context, void (*)(tc_context*)> context(created, tc_context_destroy);

  std::vector<Bytes> inputs, outputs;
  std::vector<tc_input_buffer> input_buffers;
  std::vector<tc_output_buffer> output_buffers;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    inputs.push_back(sample_tensor(plan.inputs[i], seed, i));
    input_buffers.push_back({inputs.back().data(), inputs.back().size()});
  }
  for (const PortInfo& port : plan.outputs) {
    Bytes& bytes = outputs.emplace_back(Tensor(port.dtype, numbers(port.shape)).bytes);
    fill_with_nan(port, bytes);
    output_buffers.push_back({bytes.data(), bytes.size()});
  }
  check(tc_context_run(created, input_buffers.data(), static_cast<int32_t>(inputs.size()), output_buffers.data(),
                       static_cast<int32_t>(outputs.size())));
  return outputs;
}

}  // namespace tc
