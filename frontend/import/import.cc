// The one door for models.
#include "frontend/import/import.h"

#include <algorithm>

#include "frontend/import/onnx/importer.h"
#include "ir/error.h"

namespace tc {
namespace {

const Importer& importer_of(const Source& source) {
  const std::vector<Importer>& all = importers();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Importer& each) { return each.recognises(source); });
  return found == all.end() ? all.back() : *found;
}

}  // namespace

const std::vector<Importer>& importers() {
  static const std::vector<Importer> all = {onnx_importer()};
  return all;
}

Graph import_model(Source source, const ImportOptions& options) {
  const Importer& importer = importer_of(source);
  return importer.import(std::move(source), options);
}

std::vector<ImportProblem> check_model(const Source& source, const ImportOptions& options) {
  return importer_of(source).check(source, options);
}

Signature signature_of(const Source& source, const ImportOptions& options) {
  return importer_of(source).signature(source, options);
}

}  // namespace tc
