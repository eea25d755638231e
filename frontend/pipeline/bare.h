// The artefact for systems without an OS: an object that works in memory that it is given, and the header that says how
// much and how to call it.
#pragma once

#include <string>

#include "frontend/pipeline/compile.h"

namespace tc {

// Writes the object to `path` and the header beside it. What they declare begins with the path's stem: kws.o has kws_run().
// An Unsupported error names the node where a run needs what only the runtime gives: sizes that are known late.
void export_bare(const CompiledModel& model, const std::string& path);

// The path with .h in place of its suffix.
std::string header_path(const std::string& path);

}  // namespace tc
