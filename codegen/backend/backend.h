// The interface of back ends: what turns scheduled kernels, a plan and its constants into artefacts. No type
// of any back end appears here.
//
// A back end is a folder with a class that implements it, and a line in codegen/backend/table.cc. What plans
// are made of (ir/plan.h), how much scratch memory kernels take and how constants and arenas are aligned
// (ir/scratch.h) is the same for all.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "ir/scheduled.h"
#include "ir/target/target.h"

namespace tc {

using Bytes = std::vector<uint8_t>;

// The packed constants of a model, in a file rather than in memory (codegen/backend/packed_constants_file.h).
class ConstantsFile;

// What a back end compiles a plan to; its artefacts are written from it.
struct ModelObjects {
  // Empty for a back end whose artefacts are source text, which is made when the artefact is written.
  std::vector<Bytes> code;
  // Read-only data under a symbol that the code knows; null where there is none.
  std::shared_ptr<const ConstantsFile> constants = nullptr;
  // Symbols of functions that have a version for each length of vectors; a machine runs the versions of one
  // length only. Grouped by length, so that a linker can put those which run together next to each other.
  std::vector<std::string> by_length = {};
};

// A kind of artefact, as a row.
struct ArtefactKind {
  const char* name;                 // "shared"
  const char* suffix;               // of its file, where the user names no file: ".so"
  const char* doc;                  // what it is, as a part of a sentence
  bool needs_runtime = false;       // tc's runtime opens it or is part of it
  bool one_thread = false;          // runs on the calling thread, however many it was compiled for
  bool constants_in_flash = false;  // constants are in read-only memory, which max_flash limits
  bool has_header = false;          // a header of C is written next to it
  bool is_for_people = false;       // a text to read, which no program uses
  bool has_commands = false;        // its code can write commands for an accelerator
  bool weights_beside = false;      // its constants can be in a file of their own, which the runtime maps
};

// A compiled model as an artefact's writer sees it.
struct ArtefactContent {
  const Plan& plan;  // whose constants may be released
  const Target& target;
  const ModelObjects& objects;
  int64_t max_flash = 0;  // bytes of read-only memory for constants and code; 0: any number
  int64_t max_ram = 0;    // bytes of other memory, where constants are not in it; 0: any number
};

// Where an artefact is written.
struct ArtefactPlace {
  std::string path;  // from it the artefact and its symbols have their names; other files go to its folder
  std::string part;  // the file to write; the caller renames it to `path` when all is written
  std::string libraries;  // a folder with the runtime and the C library of each architecture
  // Where the file of constants goes, for kinds with `weights_beside`; empty: they are inside the artefact.
  std::string weights_folder = {};
};

// Bytes that an artefact without an operating system takes of a board's memory.
struct ExportedSizes {
  int64_t constants = 0, code = 0;          // flash
  int64_t arena = 0, zeros = 0, stack = 0;  // RAM
};

// A text that a back end shows of a kernel's code.
struct CodeText {
  std::string name, doc;
  std::string when;   // for which targets there is one; empty: for all
  std::string stage;  // of code after a pass: what the pass runs over; else empty
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const char* name() const = 0;
  virtual const std::vector<ArtefactKind>& kinds() const = 0;
  // Why the back end cannot make an artefact of this kind for the target, as a sentence without a full stop;
  // nothing where it can.
  virtual std::optional<std::string> refusal(const ArtefactKind& kind, const Target& target) const;
  // The kind as which the tuner measures candidates; null where this back end has none.
  virtual const ArtefactKind* candidate_kind() const { return nullptr; }

  // The target for which plans are made: without the features for which this back end has no code. By default
  // that is an accelerator.
  virtual Target usable(const Target& target) const;
  // Features of the processor that code for the target may use, by LLVM's names, separated by spaces. The
  // lease of a device demands them.
  virtual std::string features(const Target&) const { return ""; }
  // An error where no code can be written for the kernel.
  virtual void check_kernel(const ScheduledKernel& kernel, const Target& target) const = 0;

  // How many bytes of code a kernel takes, where that can only be estimated because others compile it; null
  // for back ends that make the code themselves and know its size from the artefact. With max_flash, plans of
  // such back ends keep to the estimate.
  virtual std::function<int64_t(const ScheduledKernel&)> code_estimate() const { return nullptr; }

  // `threads` workers compile and pack; the bytes do not depend on their number. A Device error where the
  // temporary folder has no room for the constants.
  virtual ModelObjects compile(const Plan& plan, const Target& target, int threads) const = 0;
  // Writes the artefact, and the files that belong to it. Returns sizes only for kinds for systems without
  // an operating system.
  virtual std::optional<ExportedSizes> write(const ArtefactKind& kind, const ArtefactContent& content,
                                             const ArtefactPlace& place) const = 0;

  // The texts that the back end can show of a kernel's code, and one of them; empty where there is none for
  // the target.
  virtual std::vector<CodeText> texts() const = 0;
  virtual std::string text_of(const ScheduledKernel& kernel, const Target& target,
                              const std::string& name) const = 0;
};

}  // namespace tc
