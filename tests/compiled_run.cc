// The run of a linked model with drawn inputs.
#include "tests/compiled_run.h"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "ir/error.h"
#include "ir/tensor.h"
#include "runtime/tc_runtime.h"

namespace tc {
namespace {

namespace fs = std::filesystem;

// The bytes of all inputs and outputs beyond which a test does not run a model.
constexpr uint64_t kMaxBytes = uint64_t{128} << 20;

// Thrown with the sentence that says why.
struct Refusal {
  std::string why;
};

void check(tc_status status) {
  if (status == TC_OK) return;
  const std::string why = tc_last_error();
  TC_CHECK(!why.empty(), "the runtime refuses with status ", static_cast<int>(status), " and says nothing");
  throw Refusal{why};
}

class LinkedModel {
 public:
  LinkedModel(const std::string& path, uint64_t seed) : random_(seed) {
    tc_model* model = nullptr;
    check(tc_model_open(path.c_str(), &model));
    model_.reset(model);
    tc_context* context = nullptr;
    check(tc_context_create(model, 1, &context));
    context_.reset(context);
  }

  void run() {
    bind();
    std::vector<std::vector<uint64_t>> memory;  // aligned for elements of all types
    std::vector<tc_input_buffer> inputs;
    std::vector<tc_output_buffer> outputs;
    for (int32_t i = 0; i < tc_model_input_count(model_.get()); ++i) {
      uint64_t bytes = 0;
      check(tc_context_input_shape(context_.get(), i, nullptr, nullptr, &bytes));
      take(bytes);
      memory.push_back(drawn(port(i, true).dtype, bytes));
      inputs.push_back({memory.back().data(), bytes});
    }
    for (int32_t i = 0; i < tc_model_output_count(model_.get()); ++i) {
      uint64_t bytes = 0;
      check(tc_context_output_shape(context_.get(), i, nullptr, nullptr, &bytes));
      take(bytes);
      memory.emplace_back(bytes / 8 + 1);
      outputs.push_back({memory.back().data(), bytes});
    }
    check(tc_context_run(context_.get(), inputs.data(), static_cast<int32_t>(inputs.size()), outputs.data(),
                         static_cast<int32_t>(outputs.size())));
  }

 private:
  size_t pick(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }

  void take(uint64_t bytes) {
    if (bytes > kMaxBytes || (taken_ += bytes) > kMaxBytes)
      throw Refusal{"its inputs and outputs are too large for a test"};
  }

  tc_port_info port(int32_t index, bool input) const {
    tc_port_info info = {};
    info.struct_size = sizeof info;
    check((input ? tc_model_input_info : tc_model_output_info)(model_.get(), index, &info));
    return info;
  }

  void bind() {
    std::map<std::string, int64_t> sizes;
    std::vector<std::vector<int64_t>> dims;
    std::vector<tc_shape> shapes;
    for (int32_t i = 0; i < tc_model_input_count(model_.get()); ++i) {
      const tc_port_info info = port(i, true);
      auto& own = dims.emplace_back(info.dims, info.dims + info.rank);
      for (int32_t axis = 0; axis < info.rank; ++axis) {
        if (own[static_cast<size_t>(axis)] >= 0) continue;
        const std::string name = info.symbols[axis] ? info.symbols[axis] : "";
        own[static_cast<size_t>(axis)] =
            sizes.try_emplace(name, 1 + static_cast<int64_t>(pick(9))).first->second;
      }
    }
    for (const auto& own : dims) shapes.push_back({own.data(), static_cast<int32_t>(own.size()), 0});
    check(tc_context_bind(context_.get(), shapes.data(), static_cast<int32_t>(shapes.size())));
  }

  // Values of an input. Floats of all sizes come as bytes now and then, infinities and NaN among them.
  std::vector<uint64_t> drawn(int32_t dtype, uint64_t bytes) {
    std::vector<uint64_t> memory(bytes / 8 + 1);
    auto* data = reinterpret_cast<uint8_t*>(memory.data());
    const auto type = static_cast<DType>(dtype);
    const bool wild = pick(4) == 0 && type != DType::Bool;
    if (wild || !(is_float(type) || is_integer(type) || type == DType::Bool)) {
      for (uint64_t i = 0; i < bytes; ++i)
        data[i] = static_cast<uint8_t>(type == DType::Bool ? pick(2) : pick(256));
      return memory;
    }
    const int64_t size = tc_dtype_size(dtype);
    TC_CHECK(size > 0, "an input has the type ", dtype);
    Tensor values(type, {static_cast<int64_t>(bytes) / size});
    for (int64_t i = 0; i < values.count(); ++i) {
      const double number = is_float(type) ? static_cast<double>(pick(2001)) / 1000 - 1
                                           : static_cast<double>(pick(type == DType::Bool ? 2 : 4));
      values.set(i, number);
    }
    std::copy(values.bytes.begin(), values.bytes.end(), data);
    return memory;
  }

  std::mt19937_64 random_;
  uint64_t taken_ = 0;
  std::unique_ptr<tc_model, decltype(&tc_model_close)> model_{nullptr, tc_model_close};
  std::unique_ptr<tc_context, decltype(&tc_context_destroy)> context_{nullptr, tc_context_destroy};
};

}  // namespace

RunEnd run_once(const CompiledModel& model, uint64_t seed, std::string* why) {
  char folder[] = "/tmp/tc-test-XXXXXX";
  TC_CHECK(mkdtemp(folder) != nullptr);
  const std::shared_ptr<void> remove(nullptr, [&](void*) { fs::remove_all(folder); });
  const std::string path = std::string(folder) + "/model.so";
  export_model(model, "shared", path, "");
  try {
    LinkedModel(path, seed).run();
    return RunEnd::Ran;
  } catch (const Refusal& refusal) {
    if (why) *why = refusal.why;
    return RunEnd::Refused;
  }
}

}  // namespace tc
