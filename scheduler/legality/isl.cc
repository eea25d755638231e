// The isl context of a thread and its operation budget.
#include "scheduler/legality/isl.h"

#include <set>

#include "scheduler/scheduler.h"

namespace tc {
namespace {

struct Context {
  isl_ctx* ctx = isl_ctx_alloc();
  Context() { isl_options_set_on_error(ctx, ISL_ON_ERROR_CONTINUE); }
  ~Context() { isl_ctx_free(ctx); }
};

// Whether a ReplayBudget of this thread is alive.
thread_local bool replaying = false;

void limit_operations(unsigned long operations) {
  isl_ctx_set_max_operations(isl_context(), operations);
  isl_ctx_reset_operations(isl_context());
}

}  // namespace

isl_ctx* isl_context() {
  thread_local Context context;
  return context.ctx;
}

IslBudget::IslBudget(unsigned long operations) : previous_(isl_ctx_get_max_operations(isl_context())) {
  if (!replaying) limit_operations(operations);
}

IslBudget::~IslBudget() {
  if (!replaying) limit_operations(previous_);
}

ReplayBudget::ReplayBudget(unsigned long operations) {
  limit_operations(operations);
  replaying = true;
}

ReplayBudget::~ReplayBudget() {
  replaying = false;
  limit_operations(0);
}

std::string isl_name(const std::string& name) {
  static const std::set<std::string> reserved = {
      "exists", "and",  "or",    "not",   "implies", "infty", "infinity", "NaN",   "min", "max",
      "rat",    "true", "false", "ceild", "floord",  "mod",   "ceil",     "floor", "int"};
  return reserved.count(name) ? name + "_" : name;
}

}  // namespace tc
