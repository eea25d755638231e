// Models with a wrong structure: fields of 23 models, drawn by type, changed from a fixed seed. Each model is
// imported, planned and compiled in a child process and ends in code or in an error that is not an internal
// one, within limits of memory and time; two of three of those with code are linked, opened and run once as
// well. What breaks that is printed as the smallest model that shows it. TC_SEED names the seed, TC_MUTATIONS
// the number, TC_MUTATION_FIRST which comes first (each has a seed of its own, so that parts of a long series
// can be run apart), TC_MUTATION_FOLDER gets the models that break the promise, TC_ONNX_NODE_TESTS and
// TC_MODELS where the models are.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "frontend/import/import.h"
#include "frontend/import/onnx/strings.h"
#include "frontend/pipeline/compile.h"
#include "ir/error.h"
#include "tests/child_run.h"
#include "tests/compiled_run.h"
#include "tests/onnx_node_data.h"
#include "tests/structure_mutator.h"

namespace tc {
namespace {

namespace fs = std::filesystem;

// Node tests of ONNX, which among them have every kind of attribute, subgraphs and quantised operators.
const char* const kNodeTests[] = {
    "test_basic_conv_with_padding", "test_convtranspose_pads", "test_loop11", "test_scan9_sum", "test_if",
    "test_resize_downsample_scales_cubic", "test_qlinearconv", "test_lstm_with_peepholes",
    "test_layer_normalization_2d_axis0_expanded", "test_reflect_pad", "test_maxpool_2d_ceil",
    // Sequences, optionals and strings.
    "test_sequence_map_identity_1_sequence_1_tensor", "test_loop13_seq", "test_loop16_seq_none",
    "test_if_opt", "test_split_to_sequence_2", "test_optional_get_element_optional_sequence",
    "test_string_split_basic", "test_ai_onnx_ml_label_encoder_tensor_mapping"};
// Small networks of those that the project keeps.
const char* const kNetworks[] = {"gonnx_rnn/gru.onnx", "hand_gesture/keypoint_classifier.onnx",
                                 "hand_gesture/argmax.onnx", "mnist-8/model.onnx"};

uint64_t number_from(const char* name, uint64_t fallback) {
  const char* given = std::getenv(name);
  return given ? std::strtoull(given, nullptr, 10) : fallback;
}

struct NamedModel {
  std::string name;
  std::string bytes;
};

std::vector<NamedModel> models() {
  std::vector<NamedModel> result;
  const std::vector<fs::path> tests = onnx_node_tests();
  for (const char* name : kNodeTests) {
    for (const fs::path& test : tests) {
      if (test.filename() != name) continue;
      const std::string bytes = read_whole_file(test / "model.onnx");
      result.push_back({name, constant_operands(bytes, test / "test_data_set_0", false)});
    }
  }
  const char* folder = std::getenv("TC_MODELS");
  for (const char* name : kNetworks) {
    if (folder && fs::exists(fs::path(folder) / name))
      result.push_back({name, read_whole_file(fs::path(folder) / name)});
  }
  return result;
}

// How the mutated models ended, counted by the children.
struct Ends {
  std::atomic<int> refused, compiled, not_run, ran;
};

Ends& ends() {
  static Ends* const shared = static_cast<Ends*>(
      mmap(nullptr, sizeof(Ends), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  return *shared;
}

// A model that runs may use so much, of which the compiler is told.
constexpr int64_t kRunBytes = int64_t{128} << 20;

struct Attempt {
  bool runs = false;
  uint64_t seed = 0;  // of the run's inputs
};

// The model compiled, with two tensors in each input that is no tensor and without the operators on strings;
// nothing where that leaves nothing.
std::optional<CompiledModel> compile_mutated(const Source& source, CompileOptions options) {
  try {
    return compile_model(source, options);
  } catch (const HasStrings&) {
    const HostProgram program = split_strings(source, import_options(options));
    if (!program.rest) return std::nullopt;
    return compile_model(*program.rest, options);
  } catch (const NeedsForms& error) {
    for (const std::string& name : error.inputs()) options.forms[name] = {true, {{2, 3}, {3}}};
    return compile_mutated(source, options);
  }
}

// "" or why not: what the compiler promises of any file.
std::string broken_promise(const std::string& bytes, const Attempt& attempt) {
  try {
    CompileOptions options;
    options.target = "x86-64-v3";
    options.threads = options.build_threads = 1;
    if (attempt.runs) options.max_ram = kRunBytes;
    const std::optional<CompiledModel> model = compile_mutated({bytes, "mutated.onnx", ""}, options);
    ++ends().compiled;
    if (attempt.runs && model)
      ++(run_once(*model, attempt.seed, nullptr) == RunEnd::Ran ? ends().ran : ends().not_run);
  } catch (const Error& error) {
    ++ends().refused;
    const std::string what = error.what();
    if (error.kind() == ErrorKind::Internal || what.find("internal error") != std::string::npos) return what;
  }
  return "";
}

std::string tried(const ProtoSchema& schema, const ProtoMessage& model, const Attempt& attempt) {
  const std::string bytes = encode(schema, model);
  const int64_t most = 4 * static_cast<int64_t>(bytes.size()) + (int64_t{400} << 20);
  return run_in_child([&] { return broken_promise(bytes, attempt); }, {most, 20});
}

// What stays the same while a failure shrinks: its text without names and numbers.
std::string kind_of(const std::string& what) {
  std::string result;
  for (char c :
       what.substr(what.find("internal error") == std::string::npos ? 0 : what.find("internal error"))) {
    if (c == ' ' || c == '\'') break;
    result += c;
  }
  return what.empty() ? "" : result + what.substr(0, 12);
}

void report(const ProtoSchema& schema, const ProtoMessage& model, const Attempt& attempt,
            const std::string& what, const std::string& name) {
  const std::string kind = kind_of(what);
  const ProtoMessage small = shrink(schema, model, 200, [&](const ProtoMessage& each) {
    return kind_of(tried(schema, each, attempt)) == kind;
  });
  const char* folder = std::getenv("TC_MUTATION_FOLDER");
  if (folder) std::ofstream(fs::path(folder) / (name + ".onnx"), std::ios::binary) << encode(schema, small);
  ADD_FAILURE() << name << ": " << what << "\nshrunk to " << encode(schema, small).size()
                << " bytes: " << testing::PrintToString(encode(schema, small));
}

TEST(Structure, OfHostileModelsEndsInCodeOrInAClearError) {
  const std::vector<NamedModel> all = models();
  if (all.empty()) GTEST_SKIP() << "no ONNX node tests here; set TC_ONNX_NODE_TESTS to their folder";
  const ProtoSchema schema = parse_schema(read_whole_file("frontend/import/onnx/onnx.proto"));
  const uint64_t seed = number_from("TC_SEED", 1), first = number_from("TC_MUTATION_FIRST", 0),
                 count = number_from("TC_MUTATIONS", 1000);
  std::cout << count << " mutations of " << all.size() << " models from seed " << seed << ", from number "
            << first << " on" << std::endl;
  ends();  // before there are children
  std::map<std::string, int> seen;
  for (uint64_t i = first; i < first + count; ++i) {
    const Attempt attempt{i % 3 != 0, seed * 1000003 + i};
    StructureMutator mutator(schema, attempt.seed);
    const NamedModel& from = all[mutator.pick(all.size())];
    ProtoMessage model = decode(schema, "ModelProto", from.bytes);
    mutator.mutate(model);
    const std::string what = tried(schema, model, attempt);
    if (what.empty() || ++seen[kind_of(what)] > 3) continue;
    report(schema, model, attempt, what, text("mutation_", seed, "_", i));
  }
  std::cout << ends().refused << " refused, " << ends().compiled << " compiled, of which " << ends().ran
            << " ran and " << ends().not_run << " were refused by the runtime" << std::endl;
  // Both sides are tried.
  if (count >= 100) {
    EXPECT_GT(ends().refused, 0);
    EXPECT_GT(ends().ran, static_cast<int>(count / 10));
  }
}

}  // namespace
}  // namespace tc
