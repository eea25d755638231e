// What a tuning session learns from the records that its log has of other kernels, models and cores:
// schedules to try first, and the rows that train a cost model.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tuner/cost_model.h"
#include "tuner/measure.h"
#include "tuner/record_store.h"
#include "tuner/tuned_kernel.h"

namespace tc {

// Records are of use where their kernel differs from one of the session's in its sizes alone. Only then does
// the log, which forgets the names of loops and buffers, say which loop a line of a trace is about.
class Transfer {
 public:
  // The tasks outlive the object. Reads the log's latest records, except the session's own of its kernels:
  // those are not what others have learned, and they change while it runs. So a session that goes on proposes
  // what it proposed before.
  Transfer(const std::vector<KernelTask>& tasks, const RecordStore& log, const OwnRecords& own);

  // The fastest schedules of up to `count` other kernels, the most similar ones first. They need not be legal
  // for the task's kernel.
  std::vector<Trace> seeds(const KernelTask& task, size_t count) const;

  // Fits the model to the records; returns to how many. With 0 the model knows nothing, and is not fitted.
  size_t train(CostModel& model) const;

 private:
  // Records of one kernel, target, device, number of threads and build: their times can be compared.
  struct Group {
    std::string workload, structure;   // structure_of(workload)
    const KernelTask* like = nullptr;  // a task whose kernel differs in sizes alone
    Kernel kernel;                     // with that task's names
    Target target;
    std::vector<double> features;  // of the kernel and the core
    size_t layout_lines = 0;
    std::vector<std::pair<double, Trace>> schedules;  // with their times, the fastest first
  };
  using GroupKey = std::vector<std::string>;

  void read(const RecordStore& log, const OwnRecords& own);
  bool open_group(const Record& record, Group& group) const;
  std::vector<const Group*> nearest_first(const std::vector<const KernelTask*>& tasks) const;

  std::map<std::string, const KernelTask*> by_structure_;
  std::vector<const KernelTask*> tasks_;
  std::map<GroupKey, Group> groups_;
};

// The workload's text without its sizes: equal for kernels that differ in sizes alone.
std::string structure_of(const std::string& workload);

}  // namespace tc
