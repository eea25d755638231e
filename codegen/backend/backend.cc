// The answers that all back ends share.
#include "codegen/backend/backend.h"

#include "ir/accelerator.h"
#include "ir/error.h"

namespace tc {

std::optional<std::string> Backend::refusal(const ArtefactKind& kind, const Target& target) const {
  if (target.accelerator != nullptr && !kind.has_commands && !kind.is_for_people)
    return text("it has no commands for accelerator '", target.accelerator->name, "'");
  if (!kind.needs_runtime || target.has_runtime) return std::nullopt;
  return text("there is no runtime for addresses of ", target.word_bits, " bits");
}

Target Backend::usable(const Target& target) const { return without_accelerator(target); }

}  // namespace tc
