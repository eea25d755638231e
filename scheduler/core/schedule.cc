// Schedules as values.
#include "scheduler/core/accelerator_memory.h"
#include "scheduler/scheduler.h"

#include <algorithm>

#include "ir/error.h"
#include "ir/interrupt.h"
#include "scheduler/core/primitive.h"
#include "scheduler/core/rewriting.h"
#include "scheduler/core/state.h"
#include "scheduler/generate/generate.h"

namespace tc {

struct Schedule::State : ScheduleState {};

const ScheduleState& ScheduleAccess::state(const Schedule& schedule) { return *schedule.state_; }
Schedule ScheduleAccess::schedule(ScheduleState state) {
  auto inner = std::make_unique<Schedule::State>();
  static_cast<ScheduleState&>(*inner) = std::move(state);
  return Schedule(std::move(inner));
}

void end_rewrites(ScheduleState& state) {
  Kernel kernel = state.kernel->kernel;
  settle_padding(kernel, state.blocked);
  replace_kernel(state, std::move(kernel));
  state.ordered = true;
}

Schedule::Schedule(Kernel kernel, const Target& target) : state_(std::make_unique<State>()) {
  state_->target = target;
  replace_kernel(*state_, std::move(kernel));
}
Schedule::Schedule(std::unique_ptr<State> state) : state_(std::move(state)) {}
Schedule::Schedule(const Schedule& other) : state_(std::make_unique<State>(*other.state_)) {}
Schedule::Schedule(Schedule&&) noexcept = default;
Schedule& Schedule::operator=(Schedule other) {
  state_ = std::move(other.state_);
  return *this;
}
Schedule::~Schedule() = default;

std::optional<std::string> Schedule::apply(const std::string& line) {
  interruption_point();
  return apply_line(*state_, line);
}

std::optional<std::string> Schedule::replay(const std::vector<std::string>& trace) {
  for (const std::string& line : trace) {
    if (auto refused = apply(line)) return refused;
  }
  return std::nullopt;
}

const std::vector<std::string>& Schedule::trace() const { return state_->trace; }
const Kernel& Schedule::kernel() const { return state_->kernel->kernel; }
const Target& Schedule::target() const { return state_->target; }
std::optional<std::string> Schedule::check() const {
  interruption_point();
  return check_state(*state_);
}

bool Schedule::is_padding(const std::string& buffer, const std::vector<int64_t>& index) const {
  return std::any_of(state_->blocked.begin(), state_->blocked.end(), [&](const BlockedDim& dim) {
    return dim.buffer == buffer && dim.extent.is_constant() &&
           index.at(dim.outer) * dim.block + index.at(dim.inner) >= dim.extent.constant();
  });
}

std::string Schedule::tree() const {
  if (state_->ordered) return tree_text(state_->kernel, state_->tree);
  State sealed = *state_;
  end_rewrites(sealed);
  return tree_text(sealed.kernel, sealed.tree);
}

ScheduledKernel Schedule::finish() const {
  interruption_point();
  State sealed = *state_;
  if (!sealed.ordered) end_rewrites(sealed);
  if (auto refused = check_state(sealed)) {
    fail(ErrorKind::Schedule, "schedule of kernel '", sealed.kernel->kernel.name, "' is illegal: ", *refused);
  }
  state_->checked = sealed.checked;
  try {
    ScheduledKernel result = generate(sealed.kernel, sealed.tree);
    result.accelerator = sealed.target.accelerator;
    refuse_wrong_commands(result);
    return result;
  } catch (const isl::exception_quota&) {
    fail(ErrorKind::Schedule, "schedule of kernel '", sealed.kernel->kernel.name,
         "' is too complex: its loops cannot be generated");
  } catch (const isl::exception& error) {
    fail(ErrorKind::Internal, "internal error: loops of kernel '", sealed.kernel->kernel.name, "': isl says ",
         error.what());
  }
}

TraceAlgorithm algorithm_of(const std::vector<std::string>& trace) {
  TraceAlgorithm result;
  for (const std::string& line : trace) {
    const auto read = read_line(line);
    if (!read) continue;
    const Primitive& primitive = primitive_of(*read->row);
    if (primitive.algorithm) result = primitive.algorithm(*read);
  }
  return result;
}

}  // namespace tc
