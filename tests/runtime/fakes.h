// What the runtime's tests share: models made on the spot, runs of the hand-written one.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/tc_runtime.h"

extern "C" const tc_descriptor tc_model_fake;

namespace tc {

struct CloseModel {
  void operator()(tc_model* model) const { tc_model_close(model); }
};
struct DestroyContext {
  void operator()(tc_context* context) const { tc_context_destroy(context); }
};
using ModelPtr = std::unique_ptr<tc_model, CloseModel>;
using ContextPtr = std::unique_ptr<tc_context, DestroyContext>;

inline ModelPtr open_linked(const tc_descriptor& descriptor) {
  tc_model* model = nullptr;
  EXPECT_EQ(tc_model_open_linked(&descriptor, &model), TC_OK) << tc_last_error();
  return ModelPtr(model);
}

inline ContextPtr make_context(const ModelPtr& model, int threads) {
  tc_context* context = nullptr;
  EXPECT_EQ(tc_context_create(model.get(), threads, &context), TC_OK) << tc_last_error();
  return ContextPtr(context);
}

inline tc_status bind_fake(tc_context* context, int64_t x_batch, int64_t y_batch) {
  const int64_t x_dims[] = {x_batch, 3}, y_dims[] = {y_batch, 3};
  const tc_shape shapes[] = {{x_dims, 2, 0}, {y_dims, 2, 0}};
  return tc_context_bind(context, shapes, 2);
}

// Binds and runs the hand-written model; returns "" or what is wrong.
inline std::string run_fake(tc_context* context, int64_t batch, int seed) {
  if (bind_fake(context, batch, batch) != TC_OK) return tc_last_error();
  const size_t count = static_cast<size_t>(batch) * 3;
  std::vector<float> x(count), y(count), z(count, -1);
  for (size_t i = 0; i < count; ++i) {
    x[i] = static_cast<float>((static_cast<int>(i) + seed) % 1000);
    y[i] = static_cast<float>(i % 7);
  }
  int64_t shape[2] = {};
  std::vector<uint8_t> ones(static_cast<size_t>(2 * batch));
  const tc_input_buffer inputs[] = {{x.data(), count * 4}, {y.data(), count * 4}};
  const tc_output_buffer outputs[] = {
      {z.data(), count * 4}, {shape, sizeof shape}, {ones.data(), ones.size()}};
  if (tc_context_run(context, inputs, 2, outputs, 3) != TC_OK) return tc_last_error();
  for (size_t i = 0; i < count; ++i)
    if (z[i] != x[i] + y[i] + 20) return "wrong z at " + std::to_string(i);
  if (shape[0] != batch || shape[1] != 3) return "wrong shape output";
  if (ones.back() != 1) return "wrong ones output";
  return "";
}

}  // namespace tc
