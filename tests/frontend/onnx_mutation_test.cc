// Damaged models: mutations of the ONNX node tests (fields and bytes, from a fixed seed) are imported,
// simplified and lowered; each ends in a graph or in an error that is not an internal one.
// TC_ONNX_NODE_TESTS names the folder of the node tests, TC_SEED the seed, TC_MUTATIONS the number;
// TC_MUTATION_FOLDER gets the models that break the promise.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>

#include "frontend/import/import.h"
#include "frontend/import/onnx/strings.h"
#include "frontend/import/onnx/onnx.pb.h"
#include "ir/error.h"
#include "ir/ops/op.h"
#include "ir/passes/group.h"
#include "ir/passes/pass.h"
#include "tests/onnx_node_data.h"

namespace tc {
namespace {

namespace fs = std::filesystem;

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  // Changes one to three places of the model.
  std::string mutate(const std::string& bytes) {
    tc_onnx::ModelProto model;
    if (!model.ParseFromString(bytes) || pick(8) == 0) return mutate_bytes(bytes);
    for (size_t i = 0; i <= pick(3); ++i) mutate_model(model);
    return model.SerializeAsString();
  }

  size_t pick(size_t count) {
    return count == 0 ? 0 : std::uniform_int_distribution<size_t>(0, count - 1)(random_);
  }

 private:
  std::string mutate_bytes(std::string bytes) {
    if (bytes.empty()) return bytes;
    if (pick(3) == 0) return bytes.substr(0, pick(bytes.size()));
    for (size_t i = 0; i <= pick(4); ++i) bytes[pick(bytes.size())] = static_cast<char>(pick(256));
    return bytes;
  }

  int64_t number() {
    const int64_t all[] = {0,         1,        -1,   2,     3,         -2,        7,
                           64,        100,      -100, 65536, INT32_MAX, INT32_MIN, int64_t{1} << 40,
                           INT64_MAX, INT64_MIN};
    return all[pick(std::size(all))];
  }

  template <class Repeated>
  void mutate_numbers(Repeated* list) {
    if (list->empty() || pick(6) == 0) {
      list->Add(static_cast<std::decay_t<decltype(list->Get(0))>>(number()));
    } else if (pick(6) == 0) {
      list->RemoveLast();
    } else {
      list->Set(static_cast<int>(pick(static_cast<size_t>(list->size()))),
                static_cast<std::decay_t<decltype(list->Get(0))>>(number()));
    }
  }

  void mutate_tensor(tc_onnx::TensorProto* tensor) {
    switch (pick(5)) {
      case 0: tensor->set_data_type(static_cast<int>(pick(24))); break;
      case 1: mutate_numbers(tensor->mutable_dims()); break;
      case 2: tensor->set_raw_data(tensor->raw_data().substr(0, pick(tensor->raw_data().size() + 1))); break;
      case 3: mutate_numbers(tensor->mutable_int64_data()); break;
      default: tensor->set_data_location(tc_onnx::TensorProto::EXTERNAL); break;
    }
  }

  void mutate_attribute(tc_onnx::AttributeProto* attribute) {
    switch (pick(4)) {
      case 0: attribute->set_type(static_cast<tc_onnx::AttributeProto::AttributeType>(1 + pick(8))); break;
      case 1: attribute->set_name(pick(2) ? "axis" : "pads"); break;
      default:
        if (attribute->ints_size()) mutate_numbers(attribute->mutable_ints());
        else if (attribute->has_t()) mutate_tensor(attribute->mutable_t());
        else if (attribute->has_g()) mutate_graph(attribute->mutable_g());
        else if (attribute->has_s()) attribute->set_s(pick(2) ? "SAME_UPPER" : "");
        else if (attribute->has_f()) attribute->set_f(static_cast<float>(number()));
        else attribute->set_i(number());
    }
  }

  void mutate_node(tc_onnx::NodeProto* node, const tc_onnx::GraphProto& graph) {
    switch (pick(6)) {
      case 0:
        if (node->input_size()) {
          std::string* name =
              node->mutable_input(static_cast<int>(pick(static_cast<size_t>(node->input_size()))));
          *name = pick(3) == 0 || graph.input_size() == 0
                      ? ""
                      : graph.input(static_cast<int>(pick(static_cast<size_t>(graph.input_size())))).name();
        }
        break;
      case 1:
        if (node->input_size()) node->mutable_input()->RemoveLast();
        break;
      case 2: node->add_input(graph.input_size() ? graph.input(0).name() : ""); break;
      case 3: {
        auto row = op_table().begin();
        std::advance(row, static_cast<int64_t>(pick(op_table().size())));
        node->set_op_type(row->first);
        break;
      }
      default:
        if (node->attribute_size()) {
          mutate_attribute(
              node->mutable_attribute(static_cast<int>(pick(static_cast<size_t>(node->attribute_size())))));
        }
    }
  }

  void mutate_shape(tc_onnx::ValueInfoProto* value) {
    auto* shape = value->mutable_type()->mutable_tensor_type()->mutable_shape();
    if (shape->dim_size() == 0 || pick(5) == 0) {
      shape->add_dim()->set_dim_value(number());
    } else if (pick(5) == 0) {
      shape->mutable_dim()->RemoveLast();
    } else {
      auto* dim = shape->mutable_dim(static_cast<int>(pick(static_cast<size_t>(shape->dim_size()))));
      if (pick(2)) dim->set_dim_value(number());
      else dim->set_dim_param(pick(2) ? "n" : "?");
    }
  }

  void mutate_graph(tc_onnx::GraphProto* graph) {
    switch (pick(6)) {
      case 0:
        if (graph->input_size())
          mutate_shape(
              graph->mutable_input(static_cast<int>(pick(static_cast<size_t>(graph->input_size())))));
        break;
      case 1:
        if (graph->initializer_size())
          mutate_tensor(graph->mutable_initializer(
              static_cast<int>(pick(static_cast<size_t>(graph->initializer_size())))));
        break;
      case 2:
        if (graph->output_size() && graph->input_size())
          graph->mutable_output(0)->set_name(graph->input(0).name());
        break;
      default:
        if (graph->node_size())
          mutate_node(graph->mutable_node(static_cast<int>(pick(static_cast<size_t>(graph->node_size())))),
                      *graph);
    }
  }

  void mutate_model(tc_onnx::ModelProto& model) {
    if (pick(10) == 0 && model.opset_import_size()) {
      model.mutable_opset_import(0)->set_version(number());
    } else {
      mutate_graph(model.mutable_graph());
    }
  }

  std::mt19937_64 random_;
};

// The graph, with two tensors in each input that is no tensor and without the operators on strings.
Graph import_mutated(const Source& source, ImportOptions options) {
  try {
    return import_model(source, options);
  } catch (const HasStrings&) {
    const HostProgram program = split_strings(source, options);
    return program.rest ? import_model(*program.rest, options) : Graph();
  } catch (const NeedsForms& error) {
    for (const std::string& name : error.inputs()) options.forms[name] = {true, {{2, 3}, {3}}};
    return import_mutated(source, options);
  }
}

// Imports, simplifies and lowers; the text of an internal error, or nothing.
std::string broken_promise(const std::string& bytes) {
  try {
    Graph graph = import_mutated({bytes, "mutated.onnx", ""}, {});
    run_passes(graph);
    for (const Group& group : fuse_groups(graph)) {
      if (group.kind != Group::Kind::Compute) continue;
      Kernel kernel = lower_group(graph, group.nodes, group.outputs, nullptr);
      inline_locals(kernel);
      verify(kernel);
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Internal) return error.what();
  } catch (const std::exception& error) {
    return text("exception: ", error.what());
  }
  return "";
}

uint64_t number_from(const char* name, uint64_t fallback) {
  const char* given = std::getenv(name);
  return given ? std::strtoull(given, nullptr, 10) : fallback;
}

TEST(Mutations, EndInAGraphOrInAClearError) {
  const std::vector<fs::path> tests = onnx_node_tests();
  if (tests.empty()) GTEST_SKIP() << "no ONNX node tests here; set TC_ONNX_NODE_TESTS to their folder";
  const uint64_t seed = number_from("TC_SEED", 1), count = number_from("TC_MUTATIONS", 3000);
  const char* folder = std::getenv("TC_MUTATION_FOLDER");
  Mutator mutator(seed);
  for (uint64_t i = 0; i < count; ++i) {
    const fs::path& test = tests[mutator.pick(tests.size())];
    const std::string bytes = read_whole_file(test / "model.onnx");
    std::string model = constant_operands(bytes, test / "test_data_set_0", false);
    model = mutator.mutate(mutator.pick(2) ? model : bytes);
    // Written before the attempt, so that it is there after a crash; kept where the attempt fails.
    if (folder) std::ofstream(fs::path(folder) / text("mutation_", i, ".onnx"), std::ios::binary) << model;
    const std::string why = broken_promise(model);
    if (!why.empty()) ADD_FAILURE() << "mutation " << i << " of " << test.filename().string() << ": " << why;
    if (folder && why.empty()) fs::remove(fs::path(folder) / text("mutation_", i, ".onnx"));
  }
}

}  // namespace
}  // namespace tc
