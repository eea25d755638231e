// The only interface for models: files of every format become a graph here, and later parts of the compiler
// know no format.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/error.h"
#include "ir/graph.h"

namespace tc {

class ModelDescription;

// A model before it is imported: the file's bytes, its name in error texts, and the folder of its external
// data (empty: it may have none). The last caller that imports it moves it in, so that the bytes are not kept
// in addition to what was read from them.
struct Source {
  std::string bytes, name, folder;
  // Instead of bytes: the description that a front end in Python made of the model
  // (frontend/import/onnx/description.h).
  std::shared_ptr<const ModelDescription> description = nullptr;
  // For a file whose name belongs to no format: a text on which files can be read, for the error where it is
  // none of them.
  std::string known_files = {};
};

enum class PortKind { Tensor, Sequence, Optional, OptionalSequence };
const char* name_of(PortKind kind);  // "optional sequence"

// The tensors of a sequence or an optional in one compiled model. A graph has only tensors: a sequence `x`
// becomes its inputs "x[0]", "x[1]", …; an optional's tensor keeps its name.
struct InputForm {
  bool present = true;  // false: an optional without a value
  // The shapes of the sequence's tensors in order, or of the optional's tensor; -1 leaves a size open.
  std::vector<std::vector<int64_t>> shapes;
};
struct OutputForm {
  std::string name;
  PortKind kind = PortKind::Tensor;
  bool present = true;
  int64_t tensors = 1;  // how many outputs of the graph it is
};

// The default of ImportOptions::max_nodes.
constexpr int64_t kDefaultMaxNodes = int64_t{1} << 18;

struct ImportOptions {
  // Shapes of inputs by their names; -1 leaves a dimension as the file has it.
  std::map<std::string, std::vector<int64_t>> input_shapes;
  std::map<std::string, int64_t> symbols;
  // Inputs that are constants of the compiled model (a sampling rate that chooses a branch).
  std::map<std::string, TensorPtr> constants;
  // The tensors of inputs that are sequences or optionals.
  std::map<std::string, InputForm> forms;
  // Receives the forms of all outputs, in order, where at least one of them is no tensor; else it is not
  // changed.
  std::vector<OutputForm>* output_forms = nullptr;
  // Constants that the file declares as inputs as well, and that are to be inputs of the compiled model.
  std::set<std::string> open_initializers = {};
  // Receives the values of these constants in the file.
  std::map<std::string, TensorPtr>* defaults = nullptr;
  // Folders into which symbolic links may lead where the model's external data are such links.
  std::vector<std::string> data_folders = {};
  // Receives sentences on what was changed in reading the file.
  std::vector<std::string>* notes = nullptr;
  // The most nodes that a model may have; a function counts as often as it is called.
  int64_t max_nodes = kDefaultMaxNodes;
};

// Thrown where the options lack the forms of inputs that are sequences or optionals. For most callers an
// Unsupported error; a caller that has the values of these inputs can give their forms (ImportOptions::forms)
// and import again.
class NeedsForms : public Error {
 public:
  NeedsForms(const std::string& sentence, std::vector<std::string> inputs)
      : Error(ErrorKind::Unsupported, sentence), inputs_(std::move(inputs)) {}
  const std::vector<std::string>& inputs() const { return inputs_; }

 private:
  std::vector<std::string> inputs_;
};

// Something in a model that cannot be compiled.
struct ImportProblem {
  std::string node;     // its name, or its first output where it has none
  std::string op_type;  // with the domain, if not the default one
  int opset = 0;
  std::string reason;
};

// Inputs and outputs as the file declares them, before anything is inferred.
struct DeclaredPort {
  std::string name;
  DType dtype = DType::F32;    // of its tensors
  std::optional<Shape> shape;  // nothing where the file declares none, and for sequences
  PortKind kind = PortKind::Tensor;
};
struct Signature {
  std::string model;
  std::vector<DeclaredPort> inputs, outputs;  // without inputs that the options make constants
};

// A format of model files. To add one, write a folder next to this file that defines an Importer, and add its
// line in import.cc above that of ONNX.
struct Importer {
  std::string format;                 // its usual name: "ONNX"
  std::vector<std::string> suffixes;  // of its files' names, in lower case: ".onnx"
  // The bytes that its files have at this offset; empty where files of the format cannot be recognised so.
  size_t offset = 0;
  std::string begin;
  std::vector<std::string> options;  // options of tc.compile that other formats do not have
  // The model as a graph with types and shapes inferred. The file may be hostile: every size is checked
  // before it is used. Model errors for damaged files, one Unsupported error that names all operators without
  // a row, Shape errors that name node and sizes.
  std::function<Graph(Source, const ImportOptions&)> import;
  // All nodes of the model (in subgraphs and functions too) that cannot be compiled, and why; where there are
  // none, any other reason why the import fails.
  std::function<std::vector<ImportProblem>(const Source&, const ImportOptions&)> check;
  // The inputs and outputs of a run. Model errors for damaged files.
  std::function<Signature(const Source&, const ImportOptions&)> signature;
};

// All formats. A source is imported by the first whose suffix or beginning bytes it has. The last one takes
// sources of no format, and its error says what is wrong.
const std::vector<Importer>& importers();

// Throws DependsOnData (ir/ops/depends_on_data.h) where the content of inputs decides the graph's structure,
// and NeedsForms where forms of inputs are missing.
Graph import_model(Source source, const ImportOptions& options);
std::vector<ImportProblem> check_model(const Source& source, const ImportOptions& options);
Signature signature_of(const Source& source, const ImportOptions& options);

}  // namespace tc
