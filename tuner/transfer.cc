// What a tuning session learns from the log's records of other kernels, models and cores.
#include "tuner/transfer.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "ir/error.h"
#include "ir/interrupt.h"
#include "scheduler/legality/trust.h"
#include "scheduler/scheduler.h"
#include "tuner/candidate_features.h"

namespace tc {
namespace {

constexpr int64_t kMaxRecords = 20'000;  // that are read
constexpr size_t kPage = 1000;
constexpr size_t kMaxRows = 2000;     // that a model is trained on
constexpr size_t kMaxOfGroup = 64;    // of them, from one group
constexpr size_t kFastest = 24;       // of a group's rows: so many are its fastest, the others slower ones
constexpr size_t kMinOfGroup = 4;     // fewer say little about what is fast
constexpr double kMaxValue = 2.0;     // a schedule that is 7 times slower is as bad as any
constexpr double kMaxDifference = 4;  // in one feature, of kernels
// Bounds for what a stranger may have written to the log.
constexpr size_t kMaxWorkload = 64 << 10, kMaxLines = 256;
constexpr unsigned long kReplayOperations = 2'000'000;

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The lines of the kernel's text are indented; those that fix layouts follow it.
std::pair<std::string, std::vector<std::string>> parts_of(const std::string& workload) {
  std::pair<std::string, std::vector<std::string>> parts;
  for (const std::string& line : parse_trace(workload)) {
    const bool of_kernel = parts.first.empty() || line.rfind("  ", 0) == 0;
    if (of_kernel) parts.first += line + "\n";
    else parts.second.push_back(line);
  }
  return parts;
}

// The kernel, which comes from workload_key(), with the names that the other one has at the same places.
std::optional<Kernel> with_names_of(const Kernel& names, Kernel kernel) {
  const bool alike = kernel.parameters.empty() && kernel.packings.empty() && names.packings.empty() &&
                     kernel.buffers.size() == names.buffers.size() &&
                     kernel.statements.size() == names.statements.size();
  if (!alike) return std::nullopt;
  for (size_t i = 0; i < kernel.buffers.size(); ++i) kernel.buffers[i].name = names.buffers[i].name;
  for (size_t i = 0; i < kernel.statements.size(); ++i) {
    Statement& statement = kernel.statements[i];
    const Statement& like = names.statements[i];
    if (statement.iterators.size() != like.iterators.size()) return std::nullopt;
    statement.name = like.name;
    std::map<std::string, Affine> iterators;
    for (size_t j = 0; j < statement.iterators.size(); ++j) {
      const std::string& name = like.iterators[j].name;
      iterators[statement.iterators[j].name] = Affine::variable(name);
      statement.iterators[j].name = name;
    }
    for (Affine& constraint : statement.constraints) constraint = constraint.substitute(iterators);
    statement.write = substitute(statement.write, iterators);
    statement.value = substitute(statement.value, iterators);
  }
  return kernel;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::min(std::abs(a[i] - b[i]), kMaxDifference);
    sum += difference * difference;
  }
  return sum;
}

}  // namespace

std::string structure_of(const std::string& workload) {
  std::string structure;
  for (size_t i = 0; i < workload.size();) {
    const bool starts_number =
        std::isdigit(static_cast<unsigned char>(workload[i])) != 0 && (i == 0 || !is_word(workload[i - 1]));
    if (!starts_number) {
      structure += workload[i++];
      continue;
    }
    while (i < workload.size() && (is_word(workload[i]) || workload[i] == '.')) ++i;
    // A stride of 1 is not written.
    if (i < workload.size() && workload[i] == '*') ++i;
    else structure += '#';
  }
  return structure;
}

Transfer::Transfer(const std::vector<KernelTask>& tasks, const RecordStore& log, const OwnRecords& own) {
  for (const KernelTask& task : tasks) {
    tasks_.push_back(&task);
    by_structure_.emplace(structure_of(task.workload), &task);
  }
  read(log, own);
}

void Transfer::read(const RecordStore& log, const OwnRecords& own) {
  std::set<std::string> workloads;
  for (const KernelTask* task : tasks_) workloads.insert(task->workload);
  std::set<GroupKey> useless;
  int64_t number = log.number_before_last(kMaxRecords);
  for (int64_t seen = 0; seen < kMaxRecords;) {
    int64_t last = number;
    const std::vector<NumberedRecord> page = log.records_above(number, kPage, last);
    if (last == number) break;
    number = last;
    seen += static_cast<int64_t>(page.size());
    for (const auto& [its_number, record] : page) {
      interruption_point();
      if (record.measurement.outcome != Outcome::Ok || record.trace.size() > kMaxLines) continue;
      if (record.device == own.device && record.build == own.build && workloads.count(record.workload) > 0 &&
          record.target == tasks_[0]->target.name && record.threads == tasks_[0]->threads)
        continue;
      const GroupKey key = {record.workload, record.target, record.device, std::to_string(record.threads),
                            record.build};
      if (useless.count(key) > 0) continue;
      Group& group = groups_[key];
      if (group.like == nullptr && !open_group(record, group)) {
        useless.insert(key);
        groups_.erase(key);
        continue;
      }
      group.schedules.emplace_back(record.measurement.time.median, record.trace);
    }
  }
  for (auto& [key, group] : groups_) std::sort(group.schedules.begin(), group.schedules.end());
}

// Fills in what the records of a group have in common; returns false where they are of no use.
bool Transfer::open_group(const Record& record, Group& group) const {
  if (record.workload.size() > kMaxWorkload) return false;
  group.structure = structure_of(record.workload);
  const auto like = by_structure_.find(group.structure);
  if (like == by_structure_.end()) return false;
  try {
    const auto [text, layout_lines] = parts_of(record.workload);
    group.target = parse_target(record.target);
    if (group.target.arch != like->second->target.arch) return false;
    std::optional<Kernel> kernel = with_names_of(like->second->kernel, parse_kernel(text));
    if (!kernel) return false;
    verify(*kernel);
    group.kernel = *std::move(kernel);
    group.features = kernel_features(group.kernel, group.target, record.threads);
    group.layout_lines = like->second->layout_lines.size();
    group.workload = record.workload;
  } catch (const Error&) {
    return false;  // another build's, or a stranger's
  }
  group.like = like->second;
  return true;
}

// Groups with the structure of one of the tasks, by their distance to the nearest of these.
std::vector<const Transfer::Group*> Transfer::nearest_first(
    const std::vector<const KernelTask*>& tasks) const {
  std::map<std::string, std::vector<std::vector<double>>> features;
  for (const KernelTask* task : tasks)
    features[structure_of(task->workload)].push_back(
        kernel_features(task->kernel, task->target, task->threads));
  std::vector<std::pair<double, const Group*>> sorted;
  for (const auto& [key, group] : groups_) {
    const auto found = features.find(group.structure);
    if (found == features.end()) continue;
    double least = INFINITY;
    for (const std::vector<double>& task : found->second)
      least = std::min(least, distance(task, group.features));
    sorted.emplace_back(least, &group);
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const Group*> result;
  for (const auto& [far, group] : sorted) result.push_back(group);
  return result;
}

std::vector<Trace> Transfer::seeds(const KernelTask& task, size_t count) const {
  std::vector<Trace> found;
  for (const Group* group : nearest_first({&task})) {
    if (found.size() >= count) break;
    // The session itself finds what the log has of the same kernel.
    if (group->workload == task.workload) continue;
    const Trace& fastest = group->schedules.front().second;
    if (fastest.size() < group->layout_lines) continue;
    Trace seed = task.layout_lines;
    seed.insert(seed.end(), fastest.begin() + static_cast<std::ptrdiff_t>(group->layout_lines),
                fastest.end());
    if (std::find(found.begin(), found.end(), seed) == found.end()) found.push_back(std::move(seed));
  }
  return found;
}

size_t Transfer::train(CostModel& model) const {
  const Trust trust;  // the loops are looked at, and never run
  FeatureRows rows;
  std::vector<double> values;
  for (const Group* group : nearest_first(tasks_)) {
    const size_t count = group->schedules.size();
    if (count < kMinOfGroup) continue;
    const double least = group->schedules.front().first;
    // The fastest ones, and of the others as many, evenly spread.
    const size_t taken = std::min(count, kMaxOfGroup), fastest = std::min(taken, kFastest);
    for (size_t i = 0; i < taken && rows.size() < kMaxRows; ++i) {
      interruption_point();
      const size_t place = i < fastest ? i : fastest + (i - fastest) * (count - fastest) / (taken - fastest);
      const auto& [time, trace] = group->schedules[place];
      try {
        const ReplayBudget budget(kReplayOperations);
        Schedule schedule(group->kernel, group->target);
        if (schedule.replay(trace)) continue;
        rows.push_back(candidate_features(group->features, schedule));
        values.push_back(std::min(kMaxValue, std::log(time / least)));
      } catch (const Error&) {
        continue;  // a trace of another build, or a stranger's
      }
    }
  }
  if (!rows.empty()) model.fit(rows, values);
  return rows.size();
}

}  // namespace tc
