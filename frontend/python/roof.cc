// Roofs and profiles as Python sees them.
#include "frontend/python/roof.h"

#include <pybind11/stl.h>

#include <map>
#include <string>

#include "frontend/profile/limits.h"
#include "frontend/profile/work.h"
#include "frontend/python/errors.h"

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

const char* name_of(Location::Kind kind) {
  switch (kind) {
    case Location::Kind::Input: return "input";
    case Location::Kind::Output: return "output";
    case Location::Kind::Constant: return "constant";
    case Location::Kind::Arena: return "block";
    case Location::Kind::Segment: return "segment";
  }
  return "";
}

py::list use_list(const std::vector<StepUse>& uses) {
  py::list rows;
  for (const StepUse& use : uses) {
    py::dict row;
    row["where"] = name_of(use.where);
    row["index"] = use.index;
    row["offset"] = use.offset;
    row["bytes"] = use.bytes;
    row["writes"] = use.writes;
    row["type"] = use.type;
    rows.append(row);
  }
  return rows;
}

py::list block_list(const std::vector<ArenaBlock>& blocks) {
  py::list rows;
  for (const ArenaBlock& block : blocks) {
    py::dict row;
    row["name"] = python_text(block.name);
    row["offset"] = block.offset.constant();
    row["bytes"] = block.bytes.constant();
    row["first"] = block.first;
    row["last"] = block.last;
    row["segment"] = block.segment < 0 ? py::object(py::none()) : py::object(py::int_(block.segment));
    rows.append(row);
  }
  return rows;
}

py::dict work_dict(const StepWork& work) {
  py::dict row;
  row["kind"] = work.kind;
  row["label"] = python_text(work.label);
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
  row["parent"] = work.parent < 0 ? py::object(py::none()) : py::object(py::int_(work.parent));
  row["uses"] = use_list(work.uses);
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
  // One dictionary per block of the arena, in the order of the blocks' numbers.
  module.def("arena_blocks", [](const CompiledModel& model, const std::map<std::string, int64_t>& symbols) {
    return block_list(blocks_of(model, symbols));
  });
  // Width in bits of the vectors that the target's kernels use; 0 where they use none.
  module.def("vector_bits", [](const std::string& target) { return parse_target(target).vector_bits; });
}

}  // namespace tc
