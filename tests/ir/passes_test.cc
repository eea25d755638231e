// Golden tests of the graph passes: tests/golden/passes/*.txt hold the name of a pass, a graph, and the
// graph after the pass. Both graphs must also compute the same for seeded inputs. `--update` (or
// TC_UPDATE=1) rewrites the second graphs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/ops/op.h"
#include "ir/passes/pass.h"

namespace tc {
namespace {

namespace fs = std::filesystem;

bool update = false;

fs::path golden_folder() {
  const char* workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  return (workspace ? fs::path(workspace) : fs::path(".")) / "tests/golden/passes";
}

std::string read_text(const fs::path& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::vector<fs::path> golden_files() {
  std::vector<fs::path> files;
  if (!fs::is_directory(golden_folder())) return files;
  for (const auto& entry : fs::directory_iterator(golden_folder())) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

const Pass& pass_named(const std::string& name) {
  for (const Pass& pass : pass_table()) {
    if (name == pass.name) return pass;
  }
  fail(ErrorKind::Internal, "there is no pass '", name, "'");
}

// Inputs between -1 and 1, or small whole numbers; symbols are 3.
std::map<std::string, Tensor> seeded_inputs(const Graph& graph) {
  std::mt19937 random(1);
  std::map<std::string, int64_t> symbols;
  for (const auto& [name, range] : graph.symbols) symbols[name] = 3;
  std::map<std::string, Tensor> inputs;
  for (ValueId id : graph.inputs) {
    std::vector<int64_t> shape;
    for (const Dim& dim : *graph[id].shape) shape.push_back(dim.evaluate(symbols));
    Tensor tensor(graph[id].dtype, shape);
    for (int64_t i = 0; i < tensor.count(); ++i) {
      const double number = static_cast<double>(random() % 2001) / 1000 - 1;
      is_float(tensor.dtype) ? tensor.set(i, number) : tensor.set_int(i, static_cast<int64_t>(random() % 2));
    }
    inputs[graph[id].name] = tensor;
  }
  return inputs;
}

void expect_same(const Graph& before, const Graph& after) {
  const auto inputs = seeded_inputs(before);
  const auto a = evaluate(before, inputs), b = evaluate(after, inputs);
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    ASSERT_TRUE(b.count(name)) << name;
    const Tensor& other = b.at(name);
    ASSERT_EQ(tensor.shape, other.shape) << name;
    ASSERT_EQ(tensor.dtype, other.dtype) << name;
    for (int64_t i = 0; i < tensor.count(); ++i) {
      ASSERT_NEAR(tensor.as_double(i), other.as_double(i), 1e-5 * (1 + std::abs(tensor.as_double(i))))
          << name << "[" << i << "]";
    }
  }
}

class Golden : public testing::TestWithParam<fs::path> {};

TEST_P(Golden, GivesTheGraphBelow) {
  const std::string all = read_text(GetParam());
  const size_t line = all.find('\n'), bar = all.find("\n----\n");
  ASSERT_EQ(all.compare(0, 5, "pass "), 0u);
  ASSERT_NE(bar, std::string::npos);
  const Pass& pass = pass_named(all.substr(5, line - 5));
  Graph before = parse_graph(all.substr(line + 1, bar - line));
  infer_shapes(before);
  Graph after = parse_graph(all.substr(line + 1, bar - line));
  infer_shapes(after);
  run_pass(pass, after);
  verify(after);
  expect_same(before, after);
  const std::string head = all.substr(0, bar) + "\n----\n";
  if (update) std::ofstream(GetParam()) << head << str(after);
  else EXPECT_EQ(str(after), all.substr(bar + 6));
}

INSTANTIATE_TEST_SUITE_P(Passes, Golden, testing::ValuesIn(golden_files()), [](const auto& info) {
  std::string name = info.param.stem().string();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Golden);

TEST(Passes, HaveAGoldenTestEach) {
  std::set<std::string> tested;
  for (const fs::path& file : golden_files()) {
    const std::string all = read_text(file);
    tested.insert(all.substr(5, all.find('\n') - 5));
  }
  for (const Pass& pass : pass_table()) {
    const bool again = std::string(pass.name).find("again") != std::string::npos;
    EXPECT_TRUE(again || tested.count(pass.name)) << pass.name;
  }
}

TEST(Passes, AnUnknownNameListsThem) {
  Graph graph = parse_graph("graph g {\n  input x f32[1]\n  y f32[1] = Relu(x)\n  output y\n}\n");
  PassOptions options;
  options.dump = "fold_everything";
  try {
    run_passes(graph, options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Model);
    EXPECT_NE(std::string(error.what()).find("no pass 'fold_everything'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("fold_constants"), std::string::npos);
  }
}

TEST(Passes, AllTogetherKeepTheMeaning) {
  for (const fs::path& file : golden_files()) {
    const std::string all = read_text(file);
    const size_t line = all.find('\n'), bar = all.find("\n----\n");
    Graph before = parse_graph(all.substr(line + 1, bar - line)), after = before;
    infer_shapes(before);
    std::string dumped;
    PassOptions options;
    options.dump = "all";
    options.dump_text = &dumped;
    run_passes(after, options);
    SCOPED_TRACE(file.filename().string());
    expect_same(before, after);
    EXPECT_NE(dumped.find("dead_code"), std::string::npos);
  }
}

}  // namespace
}  // namespace tc

// The tests' own main reads --update before GoogleTest lists the files.
int main(int argc, char** argv) {
  tc::update = std::getenv("TC_UPDATE") != nullptr;
  for (int i = 1; i < argc; ++i) tc::update = tc::update || std::string(argv[i]) == "--update";
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
