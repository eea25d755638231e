// The artefact for systems without an OS: an object that works in memory which the caller provides, and the
// header that says how much it needs and how to call it.
#pragma once

#include "codegen/backend/backend.h"

namespace tc {

// Writes the object, and the header next to it. The names that they declare begin with the path's c_name():
// kws.o has kws_run(). An Unsupported error names the node where a run needs what only the runtime gives
// (sizes that only a run knows), or says that constants and code are more than `max_flash`.
ExportedSizes export_bare(const ArtefactContent& model, const ArtefactPlace& place);

}  // namespace tc
