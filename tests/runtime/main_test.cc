// The main of exported executables, linked with the hand-written model: for this machine, and
// statically for riscv64 under qemu.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/npy.h"

namespace tc::runtime {
namespace {

struct Result {
  int code;
  std::string text;  // both streams
};

Result run(const std::string& program, const std::string& arguments) {
  FILE* pipe = popen((program + " " + arguments + " 2>&1").c_str(), "r");
  Result result{-1, ""};
  std::array<char, 4096> part;
  while (const size_t size = fread(part.data(), 1, part.size(), pipe)) result.text.append(part.data(), size);
  const int status = pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
  return result;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class Main : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/main_test";
    mkdir(folder_.c_str(), 0777);
    std::vector<float> x(15), y(15);
    for (int i = 0; i < 15; ++i) {
      x[i] = static_cast<float>(i);
      y[i] = 0.5f;
    }
    save("x.npy", TC_F32, {5, 3}, x.data());
    save("y.npy", TC_F32, {5, 3}, y.data());
    save("wide.npy", TC_F32, {3, 5}, y.data());
    save("four.npy", TC_F32, {4, 3}, y.data());
    const std::vector<double> doubles(15);
    save("f64.npy", TC_F64, {5, 3}, doubles.data());
  }

  std::string file(const std::string& name) const { return folder_ + "/" + name; }

  void save(const std::string& name, int32_t dtype, const std::vector<int64_t>& dims, const void* data) {
    NpyArray array;
    array.dtype = dtype;
    array.rank = static_cast<int32_t>(dims.size());
    std::copy(dims.begin(), dims.end(), array.dims);
    array.data = const_cast<void*>(data);
    char why[256];
    ASSERT_TRUE(write_npy(file(name).c_str(), array, why, sizeof why)) << why;
  }

  Result run_with(const std::string& arguments) const { return run(GetParam(), arguments); }
  std::string inputs() const { return "--input x=" + file("x.npy") + " --input=y=" + file("y.npy") + " "; }
  void expect(const std::string& arguments, int code, const std::string& text) const {
    const Result result = run_with(arguments);
    EXPECT_EQ(result.code, code) << result.text;
    EXPECT_TRUE(contains(result.text, text)) << result.text;
  }

  std::string folder_;
};

TEST_P(Main, ReadsRunsWrites) {
  const Result result = run_with(inputs() + "--output-dir " + file("out") + " --repeat 3 --threads 2");
  ASSERT_EQ(result.code, 0) << result.text;
  EXPECT_TRUE(contains(result.text, "model  fake for x86-64-v9, 2 threads\n")) << result.text;
  EXPECT_TRUE(contains(result.text, "input  x: f32 [5, 3] from ")) << result.text;
  EXPECT_TRUE(contains(result.text, "output ones: u8 [10] to ")) << result.text;
  EXPECT_TRUE(contains(result.text, " ms of 3 runs\n")) << result.text;
  NpyArray z;
  char why[256];
  ASSERT_TRUE(read_npy(file("out/z.npy").c_str(), &z, why, sizeof why)) << why;
  ASSERT_EQ(z.bytes, 60u);
  for (int i = 0; i < 15; ++i) EXPECT_EQ(static_cast<float*>(z.data)[i], static_cast<float>(i) + 20.5f);
  free(z.data);
  ASSERT_TRUE(read_npy(file("out/shape.npy").c_str(), &z, why, sizeof why)) << why;
  EXPECT_EQ(static_cast<int64_t*>(z.data)[0], 5);
  free(z.data);
}

TEST_P(Main, PrintsJson) {
  const Result result = run_with(inputs() + "--json --profile --threads 1");
  ASSERT_EQ(result.code, 0) << result.text;
  const std::string start =
      "{\"model\": \"fake\", \"target\": \"x86-64-v9\", \"threads\": 1, \"repeat\": 1, \"inputs\": "
      "[{\"name\": \"x\", \"dtype\": \"f32\", \"shape\": [5, 3], \"file\": \"" +
      file("x.npy");
  EXPECT_EQ(result.text.substr(0, start.size()), start);
  EXPECT_TRUE(contains(result.text,
                       "\"memory\": {\"constants\": 64, \"arena\": 120, "
                       "\"scratch\": 64}, \"min_ms\": "))
      << result.text;
  EXPECT_TRUE(contains(result.text, "{\"label\": \"reverse\", \"ms\": ")) << result.text;
}

TEST_P(Main, WrongInputs) {
  const std::string x = "--input x=" + file("x.npy") + " ";
  expect(x + "--input y=" + file("wide.npy"), 1,
         "input 'y': axis 0 ('batch') is 3, but axis 0 of input 'x' makes 'batch' 5");
  expect(x + "--input y=" + file("four.npy"), 1,
         "input 'y': axis 0 ('batch') is 4, but axis 0 of input 'x' makes 'batch' 5");
  expect(x + "--input y=" + file("f64.npy"), 1, "holds f64 [5, 3]; expected f32 [batch, 3]");
  expect(x + "--input y=" + file("none.npy"), 1,
         "none.npy: it cannot be opened: No such file or directory; expected f32 [batch, 3]");
  expect(inputs() + "--output-dir /nonexistent/folder", 1, "the folder cannot be made");
}

TEST_P(Main, WrongUsage) {
  expect("", 2, "input 'x' is missing: give --input x=FILE.npy (f32 [batch, 3])");
  expect("--input x=" + file("x.npy"), 2, "input 'y' is missing");
  expect("--input w=" + file("x.npy"), 2, "names no input of the model");
  expect("--input x", 2, "--input takes NAME=FILE.npy, not 'x'");
  expect(inputs() + "--input x=a.npy", 2, "input 'x' is given twice");
  expect(inputs() + "--repeat 0", 2, "--repeat takes a number from 1 to 1000000, not '0'");
  expect(inputs() + "--threads many", 2, "--threads takes a number from 0 to 1024, not 'many'");
  expect(inputs() + "--repeat", 2, "--repeat needs a value");
  expect("--fast", 2, "unknown argument '--fast'");
  expect("--fast", 2, "output ones: u8 [?]");
  expect("--help", 0, "Exit codes: 0 done");
}

const char* const kRiscV = "qemu-riscv64 tests/runtime/fake_program.riscv64";
INSTANTIATE_TEST_SUITE_P(Native, Main, testing::Values("tests/runtime/fake_program"));
INSTANTIATE_TEST_SUITE_P(RiscV, Main, testing::Values(kRiscV));

TEST(RunModel, MeasuresAnArtefact) {
  const std::string program = "tests/runtime/run_model tests/runtime/fake_model.so ";
  Result result = run(program, "batch=1000 --threads 2 --repeat 3");
  EXPECT_EQ(result.code, 0) << result.text;
  EXPECT_TRUE(contains(result.text, "{\"model\": \"fake\", \"threads\": 2, \"min_ms\": "));
  EXPECT_TRUE(contains(result.text,
                       "\"constants\": 64, \"arena\": 24000, \"scratch\": 128, "
                       "\"inputs_outputs\": 38016, \"peak\": "))
      << result.text;
  result = run(program, "");
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.text, "run_model: give batch=VALUE\n");
}

TEST(MissingInstructions, NamesTheFeature) {
  const Result result = run("tests/runtime/fake_features_program", "--help");
  EXPECT_EQ(result.code, 3) << result.text;
  EXPECT_TRUE(contains(result.text, "needs the CPU feature 'avx2000'")) << result.text;
}

TEST(MissingInstructions, RiscVVectors) {
  const std::string program = "tests/runtime/fake_vector_program.riscv64 --help";
  Result result = run("qemu-riscv64 -cpu rv64", program);
  EXPECT_EQ(result.code, 3) << result.text;
  EXPECT_TRUE(contains(result.text, "the CPU feature 'v', which this machine lacks")) << result.text;
  result = run("qemu-riscv64 -cpu rv64,v=true,vlen=128", program);
  EXPECT_EQ(result.code, 3) << result.text;
  EXPECT_TRUE(contains(result.text,
                       "the CPU feature 'zvl256b', and this machine's vector "
                       "registers have 128 bits"))
      << result.text;
  result = run("qemu-riscv64 -cpu rv64,v=true,vlen=256", program);
  EXPECT_EQ(result.code, 0) << result.text;
}

}  // namespace
}  // namespace tc::runtime
