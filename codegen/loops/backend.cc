#include "codegen/loops/backend.h"

#include "codegen/backend/artefact_files.h"
#include "ir/plan.h"

namespace tc {
namespace {

const std::vector<ArtefactKind> kKinds = {
    {.name = "loops",
     .suffix = ".loops",
     .doc = "the plan and each kernel's scheduled loops as text, to compare builds",
     .is_for_people = true},
};

class LoopsBackend : public Backend {
 public:
  const char* name() const override { return "loops"; }
  const std::vector<ArtefactKind>& kinds() const override { return kKinds; }

  void check_kernel(const ScheduledKernel&, const Target&) const override {}

  // The text has no constants' numbers, and is made when it is written.
  ModelObjects compile(const Plan&, const Target&, int) const override { return {}; }

  std::optional<ExportedSizes> write(const ArtefactKind&, const ArtefactContent& content,
                                     const ArtefactPlace& place) const override {
    write_file(place.part, str(content.plan));
    return std::nullopt;
  }

  // `inspect --dump=loops` prints the loops of one kernel for all back ends.
  std::vector<CodeText> texts() const override { return {}; }
  std::string text_of(const ScheduledKernel&, const Target&, const std::string&) const override { return ""; }
};

}  // namespace

const Backend& loops_backend() {
  static const LoopsBackend backend;
  return backend;
}

}  // namespace tc
