#include "frontend/import/onnx/onnx_file.h"

#include <pybind11/stl.h>

#include "frontend/import/import.h"
#include "frontend/import/onnx/description.h"
#include "frontend/import/onnx/model_file.h"
#include "frontend/python/errors.h"
#include "frontend/python/onnx_file.h"
#include "frontend/python/tensor.h"

namespace py = pybind11;

namespace tc {
namespace {

std::vector<std::string> words_of(const google::protobuf::RepeatedPtrField<std::string>& words) {
  return {words.begin(), words.end()};
}

// (name, operator, domain, inputs, outputs, reads) of each node.
py::list rows_of(const OnnxFile& file) {
  py::list rows;
  for (const FileNode& node : file.nodes()) {
    rows.append(py::make_tuple(python_text(node.name()), python_text(node.proto->op_type()),
                               python_text(node.proto->domain()), python_texts(words_of(node.proto->input())),
                               python_texts(words_of(node.proto->output())), python_texts(node.reads)));
  }
  return rows;
}

py::dict makers_of(const OnnxFile& file) {
  py::dict result;
  for (const auto& [name, number] : file.makers()) result[python_text(name)] = number;
  return result;
}

py::object initializer_of(const OnnxFile& file, const std::string& name) {
  const auto* tensor = file.initializer(name);
  return tensor ? py::object(py::bytes(tensor->SerializeAsString())) : py::none();
}

using Declarations = std::map<std::string, std::pair<std::string, std::vector<int64_t>>>;
using Constants = std::map<std::string, std::tuple<std::string, std::vector<int64_t>, py::buffer>>;
using Outputs = std::vector<std::pair<std::string, std::optional<std::string>>>;

py::bytes part_of(const OnnxFile& file, const std::optional<std::set<int>>& nodes, const Declarations& inputs,
                  const std::optional<Outputs>& outputs, const Constants& constants) {
  FilePart part;
  part.nodes = nodes;
  for (const auto& [name, typed] : inputs) part.inputs[name] = {dtype_from_name(typed.first), typed.second};
  for (const auto& [name, tensor] : constants) {
    part.constants[name] =
        std::make_shared<Tensor>(tensor_of(std::get<0>(tensor), std::get<1>(tensor), std::get<2>(tensor)));
  }
  if (outputs) {
    part.outputs.emplace();
    for (const auto& [name, dtype] : *outputs) {
      part.outputs->emplace_back(name, dtype ? std::optional(dtype_from_name(*dtype)) : std::nullopt);
    }
  }
  return py::bytes(file.part(part));
}

// A described model as the bytes of an ONNX file; for a model that is a file, its own bytes.
py::bytes onnx_of(const Source& source) {
  if (!source.description) return py::bytes(source.bytes);
  tc_onnx::ModelProto model = source.description->proto();
  model.set_ir_version(10);
  for (const auto& [name, tensor] : source.description->tensors())
    add_initializer(*model.mutable_graph(), name, *tensor, source.name);
  return py::bytes(model.SerializeAsString());
}

}  // namespace

void add_onnx_file(py::module_& module) {
  py::class_<OnnxFile>(module, "OnnxFile")
      .def(py::init<const std::string&, const std::string&, const std::string&>())
      .def_property_readonly("nodes", &rows_of)
      .def_property_readonly("makers", &makers_of)
      .def_property_readonly("inputs", [](const OnnxFile& file) { return python_texts(file.inputs()); })
      .def_property_readonly("outputs", [](const OnnxFile& file) { return python_texts(file.outputs()); })
      .def("node",
           [](const OnnxFile& file, size_t number) {
             return py::bytes(file.nodes().at(number).proto->SerializeAsString());
           })
      .def("initializer", &initializer_of)
      .def("part", &part_of)
      .def("needed", &OnnxFile::needed);
  module.def("onnx_of", &onnx_of);
}

}  // namespace tc
