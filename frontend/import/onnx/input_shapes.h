// The shapes of a model's inputs: what the file says, with the sizes and symbols that the options give.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "frontend/import/import.h"
#include "frontend/import/onnx/onnx.pb.h"

namespace tc {

class InputShapes {
 public:
  // Finds numbers and ranges for symbols in options.symbols and in the shapes given for inputs. Shape errors
  // where these contradict the file or each other, or name no input or symbol of one.
  InputShapes(const tc_onnx::GraphProto& graph, const std::string& file_name, const ImportOptions& options);

  // The shape of an input; symbols without a number become symbols of the graph.
  Shape shape_of(Graph& graph, const tc_onnx::ValueInfoProto& input) const;

  // The shape that the file declares, with numbers for symbols that have one; nothing where it declares none.
  std::optional<Shape> declared(const tc_onnx::ValueInfoProto& port) const;

 private:
  // The sizes that the options give for an input, as its shape or with its value; -1 where one is left open.
  // Null where they give none.
  const std::vector<int64_t>* given_shape(const std::string& input) const;
  // Gives symbols of a sequence or an optional the number on which the forms of all its tensors agree.
  void bind_by_form(const tc_onnx::ValueInfoProto& input);
  void find_ranges(const tc_onnx::GraphProto& graph, const std::set<std::string>& inputs);
  [[noreturn]] void fail_unknown_symbol(const std::string& name, int64_t size, bool is_input,
                                        const std::set<std::string>& symbols) const;
  // Allows length 0 for caches of keys and values, which grow with each run: a decoder's first call has empty
  // ones.
  void find_caches(const tc_onnx::GraphProto& graph);
  Dim file_dim(const tc_onnx::TensorShapeProto::Dimension& dim, const std::string& input, int axis) const;

  const std::string& file_name_;
  const ImportOptions& options_;
  std::map<std::string, Dim> bound_;
  std::map<std::string, std::pair<int64_t, int64_t>> ranges_;  // by symbol
};

// Names of the initializers that are constants of the model, that is, not in options.open_initializers. Shape
// errors where those are not initializers that the file declares as inputs as well.
std::set<std::string> constants_of(const tc_onnx::GraphProto& graph, const std::string& file_name,
                                   const ImportOptions& options);

// The graph's inputs and outputs as the file declares them; Model errors for names that are not valid text.
Signature declared_signature(const tc_onnx::GraphProto& graph, const std::string& file_name,
                             const ImportOptions& options);

}  // namespace tc
