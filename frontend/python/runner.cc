// Compiled models as Python sees them.
#include "frontend/python/runner.h"

#include <pybind11/stl.h>

#include <time.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "frontend/python/errors.h"
#include "frontend/python/loaded_model.h"
#include "frontend/python/numpy_arrays.h"
#include "frontend/python/signals.h"
#include "ir/error.h"
#include "runtime/tc_runtime.h"

namespace py = pybind11;

namespace tc {
namespace {

// The memory of one array while a run uses it.
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
    case TC_I8:
    case TC_I16:
    case TC_I32:
    case TC_I64: accepted = "bhilqn"; break;
    // Types that NumPy lacks (bfloat16, floats of 8 and integers of 4 bits …) come as their bits.
    default: accepted = "BHILQN"; break;
  }
  return std::strchr(accepted, format[0]) != nullptr;
}

struct Sizes {
  int64_t dims[TC_MAX_RANK] = {};
  int32_t rank = 0;

  bool operator==(const Sizes&) const = default;
  py::tuple tuple() const {
    py::tuple shape(static_cast<size_t>(rank));
    for (int32_t i = 0; i < rank; ++i) shape[static_cast<size_t>(i)] = dims[i];
    return shape;
  }
};

// A context of the runtime, for one run at a time, and the Python objects that convert and make its arrays.
class Context : public std::enable_shared_from_this<Context> {
 public:
  // `convert(index, object)` returns an array that is dense, aligned and of input `index`'s type, or raises.
  // `types` are NumPy's types of the inputs and of the outputs; `filled(array, shape)` returns the part of an
  // output that a run has filled, where that is smaller than the array.
  Context(const Model& model, int threads, const std::pair<py::list, py::list>& types, py::object convert,
          py::object filled)
      : model_(model), convert_(std::move(convert)), filled_(std::move(filled)) {
    tc_context* handle = nullptr;
    model_.check(tc_context_create(model.handle(), threads, &handle));
    handle_.reset(handle);
    for (int i = 0; i < model.input_count(); ++i)
      inputs_.push_back({model.input(i), types.first[static_cast<size_t>(i)]});
    for (int i = 0; i < model.output_count(); ++i)
      outputs_.push_back({types.second[static_cast<size_t>(i)], tc_model_output_in_place(model.handle(), i)});
  }

  // Runs with one array per input; returns a tuple of new arrays or, where `in_place`, of inputs that outputs
  // may share. Such a run cannot be interrupted: it would go on writing to its caller's arrays.
  py::tuple run(const py::sequence& arrays, bool in_place) {
    return with_buffers(arrays, {!in_place, in_place}, [this](const Buffers& inputs, const Results& outputs) {
      model_.check(timed_run(inputs, outputs));
    });
  }

  // Runs twice to warm up, then for so many seconds, but at least `least` times and at most kMaxRuns. Steps
  // are timed by the monotonic clock or, where `own`, by the calling thread's processor time. Gives seconds:
  // {"runs": of each run, "steps": [(times in a run, seconds in a run: least, median, in the fastest
  // run)] by number of the step, "timeline": [(step, begin, end)] of the fastest run}.
  py::dict profile(const py::sequence& arrays, double seconds, int least, bool own) {
    Profile profile;
    profile.clock = own ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    {
      tc_model_info info = {};
      info.struct_size = sizeof info;
      model_.check(tc_model_get_info(model_.handle(), &info));
      profile.steps.resize(static_cast<size_t>(info.step_count));
    }
    with_buffers(arrays, {false, false}, [&](const Buffers& inputs, const Results& outputs) {
      for (int i = 0; i < 2; ++i) model_.check(run_once(inputs, outputs));
      model_.check(tc_context_set_profile(handle_.get(), step_done, &profile));
      tc_status status = TC_OK;
      bool interrupted = false;
      const uint64_t end = nanoseconds() + static_cast<uint64_t>(seconds * 1e9);
      while (status == TC_OK && !interrupted && profile.runs.size() < kMaxRuns &&
             (profile.runs.size() < static_cast<size_t>(least) || nanoseconds() < end)) {
        profile.begin();
        status = run_once(inputs, outputs);
        profile.finish();
        interrupted = profile.looks_for_signals() && has_raised_signal();
      }
      tc_context_set_profile(handle_.get(), nullptr, nullptr);
      model_.check(status);
      if (interrupted) throw_python_error();
    });
    return profile.result();
  }

  // `interruptible`: the caller may leave a long run when a signal arrives (signals.h).
  struct Manner {
    bool interruptible = false, in_place = false;
  };
  template <class Execute>
  py::tuple with_buffers(const py::sequence& arrays, const Manner& manner, const Execute& execute) {
    const size_t count = inputs_.size();
    if (arrays.size() != count)
      fail(ErrorKind::Shape, "the model takes ", count, " inputs, not ", arrays.size());
    std::vector<Given> given(count);
    Buffers inputs(count);
    bool all = true;
    for (size_t i = 0; i < count; ++i) {
      given[i].array = arrays[i];
      all = take(i, given[i]) && all;
    }
    if (!all) convert_rest(given);
    for (size_t i = 0; i < count; ++i) inputs[i] = {given[i].data, given[i].bytes};
    if (!is_bound(given)) bind(given);
    py::tuple results(outputs_.size());
    Results outputs(outputs_.size());
    for (size_t i = 0; i < outputs_.size(); ++i) {
      // A size has no bound: the runtime provides the memory.
      if (!outputs_[i].is_bounded) continue;
      const int in = manner.in_place ? outputs_[i].lies_in : -1;
      py::object array = in < 0 ? empty(i, outputs_[i].sizes) : writable(in, arrays[in], given);
      outputs[i] = {data_of(array), outputs_[i].bytes};
      results[i] = std::move(array);
    }
    if (manner.interruptible && may_take_long() && is_signal_thread()) {
      execute_interruptibly(
          {shared_from_this(), std::move(given), std::move(inputs), std::move(outputs), results}, execute);
    } else {
      py::gil_scoped_release release;
      execute(inputs, outputs);
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      uint64_t bytes = 0;
      const Sizes sizes = port_sizes(tc_context_result_shape, i, bytes);
      if (!outputs_[i].is_bounded) results[i] = copied(i, sizes, bytes);
      else if (sizes != outputs_[i].sizes) results[i] = filled_(results[i], sizes.tuple());
    }
    return results;
  }

  // A new array with the last run's result for output i.
  py::object copied(size_t i, const Sizes& sizes, uint64_t bytes) const {
    const void* data = nullptr;
    model_.check(tc_context_result_data(handle_.get(), static_cast<int32_t>(i), &data));
    py::object array = empty(i, sizes);
    if (bytes > 0) std::memcpy(data_of(array), data, bytes);
    return array;
  }

  py::dict memory() const {
    tc_memory_info info = {};
    info.struct_size = sizeof info;
    model_.check(tc_context_memory(handle_.get(), &info));
    py::dict result;
    result["constants"] = info.constant_bytes;
    result["arena"] = info.arena_bytes;
    result["scratch"] = info.scratch_bytes;
    return result;
  }

  // Whether a caller has left a run that still goes on: the context must not be used for another.
  bool is_left() const { return left_; }

  int threads_used() const { return tc_context_threads_used(handle_.get()); }

 private:
  // An array given to a run, and its memory.
  struct Given {
    py::object array;
    View view;  // for objects that are not NumPy arrays
    void* data = nullptr;
    uint64_t bytes = 0;
    int rank = 0;
    const Py_ssize_t* sizes = nullptr;
    bool taken = false;
    std::vector<Py_ssize_t> own_sizes;
  };
  struct Input {
    tc_port_info info;
    py::object type;
  };
  // An output with the shapes that are bound now: its array is made with these sizes.
  struct Output {
    py::object type;
    int lies_in = -1;  // the input that it may share memory with
    Sizes sizes = {};
    uint64_t bytes = 0;
    bool is_bounded = true;
  };
  struct Destroy {
    void operator()(tc_context* context) const { tc_context_destroy(context); }
  };
  using Buffers = std::vector<tc_input_buffer>;
  using Results = std::vector<tc_output_buffer>;

  static constexpr uint64_t kLongRun = 50'000'000;  // nanoseconds
  static constexpr size_t kMaxRuns = 10000;
  static constexpr size_t kMaxEvents = 100000;  // of a timeline

  static uint64_t nanoseconds(clockid_t clock = CLOCK_MONOTONIC) {
    timespec now;
    clock_gettime(clock, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
  }

  // Times that the runtime reports of a context's runs while profiling is on.
  struct Profile {
    struct Step {
      uint64_t elapsed = 0;  // in the run so far, nanoseconds
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
    uint64_t next_look = 0;

    // True at most every 20 ms.
    bool looks_for_signals() {
      const uint64_t now = nanoseconds();
      if (now < next_look) return false;
      next_look = now + 20'000'000;
      return true;
    }
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
      if (events.size() < kMaxEvents) events.push_back({number, last - started, now - started});
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

  // Everything that a run uses, kept alive because the run goes on after its caller was interrupted.
  struct InterruptibleRun {
    std::shared_ptr<Context> context;
    std::vector<Given> given;
    Buffers inputs;
    Results outputs;
    py::tuple results;
  };

  template <class Execute>
  void execute_interruptibly(InterruptibleRun interruptible, const Execute& execute) {
    const auto owned = std::make_shared<InterruptibleRun>(std::move(interruptible));
    left_ = true;
    try {
      run_interruptibly([call = owned.get(), execute] { execute(call->inputs, call->outputs); }, owned);
    } catch (const py::error_already_set&) {
      throw;
    } catch (...) {
      left_ = false;
      throw;
    }
    left_ = false;
  }

  // Whether the run may take so long that Ctrl-C has to be able to interrupt it: judged by the run before,
  // and always true for the first.
  bool may_take_long() const { return run_nanoseconds_ >= kLongRun; }

  tc_status timed_run(const Buffers& inputs, const Results& outputs) {
    const uint64_t begin = nanoseconds(CLOCK_MONOTONIC_COARSE);
    const tc_status status = run_once(inputs, outputs);
    run_nanoseconds_ = nanoseconds(CLOCK_MONOTONIC_COARSE) - begin;
    return status;
  }

  static void step_done(void* user, int32_t step) { static_cast<Profile*>(user)->done(step); }

  tc_status run_once(const Buffers& inputs, const Results& outputs) {
    return tc_context_run(handle_.get(), inputs.data(), static_cast<int32_t>(inputs.size()), outputs.data(),
                          static_cast<int32_t>(outputs.size()));
  }

  // Uses the array's memory directly where that is possible; false where the array has to be converted.
  bool take(size_t index, Given& given) const {
    const tc_port_info& info = inputs_[index].info;
    if (const NumpyArray* array = numpy_.dense_array(given.array.ptr(), inputs_[index].type)) {
      given.data = array->data;
      given.rank = array->rank;
      given.sizes = array->sizes;
      given.bytes = static_cast<uint64_t>(tc_dtype_size(info.dtype));
      for (int axis = 0; axis < array->rank; ++axis) given.bytes *= static_cast<uint64_t>(array->sizes[axis]);
      return given.taken = true;
    }
    View& view = given.view;
    if (view.acquire(given.array.ptr(), PyBUF_STRIDES | PyBUF_FORMAT) && has_type(*view, info.dtype) &&
        PyBuffer_IsContiguous(&*view, 'C') &&
        reinterpret_cast<uintptr_t>(view->buf) % static_cast<size_t>(view->itemsize) == 0) {
      given.data = view->buf;
      given.rank = view->ndim;
      given.sizes = view->shape;
      given.bytes = static_cast<uint64_t>(view->len);
      return given.taken = true;
    }
    view.release();
    return false;
  }

  // Converts the arrays whose memory could not be used directly. Converting may copy, so shapes that the
  // model refuses are refused before that.
  void convert_rest(std::vector<Given>& given) {
    std::vector<Given> shapes(given.size());
    bool known = true;
    for (size_t i = 0; i < given.size(); ++i) known = known && shape_of(given[i], shapes[i]);
    if (known && !is_bound(shapes)) bind(shapes);
    for (size_t i = 0; i < given.size(); ++i) {
      if (given[i].taken) continue;
      given[i].array = convert_(i, given[i].array);
      const bool taken = take(i, given[i]);
      TC_CHECK(taken, "for input ", i);
    }
  }

  // Gets the shape alone: the array's attribute where its memory was not taken yet; false where it has none.
  static bool shape_of(const Given& given, Given& shape) {
    shape.rank = given.rank;
    shape.sizes = given.sizes;
    if (given.taken) return true;
    const py::object sizes = py::getattr(given.array, "shape", py::none());
    if (!py::isinstance<py::tuple>(sizes)) return false;
    for (const py::handle& size : sizes) {
      if (!PyLong_Check(size.ptr())) return false;
      shape.own_sizes.push_back(PyLong_AsSsize_t(size.ptr()));
    }
    shape.rank = static_cast<int>(shape.own_sizes.size());
    shape.sizes = shape.own_sizes.data();
    return true;
  }

  // Whether the arrays have the same shapes as in the run before.
  bool is_bound(const std::vector<Given>& given) const {
    if (!bound_) return false;
    const int64_t* dims = dims_.data();
    for (size_t i = 0; i < given.size(); ++i) {
      if (given[i].rank != inputs_[i].info.rank ||
          !std::equal(given[i].sizes, given[i].sizes + given[i].rank, dims))
        return false;
      dims += given[i].rank;
    }
    return true;
  }

  void bind(const std::vector<Given>& given) {
    bound_ = false;
    dims_.clear();
    dims_.reserve(given.size() * TC_MAX_RANK);
    std::vector<tc_shape> shapes(given.size());
    for (size_t i = 0; i < given.size(); ++i) {
      if (given[i].rank > TC_MAX_RANK)
        fail(ErrorKind::Shape, "input '", inputs_[i].info.name, "' has rank ", given[i].rank,
             "; the model expects rank ", inputs_[i].info.rank);
      shapes[i] = {dims_.data() + dims_.size(), given[i].rank, 0};
      dims_.insert(dims_.end(), given[i].sizes, given[i].sizes + given[i].rank);
    }
    model_.check(tc_context_bind(handle_.get(), shapes.data(), static_cast<int32_t>(shapes.size())));
    for (size_t i = 0; i < outputs_.size(); ++i) {
      Output& output = outputs_[i];
      output.sizes = port_sizes(tc_context_output_shape, i, output.bytes);
      const int64_t* const end = output.sizes.dims + output.sizes.rank;
      output.is_bounded = std::find<const int64_t*>(output.sizes.dims, end, -1) == end;
    }
    bound_ = true;
    // The time of the run before says nothing about a run with far larger inputs.
    const uint64_t bytes = std::accumulate(given.begin(), given.end(), uint64_t{0},
                                           [](uint64_t sum, const Given& each) { return sum + each.bytes; });
    if (bytes / 4 > bound_bytes_) run_nanoseconds_ = kLongRun;
    bound_bytes_ = bytes;
  }

  // The array of an input that the run writes an output to: a NumPy array whose memory is used directly.
  py::object writable(int number, const py::object& array, const std::vector<Given>& given) const {
    const auto input = static_cast<size_t>(number);
    const NumpyArray* own = numpy_.dense_array(array.ptr(), inputs_[input].type);
    if (own == nullptr || given[input].array.ptr() != array.ptr() || !own->is_writable())
      fail(
          ErrorKind::Shape, "input '", inputs_[input].info.name,
          "' is written in place, and its array cannot be: give one of NumPy's that is writable, dense in row-major order and of type ",
          std::string(py::str(inputs_[input].type)));
    return array;
  }

  py::object empty(size_t output, const Sizes& sizes) const {
    return numpy_.empty(sizes.rank, sizes.dims, outputs_[output].type);
  }

  static char* data_of(const py::object& array) {
    return reinterpret_cast<const NumpyArray*>(array.ptr())->data;
  }

  template <class Get>
  Sizes port_sizes(Get get, size_t index, uint64_t& bytes) const {
    Sizes sizes;
    model_.check(get(handle_.get(), static_cast<int32_t>(index), sizes.dims, &sizes.rank, &bytes));
    return sizes;
  }

  Model model_;
  NumpyInterface numpy_;
  py::object convert_, filled_;
  std::unique_ptr<tc_context, Destroy> handle_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<int64_t> dims_;  // all sizes of all inputs of the run before
  bool bound_ = false;
  uint64_t bound_bytes_ = 0;             // of all inputs of the run before
  uint64_t run_nanoseconds_ = kLongRun;  // of the last run
  bool left_ = false;
};

// The contexts of one module: one for each thread of the program that has run it at the same time as others.
class Runner : public std::enable_shared_from_this<Runner> {
 public:
  // See Context.
  Runner(const Model& model, int threads, std::pair<py::list, py::list> types, py::object convert,
         py::object filled)
      : model_(model),
        threads_(threads),
        types_(std::move(types)),
        convert_(std::move(convert)),
        filled_(std::move(filled)) {}

  std::shared_ptr<Context> take() {
    if (idle_.empty()) return std::make_shared<Context>(model_, threads_, types_, convert_, filled_);
    std::shared_ptr<Context> context = std::move(idle_.back());
    idle_.pop_back();
    return context;
  }
  void give_back(std::shared_ptr<Context> context) { idle_.push_back(std::move(context)); }

  // The context of the last run, or None.
  const std::shared_ptr<Context>& last() const { return last_; }
  void set_last(std::shared_ptr<Context> context) { last_ = std::move(context); }

  py::tuple run(const py::sequence& arrays, bool in_place) {
    struct Taken {
      Runner& runner;
      std::shared_ptr<Context> context;
      ~Taken() {
        if (!context->is_left()) runner.give_back(std::move(context));
      }
    };
    const Taken taken = {*this, take()};
    py::tuple results = taken.context->run(arrays, in_place);
    if (last_ != taken.context) last_ = taken.context;
    return results;
  }

  // A Python function that runs with a tuple of arrays and returns the output, or a tuple of several outputs.
  // It does not use pybind11's dispatch, which takes 150 ns per call.
  py::object function() {
    static PyMethodDef definition = {"run", &Runner::call, METH_O,
                                     "Runs the model with a tuple of one array per input."};
    const py::capsule self(new std::shared_ptr<Runner>(shared_from_this()),
                           [](void* runner) { delete static_cast<std::shared_ptr<Runner>*>(runner); });
    PyObject* const made = PyCFunction_New(&definition, self.ptr());
    if (made == nullptr) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(made);
  }

 private:
  static PyObject* call(PyObject* self, PyObject* arrays) {
    try {
      auto& runner = *static_cast<std::shared_ptr<Runner>*>(PyCapsule_GetPointer(self, nullptr));
      py::tuple results = runner->run(py::reinterpret_borrow<py::sequence>(arrays), false);
      if (results.size() != 1) return results.release().ptr();
      return py::object(results[0]).release().ptr();
    } catch (...) {
      raise_current_exception();
      return nullptr;
    }
  }

  Model model_;
  int threads_;
  std::pair<py::list, py::list> types_;
  py::object convert_, filled_;
  std::vector<std::shared_ptr<Context>> idle_;
  std::shared_ptr<Context> last_;
};

}  // namespace

void add_runner(py::module_& module) {
  add_loaded_model(module);
  py::class_<Context, std::shared_ptr<Context>>(module, "Context")
      .def("profile", &Context::profile)
      .def("memory", &Context::memory)
      .def_property_readonly("threads_used", &Context::threads_used);
  py::class_<Runner, std::shared_ptr<Runner>>(module, "Runner")
      .def(py::init<const Model&, int, std::pair<py::list, py::list>, py::object, py::object>())
      .def("take", &Runner::take)
      .def("give_back", &Runner::give_back)
      .def("run", &Runner::run, py::arg("arrays"), py::arg("in_place") = false)
      .def("function", &Runner::function)
      .def_property("last", &Runner::last, &Runner::set_last);
  module.def("runtime_version", [] { return std::string(tc_runtime_version()); });
  module.def("core_count", [] { return tc_core_count(); });
  module.def("set_spin_time", [](uint32_t microseconds) { tc_set_spin_time(microseconds); });
}

}  // namespace tc
