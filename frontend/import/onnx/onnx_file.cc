#include "frontend/import/onnx/onnx_file.h"

#include <algorithm>

#include "frontend/import/onnx/model_file.h"
#include "frontend/import/onnx/plain_form.h"
#include "frontend/import/onnx/tensor_reader.h"
#include "ir/error.h"

namespace tc {
namespace {

// The names without empty ones, each only at its first occurrence.
std::vector<std::string> each_once(const std::vector<std::string>& names) {
  std::vector<std::string> result;
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (!name.empty() && seen.insert(name).second) result.push_back(name);
  }
  return result;
}

void declare(tc_onnx::ValueInfoProto& info, const std::string& name, DType dtype,
             const std::vector<int64_t>* shape) {
  info.set_name(name);
  auto& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx_number_of(dtype));
  if (!shape) return;
  auto& sizes = *type.mutable_shape();
  for (int64_t size : *shape) sizes.add_dim()->set_dim_value(size);
}

}  // namespace

const std::string& FileNode::name() const {
  if (!proto->name().empty()) return proto->name();
  const auto named = std::find_if(proto->output().begin(), proto->output().end(),
                                  [](const std::string& each) { return !each.empty(); });
  return named == proto->output().end() ? proto->name() : *named;
}

void add_initializer(tc_onnx::GraphProto& graph, const std::string& name, const Tensor& tensor,
                     const std::string& where) {
  if (bits_of(tensor.dtype) < 8) {
    fail(ErrorKind::Unsupported, where, ": constant '", name, "' is ", name_of(tensor.dtype),
         ", which is not written to ONNX files");
  }
  auto& proto = *graph.add_initializer();
  proto.set_name(name);
  proto.set_data_type(onnx_number_of(tensor.dtype));
  for (int64_t size : tensor.shape) proto.add_dims(size);
  proto.set_raw_data(tensor.bytes.data(), tensor.bytes.size());
}

OnnxFile::OnnxFile(const std::string& bytes, const std::string& name, const std::string& folder)
    : model_(parse_model_file(bytes, name)) {
  graph_ = std::move(*model_.mutable_graph());
  model_.clear_graph();
  const DataFolders folders(folder);
  for (auto& initializer : *graph_.mutable_initializer()) {
    take_in(initializer, folders, name);
    initializers_[initializer.name()] = &initializer;
  }
  for (const auto& input : graph_.input()) {
    declared_inputs_[input.name()] = &input;
    if (!initializers_.count(input.name())) inputs_.push_back(input.name());
  }
  for (const auto& output : graph_.output()) {
    if (declared_outputs_.emplace(output.name(), &output).second) outputs_.push_back(output.name());
  }
  for (const auto& node : graph_.node()) {
    for (const std::string& output : node.output()) {
      if (!output.empty()) makers_[output] = static_cast<int>(nodes_.size());
    }
    nodes_.push_back({&node, each_once(reads_of(node))});
  }
}

const tc_onnx::TensorProto* OnnxFile::initializer(const std::string& name) const {
  const auto found = initializers_.find(name);
  return found == initializers_.end() ? nullptr : found->second;
}

// The names that the nodes of a part read and that are defined outside of it: inputs in the file's order,
// then others in the order in which they are read.
std::vector<std::string> OnnxFile::read_by(const std::set<int>& kept, const FilePart& part) const {
  std::vector<std::string> names;
  for (int number : kept)
    names.insert(names.end(), nodes_[static_cast<size_t>(number)].reads.begin(),
                 nodes_[static_cast<size_t>(number)].reads.end());
  if (part.outputs) {
    for (const auto& [name, dtype] : *part.outputs) names.push_back(name);
  } else {
    names.insert(names.end(), outputs_.begin(), outputs_.end());
  }
  if (!part.nodes) names.insert(names.end(), inputs_.begin(), inputs_.end());
  const std::vector<std::string> used = each_once(names);
  const std::set<std::string> wanted(used.begin(), used.end()), own(inputs_.begin(), inputs_.end());
  std::vector<std::string> result;
  std::copy_if(inputs_.begin(), inputs_.end(), std::back_inserter(result),
               [&](const std::string& name) { return wanted.count(name); });
  std::copy_if(used.begin(), used.end(), std::back_inserter(result),
               [&](const std::string& name) { return !own.count(name); });
  result.erase(std::remove_if(result.begin(), result.end(),
                              [&](const std::string& name) {
                                const auto maker = makers_.find(name);
                                return maker != makers_.end() && kept.count(maker->second);
                              }),
               result.end());
  return result;
}

std::string OnnxFile::part(const FilePart& part) const {
  std::set<int> kept;
  for (int number = 0; number < static_cast<int>(nodes_.size()); ++number) {
    if (!part.nodes || part.nodes->count(number)) kept.insert(number);
  }
  tc_onnx::ModelProto model = model_;
  auto& graph = *model.mutable_graph();
  graph.set_name(graph_.name().empty() ? "model" : graph_.name());
  for (int number : kept) *graph.add_node() = *nodes_[static_cast<size_t>(number)].proto;
  for (const std::string& name : read_by(kept, part)) {
    const auto constant = part.constants.find(name);
    const auto input = part.inputs.find(name);
    const auto declared = declared_inputs_.find(name);
    if (constant != part.constants.end()) add_initializer(graph, name, *constant->second, "the model");
    else if (input != part.inputs.end())
      declare(*graph.add_input(), name, input->second.dtype, &input->second.shape);
    else if (const auto* tensor = initializer(name)) *graph.add_initializer() = *tensor;
    else if (declared != declared_inputs_.end()) *graph.add_input() = *declared->second;
  }
  std::vector<FilePart::Output> outputs;
  for (const std::string& name : outputs_) outputs.emplace_back(name, std::nullopt);
  for (const auto& [name, dtype] : part.outputs.value_or(outputs)) {
    const auto declared = declared_outputs_.find(name);
    TC_CHECK(dtype || declared != declared_outputs_.end(), "output '", name, "' has no type");
    if (declared != declared_outputs_.end()) *graph.add_output() = *declared->second;
    else declare(*graph.add_output(), name, *dtype, nullptr);
  }
  return model.SerializeAsString();
}

std::set<int> OnnxFile::needed(const std::vector<std::string>& outputs,
                               const std::set<std::string>& given) const {
  std::set<int> found;
  std::vector<std::string> waiting = outputs;
  while (!waiting.empty()) {
    const std::string name = waiting.back();
    waiting.pop_back();
    const auto maker = makers_.find(name);
    if (given.count(name) || maker == makers_.end() || !found.insert(maker->second).second) continue;
    const auto& reads = nodes_[static_cast<size_t>(maker->second)].reads;
    waiting.insert(waiting.end(), reads.begin(), reads.end());
  }
  return found;
}

}  // namespace tc
