// The one interface for models: whatever the format of a file, it becomes a graph here. What comes after
// knows no format.
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

// A model where it lies: the file's bytes, its name in error texts, and the folder where its external data
// may lie (empty: nowhere). Who imports it last moves it in, so that the bytes are not kept beside what was
// read of them.
struct Source {
  std::string bytes, name, folder;
  // In place of bytes: what a front end in Python read of the model (frontend/import/onnx/description.h).
  std::shared_ptr<const ModelDescription> description = nullptr;
  // Of a file whose name is that of no format: which files are read, for the error where it is none of them.
  std::string known_files = {};
};

enum class PortKind { Tensor, Sequence, Optional, OptionalSequence };
const char* name_of(PortKind kind);  // "optional sequence"

// What a sequence or an optional is in one compiled model. A graph has tensors only: input `x` is "x[0]",
// "x[1]", … of it; an optional's tensor keeps its name.
struct InputForm {
  bool present = true;  // of an optional
  // Of a sequence's tensors in order, or of the one of an optional; -1 leaves a size open.
  std::vector<std::vector<int64_t>> shapes;
};
struct OutputForm {
  std::string name;
  PortKind kind = PortKind::Tensor;
  bool present = true;
  int64_t tensors = 1;  // so many outputs of the graph
};

// Where no other number is given.
constexpr int64_t kDefaultMaxNodes = int64_t{1} << 18;

struct ImportOptions {
  // Sizes of inputs by name; -1 leaves a dimension as the file has it.
  std::map<std::string, std::vector<int64_t>> input_shapes;
  std::map<std::string, int64_t> symbols;
  // Inputs that are constants of the compiled model (a sampling rate that chooses a branch).
  std::map<std::string, TensorPtr> constants;
  // Of inputs that are sequences or optionals.
  std::map<std::string, InputForm> forms;
  // Gets the form of every output, in order, where one of them is no tensor; else it stays as it is.
  std::vector<OutputForm>* output_forms = nullptr;
  // Constants of the file that it declares as inputs as well: these are inputs of the compiled model.
  std::set<std::string> open_initializers = {};
  // Gets what they are in the file.
  std::map<std::string, TensorPtr>* defaults = nullptr;
  // Into which symbolic links beside the model may lead, where its external data are such.
  std::vector<std::string> data_folders = {};
  // Gets sentences on what was changed in reading the file.
  std::vector<std::string>* notes = nullptr;
  // That a model may have, each function counted as often as it is called.
  int64_t max_nodes = kDefaultMaxNodes;
};

// An Unsupported error for most who catch it. Whoever has the values of these inputs can give their forms
// (ImportOptions::forms) and import again.
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
  std::string node;     // name, or first output where it has none
  std::string op_type;  // with the domain, if not the default one
  int opset = 0;
  std::string reason;
};

// Inputs and outputs as the file declares them, before anything is inferred.
struct DeclaredPort {
  std::string name;
  DType dtype = DType::F32;    // of the tensors
  std::optional<Shape> shape;  // nothing where the file does not say, and for sequences
  PortKind kind = PortKind::Tensor;
};
struct Signature {
  std::string model;
  std::vector<DeclaredPort> inputs, outputs;  // without the inputs that the options make constants
};

// A format of model files. To add one: a folder beside this file that defines one of these, and its line in
// import.cc.
struct Importer {
  std::string format;                 // as people call it: "ONNX"
  std::vector<std::string> suffixes;  // of its files, in lower case: ".onnx"
  // What its files have at an offset; empty where how they begin does not tell.
  size_t offset = 0;
  std::string begin;
  std::vector<std::string> options;  // of tc.compile, that other formats do not have
  // The model as a graph with types and shapes inferred. The file is hostile: every size is checked before it
  // is believed. Model errors for files that are damaged, Unsupported errors that name all operators without
  // a row at once, Shape errors that name node and sizes.
  std::function<Graph(Source, const ImportOptions&)> import;
  // Every operator of the model (subgraphs and functions too) that has no row; where there is none, the first
  // other reason why the import fails, if any.
  std::function<std::vector<ImportProblem>(const Source&, const ImportOptions&)> check;
  // What a run takes and gives. Model errors for damaged files.
  std::function<Signature(const Source&, const ImportOptions&)> signature;
};

// All formats. The first whose suffix or beginning a source has imports it; the last one takes what is none
// of the others', and says what is wrong with it.
const std::vector<Importer>& importers();

// Throws DependsOnData (ir/ops/depends_on_data.h) where the content of inputs decides the graph's structure,
// NeedsForms where that of inputs is missing.
Graph import_model(Source source, const ImportOptions& options);
std::vector<ImportProblem> check_model(const Source& source, const ImportOptions& options);
Signature signature_of(const Source& source, const ImportOptions& options);

}  // namespace tc
