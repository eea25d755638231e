// The isl context of a thread and its operation budget.
#include "scheduler/legality/isl.h"

#include <set>

namespace tc {
namespace {

struct Context {
  isl_ctx* ctx = isl_ctx_alloc();
  Context() {
    isl_options_set_on_error(ctx, ISL_ON_ERROR_CONTINUE);
  }
  ~Context() { isl_ctx_free(ctx); }
};

}  // namespace

isl_ctx* isl_context() {
  thread_local Context context;
  return context.ctx;
}

IslBudget::IslBudget(unsigned long operations)
    : previous_(isl_ctx_get_max_operations(isl_context())) {
  isl_ctx_set_max_operations(isl_context(), operations);
  isl_ctx_reset_operations(isl_context());
}

IslBudget::~IslBudget() {
  isl_ctx_set_max_operations(isl_context(), previous_);
  isl_ctx_reset_operations(isl_context());
}

std::string isl_name(const std::string& name) {
  static const std::set<std::string> reserved = {
      "exists", "and", "or",  "not", "implies", "infty", "infinity", "NaN",  "min", "max",
      "rat",    "true", "false", "ceild", "floord", "mod", "ceil", "floor", "int"};
  return reserved.count(name) ? name + "_" : name;
}

}  // namespace tc
