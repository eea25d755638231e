// A small plan with each kind of step, and a model that is compiled from a plan and opened.
#pragma once

#include <dlfcn.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "codegen/llvm/artefact/link.h"
#include "codegen/llvm/artefact/model_objects.h"
#include "ir/error.h"
#include "runtime/abi.h"
#include "tests/codegen_harness.h"
#include "tests/codegen_kernels.h"

namespace tc::testing {

inline Location at(Location::Kind kind, int index, Dim offset = 0) { return {kind, index, offset}; }

inline PlanStep call(int kernel, std::vector<Location> locations, std::vector<Dim> parameters = {}) {
  PlanStep step;
  step.kind = PlanStep::Kind::Call;
  step.kernel = kernel;
  step.locations = std::move(locations);
  step.parameters = std::move(parameters);
  step.label = text("call of ", kernel);
  return step;
}

// y[0:n] = (x + c) + x + x + x; y[n:2n] = flag ? x + c : x; all of f32, n = seq.
inline Plan small_plan() {
  using Kind = Location::Kind;
  Plan plan;
  plan.model = "small";
  plan.target = "test";
  plan.provenance = "by hand";
  plan.symbols["seq"] = {1, 5000};
  const Dim seq = Dim::symbol("seq"), bytes = seq * 4;
  plan.inputs = {{"x", DType::F32, {seq}}, {"flag", DType::Bool, {Dim(1)}}};
  plan.outputs = {{"y", DType::F32, {seq * 2}}, {"n", DType::F32, {seq, Dim(3)}}};
  auto constant = std::make_shared<Tensor>(seeded(DType::F32, {5000}, 7));
  plan.constants = {PlanConstant(std::make_shared<Tensor>(seeded(DType::F32, {3}, 5))),
                    PlanConstant(constant)};
  plan.kernels = {symbolic_add(Scope::Constant), symbolic_add(Scope::Input)};
  const Location a = at(Kind::Arena, 0), b = at(Kind::Arena, 0, ceil_div(bytes, 64) * 64);
  plan.arena_bytes = ceil_div(bytes, 64) * 128;
  plan.steps.push_back(call(0, {at(Kind::Input, 0), at(Kind::Constant, 1), a}, {seq}));
  PlanStep loop;
  loop.kind = PlanStep::Kind::Loop;
  loop.symbol = "t";
  loop.trip = 3;
  loop.label = "thrice";
  // Reads one half of the arena and writes the other, in turn.
  const Dim turn = ceil_div(bytes, 64) * 64;
  loop.body = {call(1,
                    {at(Kind::Arena, 0, turn * mod(Dim::symbol("t"), 2)), at(Kind::Input, 0),
                     at(Kind::Arena, 0, turn * mod(Dim::symbol("t") + 1, 2))},
                    {seq})};
  plan.steps.push_back(loop);
  PlanStep copy;
  copy.kind = PlanStep::Kind::Copy;
  copy.locations = {at(Kind::Output, 0), b};
  copy.bytes = bytes;
  copy.label = "copy";
  plan.steps.push_back(copy);
  PlanStep branch;
  branch.kind = PlanStep::Kind::If;
  branch.locations = {at(Kind::Input, 1)};
  branch.label = "if";
  branch.body = {call(0, {at(Kind::Input, 0), at(Kind::Constant, 1), at(Kind::Output, 0, bytes)}, {seq})};
  branch.body[0].single_thread = true;
  copy.locations = {at(Kind::Output, 0, bytes), at(Kind::Input, 0)};
  branch.otherwise = {copy};
  plan.steps.push_back(branch);
  return plan;
}

struct Loaded {
  explicit Loaded(const Plan& plan, const std::string& symbol = TC_DESCRIPTOR_SYMBOL) {
    char folder[] = "/tmp/tc-test-XXXXXX";
    TC_CHECK(mkdtemp(folder) != nullptr);
    path = std::string(folder) + "/model.so";
    link_shared(model_objects(plan, host_target(), symbol, 2), host_target(), path);
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    TC_CHECK(library != nullptr, dlerror());
    descriptor = static_cast<const tc_descriptor*>(dlsym(library, symbol.c_str()));
    TC_CHECK(descriptor != nullptr, dlerror());
  }
  ~Loaded() {
    dlclose(library);
    std::filesystem::remove_all(std::filesystem::path(path).parent_path());
  }
  std::string path;
  void* library = nullptr;
  const tc_descriptor* descriptor = nullptr;
};

}  // namespace tc::testing
