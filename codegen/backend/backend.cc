// The answers that all back ends share.
#include "codegen/backend/backend.h"

#include "ir/error.h"

namespace tc {

std::optional<std::string> Backend::refusal(const ArtefactKind& kind, const Target& target) const {
  if (!kind.needs_runtime || target.has_runtime) return std::nullopt;
  return text("there is no runtime for addresses of ", target.word_bits, " bits");
}

}  // namespace tc
