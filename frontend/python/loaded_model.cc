// A compiled model that was loaded, as Python sees it.
#include "frontend/python/loaded_model.h"

#include "frontend/python/errors.h"
#include "ir/error.h"

namespace py = pybind11;

namespace tc {
namespace {

ErrorKind kind_of(tc_status status) {
  switch (status) {
    case TC_ERROR_MODEL: return ErrorKind::Model;
    case TC_ERROR_TARGET: return ErrorKind::Target;
    case TC_ERROR_SHAPE: return ErrorKind::Shape;
    case TC_ERROR_SIZE: return ErrorKind::Shape;
    default: return ErrorKind::Internal;
  }
}

void check_opened(tc_status status) {
  if (status != TC_OK) fail(kind_of(status), tc_last_error());
}

template <class Get>
tc_port_info port(const Model& model, Get get, int index) {
  tc_port_info info = {};
  info.struct_size = sizeof info;
  model.check(get(model.handle(), index, &info));
  return info;
}

}  // namespace

Model::Model(const std::string& path, bool check, bool trusted) {
  tc_model* handle = nullptr;
  const unsigned flags =
      (check ? 0u : unsigned{TC_OPEN_UNCHECKED}) | (trusted ? 0u : unsigned{TC_OPEN_UNTRUSTED});
  check_opened(tc_model_open_with(path.c_str(), flags, &handle));
  state_->handle.reset(handle, tc_model_close);
  tc_model_info info = {};
  info.struct_size = sizeof info;
  check_opened(tc_model_get_info(handle, &info));
  state_->own_name = state_->name = info.model;
}

void Model::check(tc_status status) const {
  if (status == TC_OK) return;
  std::string said = tc_last_error();
  const std::string own = text("model '", state_->own_name, "'");
  if (said.rfind(own, 0) == 0) said = text("model '", state_->name, "'") + said.substr(own.size());
  fail(kind_of(status), said);
}

tc_port_info Model::input(int index) const { return port(*this, tc_model_input_info, index); }
tc_port_info Model::output(int index) const { return port(*this, tc_model_output_info, index); }

py::dict Model::info() const {
  tc_model_info info = {};
  info.struct_size = sizeof info;
  check(tc_model_get_info(handle(), &info));
  py::dict symbols;
  for (int i = 0; i < info.symbol_count; ++i) {
    const char* name;
    int64_t minimum, maximum;
    check(tc_model_symbol_info(handle(), i, &name, &minimum, &maximum));
    symbols[python_text(name)] = py::make_tuple(minimum, maximum);
  }
  py::list steps;
  for (int i = 0; i < info.step_count; ++i) steps.append(python_text(tc_model_step_name(handle(), i)));
  py::dict result;
  result["model"] = python_text(info.model);
  result["target"] = python_text(info.target);
  result["features"] = python_text(info.features);
  result["provenance"] = python_text(info.provenance);
  result["constant_bytes"] = info.constant_bytes;
  result["weights"] = info.weights == nullptr ? py::object(py::none()) : py::object(py::bytes(info.weights));
  result["threads"] = info.default_threads;
  result["symbols"] = symbols;
  result["steps"] = steps;
  return result;
}

py::list Model::ports(bool inputs) const {
  py::list result;
  const int count = inputs ? input_count() : output_count();
  for (int i = 0; i < count; ++i) {
    const tc_port_info info = inputs ? input(i) : output(i);
    py::list dims;
    for (int axis = 0; axis < info.rank; ++axis) {
      if (info.dims[axis] >= 0) dims.append(info.dims[axis]);
      else if (info.symbols[axis] != nullptr) dims.append(python_text(info.symbols[axis]));
      else dims.append(py::none());
    }
    result.append(py::make_tuple(python_text(info.name), tc_dtype_name(info.dtype), py::tuple(dims)));
  }
  return result;
}

void add_loaded_model(py::module_& module) {
  py::class_<Model>(module, "Model")
      .def(py::init<const std::string&, bool, bool>(), py::arg("path"), py::arg("check") = true,
           py::arg("trusted") = true)
      .def("info", &Model::info)
      .def("rename", &Model::rename)
      .def("inputs", [](const Model& model) { return model.ports(true); })
      .def("outputs", [](const Model& model) { return model.ports(false); })
      .def("in_place", [](const Model& model) {
        py::list inputs;
        for (int i = 0; i < model.output_count(); ++i)
          inputs.append(tc_model_output_in_place(model.handle(), i));
        return inputs;
      });
}

}  // namespace tc
