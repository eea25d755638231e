#include "frontend/python/description.h"

#include <pybind11/stl.h>

#include "frontend/import/import.h"
#include "frontend/import/onnx/description.h"
#include "frontend/python/tensor.h"
#include "frontend/python/weights.h"
#include "ir/error.h"

namespace py = pybind11;

namespace tc {
void add_description(py::module_& module) {
  py::class_<DescribedNode>(module, "DescribedNode")
      .def(py::init([](const std::string& op, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs) {
        return DescribedNode{op, "", inputs, outputs, {}, {}, "", ""};
      }))
      .def_readwrite("domain", &DescribedNode::domain)
      .def_readwrite("attributes", &DescribedNode::attributes)
      .def("set_graph", [](DescribedNode& node, const std::string& role,
                           const std::shared_ptr<GraphDescription>& graph) { node.graphs[role] = graph; })
      .def_readwrite("name", &DescribedNode::name)
      .def_readwrite("source", &DescribedNode::source);
  py::class_<GraphDescription, std::shared_ptr<GraphDescription>>(module, "GraphDescription")
      .def(py::init<const std::string&>())
      .def("input",
           [](GraphDescription& graph, const std::string& name, const std::string& dtype,
              const std::vector<DescribedSize>& sizes) {
             graph.add_input(name, dtype_from_name(dtype), sizes);
           })
      .def("formal", &GraphDescription::add_formal)
      .def("node", &GraphDescription::add_node)
      .def("output", [](GraphDescription& graph, const std::string& name, const std::string& dtype) {
        graph.add_output(name, dtype_from_name(dtype));
      });
  py::class_<ModelDescription, std::shared_ptr<ModelDescription>>(module, "ModelDescription")
      .def(py::init<const std::string&>())
      .def_property_readonly(
          "graph", [](ModelDescription& model) { return &model.graph(); },
          py::return_value_policy::reference_internal)
      .def("constant",
           [](ModelDescription& model, const std::string& name, const std::string& dtype,
              const std::vector<int64_t>& shape, const py::buffer& data) {
             model.add_constant(name, std::make_shared<Tensor>(tensor_of(dtype, shape, data)));
           })
      // Adds the planes of a matrix [rows, columns], which a file stores in blocks of this format, as
      // constants `NAME.PLANE`; of `matrices` of them, which follow each other, where this is not 0. Returns
      // their names.
      .def("blocks",
           [](ModelDescription& model, const std::string& name, const std::string& format,
              const py::buffer& data, int64_t rows, int64_t columns, int64_t matrices) {
             const WeightFormat& row = weight_format(format);
             std::vector<Tensor> planes =
                 planes_of(row, data, matrices > 0 ? checked_count({matrices, rows}) : rows, columns);
             std::vector<std::string> names;
             for (size_t i = 0; i < planes.size(); ++i) {
               if (matrices > 0) {
                 planes[i].shape.front() = rows;
                 planes[i].shape.insert(planes[i].shape.begin(), matrices);
               }
               names.push_back(name + "." + row.planes[i].name);
               model.add_constant(names.back(), std::make_shared<Tensor>(std::move(planes[i])));
             }
             return names;
           })
      .def("range", &ModelDescription::set_range)
      // The source of the model as it is described now; `file` is its name in error texts.
      .def("source", [](const ModelDescription& model, const std::string& file) {
        return Source{"", printable(file), "", std::make_shared<ModelDescription>(model), ""};
      });
}

}  // namespace tc
