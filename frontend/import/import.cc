// The one interface for models.
#include "frontend/import/import.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "frontend/import/onnx/importer.h"
#include "ir/error.h"
#include "ir/held_constants.h"

namespace tc {
namespace {

bool is_of(const Importer& importer, const Source& source) {
  std::string suffix = std::filesystem::path(source.name).extension().string();
  std::transform(suffix.begin(), suffix.end(), suffix.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  const std::vector<std::string>& suffixes = importer.suffixes;
  if (std::find(suffixes.begin(), suffixes.end(), suffix) != suffixes.end()) return true;
  return !importer.begin.empty() && source.bytes.size() > importer.offset &&
         source.bytes.compare(importer.offset, importer.begin.size(), importer.begin) == 0;
}

const Importer& importer_of(const Source& source) {
  const std::vector<Importer>& all = importers();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Importer& each) { return is_of(each, source); });
  return found == all.end() ? all.back() : *found;
}

}  // namespace

const std::vector<Importer>& importers() {
  static const std::vector<Importer> all = {onnx_importer()};
  return all;
}

Graph import_model(Source source, const ImportOptions& options) {
  const HeldConstants counting(static_cast<int64_t>(source.bytes.size()));
  const Importer& importer = importer_of(source);
  return importer.import(std::move(source), options);
}

std::vector<ImportProblem> check_model(const Source& source, const ImportOptions& options) {
  const HeldConstants counting(static_cast<int64_t>(source.bytes.size()));
  return importer_of(source).check(source, options);
}

Signature signature_of(const Source& source, const ImportOptions& options) {
  return importer_of(source).signature(source, options);
}

}  // namespace tc
