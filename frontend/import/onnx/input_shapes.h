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
  // Numbers and ranges for symbols, from options.symbols and from the shapes given for inputs. Shape errors
  // where these contradict the file or each other, or are of no input.
  InputShapes(const tc_onnx::GraphProto& graph, const std::string& file_name, const ImportOptions& options);

  // The shape of an input; symbols that have no number become the graph's.
  Shape shape_of(Graph& graph, const tc_onnx::ValueInfoProto& input) const;

  // The shape that the file declares, with the known numbers; nothing where it declares none.
  std::optional<Shape> declared(const tc_onnx::ValueInfoProto& port) const;

 private:
  // The sizes that the options give for an input, by its shape or its value; -1 where one is left open. Null:
  // none.
  const std::vector<int64_t>* given_shape(const std::string& input) const;
  // Numbers for symbols of a sequence's or an optional's tensors on which all these agree.
  void bind_by_form(const tc_onnx::ValueInfoProto& input);
  void find_ranges(const tc_onnx::GraphProto& graph, const std::set<std::string>& inputs);
  [[noreturn]] void fail_unknown_symbol(const std::string& name, int64_t size, bool is_input,
                                        const std::set<std::string>& symbols) const;
  // Lets the length of a cache of keys and values, which grows with each run, begin at 0: what a decoder's
  // first call has.
  void find_caches(const tc_onnx::GraphProto& graph);
  Dim file_dim(const tc_onnx::TensorShapeProto::Dimension& dim, const std::string& input, int axis) const;

  const std::string& file_name_;
  const ImportOptions& options_;
  std::map<std::string, Dim> bound_;
  std::map<std::string, std::pair<int64_t, int64_t>> ranges_;  // of symbols
};

// Names of the initializers that are constants of the model: those that the options do not open. Shape errors
// where these are none that the file declares as inputs as well.
std::set<std::string> constants_of(const tc_onnx::GraphProto& graph, const std::string& file_name,
                                   const ImportOptions& options);

// The graph's inputs and outputs as they are declared; Model errors for names that are no text.
Signature declared_signature(const tc_onnx::GraphProto& graph, const std::string& file_name,
                             const ImportOptions& options);

}  // namespace tc
