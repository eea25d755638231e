// Compiled models as Python sees them.
#include "frontend/python/runner.h"

#include <pybind11/stl.h>

#include <time.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "frontend/python/errors.h"
#include "ir/error.h"
#include "runtime/tc_runtime.h"

namespace py = pybind11;

namespace tc {
namespace {

void check(tc_status status) {
  switch (status) {
    case TC_OK: return;
    case TC_ERROR_MODEL: fail(ErrorKind::Model, tc_last_error());
    case TC_ERROR_TARGET: fail(ErrorKind::Target, tc_last_error());
    case TC_ERROR_SHAPE: fail(ErrorKind::Shape, tc_last_error());
    case TC_ERROR_SIZE: fail(ErrorKind::Shape, tc_last_error());
    default: fail(ErrorKind::Internal, tc_last_error());
  }
}

class Model {
 public:
  explicit Model(const std::string& path) {
    tc_model* handle = nullptr;
    check(tc_model_open(path.c_str(), &handle));
    handle_.reset(handle, tc_model_close);
  }

  tc_model* handle() const { return handle_.get(); }
  int input_count() const { return tc_model_input_count(handle()); }
  int output_count() const { return tc_model_output_count(handle()); }
  tc_port_info input(int index) const { return port(tc_model_input_info, index); }
  tc_port_info output(int index) const { return port(tc_model_output_info, index); }

  py::dict info() const {
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
    result["threads"] = info.default_threads;
    result["symbols"] = symbols;
    result["steps"] = steps;
    return result;
  }

  // (name, element type, sizes) of each; a size is a number, a symbol's name, or None.
  py::list ports(bool inputs) const {
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

 private:
  template <class Get>
  tc_port_info port(Get get, int index) const {
    tc_port_info info = {};
    info.struct_size = sizeof info;
    check(get(handle(), index, &info));
    return info;
  }

  std::shared_ptr<tc_model> handle_;
};

// One array's memory while a run uses it.
class View {
 public:
  View() = default;
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  ~View() { release(); }

  // False, with no Python error set, where the object does not give its memory this way.
  bool acquire(PyObject* object, int flags) {
    release();
    if (PyObject_GetBuffer(object, &buffer_, flags) != 0) {
      PyErr_Clear();
      return false;
    }
    held_ = true;
    return true;
  }
  void release() {
    if (held_) PyBuffer_Release(&buffer_);
    held_ = false;
  }
  const Py_buffer& operator*() const { return buffer_; }
  const Py_buffer* operator->() const { return &buffer_; }

 private:
  Py_buffer buffer_ = {};
  bool held_ = false;
};

// Whether a buffer's format (of the struct module) is this element type in native byte order.
bool has_type(const Py_buffer& buffer, int32_t dtype) {
  if (buffer.format == nullptr || buffer.itemsize != tc_dtype_size(dtype)) return false;
  const char* format = buffer.format;
  if (std::strchr("@=<", *format) != nullptr) ++format;
  if (format[0] == 0 || format[1] != 0) return false;
  const char* accepted = "";
  switch (dtype) {
    case TC_F32: accepted = "f"; break;
    case TC_F64: accepted = "d"; break;
    case TC_F16: accepted = "e"; break;
    case TC_BOOL: accepted = "?"; break;
    case TC_I8: case TC_I16: case TC_I32: case TC_I64: accepted = "bhilqn"; break;
    // What NumPy has not itself (bfloat16, floats of 8 and integers of 4 bits …) comes as bits.
    default: accepted = "BHILQN"; break;
  }
  return std::strchr(accepted, format[0]) != nullptr;
}

// One run in progress: a context and the Python functions that convert and make arrays.
class Context {
 public:
  // `convert(index, object)` returns an array that is dense, aligned and of input `index`'s type, or
  // raises.
  // `empty(index, shape)` makes output `index`; `filled(array, shape)` is its part that a run has filled, where that is
  // smaller.
  Context(const Model& model, int threads, py::object convert, py::object empty, py::object filled)
      : model_(model), convert_(std::move(convert)), empty_(std::move(empty)), filled_(std::move(filled)) {
    tc_context* handle = nullptr;
    check(tc_context_create(model.handle(), threads, &handle));
    handle_.reset(handle);
    for (int i = 0; i < model.input_count(); ++i) inputs_.push_back(model.input(i));
    output_count_ = model.output_count();
  }

  // Runs with one array per input; a tuple of new arrays.
  py::tuple run(const py::sequence& arrays) {
    return with_buffers(arrays, [&](const Buffers& inputs, const Results& outputs) {
      check(run_once(inputs, outputs));
    });
  }

  // Runs with one array per input for that many seconds, but at least `least` times and at most
  // kMostRuns, and twice before that. Steps' times are by the monotonic clock or, where `own`, of the
  // calling thread's processor time. Returns seconds:
  // {"runs": of each run, "steps": [(times in a run, seconds in a run: least, median, in the fastest
  // run)] by number of the step, "timeline": [(step, begin, end)] of the fastest run}.
  py::dict profile(const py::sequence& arrays, double seconds, int least, bool own) {
    Profile profile;
    profile.clock = own ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    {
      tc_model_info info = {};
      info.struct_size = sizeof info;
      check(tc_model_get_info(model_.handle(), &info));
      profile.steps.resize(static_cast<size_t>(info.step_count));
    }
    with_buffers(arrays, [&](const Buffers& inputs, const Results& outputs) {
      for (int i = 0; i < 2; ++i) check(run_once(inputs, outputs));
      check(tc_context_set_profile(handle_.get(), step_done, &profile));
      tc_status status = TC_OK;
      const uint64_t end = nanoseconds() + static_cast<uint64_t>(seconds * 1e9);
      while (status == TC_OK && profile.runs.size() < kMostRuns &&
             (profile.runs.size() < static_cast<size_t>(least) || nanoseconds() < end)) {
        profile.begin();
        status = run_once(inputs, outputs);
        profile.finish();
      }
      tc_context_set_profile(handle_.get(), nullptr, nullptr);
      check(status);
    });
    return profile.result();
  }

  // Runs with one array per input.
  template <class Execute>
  py::tuple with_buffers(const py::sequence& arrays, const Execute& execute) {
    const size_t count = inputs_.size();
    if (arrays.size() != count)
      fail(ErrorKind::Shape, "the model takes ", count, " inputs, not ", arrays.size());
    std::unique_ptr<View[]> views(new View[count]);
    std::vector<py::object> held(count);
    std::vector<tc_shape> shapes(count);
    std::vector<tc_input_buffer> inputs(count);
    std::vector<int64_t> dims;
    dims.reserve(count * TC_MAX_RANK);
    for (size_t i = 0; i < count; ++i) {
      held[i] = arrays[i];
      acquire_input(static_cast<int>(i), held[i], views[i]);
      const Py_buffer& buffer = *views[i];
      if (buffer.ndim > TC_MAX_RANK)
        fail(ErrorKind::Shape, "input '", inputs_[i].name, "' has rank ", buffer.ndim,
             "; the model expects rank ", inputs_[i].rank);
      shapes[i] = {dims.data() + dims.size(), buffer.ndim, 0};
      for (int axis = 0; axis < buffer.ndim; ++axis) dims.push_back(buffer.shape[axis]);
      inputs[i] = {buffer.buf, static_cast<uint64_t>(buffer.len)};
    }
    check(tc_context_bind(handle_.get(), shapes.data(), static_cast<int32_t>(count)));
    py::tuple results(static_cast<size_t>(output_count_));
    std::unique_ptr<View[]> output_views(new View[static_cast<size_t>(output_count_)]);
    std::vector<tc_output_buffer> outputs(static_cast<size_t>(output_count_));
    for (int i = 0; i < output_count_; ++i) {
      const py::tuple most = port_shape(tc_context_output_shape, i);
      // A size without a bound: the run has the memory.
      if (most.contains(py::int_(-1))) continue;
      py::object array = empty_(i, most);
      View& view = output_views[static_cast<size_t>(i)];
      TC_CHECK(view.acquire(array.ptr(), PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE), "for output ", i);
      outputs[static_cast<size_t>(i)] = {view->buf, static_cast<uint64_t>(view->len)};
      results[static_cast<size_t>(i)] = std::move(array);
    }
    {
      py::gil_scoped_release release;
      execute(inputs, outputs);
    }
    for (int i = 0; i < output_count_; ++i) {
      const py::tuple shape = port_shape(tc_context_result_shape, i);
      if (outputs[static_cast<size_t>(i)].data == nullptr && port_shape(tc_context_output_shape, i).contains(py::int_(-1))) {
        results[static_cast<size_t>(i)] = copied(i, shape);
        continue;
      }
      if (shape.equal(port_shape(tc_context_output_shape, i))) continue;
      output_views[static_cast<size_t>(i)].release();
      results[static_cast<size_t>(i)] = filled_(results[static_cast<size_t>(i)], shape);
    }
    return results;
  }

  // A new array with what the last run has made of output i.
  py::object copied(int i, const py::tuple& shape) const {
    const void* data = nullptr;
    check(tc_context_result_data(handle_.get(), i, &data));
    py::object array = empty_(i, shape);
    View view;
    TC_CHECK(view.acquire(array.ptr(), PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE), "for output ", i);
    if (view->len > 0) std::memcpy(view->buf, data, static_cast<size_t>(view->len));
    return array;
  }

  py::dict memory() const {
    tc_memory_info info = {};
    info.struct_size = sizeof info;
    check(tc_context_memory(handle_.get(), &info));
    py::dict result;
    result["constants"] = info.constant_bytes;
    result["arena"] = info.arena_bytes;
    result["scratch"] = info.scratch_bytes;
    return result;
  }

  int threads_used() const { return tc_context_threads_used(handle_.get()); }

 private:
  struct Destroy {
    void operator()(tc_context* context) const { tc_context_destroy(context); }
  };
  using Buffers = std::vector<tc_input_buffer>;
  using Results = std::vector<tc_output_buffer>;

  static constexpr size_t kMostRuns = 10000;
  static constexpr size_t kMostEvents = 100000;  // of a timeline

  static uint64_t nanoseconds(clockid_t clock = CLOCK_MONOTONIC) {
    timespec now;
    clock_gettime(clock, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
  }

  // What the runtime tells of a context's runs while it is asked.
  struct Profile {
    struct Step {
      uint64_t elapsed = 0;        // in the run so far, nanoseconds
      int64_t times = 0;
      std::vector<uint64_t> runs;
    };
    struct Event {
      int32_t step;
      uint64_t begin, end;
    };
    std::vector<Step> steps;
    std::vector<uint64_t> runs;
    std::vector<Event> events, fastest_events;
    size_t fastest = 0;
    uint64_t run_started = 0, started = 0, last = 0;
    clockid_t clock = CLOCK_MONOTONIC;

    void begin() {
      for (Step& step : steps) step.elapsed = 0, step.times = 0;
      events.clear();
      run_started = nanoseconds();
      started = last = nanoseconds(clock);
    }
    void done(int32_t number) {
      const uint64_t now = nanoseconds(clock);
      Step& step = steps[static_cast<size_t>(number)];
      step.elapsed += now - last;
      ++step.times;
      if (events.size() < kMostEvents) events.push_back({number, last - started, now - started});
      last = now;
    }
    void finish() {
      runs.push_back(nanoseconds() - run_started);
      for (Step& step : steps) step.runs.push_back(step.elapsed);
      if (runs.back() <= runs[fastest]) {
        fastest = runs.size() - 1;
        fastest_events.swap(events);
      }
    }
    py::dict result() const {
      py::list times, rows, timeline;
      for (uint64_t run : runs) times.append(1e-9 * static_cast<double>(run));
      for (const Step& step : steps) {
        std::vector<uint64_t> sorted = step.runs;
        std::sort(sorted.begin(), sorted.end());
        rows.append(py::make_tuple(step.times, 1e-9 * static_cast<double>(sorted.front()),
                                   1e-9 * static_cast<double>(sorted[sorted.size() / 2]),
                                   1e-9 * static_cast<double>(step.runs[fastest])));
      }
      for (const Event& event : fastest_events)
        timeline.append(py::make_tuple(event.step, 1e-9 * static_cast<double>(event.begin),
                                       1e-9 * static_cast<double>(event.end)));
      py::dict found;
      found["runs"] = times;
      found["steps"] = rows;
      found["timeline"] = timeline;
      return found;
    }
  };

  static void step_done(void* user, int32_t step) { static_cast<Profile*>(user)->done(step); }

  tc_status run_once(const Buffers& inputs, const Results& outputs) {
    return tc_context_run(handle_.get(), inputs.data(), static_cast<int32_t>(inputs.size()),
                          outputs.data(), static_cast<int32_t>(outputs.size()));
  }

  // Takes the array's memory as it is where that is possible, else what `convert_` makes of it.
  void acquire_input(int index, py::object& array, View& view) {
    const int32_t dtype = inputs_[static_cast<size_t>(index)].dtype;
    for (bool converted : {false, true}) {
      if (view.acquire(array.ptr(), PyBUF_STRIDES | PyBUF_FORMAT) && has_type(*view, dtype) &&
          PyBuffer_IsContiguous(&*view, 'C') &&
          reinterpret_cast<uintptr_t>(view->buf) % static_cast<size_t>(view->itemsize) == 0)
        return;
      view.release();
      TC_CHECK(!converted, "for input ", index);
      array = convert_(index, array);
    }
  }

  template <class Get>
  py::tuple port_shape(Get get, int index) const {
    int64_t dims[TC_MAX_RANK];
    int32_t rank = 0;
    check(get(handle_.get(), index, dims, &rank, nullptr));
    py::tuple shape(static_cast<size_t>(rank));
    for (int32_t i = 0; i < rank; ++i) shape[static_cast<size_t>(i)] = dims[i];
    return shape;
  }

  Model model_;
  py::object convert_, empty_, filled_;
  std::unique_ptr<tc_context, Destroy> handle_;
  std::vector<tc_port_info> inputs_;
  int output_count_ = 0;
};

}  // namespace

void add_runner(py::module_& module) {
  py::class_<Model>(module, "Model")
      .def(py::init<const std::string&>())
      .def("info", &Model::info)
      .def("inputs", [](const Model& model) { return model.ports(true); })
      .def("outputs", [](const Model& model) { return model.ports(false); });
  py::class_<Context>(module, "Context")
      .def(py::init<const Model&, int, py::object, py::object, py::object>())
      .def("run", &Context::run)
      .def("profile", &Context::profile)
      .def("memory", &Context::memory)
      .def_property_readonly("threads_used", &Context::threads_used);
  module.def("runtime_version", [] { return std::string(tc_runtime_version()); });
  module.def("core_count", [] { return tc_core_count(); });
  module.def("set_spin_time", [](uint32_t microseconds) { tc_set_spin_time(microseconds); });
}

}  // namespace tc
