// A schedule in numbers that mean the same for every kernel and core.
#include "tuner/candidate_features.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "ir/traffic.h"
#include "scheduler/primitive_row.h"
#include "scheduler/search/sketch.h"

namespace tc {
namespace {

double log2_of(double value) { return std::log2(std::max(1.0, value)); }

// The statement with most instances.
const Statement* main_statement(const Kernel& kernel) {
  const Statement* main = nullptr;
  double most = -1;
  for (const Statement& statement : kernel.statements) {
    const double instances = instance_count(statement, {});
    if (instances <= most) continue;
    most = instances;
    main = &statement;
  }
  return main;
}

bool is_written_along(const Statement& statement, const std::string& iterator) {
  return std::any_of(statement.write.index.begin(), statement.write.index.end(),
                     [&](const Subscript& subscript) { return subscript.affine.coefficient(iterator) != 0; });
}

void add_core(const Target& target, std::vector<double>& features) {
  features.insert(
      features.end(),
      {log2_of(target.lanes(DType::F32)), static_cast<double>(target.vector_registers),
       log2_of(target.datapath_bits > 0 ? target.datapath_bits : target.vector_bits), target.multiply_adds,
       target.loads, target.stores, static_cast<double>(target.latency), static_cast<double>(target.window),
       static_cast<double>(target.l2_latency), static_cast<double>(target.memory_latency),
       log2_of(static_cast<double>(target.l1_bytes)), log2_of(static_cast<double>(target.l2_bytes)),
       target.gather_cost, static_cast<double>(target.matrix.registers)});
}

}  // namespace

std::vector<double> kernel_features(const Kernel& kernel, const Target& target, int threads) {
  double sums = 1, results = 1, widest = 1, loops = 0, instances = 0;
  if (const Statement* main = main_statement(kernel)) {
    instances = instance_count(*main, {});
    loops = static_cast<double>(main->iterators.size());
    for (const Iterator& iterator : main->iterators) {
      const auto extent = static_cast<double>(iterator.extent.constant());
      if (is_written_along(*main, iterator.name)) {
        results *= extent;
        widest = std::max(widest, extent);
      } else {
        sums *= extent;
      }
    }
  }
  const Traffic traffic = traffic_of(kernel, {});
  double narrowest = 8;  // bytes
  for (const Buffer& buffer : kernel.buffers)
    narrowest = std::min(narrowest, static_cast<double>(size_of(buffer.dtype)));
  const double bytes = traffic.read + traffic.constants + traffic.written;
  std::vector<double> features = {log2_of(instances),
                                  log2_of(sums),
                                  log2_of(results),
                                  log2_of(widest),
                                  loops,
                                  static_cast<double>(kernel.statements.size()),
                                  log2_of(traffic.read),
                                  log2_of(traffic.constants),
                                  log2_of(traffic.written),
                                  log2_of(instances) - log2_of(bytes),
                                  narrowest,
                                  static_cast<double>(threads)};
  add_core(target, features);
  return features;
}

std::vector<double> candidate_features(const std::vector<double>& of_kernel, const Schedule& schedule) {
  std::vector<double> features = of_kernel;
  const std::vector<double> loops = loop_features(schedule);
  features.insert(features.end(), loops.begin(), loops.end());
  const std::vector<PrimitiveRow>& rows = primitive_table();
  const size_t first = features.size();
  features.resize(first + 2 * rows.size(), 0);
  for (const std::string& text : schedule.trace()) {
    const auto line = read_line(text);
    if (!line) continue;
    const auto row = static_cast<size_t>(line->row - rows.data());
    features[first + 2 * row] += 1;
    for (size_t i = 1; i < line->words.size(); ++i) {
      if (line->arguments[i]->kind == Argument::Kind::Number)
        features[first + 2 * row + 1] += log2_of(std::strtod(line->words[i].c_str(), nullptr));
    }
  }
  return features;
}

}  // namespace tc
