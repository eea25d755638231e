#include "codegen/backend/artefact_files.h"

#include <cstdint>
#include <fstream>
#include <sstream>

#include "codegen/backend/c_names.h"
#include "ir/error.h"

namespace tc {
namespace {

// FNV-1a.
uint32_t digest(const std::string& text) {
  uint32_t result = 2166136261u;
  for (const char c : text) result = (result ^ static_cast<unsigned char>(c)) * 16777619u;
  return result;
}

// The beginning of the first line of an artefact's header.
std::string first_words(const std::string& path) { return "/* " + harmless(file_name(path)) + ": "; }

// Artefacts whose files differ in the suffix alone have the same header file, which can serve both only
// where the runtime opens them.
void refuse_header_of_another(const std::string& path, const std::string& header, const std::string& about) {
  std::ifstream in(header);
  std::string line;
  if (!in || !std::getline(in, line)) return;
  const size_t colon = line.find(": model '");
  if (line.rfind("/* ", 0) != 0 || colon == std::string::npos) return;
  const std::string other = line.substr(3, colon - 3);
  const auto is_opened = [](const std::string& text) {
    return text.find("tc_model_open_linked(") != std::string::npos;
  };
  if (other == harmless(file_name(path)) || (is_opened(line) && is_opened(about))) return;
  fail(ErrorKind::Device, "'", header, "' is the header of '", other, "'; give '", file_name(path),
       "' another name, or remove both files of the other artefact");
}

}  // namespace

std::string header_path(const std::string& path) {
  const size_t dot = path.rfind('.'), slash = path.rfind('/');
  const bool has_suffix = dot != std::string::npos && (slash == std::string::npos || dot > slash);
  return (has_suffix ? path.substr(0, dot) : path) + ".h";
}

void write_file(const std::string& path, const std::function<bool(runtime::NewFile&)>& write) {
  runtime::NewFile file;
  if (!file.open(path.c_str()) || !write(file) || !file.finish())
    fail(ErrorKind::Device, "cannot write '", path, "': ", file.why());
}

void write_file(const std::string& path, const std::string& text) {
  write_file(path, [&](runtime::NewFile& file) { return file.write(text.data(), text.size()); });
}

void write_header(const std::string& path, const std::string& about, const std::string& declarations) {
  const std::string header = header_path(path), macros = upper(c_name(path));
  refuse_header_of_another(path, header, about);
  const std::string number = text(digest(file_name(path) + "\n" + about + declarations), "u");
  std::ostringstream out;
  out << first_words(path) << about << " */\n"
      << "#ifdef " << macros << "_H_\n"
      << "#if " << macros << "_H_ != " << number << "\n"
      << "#error the names of two models begin with " << c_name(path) << " or " << macros
      << ": give the file of one of them another name\n"
      << "#endif\n"
      << "#else\n"
      << "#define " << macros << "_H_ " << number << "\n\n"
      << declarations << "#endif\n";
  write_file(header, out.str());
}

}  // namespace tc
