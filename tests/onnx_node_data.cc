// The node tests that the ONNX project publishes, as files.
#include "tests/onnx_node_data.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "frontend/import/onnx/sequences.h"
#include "frontend/import/onnx/tensor_reader.h"
#include "ir/error.h"

namespace tc {
namespace {

namespace fs = std::filesystem;

fs::path data_folder() {
  if (const char* named = std::getenv("TC_ONNX_NODE_TESTS")) return named;
  FILE* python =
      popen("python3 -c 'import onnx, os; print(os.path.dirname(onnx.__file__), end=\"\")' 2>/dev/null", "r");
  if (!python) return {};
  std::string package;
  char part[256];
  while (size_t count = fread(part, 1, sizeof(part), python)) package.append(part, count);
  pclose(python);
  const fs::path folder = fs::path(package) / "backend/test/data/node";
  return !package.empty() && fs::is_directory(folder) ? folder : fs::path();
}

std::vector<fs::path> tests_in(const fs::path& folder) {
  std::vector<fs::path> tests;
  if (folder.empty() || !fs::is_directory(folder)) return tests;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (fs::exists(entry.path() / "model.onnx")) tests.push_back(entry.path());
  }
  std::sort(tests.begin(), tests.end());
  return tests;
}

// Whether both folders have the same files with the same bytes.
bool same_files(const fs::path& a, const fs::path& b) {
  size_t here = 0, there = 0;
  for (const auto& entry : fs::recursive_directory_iterator(a)) {
    if (!entry.is_regular_file()) continue;
    ++here;
    const fs::path other = b / fs::relative(entry.path(), a);
    if (!fs::exists(other) || read_whole_file(entry.path()) != read_whole_file(other)) return false;
  }
  for (const auto& entry : fs::recursive_directory_iterator(b)) there += entry.is_regular_file() ? 1 : 0;
  return here == there;
}

}  // namespace

std::vector<fs::path> onnx_node_tests() { return tests_in(data_folder()); }

std::vector<fs::path> newest_onnx_node_tests(size_t& count) {
  const char* named = std::getenv("TC_ONNX_NEWEST_NODE_TESTS");
  std::vector<fs::path> tests = tests_in(named ? named : "");
  count = tests.size();
  const fs::path before = data_folder();
  std::erase_if(tests, [&](const fs::path& test) {
    const fs::path same = before / test.filename();
    return !before.empty() && fs::exists(same) && same_files(test, same);
  });
  return tests;
}

std::string read_whole_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

Tensor read_tensor_file(const fs::path& path) {
  tc_onnx::TensorProto message;
  if (!message.ParseFromString(read_whole_file(path)))
    fail(ErrorKind::Unsupported, path.string(), " is no tensor");
  return *read_tensor(message, "", path.filename().string());
}

namespace {

void add_tensors(const tc_onnx::SequenceProto& sequence, const std::string& name,
                 std::vector<Tensor>& tensors) {
  for (const auto& each : sequence.tensor_values()) tensors.push_back(*read_tensor(each, "", name));
}

}  // namespace

NodeTestValue read_value_file(const fs::path& path, const tc_onnx::TypeProto& type) {
  const std::string name = path.filename().string(), bytes = read_whole_file(path);
  NodeTestValue value{kind_of_type(type, name), true, {}};
  tc_onnx::SequenceProto sequence;
  tc_onnx::OptionalProto optional;
  bool read = true;
  switch (value.kind) {
    case PortKind::Tensor: value.tensors.push_back(read_tensor_file(path)); break;
    case PortKind::Sequence:
      read = sequence.ParseFromString(bytes);
      add_tensors(sequence, name, value.tensors);
      break;
    default:
      read = optional.ParseFromString(bytes);
      value.present = optional.has_tensor_value() || optional.has_sequence_value();
      if (optional.has_tensor_value())
        value.tensors.push_back(*read_tensor(optional.tensor_value(), "", name));
      add_tensors(optional.sequence_value(), name, value.tensors);
  }
  if (!read) fail(ErrorKind::Unsupported, path.string(), " is no ", name_of(value.kind));
  return value;
}

std::string constant_operands(const std::string& bytes, const fs::path& data,
                              const std::function<bool(const std::string& name, const Tensor&)>& wanted) {
  tc_onnx::ModelProto model;
  if (!model.ParseFromString(bytes)) return bytes;
  for (int i = 0; i < model.graph().input_size(); ++i) {
    const std::string& name = model.graph().input(i).name();
    if (!model.graph().input(i).type().has_tensor_type()) continue;
    tc_onnx::TensorProto tensor;
    if (!tensor.ParseFromString(read_whole_file(data / text("input_", i, ".pb")))) continue;
    try {
      if (!wanted(name, *read_tensor(tensor, "", name))) continue;
    } catch (const Error&) {
      continue;
    }
    tensor.set_name(name);
    *model.mutable_graph()->add_initializer() = tensor;
  }
  return model.SerializeAsString();
}

std::string constant_operands(const std::string& bytes, const fs::path& data, bool all) {
  return constant_operands(bytes, data, [&](const std::string&, const Tensor& tensor) {
    const bool integers =
        tensor.dtype == DType::I32 || tensor.dtype == DType::I64 || tensor.dtype == DType::Bool;
    return all || (integers && tensor.shape.size() <= 1);
  });
}

}  // namespace tc
