// The table of back ends: kinds of artefacts, what each back end uses of a target, and what is refused.
#include "codegen/backend/table.h"

#include <gtest/gtest.h>

#include <set>

#include "frontend/pipeline/compile.h"
#include "frontend/pipeline/kernel_module.h"
#include "ir/error.h"
#include "scheduler/scheduler.h"
#include "tests/error_of.h"
#include "tests/scheduler_kernels.h"

namespace tc {
namespace {

using testing::error_of;

TEST(Backends, NamesAreUnique) {
  std::set<std::string> backend_names, kind_names, text_names;
  for (const Backend* backend : backends()) {
    EXPECT_TRUE(backend_names.insert(backend->name()).second) << backend->name();
    for (const CodeText& text : backend->texts())
      EXPECT_TRUE(text_names.insert(text.name).second) << text.name;
  }
  for (const BackendAndKind& each : all_kinds()) {
    EXPECT_TRUE(kind_names.insert(each.kind->name).second) << each.kind->name;
    EXPECT_EQ(artefact_kind(each.kind->name).kind, each.kind);
  }
  EXPECT_EQ(candidate_kind(), "executable");
}

TEST(Backends, KindsThatATargetDoesNotHave) {
  const Target board = parse_target("rv32imfc"), server = parse_target("x86-64-v4");
  EXPECT_EQ(
      error_of([&] { refuse_kind(artefact_kind("static"), board); }),
      "cannot make an artefact of kind 'static' for target rv32imfc: there is no runtime for addresses of 32 bits; export kind 'bare' or 'c', "
      "which need none");
  for (const BackendAndKind& each : all_kinds()) {
    EXPECT_EQ(error_of([&] { refuse_kind(each, server); }), "no error") << each.kind->name;
    EXPECT_EQ(error_of([&] { refuse_kind(each, board); }) == "no error", !each.kind->needs_runtime)
        << each.kind->name;
  }
  EXPECT_EQ(
      error_of([] { artefact_kind("zip"); }),
      "unknown kind of artefact 'zip'; the kinds are shared, static, executable, object, bare, c and loops");
}

TEST(Backends, CUsesNoMatrixUnits) {
  const Backend& c = *artefact_kind("c").backend;
  for (const char* name : {"sapphirerapids", "rv64gcv+lengths", "x86-64-v3+avxvnni", "aarch64+i8mm"}) {
    const Target target = parse_target(name), usable = c.usable(target);
    EXPECT_FALSE(plan_alike(c, default_backend(), target)) << name;
    EXPECT_EQ(usable.matrix.registers, 0) << name;
    EXPECT_EQ(usable.lane_products, target.lane_products) << name << ": C writes those in each lane";
    EXPECT_EQ(byte_products(usable), byte_products(parse_target(name))) << name;
    EXPECT_TRUE(usable.wider_targets.empty()) << name;
    EXPECT_EQ(usable.vector_bits, target.vector_bits) << name;
  }
  EXPECT_TRUE(plan_alike(c, default_backend(), parse_target("x86-64-v4")));
}

TEST(Backends, ExportsOfAnotherBackEnd) {
  const Kernel kernel = parse_kernel(testing::small_kernels().front().text);
  CompiledModel model =
      compile_kernel(default_schedule(kernel, parse_target("native"), 1).finish(), parse_target("native"), 1);
  model.backend = artefact_kind("c").backend;
  model.objects.code.clear();
  const std::string error = error_of([&] { export_model(model, "shared", "/tmp/tc-test-never.so", ""); });
  EXPECT_NE(
      error.find(
          "was compiled by the back end 'c', which makes no artefact of kind 'shared'; compile it again for that kind"),
      std::string::npos)
      << error;
}

}  // namespace
}  // namespace tc
