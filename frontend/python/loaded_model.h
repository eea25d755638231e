// A compiled model that was loaded, as Python sees it.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>

#include "runtime/tc_runtime.h"

namespace tc {

class Model {
 public:
  // See tc_model_open_with(). `check`: compare the file's checksum. `trusted`: also open files that tc's
  // linker did not make.
  explicit Model(const std::string& path, bool check = true, bool trusted = true);

  tc_model* handle() const { return state_->handle.get(); }
  // The user's name for the model, used instead of the name that its ONNX file gives the graph.
  const std::string& name() const { return state_->name; }
  void rename(const std::string& name) { state_->name = name; }

  int input_count() const { return tc_model_input_count(handle()); }
  int output_count() const { return tc_model_output_count(handle()); }
  tc_port_info input(int index) const;
  tc_port_info output(int index) const;
  pybind11::dict info() const;
  // (name, element type, sizes) of each; a size is a number, a symbol's name, or None.
  pybind11::list ports(bool inputs) const;

  // Throws the error of the runtime's last call on this thread, with the user's name for the model in its
  // text.
  void check(tc_status status) const;

 private:
  struct State {
    std::shared_ptr<tc_model> handle;
    std::string own_name, name;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();  // copies share one model
};

void add_loaded_model(pybind11::module_& module);

}  // namespace tc
