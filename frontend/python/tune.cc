// Tuning and its log as Python sees them.
#include "frontend/python/tune.h"

#include <pybind11/stl.h>

#include <map>
#include <string>
#include <vector>

#include "frontend/import/import.h"
#include "frontend/pipeline/tune.h"
#include "frontend/python/errors.h"
#include "ir/error.h"
#include "ir/interrupt.h"
#include "tuner/builders.h"
#include "tuner/late_store.h"
#include "tuner/stores.h"

namespace py = pybind11;

namespace tc {
namespace {

// Texts that occur in many records, each kept as one shared Python string.
using SharedTexts = std::map<std::string, py::str>;

py::dict record_dict(const Record& record, SharedTexts& texts) {
  const auto shared = [&](const std::string& words) {
    const auto found = texts.find(words);
    return found != texts.end() ? found->second : texts.emplace(words, python_text(words)).first->second;
  };
  const Measurement& measured = record.measurement;
  py::dict row;
  row["workload"] = shared(record.workload);
  row["target"] = shared(record.target);
  row["device"] = shared(record.device);
  row["unit"] = shared(record.unit);
  row["threads"] = record.threads;
  row["trace"] = python_texts(record.trace);
  row["outcome"] = name_of(measured.outcome);
  row["detail"] = python_text(measured.detail);
  row["samples"] = measured.time.count;
  row["minimum"] = measured.time.minimum;
  row["median"] = measured.time.median;
  row["spread"] = measured.time.spread;
  row["ratio"] = measured.ratio;
  row["worst_error"] = measured.worst_error;
  row["build"] = shared(record.build);
  row["language"] = text(record.language_major, ".", record.language_minor);
  row["seed"] = record.seed;
  row["created"] = record.created;
  row["chosen"] = record.chosen;
  return row;
}

// A field of a row, which anybody may have written: a Log error where it is missing or of another type.
template <class T>
T field(const py::dict& row, const char* name) {
  try {
    return row[name].cast<T>();
  } catch (const py::error_already_set&) {
    fail(ErrorKind::Log, "a record lacks the field '", name, "'");
  } catch (const py::cast_error&) {
    fail(ErrorKind::Log, "a record's field '", name, "' is of the wrong type");
  }
}

Record record_of(const py::dict& row) {
  Record record;
  record.workload = field<std::string>(row, "workload");
  record.target = field<std::string>(row, "target");
  record.device = field<std::string>(row, "device");
  record.unit = field<std::string>(row, "unit");
  record.threads = field<int>(row, "threads");
  record.trace = field<std::vector<std::string>>(row, "trace");
  record.measurement.outcome = outcome_of(field<std::string>(row, "outcome"));
  record.measurement.detail = field<std::string>(row, "detail");
  record.measurement.time.count = field<int>(row, "samples");
  record.measurement.time.minimum = field<double>(row, "minimum");
  record.measurement.time.median = field<double>(row, "median");
  record.measurement.time.spread = field<double>(row, "spread");
  record.measurement.ratio = field<double>(row, "ratio");
  record.measurement.worst_error = field<double>(row, "worst_error");
  record.build = field<std::string>(row, "build");
  const auto language = field<std::string>(row, "language");
  if (std::sscanf(language.c_str(), "%d.%d", &record.language_major, &record.language_minor) != 2)
    fail(ErrorKind::Log, "a record's language is '", language.substr(0, 20), "', not a version such as 1.0");
  record.seed = field<uint64_t>(row, "seed");
  record.created = field<int64_t>(row, "created");
  return record;
}

// Counts by text, where the texts come from a log.
py::dict counts_dict(const std::map<std::string, int64_t>& counts) {
  py::dict result;
  for (const auto& [words, count] : counts) result[python_text(words)] = count;
  return result;
}

py::list record_list(const std::vector<Record>& records) {
  py::list rows;
  SharedTexts texts;
  for (const Record& record : records) rows.append(record_dict(record, texts));
  return rows;
}

// The rows of RecordStore::records_above with their numbers, the last number, and problems.
py::tuple rows_above(const RecordStore& log, int64_t number, size_t most) {
  std::vector<std::string> problems;
  int64_t last = number;
  std::vector<NumberedRecord> found;
  {
    const py::gil_scoped_release release;
    found = log.records_above(number, most, last, &problems);
  }
  py::list rows;
  SharedTexts texts;
  for (const NumberedRecord& each : found)
    rows.append(py::make_tuple(each.number, record_dict(each.record, texts)));
  return py::make_tuple(rows, last, python_texts(problems));
}

void add_log(py::module_& module) {
  const auto released = py::call_guard<py::gil_scoped_release>();  // a server may take its time to answer
  module.def(
      "open_store",
      [](const std::string& url, bool write) -> std::shared_ptr<RecordStore> {
        return open_store(url, write ? RecordStore::Mode::Write : RecordStore::Mode::Read);
      },
      released);
  module.def(
      "open_store_late",
      [](const std::string& url) -> std::shared_ptr<RecordStore> { return open_store_late(url); }, released);
  module.def("make_store", &make_store, released);
  module.def("upgrade_store", &upgrade_store, released);
  module.def("file_of_store", [](const std::string& url) { return python_text(file_of_store(url)); });
  module.def("shown_store", [](const std::string& url) { return python_text(shown_store(url)); });
  py::class_<RecordStore, std::shared_ptr<RecordStore>>(module, "RecordStore")
      .def_property_readonly("name", [](const RecordStore& log) { return python_text(log.name()); })
      .def("records",
           [](const RecordStore& log, const std::string& workload, const std::string& target,
              const std::string& device, int threads) {
             RecordFilter filter;
             filter.workload = workload;
             filter.target = target;
             filter.device = device;
             filter.threads = threads;
             std::vector<std::string> problems;
             const std::vector<Record> found = log.records(filter, &problems);
             return py::make_tuple(record_list(found), python_texts(problems));
           })
      .def("records_above", &rows_above)
      .def("best",
           [](const RecordStore& log, const std::string& workload, const std::string& target,
              const std::string& device, int threads, const std::string& build) {
             return record_list(log.best(workload, target, device, threads, build));
           })
      .def("add",
           [](RecordStore& log, const py::list& rows) {
             std::vector<Record> records;
             for (const py::handle& row : rows) records.push_back(record_of(row.cast<py::dict>()));
             log.add(records);
             std::vector<Record> chosen;
             for (size_t i = 0; i < records.size(); ++i) {
               const auto row = rows[i].cast<py::dict>();
               if (row.contains("chosen") && field<bool>(row, "chosen")) chosen.push_back(records[i]);
             }
             log.choose(chosen);
           })
      .def("merge",
           [](RecordStore& log, const RecordStore& other) {
             std::vector<std::string> problems;
             const int64_t count = log.merge(other, &problems);
             return py::make_tuple(count, python_texts(problems));
           })
      .def(
          "prune",
          [](RecordStore& log, int keep, bool failures, std::optional<int64_t> before, bool really) {
            return log.prune({keep, failures, before.value_or(INT64_MAX)}, really);
          },
          released)
      .def("integrity", &RecordStore::integrity)
      .def("stats", [](const RecordStore& log) {
        const StoreStats stats = log.stats();
        py::dict row;
        row["workloads"] = stats.workloads;
        row["records"] = stats.records;
        row["verified"] = stats.verified;
        row["bytes"] = stats.bytes;
        row["schema"] = stats.schema;
        row["by_target"] = counts_dict(stats.by_target);
        row["by_device"] = counts_dict(stats.by_device);
        row["by_build"] = counts_dict(stats.by_build);
        row["by_outcome"] = counts_dict(stats.by_outcome);
        row["by_author"] = counts_dict(stats.by_author);
        return row;
      });
}

py::dict progress_dict(const TuneProgress& progress) {
  py::list kernels;
  for (const KernelProgress& kernel : progress.kernels) {
    py::dict row;
    row["label"] = kernel.label;
    row["calls"] = kernel.calls;
    row["untuned"] = kernel.untuned;
    row["best"] = kernel.best;
    row["roof_seconds"] = kernel.roof_seconds;
    row["trials"] = kernel.trials;
    py::dict failures;
    for (const auto& [outcome, count] : kernel.failures) failures[name_of(outcome)] = count;
    row["failures"] = failures;
    row["example"] = kernel.example;
    kernels.append(row);
  }
  py::dict row;
  row["unit"] = progress.unit;
  row["kernels"] = kernels;
  row["trials"] = progress.trials;
  row["measured"] = progress.measured;
  row["seconds"] = progress.seconds;
  row["seconds_left"] = progress.seconds_left;
  row["doing"] = progress.doing;
  row["notice"] = progress.notice;
  return row;
}

py::dict result_dict(const TuneResult& result) {
  py::dict row;
  row["last"] = progress_dict(result.last);
  row["choices"] = result.choices.size();
  row["model_ratio"] = result.model_ratio;
  row["stopped"] = result.stopped;
  row["notes"] = result.notes;
  return row;
}

// A cost model that Python implements, with methods `fit` and `predict` of the same arguments.
class PythonCostModel : public CostModel {
 public:
  explicit PythonCostModel(py::object model) : model_(std::move(model)) {}

  void fit(const FeatureRows& rows, const std::vector<double>& values) override {
    const py::gil_scoped_acquire acquire;
    model_.attr("fit")(rows, values);
  }
  std::vector<double> predict(const FeatureRows& rows) const override {
    const py::gil_scoped_acquire acquire;
    return model_.attr("predict")(rows).cast<std::vector<double>>();
  }

 private:
  const py::object model_;
};

// What came of all models together, and of each.
py::tuple tune_models_of(const std::vector<std::pair<const Source*, CompileOptions>>& models,
                         const TuneRequest& request, RecordStore& log, CandidateBuilder& builder,
                         const py::object& callback) {
  std::vector<TunedSource> sources;
  for (const auto& [source, options] : models) sources.push_back({source, options});
  SessionResult session;
  std::exception_ptr raised;  // by the callback or by Ctrl-C
  {
    py::gil_scoped_release release;
    const auto tell = [&](const TuneProgress& progress) {
      const py::gil_scoped_acquire acquire;
      try {
        if (PyErr_CheckSignals() != 0) throw py::error_already_set();
        if (!callback.is_none()) callback(progress_dict(progress));
        return true;
      } catch (py::error_already_set&) {
        raised = std::current_exception();
        return false;
      }
    };
    try {
      session = tune_sources(sources, request, log, builder, tell);
    } catch (const Interrupted&) {
      if (!raised) throw;
    }
  }
  if (raised) std::rethrow_exception(raised);
  py::list results;
  for (const TuneResult& result : session.models) results.append(result_dict(result));
  return py::make_tuple(result_dict(session.all), results);
}

}  // namespace

void add_tune(py::module_& module) {
  add_log(module);
  py::class_<CandidateBuilder, std::shared_ptr<CandidateBuilder>>(module, "CandidateBuilder");
  module.def("open_builder",
             [](const std::string& wanted, const std::string& programs, const std::string& libraries,
                const std::string& work_folder,
                const std::vector<std::string>& relay) -> std::shared_ptr<CandidateBuilder> {
               return open_builder(wanted, {programs, libraries, work_folder, relay});
             });
  py::class_<TuneRequest>(module, "TuneRequest")
      .def(py::init<>())
      .def_readwrite("tracker", &TuneRequest::tracker)
      .def_readwrite("priority", &TuneRequest::priority)
      .def_readwrite("credentials", &TuneRequest::credentials)
      .def_readwrite("programs", &TuneRequest::programs)
      .def_readwrite("libraries", &TuneRequest::libraries)
      .def_readwrite("work_folder", &TuneRequest::work_folder)
      .def_readwrite("sample_seconds", &TuneRequest::sample_seconds)
      .def_property(
          "trials", [](const TuneRequest& r) { return r.tune.trials; },
          [](TuneRequest& r, int trials) { r.tune.trials = trials; })
      .def_property(
          "time_limit", [](const TuneRequest& r) { return r.tune.time_limit; },
          [](TuneRequest& r, double seconds) { r.tune.time_limit = seconds; })
      .def_property(
          "seconds_before", [](const TuneRequest& r) { return r.tune.seconds_before; },
          [](TuneRequest& r, double seconds) { r.tune.seconds_before = seconds; })
      .def_property(
          "seed", [](const TuneRequest& r) { return r.tune.seed; },
          [](TuneRequest& r, uint64_t seed) { r.tune.seed = seed; })
      .def_property(
          "build", [](const TuneRequest& r) { return r.tune.build; },
          [](TuneRequest& r, const std::string& build) { r.tune.build = build; })
      .def("learn_with",
           [](TuneRequest& r, const py::object& model) {
             r.tune.model = model.is_none() ? nullptr : std::make_shared<PythonCostModel>(model);
           })
      .def_property(
          "from_random", [](const TuneRequest& r) { return r.tune.from_random; },
          [](TuneRequest& r, bool from_random) { r.tune.from_random = from_random; });
  module.def("tune", &tune_models_of);
}

}  // namespace tc
