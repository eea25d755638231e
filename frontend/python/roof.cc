// Roofs and profiles as Python sees them.
#include "frontend/python/roof.h"

#include <pybind11/stl.h>

#include <map>
#include <string>

#include "frontend/profile/limits.h"
#include "frontend/profile/work.h"

namespace py = pybind11;

namespace tc {
namespace {

py::dict limits_dict(const MachineLimits& limits) {
  py::list peaks, bandwidths;
  for (const MachineLimits::Peak& peak : limits.peaks) {
    py::dict row;
    row["instructions"] = peak.instructions;
    row["types"] = peak.types;
    row["vector_bits"] = peak.vector_bits;
    row["flops_per_second"] = 2 * peak.multiply_adds;
    peaks.append(row);
  }
  for (const MachineLimits::Bandwidth& bandwidth : limits.bandwidths) {
    py::dict row;
    row["level"] = bandwidth.level;
    row["bytes"] = bandwidth.bytes;
    row["read_bytes_per_second"] = bandwidth.read;
    row["write_bytes_per_second"] = bandwidth.write;
    bandwidths.append(row);
  }
  py::dict result;
  result["threads"] = limits.threads;
  result["peaks"] = peaks;
  result["bandwidths"] = bandwidths;
  result["call_seconds"] = limits.call;
  result["awake_seconds"] = limits.awake;
  result["asleep_seconds"] = limits.asleep;
  return result;
}

py::dict work_dict(const StepWork& work) {
  py::dict row;
  row["kind"] = work.kind;
  row["label"] = work.label;
  row["report"] = work.report;
  row["class"] = work.what;
  row["dtype"] = name_of(work.dtype);
  row["flops"] = work.flops;
  row["multiply_adds"] = work.multiply_adds;
  row["read"] = work.traffic.read;
  row["constants"] = work.traffic.constants;
  row["written"] = work.traffic.written;
  row["predicted_seconds"] = work.predicted_seconds;
  row["single_thread"] = work.single_thread;
  row["runs"] = work.runs;
  return row;
}

}  // namespace

void add_roof(py::module_& module) {
  module.def("measure_limits", [](const std::string& target, int threads) {
    MachineLimits limits;
    {
      py::gil_scoped_release release;
      limits = measure_limits(parse_target(target), threads);
    }
    return limits_dict(limits);
  });
  // One dictionary per step of the plan, by number.
  module.def("step_work", [](const CompiledModel& model, const std::map<std::string, int64_t>& symbols) {
    py::list rows;
    for (const StepWork& work : work_of(model, symbols)) rows.append(work_dict(work));
    return rows;
  });
  // Width in bits of the vectors that the target's kernels use; 0 where they use none.
  module.def("vector_bits", [](const std::string& target) { return parse_target(target).vector_bits; });
}

}  // namespace tc
