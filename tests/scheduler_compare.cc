// Schedules run against the plain interpreter.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/error.h"
#include "ir/scheduled.h"
#include "tests/scheduler_kernels.h"

namespace tc::testing {
namespace {

uint32_t next(uint32_t& seed) {
  seed = seed * 1664525 + 1013904223;
  return seed >> 8;
}

double value(uint32_t& seed) { return static_cast<double>(next(seed)) / (1 << 23) - 1; }

std::vector<int64_t> shape_of(const Buffer& buffer, const std::map<std::string, int64_t>& parameters) {
  std::vector<int64_t> shape;
  for (const Affine& size : buffer.shape) shape.push_back(size.evaluate(parameters));
  return shape;
}

Tensor filled(DType dtype, std::vector<int64_t> shape, uint32_t seed) {
  Tensor tensor(dtype, std::move(shape));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    if (is_float(dtype)) tensor.set(i, value(seed));
    else if (size_of(dtype) == 1 && dtype != DType::Bool)
      tensor.set_int(i, next(seed) % 256 - (is_signed(dtype) ? 128 : 0));
    else tensor.set_int(i, next(seed) % 7);
  }
  return tensor;
}

// An output before the run: what is not written shows as NaN, or as a number that is not computed.
Tensor unwritten(DType dtype, std::vector<int64_t> shape) {
  Tensor tensor(dtype, std::move(shape));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    if (is_float(dtype)) tensor.set(i, std::numeric_limits<double>::quiet_NaN());
    else tensor.set_int(i, 93);
  }
  return tensor;
}

// Visits the elements of a tensor of `shape` with the element of the blocked form that holds it.
void for_blocked(const std::vector<int64_t>& shape, size_t dim, int64_t block,
                 const std::function<void(int64_t plain, int64_t blocked)>& visit) {
  std::vector<int64_t> blocked_shape = shape;
  blocked_shape[dim] = (shape[dim] + block - 1) / block;
  blocked_shape.push_back(block);
  std::vector<int64_t> index(shape.size());
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  for (int64_t flat = 0; flat < count; ++flat) {
    int64_t rest = flat;
    for (size_t d = shape.size(); d-- > 0;) {
      index[d] = rest % shape[d];
      rest /= shape[d];
    }
    int64_t place = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      place = place * blocked_shape[d] + (d == dim ? index[d] / block : index[d]);
    }
    visit(flat, place * block + index[dim] % block);
  }
}

struct Blocking {
  std::string buffer;
  std::vector<int64_t> shape;  // before
  size_t dim;
  int64_t block;
};

// The layout lines of a trace, with the shapes that the buffers had before.
std::vector<Blocking> blockings(const Kernel& kernel, const Schedule& schedule,
                                const std::map<std::string, int64_t>& parameters) {
  std::vector<Blocking> result;
  Schedule shadow(kernel, schedule.target());
  for (const std::string& line : schedule.trace()) {
    // Layouts are rewrites, and rewrites come first.
    const PrimitiveLine read = read_line(line).value();
    if (read.row->kind != PrimitiveKind::Rewrite) break;
    if (read.row->name == "layout") {
      Blocking blocking{read.words[1], {}, std::stoul(read.words[2]), std::stoll(read.words[3])};
      const Kernel& now = shadow.kernel();
      blocking.shape =
          shape_of(now.buffers.at(static_cast<size_t>(now.buffer_index(blocking.buffer))), parameters);
      result.push_back(blocking);
    }
    if (auto refused = shadow.apply(line)) fail(ErrorKind::Internal, "replay: ", *refused);
  }
  return result;
}

// The sizes of a kernel with the products of them that its schedule has added.
std::map<std::string, int64_t> with_products(const Kernel& scheduled,
                                             std::map<std::string, int64_t> parameters) {
  for (const Parameter& parameter : scheduled.parameters) {
    if (parameters.count(parameter.name) == 0)
      parameters[parameter.name] = parameter.value.evaluate(parameters);
  }
  return parameters;
}

}  // namespace

std::map<std::string, int64_t> parameter_values(const Kernel& kernel, uint32_t seed) {
  std::map<std::string, int64_t> result;
  for (const Parameter& parameter : kernel.parameters) {
    result[parameter.name] = std::min(parameter.maximum, parameter.minimum + next(seed) % 17);
  }
  return result;
}

std::string difference(const Kernel& kernel, const Schedule& schedule, uint32_t seed,
                       const std::map<std::string, int64_t>& given, const Runner& runner, double tolerance) {
  const ScheduledKernel scheduled = schedule.finish();
  const std::map<std::string, int64_t> parameters = with_products(scheduled.kernel, given);
  const std::vector<Blocking> blocked = blockings(kernel, schedule, parameters);
  std::map<std::string, Tensor> plain, fast;
  for (const Buffer& buffer : kernel.buffers) {
    const std::vector<int64_t> shape = shape_of(buffer, parameters);
    const bool output = buffer.scope == Scope::Output;
    if (!output && buffer.scope != Scope::Input && buffer.scope != Scope::Constant) continue;
    const Buffer& now =
        scheduled.kernel.buffers.at(static_cast<size_t>(scheduled.kernel.buffer_index(buffer.name)));
    const std::vector<int64_t> now_shape = shape_of(now, parameters);
    if (output) {
      const DType exact = is_float(buffer.dtype) ? DType::F64 : buffer.dtype;
      plain[buffer.name] = unwritten(exact, shape);
      fast[buffer.name] = unwritten(runner ? buffer.dtype : exact, now_shape);
      continue;
    }
    const Tensor data = filled(buffer.dtype, shape, seed + static_cast<uint32_t>(buffer.name[0]) * 97);
    plain[buffer.name] = data;
    if (buffer.scope == Scope::Constant) {
      for (const Packing& each : scheduled.kernel.packings) {
        if (original_of(scheduled.kernel, each.buffer) == buffer.name)
          fast[each.buffer] = pack(each, scheduled.kernel, data);
      }
      if (fast.count(buffer.name) != 0) continue;
    }
    Tensor converted = data;
    for (const Blocking& blocking : blocked) {
      if (blocking.buffer != buffer.name) continue;
      std::vector<int64_t> new_shape = blocking.shape;
      new_shape[blocking.dim] = (new_shape[blocking.dim] + blocking.block - 1) / blocking.block;
      new_shape.push_back(blocking.block);
      Tensor next_form = filled(buffer.dtype, new_shape, seed + 12345);
      for_blocked(blocking.shape, blocking.dim, blocking.block,
                  [&](int64_t from, int64_t to) { next_form.set(to, converted.as_double(from)); });
      converted = next_form;
    }
    converted.shape = now_shape;
    fast[buffer.name] = converted;
  }
  // An output in the place of an input has its own memory in the interpreters.
  interpret(kernel, parameters, plain);
  if (runner) runner(scheduled, fast);
  else interpret(scheduled, parameters, fast);
  for (const Buffer& buffer : kernel.buffers) {
    if (buffer.scope != Scope::Output) continue;
    Tensor result = fast.at(buffer.name);
    for (size_t i = blocked.size(); i-- > 0;) {
      if (blocked[i].buffer != buffer.name) continue;
      Tensor next_form(result.dtype, blocked[i].shape);
      for_blocked(blocked[i].shape, blocked[i].dim, blocked[i].block,
                  [&](int64_t to, int64_t from) { next_form.set(to, result.as_double(from)); });
      for (int64_t lane = 0; lane < result.count(); ++lane) {
        if (!std::isfinite(result.as_double(lane))) {
          return text("output ", buffer.name, " has ", result.as_double(lane), " at element ", lane,
                      " of the blocked form");
        }
      }
      result = next_form;
    }
    const Tensor& expected = plain.at(buffer.name);
    if (expected.count() != result.count()) return "output " + buffer.name + " has another size";
    double largest = 1e-30;
    for (int64_t i = 0; i < expected.count(); ++i) {
      largest = std::max(largest, std::abs(expected.as_double(i)));
    }
    for (int64_t i = 0; i < expected.count(); ++i) {
      const double a = expected.as_double(i), b = result.as_double(i);
      if (!(std::abs(a - b) <= tolerance * largest)) {
        return text("output ", buffer.name, " element ", i, ": ", b, " instead of ", a);
      }
    }
  }
  return "";
}

}  // namespace tc::testing
