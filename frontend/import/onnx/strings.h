// Strings, maps of labels, and images in files' formats. A graph has none: what works on them is taken out of
// a model and runs on the host, before what is compiled or after it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "frontend/import/import.h"
#include "frontend/import/onnx/onnx.pb.h"
#include "ir/error.h"

namespace tc {

// Thrown by the importer for a model that has strings or decodes images: whoever can run its program of the
// host imports the rest.
class HasStrings : public Error {
 public:
  // What the model does, and where first: "works on strings (input 'x')".
  HasStrings(const std::string& file_name, const std::string& what);
};

// Throws HasStrings where a value of the graph is of strings or a node decodes images, in subgraphs too.
void refuse_strings(const tc_onnx::GraphProto& graph, const std::string& file_name);

// A tensor of strings, which are UTF-8; row-major.
struct Strings {
  std::vector<int64_t> shape;
  std::vector<std::string> values;
};
using HostValue = std::variant<TensorPtr, Strings>;
using HostAttribute = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                                   std::vector<std::string>, TensorPtr, Strings>;

struct HostNode {
  std::string op_type;
  std::string who;  // for errors: "node 'split' (StringSplit, opset 20) of model.onnx"
  int opset = 0;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, HostAttribute> attributes;
  std::optional<DType> result;  // of the first output; nothing: strings
};

struct HostPort {
  std::string name;
  std::optional<DType> dtype;  // nothing: strings
  std::optional<Shape> shape;
  bool maps = false;  // a list of maps from labels to numbers
};

struct HostProgram {
  std::string model;
  std::vector<HostPort> inputs, outputs;
  std::map<std::string, HostValue> constants;  // what nodes and outputs need of the model's constants
  // What is computed of inputs and constants alone, and what is computed of what is compiled; in order.
  std::vector<HostNode> before, after;
  // The model of what remains, which has no strings; nothing where nothing does.
  std::optional<Source> rest;
};

// Unsupported errors, which name the node, for other operators on strings and where something would have to
// be compiled between two parts of the program.
HostProgram split_strings(const Source& source, const ImportOptions& options);

}  // namespace tc
