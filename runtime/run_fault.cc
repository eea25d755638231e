// Errors that a run finds in the sizes that it computes.
#include "run_fault.h"

#include "error.h"

namespace tc::runtime {

tc_status tell(const tc_descriptor& d, const RunFault& fault) {
  const char* step = fault.step < d.step_count ? d.steps[fault.step] : "a size";
  const auto first = static_cast<long long>(fault.first), second = static_cast<long long>(fault.second);
  switch (fault.kind) {
    case RunFault::Kind::Size:
      if (fault.second == INT64_MAX)
        return fail(TC_ERROR_SIZE, "model '%s': %s is %lld for these inputs; it may be 0 or more", d.model,
                    step, first);
      return fail(TC_ERROR_SIZE, "model '%s': %s is %lld for these inputs; it may be 0 to %lld", d.model,
                  step, first, second);
    case RunFault::Kind::Relation:
      return fail(TC_ERROR_SIZE, "model '%s': %s; they are %lld and %lld for these inputs", d.model, step,
                  first, second);
    case RunFault::Kind::Memory: break;
  }
  if (fault.second < 0)
    return fail(
        TC_ERROR_MEMORY,
        "model '%s': %s is %lld for these inputs, and tensors of that size are too large for any memory",
        d.model, step, first);
  return fail(
      TC_ERROR_MEMORY,
      "model '%s': %s is %lld for these inputs, and its tensors take %.1f MB, beyond the %.1f MB that the model may use; "
      "give inputs that make less of it, or compile with a larger max_ram (default: half of the machine's memory)",
      d.model, step, first, static_cast<double>(fault.second) / 1e6, static_cast<double>(fault.limit) / 1e6);
}

}  // namespace tc::runtime
