// Strings, maps of labels, and encoded images. Graphs have none of these: the operators on them are taken out
// of a model and run on the host, before or after the compiled part.
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

// Thrown by the importer for a model that has strings or decodes images. A caller that can run the host's
// part (split_strings) imports the rest.
class HasStrings : public Error {
 public:
  // `what` says what the model does, and where it does so first: "works on strings (input 'x')".
  HasStrings(const std::string& file_name, const std::string& what);
};

// Throws HasStrings where a value of the graph has strings or a node decodes images, in subgraphs too.
void refuse_strings(const tc_onnx::GraphProto& graph, const std::string& file_name);

// A tensor of UTF-8 strings, row-major.
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
  std::optional<DType> result;  // type of the first output; nothing: strings
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
  std::map<std::string, HostValue> constants;  // constants of the model that nodes and outputs need
  // `before` needs only inputs and constants; `after` needs results of the compiled part. Both in order.
  std::vector<HostNode> before, after;
  // The model that remains to be compiled, which has no strings; nothing where none remains.
  std::optional<Source> rest;
};

// Unsupported errors, which name the node, for other operators on strings, and where something would have to
// be compiled between two parts of the host's program.
HostProgram split_strings(const Source& source, const ImportOptions& options);

}  // namespace tc
