// A whole model as builders of candidates get it.
#include "frontend/pipeline/model_program.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <sstream>
#include <vector>

#include "codegen/backend/table.h"
#include "ir/error.h"

namespace tc {
namespace {

constexpr size_t kMostBytes = size_t{256} << 20;  // that are worth sending to several builders

bool is_word(const std::string& name) {
  return !name.empty() &&
         std::none_of(name.begin(), name.end(), [](unsigned char c) { return std::isspace(c); });
}

// Whether options_text() has everything that the options say.
bool can_be_text(const CompileOptions& options) {
  const auto is_named = [](const auto& entry) { return is_word(entry.first); };
  return options.size_versions.empty() && options.values.empty() && options.forms.empty() &&
         options.open_initializers.empty() && options.data_folders.empty() && options.max_ram == 0 &&
         options.max_flash == 0 && is_word(options.target) &&
         std::all_of(options.input_shapes.begin(), options.input_shapes.end(), is_named) &&
         std::all_of(options.symbols.begin(), options.symbols.end(), is_named);
}

std::string options_text(const CompileOptions& options) {
  std::ostringstream out;
  out.precision(std::numeric_limits<double>::max_digits10);
  out << "target " << options.target << "\nthreads " << options.threads << "\ntolerance " << options.tolerance
      << "\nmax_nodes " << options.max_nodes << "\ncompile_time_limit " << options.compile_time_limit
      << "\nquantised " << options.quantised << "\nrounding " << options.rounding << "\nseed " << options.seed
      << "\nkind " << options.kind << '\n';
  for (const auto& [name, size] : options.symbols) out << "symbol " << name << ' ' << size << '\n';
  for (const auto& [name, shape] : options.input_shapes) {
    out << "shape " << name;
    for (const int64_t size : shape) out << ' ' << size;
    out << '\n';
  }
  return out.str();
}

CompileOptions options_of(const std::string& text) {
  CompileOptions options;
  options.log.reset();
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream in(line);
    std::string key, name;
    in >> key;
    if (key == "target") in >> options.target;
    else if (key == "threads") in >> options.threads;
    else if (key == "build_threads") in >> options.build_threads;
    else if (key == "tolerance") in >> options.tolerance;
    else if (key == "max_nodes") in >> options.max_nodes;
    else if (key == "compile_time_limit") in >> options.compile_time_limit;
    else if (key == "quantised") in >> options.quantised;
    else if (key == "rounding") in >> options.rounding;
    else if (key == "seed") in >> options.seed;
    else if (key == "kind") in >> options.kind;
    else if (key == "symbol") in >> name >> options.symbols[name];
    else if (key == "shape") {
      in >> name;
      std::vector<int64_t>& shape = options.input_shapes[name];
      for (int64_t size; in >> size;) shape.push_back(size);
      in.clear();
    } else fail(ErrorKind::Internal, "the options of a model have the line '", line, "'");
    if (!in) fail(ErrorKind::Internal, "the options of a model have the line '", line, "'");
  }
  return options;
}

}  // namespace

std::optional<ModelProgram> model_program(const Source& source, const CompileOptions& options) {
  if (source.description || source.bytes.empty() || source.bytes.size() > kMostBytes || !can_be_text(options))
    return std::nullopt;
  // What "native" means is another thing on another machine.
  const bool is_of_this_machine = options.target.rfind("native", 0) == 0;
  return ModelProgram{source.name, source.bytes, options_text(options), is_of_this_machine};
}

void build_model_program(const ModelProgram& program, const Choices& choices, const std::string& libraries,
                         const std::string& path) {
  CompileOptions options = options_of(program.options);
  options.traces = [&choices](const std::string& workload) {
    const auto chosen = choices.find(workload);
    return chosen == choices.end() ? std::vector<Trace>{} : std::vector<Trace>{chosen->second};
  };
  // The artefact's own path stands for the folder of the model, in which no other file of it is.
  export_model(compile_model({program.bytes, program.name, path}, options), candidate_kind(), path,
               libraries);
}

}  // namespace tc
