// What the compiler reads besides models, with a wrong structure: graphs in their text form, traces of
// schedules, rows of the log. Each is changed from a fixed seed and taken in a child process; a trace or a
// row that cannot be used never keeps a model from being compiled, nor makes that slow. TC_SEED names the
// seed, TC_MUTATIONS the number of each kind, a fifth of logs, TC_MUTATION_FIRST which comes first.
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "codegen/llvm/kernel_code.h"
#include "frontend/pipeline/compile.h"
#include "ir/error.h"
#include "ir/graph.h"
#include "ir/ops/op.h"
#include "ir/passes/group.h"
#include "ir/passes/pass.h"
#include "scheduler/scheduler.h"
#include "tests/child_run.h"
#include "tests/text_mutator.h"
#include "tuner/stores.h"

namespace tc {
namespace {

namespace fs = std::filesystem;

// Kernels of every kind: elementwise, a reduction, products, windows, symbolic sizes.
const char* const kGraphs[] = {
    "graph g {\n  input x f32[4, 37]\n  y f32[4, 37] = Softmax(x)\n  z f32[4, 37] = Relu(y)\n  output z\n}\n",
    "graph g {\n  input x f32[1, 8, 12, 12]\n  constant w f32[16, 8, 3, 3] #0\n  constant b f32[16] #0\n"
    "  c f32[1, 16, 12, 12] = Conv(x, w, b) {pads = [1, 1, 1, 1]}\n  y f32[1, 16, 12, 12] = Relu(c)\n"
    "  p f32[1, 16, 6, 6] = MaxPool(y) {kernel_shape = [2, 2], strides = [2, 2]}\n  output p\n}\n",
    "graph g {\n  symbol n in [1, 1000]\n  input x f32[n, 32]\n  constant w f32[32, 24] #0\n  constant b f32[24] #0\n"
    "  y f32[n, 24] = Gemm(x, w, b) {alpha = 0.5}\n  t f32[24, n] = Transpose(y) {perm = [1, 0]}\n  output t\n}\n",
    "graph g {\n  input x f32[2, 12, 9, 9]\n  constant w f32[12, 1, 3, 3] #0\n"
    "  d f32[2, 12, 7, 7] = Conv(x, w) {group = 12}\n  m f32[2, 12, 1, 1] = ReduceMean(d) {axes = [2, 3]}\n  output m\n}\n",
    "graph g {\n  input x i64[3, 5]\n  input y f32[6, 4]\n  g f32[3, 5, 4] = Gather(y, x) {axis = 0}\n"
    "  s f32[3, 4] = ReduceSum(g) {axes = [1], keepdims = 0}\n  k f32[3, 2], i i64[3, 2] = TopK(s) {k = [2]}\n  output k i\n}\n",
};

uint64_t number_from(const char* name, uint64_t fallback) {
  const char* given = std::getenv(name);
  return given ? std::strtoull(given, nullptr, 10) : fallback;
}

uint64_t seed() { return number_from("TC_SEED", 1); }
uint64_t first() { return number_from("TC_MUTATION_FIRST", 0); }
uint64_t mutations() { return number_from("TC_MUTATIONS", 350); }

CompileOptions options() {
  CompileOptions options;
  options.target = "x86-64-v3";
  options.threads = options.build_threads = 1;
  return options;
}

Graph graph_of(const std::string& text) {
  Graph graph = parse_graph(text);
  infer_shapes(graph);
  return graph;
}

// What a trace or a log may not keep from being compiled.
CompiledModel compiled(const std::string& text, const CompileOptions& options) {
  Graph graph = graph_of(text);
  run_passes(graph, {});
  return compile_graph(std::move(graph), options);
}

constexpr ChildLimits kLimits{int64_t{400} << 20, 20};

TEST(Texts, OfGraphsAreRefusedOrTaken) {
  std::vector<std::string> vocabulary = {"f32", "i64", "bool", "f16", "?", "axes", "perm", "axis"};
  for (const auto& [name, row] : op_table()) vocabulary.push_back(name);
  for (uint64_t i = first(); i < first() + mutations(); ++i) {
    TextMutator mutator(seed() * 1000003 + i);
    const std::string text = mutator.mutate(kGraphs[mutator.pick(std::size(kGraphs))], vocabulary);
    const std::string what = run_in_child(
        [&]() -> std::string {
          Graph graph;
          try {
            graph = graph_of(text);
            verify(graph);
          } catch (const Error& error) {
            const std::string why = error.what();
            return why.find("internal error") == std::string::npos ? "" : why;
          }
          try {
            run_passes(graph, {});
            compile_graph(std::move(graph), options());
          } catch (const Error& error) {
            return error.kind() == ErrorKind::Internal ? error.what() : "";
          }
          return "";
        },
        kLimits);
    EXPECT_EQ(what, "") << "mutation " << i << " from seed " << seed() << ":\n" << text;
  }
}

TEST(Texts, OfSchedulesNeverEndABuild) {
  std::vector<std::string> vocabulary;
  for (const PrimitiveRow& row : primitive_table()) vocabulary.push_back(row.name);
  std::vector<std::vector<std::string>> traces;  // of all kernels of each graph
  for (const char* graph : kGraphs) {
    std::vector<std::string> all;
    for (const KernelReport& report : compiled(graph, options()).reports) {
      std::string lines;
      for (const std::string& line : report.trace) lines += line + "\n";
      all.push_back(lines);
    }
    traces.push_back(all);
  }
  for (uint64_t i = first(); i < first() + mutations(); ++i) {
    TextMutator mutator(seed() * 1000003 + i);
    const size_t which = mutator.pick(std::size(kGraphs));
    const std::string trace = mutator.mutate(traces[which][mutator.pick(traces[which].size())], vocabulary);
    const std::string what = run_in_child(
        [&]() -> std::string {
          CompileOptions with = options();
          with.traces = [&](const std::string&) {
            return std::vector<std::vector<std::string>>{parse_trace(trace)};
          };
          const CompiledModel model = compiled(kGraphs[which], with);
          for (const std::string& note : model.notes) {
            if (note.find("internal error") != std::string::npos) return note;
          }
          return "";
        },
        kLimits);
    EXPECT_EQ(what, "") << "mutation " << i << " from seed " << seed() << " of graph " << which << ":\n"
                        << trace;
  }
}

// A log with the schedules that a graph's kernels have by default.
void write_log(const std::string& path, const CompiledModel& model) {
  fs::remove(path);
  std::vector<Record> records;
  for (const KernelReport& report : model.reports) {
    Record record;
    record.workload = report.workload;
    record.target = model.target.name;
    record.device = "here";
    record.unit = "seconds";
    record.trace = report.trace;
    record.measurement.time = {5, 1e-5, 1e-5, 0.01};
    record.measurement.ratio = 0.5;
    record.build = "1.0";
    record.created = 100;
    records.push_back(record);
  }
  open_store(path, RecordStore::Mode::Write)->add(records);
}

// Sets a column of a row to a drawn value, past the table's own rules.
void tamper(const std::string& path, TextMutator& mutator) {
  static const char* const columns[] = {
      "workload", "target",         "device",         "unit",   "threads", "trace", "outcome",
      "detail",   "samples",        "minimum",        "median", "spread",  "ratio", "worst_error",
      "build",    "language_major", "language_minor", "seed",   "created", "chosen"};
  static const char* const values[] = {"NULL",
                                       "0",
                                       "-1",
                                       "1e300",
                                       "9223372036854775807",
                                       "''",
                                       "'%s%n'",
                                       "x'fffe00'",
                                       "hex(zeroblob(40000))",
                                       "0.5",
                                       "CAST(x'ff0a' AS TEXT)",
                                       "1"};
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  sqlite3_exec(db, "PRAGMA ignore_check_constraints = 1; PRAGMA foreign_keys = 0", nullptr, nullptr, nullptr);
  for (size_t i = 0, count = 1 + mutator.pick(3); i < count; ++i) {
    const std::string column = columns[mutator.pick(std::size(columns))];
    std::string value = values[mutator.pick(std::size(values))];
    if (column == "trace" && mutator.pick(4) != 0) {
      value = mutator.pick(2)
                  ? "replace(trace, ' ', '  ')"
                  : "trace || 'unroll " + std::string(1, static_cast<char>('a' + mutator.pick(26))) +
                        "' || char(10)";
    }
    const std::string sql =
        "UPDATE record SET " + column + " = " + value + (mutator.pick(2) ? "" : " WHERE id = 1");
    sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr);  // the table may refuse it
  }
  sqlite3_close(db);
}

// A log is made anew for each: fewer than of the others.
TEST(Texts, OfTheLogNeverEndABuild) {
  std::vector<CompiledModel> models;
  for (const char* graph : kGraphs) models.push_back(compiled(graph, options()));
  // Parts may run side by side.
  const std::string path = testing::TempDir() + text("mutated-log-", getpid(), ".db");
  for (uint64_t i = first() / 5; i < (first() + mutations()) / 5; ++i) {
    TextMutator mutator(seed() * 1000003 + i);
    const size_t which = mutator.pick(std::size(kGraphs));
    write_log(path, models[which]);
    tamper(path, mutator);
    const std::string what = run_in_child(
        [&]() -> std::string {
          CompileOptions with = options();
          with.log = open_store(path, RecordStore::Mode::Read);
          with.build = "1.0";
          const CompiledModel model = compiled(kGraphs[which], with);
          for (const std::string& note : model.notes) {
            if (note.find("internal error") != std::string::npos) return note;
          }
          return "";
        },
        kLimits);
    EXPECT_EQ(what, "") << "mutation " << i << " from seed " << seed() << " of graph " << which;
  }
  fs::remove(path);
}

}  // namespace
}  // namespace tc
