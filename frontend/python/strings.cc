#include "frontend/python/strings.h"

#include <pybind11/stl.h>

#include "frontend/import/onnx/string_shapes.h"
#include "frontend/import/onnx/strings.h"
#include "frontend/pipeline/compile.h"
#include "frontend/python/errors.h"

namespace py = pybind11;

namespace tc {
namespace {

// (element type or None for strings, sizes, bytes or texts).
py::tuple python_value(const HostValue& value) {
  if (const auto* strings = std::get_if<Strings>(&value))
    return py::make_tuple(py::none(), strings->shape, python_texts(strings->values));
  const Tensor& tensor = *std::get<TensorPtr>(value);
  return py::make_tuple(name_of(tensor.dtype), tensor.shape,
                        py::bytes(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()));
}

py::object python_attribute(const HostAttribute& attribute) {
  if (const auto* text = std::get_if<std::string>(&attribute)) return python_text(*text);
  if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute)) return python_texts(*texts);
  if (const auto* tensor = std::get_if<TensorPtr>(&attribute)) return python_value(*tensor);
  if (const auto* strings = std::get_if<Strings>(&attribute)) return python_value(*strings);
  if (const auto* integer = std::get_if<int64_t>(&attribute)) return py::int_(*integer);
  if (const auto* number = std::get_if<double>(&attribute)) return py::float_(*number);
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&attribute)) return py::cast(*integers);
  return py::cast(std::get<std::vector<double>>(attribute));
}

py::list python_nodes(const std::vector<HostNode>& nodes) {
  py::list result;
  for (const HostNode& node : nodes) {
    py::dict attributes;
    for (const auto& [name, value] : node.attributes) attributes[python_text(name)] = python_attribute(value);
    py::dict row;
    row["op_type"] = node.op_type;
    row["who"] = python_text(node.who);
    row["opset"] = node.opset;
    row["inputs"] = python_texts(node.inputs);
    row["outputs"] = python_texts(node.outputs);
    row["attributes"] = attributes;
    row["result_type"] = node.result ? py::object(py::str(name_of(*node.result))) : py::none();
    result.append(row);
  }
  return result;
}

// (name, element type, None for strings or "maps", sizes or None).
py::list python_ports(const std::vector<HostPort>& ports) {
  py::list result;
  for (const HostPort& port : ports) {
    py::list sizes;
    for (const Dim& dim : port.shape.value_or(Shape())) {
      if (dim.is_constant()) sizes.append(dim.constant());
      else sizes.append(dim.str());
    }
    const py::object type = port.maps    ? py::str("maps")
                            : port.dtype ? py::object(py::str(name_of(*port.dtype)))
                                         : py::none();
    result.append(py::make_tuple(python_text(port.name), type, port.shape ? py::object(sizes) : py::none()));
  }
  return result;
}

py::dict python_program(const Source& source, const CompileOptions& options) {
  HostProgram program = split_strings(source, import_options(options));
  py::dict constants;
  for (const auto& [name, value] : program.constants) constants[python_text(name)] = python_value(value);
  py::dict result;
  result["model"] = python_text(program.model);
  result["inputs"] = python_ports(program.inputs);
  result["outputs"] = python_ports(program.outputs);
  result["constants"] = constants;
  result["before"] = python_nodes(program.before);
  result["after"] = python_nodes(program.after);
  result["rest"] = program.rest ? py::cast(std::move(*program.rest)) : py::object(py::none());
  return result;
}

}  // namespace

void add_strings(py::module_& module) { module.def("split_strings", &python_program); }

}  // namespace tc
