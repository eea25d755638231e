// The schedules of a plan's kernels: each kernel is scheduled once.
#include "frontend/pipeline/kernel_schedules.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <optional>
#include <sstream>

#include "ir/error.h"
#include "ir/interrupt.h"
#include "ir/scratch.h"
#include "scheduler/algebra/algorithms.h"

namespace tc {
namespace {

// A kernel that takes fewer cycles than this is not divided among threads: waiting for the slowest thread
// would cost more.
constexpr double kSingleThreadCycles = 20e3;
// The number that stands for a symbolic size in that comparison.
constexpr int64_t kLikelySize = 64;
constexpr int64_t kMinLimit = 4096;  // the lowest limit of a size that is not known
// What records of a log may cost a build, so that a log cannot make it slow. Limits for one kernel: isl's
// operations in all replays, the lines of a record, its splits (isl's time grows as the cube of their number:
// 0.5 s for 32, measured on x86-64), and the operations for which code is written. Limits for one build: the
// sum of the cubes of all records' splits (as much as 12 of the longest records), and the number of refused
// records.
constexpr unsigned long kReplayOperations = 20'000'000;
constexpr size_t kMaxLines = 512, kMaxSplits = 32, kMaxRefused = 64;
constexpr double kMaxReplayWork = 12.0 * kMaxSplits * kMaxSplits * kMaxSplits;
constexpr double kMaxCode = 40'000;

size_t split_count(const std::vector<std::string>& trace) {
  return static_cast<size_t>(std::count_if(
      trace.begin(), trace.end(), [](const std::string& line) { return line.rfind("split ", 0) == 0; }));
}

// The multiply-adds of the kernel as authors of networks count them: products with padding count as well.
double multiply_add_count(const Kernel& kernel, const std::map<std::string, int64_t>& parameters) {
  double total = 0;
  for (const Statement& statement : kernel.statements) {
    const Expr& value = *statement.value;
    if (statement.reduction != Reduction::Sum || value.kind != Expr::Kind::Binary ||
        value.binary != BinaryOp::Mul) {
      continue;
    }
    double count = 1;
    for (const Iterator& iterator : statement.iterators) {
      count *= static_cast<double>(std::max<int64_t>(0, iterator.extent.evaluate(parameters)));
    }
    total += count;
  }
  return total;
}

// Those sizes of the kernel that are not known and occur in the shapes of what is in scratch memory.
std::vector<Parameter*> sizes_of_scratch(Kernel& kernel) {
  std::vector<Parameter*> result;
  for (Parameter& parameter : kernel.parameters) {
    const bool in_scratch =
        std::any_of(kernel.buffers.begin(), kernel.buffers.end(), [&](const Buffer& buffer) {
          return buffer.scope == Scope::Stack &&
                 std::any_of(buffer.shape.begin(), buffer.shape.end(),
                             [&](const Affine& extent) { return extent.coefficient(parameter.name) != 0; });
        });
    if (in_scratch) result.push_back(&parameter);
  }
  return result;
}

// Lowers the largest values of the kernel's unknown sizes until its intermediate results fit the scratch
// memory, or the lowest limit is reached.
void limit_sizes(ScheduledKernel& kernel) {
  const std::vector<Parameter*> held = sizes_of_scratch(kernel.kernel);
  while (!held.empty() && scratch_bytes(kernel) > kManyScratchBytes) {
    Parameter& largest =
        **std::max_element(held.begin(), held.end(),
                           [](const Parameter* a, const Parameter* b) { return a->maximum < b->maximum; });
    if (largest.maximum / 2 < std::max(kMinLimit, largest.minimum)) break;
    largest.maximum /= 2;
  }
}

// Refuses a recorded schedule with which the model would run for fewer sizes than with the default. Returns
// why, or nothing.
std::optional<std::string> refuse_scratch(ScheduledKernel recorded,
                                          const std::function<ScheduledKernel()>& default_kernel) {
  const int64_t bytes = scratch_bytes(recorded);
  if (bytes <= kManyScratchBytes) return std::nullopt;
  limit_sizes(recorded);
  bool more = scratch_bytes(recorded) > kMaxScratchBytes;
  if (!more && !sizes_of_scratch(recorded.kernel).empty()) {
    ScheduledKernel by_default = default_kernel();
    limit_sizes(by_default);
    for (size_t i = 0; i < std::min(recorded.kernel.parameters.size(), by_default.kernel.parameters.size());
         ++i) {
      more = more || recorded.kernel.parameters[i].maximum < by_default.kernel.parameters.at(i).maximum;
    }
  }
  if (!more) return std::nullopt;
  return text("it needs ", bytes, " bytes of scratch memory per thread, more than the default");
}

// The trace with each panel of several vectors packed as several panels of one vector: `pack c : f_ot k f_on
// f_i` becomes `f_ot f_on k f_i`.
std::vector<std::string> with_narrow_panels(std::vector<std::string> trace) {
  for (std::string& line : trace) {
    if (line.rfind("pack ", 0) != 0) continue;
    std::istringstream words(line);
    std::vector<std::string> order{std::istream_iterator<std::string>(words), {}};
    for (size_t i = 0; i < order.size(); ++i) {
      const std::string& word = order[i];
      if (word.size() < 4 || word.compare(word.size() - 3, 3, "_on") != 0) continue;
      const auto tiles = std::find(order.begin(), order.end(), word.substr(0, word.size() - 1) + "t");
      const auto panel = order.begin() + static_cast<std::ptrdiff_t>(i);
      if (tiles < panel) std::rotate(tiles + 1, panel, panel + 1);
    }
    line.clear();
    for (const std::string& word : order) line += (line.empty() ? "" : " ") + word;
  }
  return trace;
}

// Whether two versions of one kernel can be called with the same arguments: the same buffers, packed into the
// same bytes, for the same sizes.
bool takes_same_arguments(const Kernel& a, const Kernel& b) {
  std::vector<const Buffer*> of_a, of_b;
  for_each_argument(a, [&](const Buffer& buffer, size_t) { of_a.push_back(&buffer); });
  for_each_argument(b, [&](const Buffer& buffer, size_t) { of_b.push_back(&buffer); });
  if (of_a.size() != of_b.size()) return false;
  for (size_t i = 0; i < of_a.size(); ++i) {
    if (of_a[i]->name != of_b[i]->name || of_a[i]->dtype != of_b[i]->dtype) return false;
    const Packing* packing_a = packing_of(a, of_a[i]->name);
    const Packing* packing_b = packing_of(b, of_b[i]->name);
    if ((packing_a == nullptr) != (packing_b == nullptr)) return false;
    if (packing_a != nullptr ? !packs_alike(*packing_a, a, *packing_b, b) : of_a[i]->shape != of_b[i]->shape)
      return false;
  }
  if (a.parameters.size() != b.parameters.size()) return false;
  for (size_t i = 0; i < a.parameters.size(); ++i) {
    if (b.parameters[i].value != a.parameters[i].value || b.parameters[i].maximum < a.parameters[i].maximum)
      return false;
  }
  return true;
}

// Lets the schedule alternate, where that applies. For kernels that a loop of the plan repeats.
void alternate(Schedule& schedule) {
  const auto line = alternation(schedule);
  if (!line) return;
  const auto refused = schedule.apply(*line);
  TC_CHECK(!refused, "of kernel '", schedule.kernel().name, "': ", *refused);
}

}  // namespace

std::optional<std::string> KernelSchedules::refuse_trace(const Kernel& kernel,
                                                         const std::vector<std::string>& layout_lines,
                                                         const std::vector<std::string>& trace,
                                                         double tolerance, Schedule& schedule) const {
  const bool laid_out = trace.size() >= layout_lines.size() &&
                        std::equal(layout_lines.begin(), layout_lines.end(), trace.begin());
  if (!laid_out) return "it does not begin with the layouts that the model gives the kernel";
  if (trace.size() > kMaxLines) return text("it has ", trace.size(), " lines; ", kMaxLines, " are allowed");
  if (split_count(trace) > kMaxSplits)
    return text("it splits loops ", split_count(trace), " times; ", kMaxSplits, " are allowed");
  if (auto refused = schedule.replay(trace)) return refused;
  const TraceAlgorithm algorithm = algorithm_of(trace);
  if (algorithm.tolerance > tolerance) {
    return text(algorithm.text, " needs a tolerance of ", algorithm.tolerance, ", not ", tolerance);
  }
  if (auto refused = schedule.check()) return refused;
  const ScheduledKernel finished = schedule.finish();
  const double size = code_size(finished);
  if (size > kMaxCode) {
    return text("its code would have about ", static_cast<int64_t>(size), " operations; ",
                static_cast<int64_t>(kMaxCode), " are allowed");
  }
  const auto by_default = [&] {
    return default_schedule(kernel, options_.target, options_.threads, layout_lines, tolerance).finish();
  };
  if (auto refused = refuse_scratch(finished, by_default)) return refused;
  // Throws where no code can be written for it: that refuses the record and must not end the build.
  if (options_.check_kernel) options_.check_kernel(finished);
  return std::nullopt;
}

std::optional<Schedule> KernelSchedules::recorded_schedule(const Kernel& kernel,
                                                           const std::vector<std::string>& layout_lines,
                                                           const Entry& entry) {
  if (!options_.traces || stopped_) return std::nullopt;
  const ReplayBudget budget(kReplayOperations);
  for (const std::vector<std::string>& trace : options_.traces(entry.workload)) {
    Schedule schedule(kernel, options_.target);
    std::optional<std::string> refused;
    try {
      refused = refuse_trace(kernel, layout_lines, trace, entry.tolerance, schedule);
    } catch (const Interrupted&) {
      throw;
    } catch (...) {
      // Whatever a record leads to, the build goes on without it.
      refused = as_error(std::current_exception()).what();
    }
    if (refused) {
      ++refused_;
      result_.notes.push_back(
          text("a recorded schedule of kernel '", kernel.name, "' is not used: ", *refused));
    }
    replay_work_ += std::pow(static_cast<double>(std::min(split_count(trace), kMaxSplits)), 3);
    stopped_ = refused_ >= kMaxRefused || replay_work_ > kMaxReplayWork;
    if (stopped_)
      result_.notes.push_back(text("no more recorded schedules are tried: ", refused_,
                                   " were refused, and replaying them takes long"));
    if (!refused) return schedule;
    if (stopped_) break;
  }
  return std::nullopt;
}

Schedule KernelSchedules::choose_schedule(const Kernel& kernel, const std::vector<std::string>& layout_lines,
                                          Entry& entry) {
  // A recorded schedule may run elsewhere than where the kernel is placed.
  if (entry.placement == Placement::Predicted) {
    if (auto recorded = recorded_schedule(kernel, layout_lines, entry)) {
      entry.tuned = true;
      return *std::move(recorded);
    }
  }
  const auto placed = [&](Placement placement) {
    return placed_schedule(kernel, options_.target, options_.threads, layout_lines, entry.tolerance,
                           placement);
  };
  try {
    return placed(entry.placement);
  } catch (const Error& error) {
    // Another kernel of this label may be the one that is meant: what is around a sum has its label.
    if (error.kind() != ErrorKind::Unsupported || entry.placement != Placement::Accelerator) throw;
  }
  return placed(Placement::Core);
}

const KernelSchedules::Entry& KernelSchedules::schedule(const Kernel& kernel,
                                                        const std::vector<std::string>& layout_lines,
                                                        const Use& use) {
  interruption_point();
  std::string key = workload_key(kernel);
  for (const std::string& line : layout_lines) key += "\n" + line;
  if (use.equal_weights) key += "\nequal weights";
  Entry entry;
  entry.workload = key;
  // When three features share one 64-bit word, two have 21 bits and one has 22, so that equal features would
  // be rounded differently. Where results are as large as 1e19, that difference is large enough to change a
  // softmax.
  entry.tolerance = use.equal_weights ? std::min(options_.tolerance, kWithoutWords) : options_.tolerance;
  const auto placed = options_.placements.find(kernel.name);
  if (placed != options_.placements.end()) {
    entry.placement = placed->second;
    key += text("\nplaced ", static_cast<int>(placed->second));
  }
  if (use.repeated) key += "\nrepeated";
  auto found = scheduled_.find(key);
  if (found != scheduled_.end() && !use.sizes_known &&
      result_.plan.kernels.at(found->second.index).scratch_by_sizes) {
    key += "\nlimited";
    found = scheduled_.find(key);
  }
  if (found != scheduled_.end()) return found->second;
  Schedule schedule = choose_schedule(kernel, layout_lines, entry);
  if (use.repeated) alternate(schedule);
  entry.trace = schedule.trace();
  ScheduledKernel finished = schedule.finish();
  finished.scratch_by_sizes = use.sizes_known && scratch_bytes(finished) > kManyScratchBytes &&
                              !sizes_of_scratch(finished.kernel).empty();
  if (!finished.scratch_by_sizes) limit_sizes(finished);
  if (scratch_bytes(finished) > kMaxScratchBytes) {
    fail(ErrorKind::Unsupported, "kernel '", kernel.name,
         "' would need more than 1 GiB per thread for its intermediate "
         "results",
         sizes_of_scratch(finished.kernel).empty() ? "" : "; give `shapes` with the sizes that occur");
  }
  entry.seconds = predicted_seconds(finished, options_.target, 1);
  entry.single_thread = predicted_cycles(finished, options_.target, kLikelySize) < kSingleThreadCycles;
  entry.index = static_cast<int>(result_.plan.kernels.size());
  result_.plan.scratch_bytes = std::max(result_.plan.scratch_bytes, scratch_bytes(finished));
  result_.plan.kernels.push_back(std::move(finished));
  if (!options_.target.wider_targets.empty()) add_versions(kernel, layout_lines, entry, use.repeated);
  return scheduled_.emplace(key, entry).first->second;
}

void KernelSchedules::add_versions(const Kernel& kernel, const std::vector<std::string>& layout_lines,
                                   const Entry& entry, bool repeated) {
  for (const std::string& name : options_.target.wider_targets) {
    const Target target = parse_target(name);
    Target one_of_several = target;  // its schedules pack constants as those of the other vector lengths do
    one_of_several.wider_targets = options_.target.wider_targets;
    Schedule by_default =
        default_schedule(kernel, one_of_several, options_.threads, layout_lines, entry.tolerance);
    // Tried in turn: the default schedule; where its panels are wider than those of shorter vectors, the same
    // with panels of one vector; and the kernel's own schedule, which fills fewer registers when vectors are
    // longer.
    for (const std::vector<std::string>& trace :
         {by_default.trace(), with_narrow_panels(by_default.trace()), entry.trace}) {
      Schedule schedule(kernel, target);
      if (schedule.replay(trace) || schedule.check()) continue;
      // Only where the entry's kernel alternates does the call pass the number of the iteration.
      if (repeated && alternates(result_.plan.kernels.at(static_cast<size_t>(entry.index))))
        alternate(schedule);
      ScheduledKernel finished = schedule.finish();
      finished.scratch_by_sizes = result_.plan.kernels.at(static_cast<size_t>(entry.index)).scratch_by_sizes;
      if (!finished.scratch_by_sizes) limit_sizes(finished);
      if (!takes_same_arguments(result_.plan.kernels.at(static_cast<size_t>(entry.index)).kernel,
                                finished.kernel))
        continue;
      if (scratch_bytes(finished) > std::max(kManyScratchBytes, result_.plan.scratch_bytes)) continue;
      result_.plan.scratch_bytes = std::max(result_.plan.scratch_bytes, scratch_bytes(finished));
      result_.plan.versions[entry.index].push_back({name, std::move(finished)});
      break;
    }
  }
}

void KernelSchedules::report(const Kernel& kernel, const Entry& entry,
                             const std::vector<std::string>& layout_lines) {
  KernelReport report;
  report.label = kernel.name;
  report.kernel = entry.index;
  report.workload = entry.workload;
  report.layout_lines = layout_lines;
  report.trace = entry.trace;
  report.algorithm = algorithm_of(entry.trace).text;
  report.tuned = entry.tuned;
  report.single_thread = entry.single_thread;
  report.tolerance = entry.tolerance;
  report.statements = str(kernel);
  report.predicted_seconds = entry.seconds;
  std::map<std::string, int64_t> parameters;
  for (const Parameter& parameter : kernel.parameters) {
    parameters[parameter.name] = std::max<int64_t>(1, parameter.minimum);
  }
  report.flops = flop_count(kernel, parameters);
  report.multiply_adds = multiply_add_count(kernel, parameters);
  result_.reports.push_back(std::move(report));
}

}  // namespace tc
