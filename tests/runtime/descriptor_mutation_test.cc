// Descriptors with wrong fields: each field that is no address is drawn anew from a fixed seed (TC_SEED,
// TC_MUTATIONS), the model is opened, asked for everything, bound to drawn shapes. The runtime refuses it in
// a sentence or takes it; it never reads past a table or allocates what the machine has not. Tables are as
// long as any count that the runtime takes.
#include <cstdlib>
#include <iterator>
#include <random>

#include "tests/runtime/fakes.h"

namespace tc {
namespace {

class MutatedModel {
 public:
  explicit MutatedModel(uint64_t seed) : random_(seed) {
    static const char name[] = "n";
    const tc_dim number{3, -1, 0}, symbol{0, 0, 0}, computed{0, -2, 0};
    for (int i = 0; i < kPorts; ++i) {
      for (int axis = 0; axis < TC_MAX_RANK; ++axis) {
        input_dims_[i][axis] = axis == 0 ? symbol : number;
        output_dims_[i][axis] = axis == 0 ? computed : number;
      }
      inputs_[i] = {name, TC_F32, 2, input_dims_[i]};
      outputs_[i] = {name, TC_F32, 2, output_dims_[i]};
      symbols_[i] = {name, 1, 1000};
      steps_[i] = name;
    }
    descriptor_ = tc_model_fake;
    descriptor_.input_count = descriptor_.output_count = 2;
    descriptor_.symbol_count = 1;
    descriptor_.step_count = 2;
    descriptor_.inputs = inputs_;
    descriptor_.outputs = outputs_;
    descriptor_.symbols = symbols_;
    descriptor_.steps = steps_;
    descriptor_.bind = [](const int64_t* symbols, int64_t* dims) { return current_->bind(symbols, dims); };
    current_ = this;
    for (size_t i = 0, count = 1 + pick(4); i < count; ++i) mutate();
  }

  const tc_descriptor& descriptor() const { return descriptor_; }
  size_t pick(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }
  int64_t number() {
    const int64_t known[] = {0,
                             1,
                             -1,
                             -2,
                             2,
                             3,
                             7,
                             16,
                             17,
                             1000,
                             1 << 20,
                             INT32_MAX,
                             INT32_MIN,
                             int64_t{1} << 40,
                             int64_t{1} << 47,
                             INT64_MAX,
                             INT64_MIN};
    return known[pick(std::size(known))];
  }

 private:
  static constexpr int kPorts = 32;
  static constexpr const char* kFiles[] = {"", ".", "..", "a/b", "nowhere.weights"};

  // Counts within what the tables have, or beyond what the runtime takes.
  int32_t count() {
    return pick(2)   ? static_cast<int32_t>(pick(kPorts))
           : pick(2) ? -1 - static_cast<int32_t>(pick(100))
                     : INT32_MAX;
  }

  void mutate() {
    tc_port& port = pick(2) ? inputs_[pick(3)] : outputs_[pick(3)];
    tc_dim& dim = (pick(2) ? input_dims_ : output_dims_)[pick(3)][pick(3)];
    switch (pick(21)) {
      case 0: descriptor_.magic = static_cast<uint32_t>(number()); break;
      case 1: descriptor_.abi_version = static_cast<uint32_t>(number()); break;
      case 2: descriptor_.struct_size = static_cast<uint64_t>(number()); break;
      case 3: descriptor_.input_count = count(); break;
      case 4: descriptor_.output_count = count(); break;
      case 5: descriptor_.symbol_count = count(); break;
      case 6: descriptor_.step_count = count() % kPorts; break;
      case 7: descriptor_.scratch_bytes = number(); break;
      case 17: descriptor_.first_scratch_bytes = number(); break;
      case 18:
        for (int32_t& pair : pairs_)
          pair = static_cast<int32_t>(pick(2) ? pick(4) : static_cast<size_t>(number()));
        descriptor_.in_place = pairs_;
        break;
      case 19:
        descriptor_.weights_file = kFiles[pick(std::size(kFiles))];
        descriptor_.weights = pick(2) ? &weights_ : nullptr;
        break;
      case 8: descriptor_.constant_bytes = number(); break;
      case 9: descriptor_.default_threads = static_cast<int32_t>(number()); break;
      case 10: port.dtype = static_cast<int32_t>(pick(2) ? pick(20) : static_cast<size_t>(number())); break;
      case 11:
        port.rank = static_cast<int32_t>(pick(2) ? pick(TC_MAX_RANK + 2) : static_cast<size_t>(number()));
        break;
      case 12: port.name = nullptr; break;
      case 13: port.dims = nullptr; break;
      case 14: dim.value = number(); break;
      case 15: dim.symbol = static_cast<int32_t>(pick(2) ? pick(4) : static_cast<size_t>(number())); break;
      case 16: (pick(2) ? symbols_[0].minimum : symbols_[0].maximum) = number(); break;
      default: arena_ = number();
    }
  }

  int64_t bind(const int64_t*, int64_t* dims) {
    for (int i = 0; i < descriptor_.output_count; ++i) {
      for (int axis = 0; axis < outputs_[i].rank; ++axis) *dims++ = number();
    }
    return arena_;
  }

  static MutatedModel* current_;
  std::mt19937_64 random_;
  tc_descriptor descriptor_;
  tc_dim input_dims_[kPorts][TC_MAX_RANK], output_dims_[kPorts][TC_MAX_RANK];
  tc_port inputs_[kPorts], outputs_[kPorts];
  tc_symbol symbols_[kPorts];
  const char* steps_[kPorts];
  int32_t pairs_[kPorts] = {};
  const uint8_t* weights_ = nullptr;
  int64_t arena_ = 64;
};

MutatedModel* MutatedModel::current_ = nullptr;

uint64_t number_from(const char* name, uint64_t fallback) {
  const char* given = std::getenv(name);
  return given ? std::strtoull(given, nullptr, 10) : fallback;
}

// Asks the open model for all that it tells, one step past the end of each table too.
void ask(const tc_model* model) {
  tc_model_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(tc_model_get_info(model, &info), TC_OK);
  tc_port_info port = {};
  port.struct_size = sizeof port;
  for (int32_t i = 0; i <= tc_model_input_count(model); ++i) tc_model_input_info(model, i, &port);
  for (int32_t i = 0; i <= tc_model_output_count(model); ++i) tc_model_output_info(model, i, &port);
  for (int32_t i = 0; i <= tc_model_output_count(model); ++i) tc_model_output_in_place(model, i);
  for (int32_t i = 0; i <= info.symbol_count; ++i) tc_model_symbol_info(model, i, nullptr, nullptr, nullptr);
  for (int32_t i = 0; i <= info.step_count; ++i) tc_model_step_name(model, i);
}

// A context on one thread, with drawn shapes.
void bind(MutatedModel& mutated, tc_model* model) {
  tc_context* context = nullptr;
  if (tc_context_create(model, 1, &context) != TC_OK) {
    EXPECT_NE(std::string(tc_last_error()), "");
    return;
  }
  const ContextPtr owner(context);
  const int32_t count = tc_model_input_count(model);
  std::vector<std::vector<int64_t>> dims(static_cast<size_t>(count));
  std::vector<tc_shape> shapes;
  for (int32_t i = 0; i < count; ++i) {
    auto& own = dims[static_cast<size_t>(i)];
    own.assign(static_cast<size_t>(mutated.descriptor().inputs[i].rank), 3);
    if (!own.empty() && mutated.pick(4) == 0) own[0] = mutated.number();
    shapes.push_back({own.data(), static_cast<int32_t>(own.size()), 0});
  }
  if (tc_context_bind(context, shapes.data(), count) != TC_OK) {
    EXPECT_NE(std::string(tc_last_error()), "");
    return;
  }
  int64_t sizes[TC_MAX_RANK];
  int32_t rank = 0;
  uint64_t bytes = 0;
  for (int32_t i = 0; i <= tc_model_output_count(model); ++i)
    tc_context_output_shape(context, i, sizes, &rank, &bytes);
  EXPECT_LE(bytes, uint64_t{1} << 47);
}

TEST(Descriptors, WithWrongFieldsAreRefusedOrTaken) {
  const uint64_t seed = number_from("TC_SEED", 1), count = number_from("TC_MUTATIONS", 20000);
  int refused = 0;
  for (uint64_t i = 0; i < count; ++i) {
    SCOPED_TRACE("mutation " + std::to_string(i) + " from seed " + std::to_string(seed));
    MutatedModel mutated(seed * 1000003 + i);
    tc_model* model = nullptr;
    if (tc_model_open_linked(&mutated.descriptor(), &model) != TC_OK) {
      EXPECT_NE(std::string(tc_last_error()), "");
      EXPECT_EQ(model, nullptr);
      ++refused;
      continue;
    }
    const ModelPtr owner(model);
    ask(model);
    bind(mutated, model);
  }
  // Neither all nor none of them: both sides are tried.
  EXPECT_GT(refused, static_cast<int>(count / 10));
  EXPECT_LT(refused, static_cast<int>(count - count / 10));
}

}  // namespace
}  // namespace tc
