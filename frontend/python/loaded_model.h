// A compiled model that was loaded, as Python sees it.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>

#include "runtime/tc_runtime.h"

namespace tc {

class Model {
 public:
  // As tc_model_open_with(): whether the file's checksum is compared, and whether the file may be whatever it
  // likes.
  explicit Model(const std::string& path, bool check = true, bool trusted = true);

  tc_model* handle() const { return state_->handle.get(); }
  // What users call the model, in the place of the name that its file of ONNX gives the graph.
  const std::string& name() const { return state_->name; }
  void rename(const std::string& name) { state_->name = name; }

  int input_count() const { return tc_model_input_count(handle()); }
  int output_count() const { return tc_model_output_count(handle()); }
  tc_port_info input(int index) const;
  tc_port_info output(int index) const;
  pybind11::dict info() const;
  // (name, element type, sizes) of each; a size is a number, a symbol's name, or None.
  pybind11::list ports(bool inputs) const;

  // Throws what the runtime's last call on this thread said of the model, with the name that users know.
  void check(tc_status status) const;

 private:
  struct State {
    std::shared_ptr<tc_model> handle;
    std::string own_name, name;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();  // all copies are one model
};

void add_loaded_model(pybind11::module_& module);

}  // namespace tc
