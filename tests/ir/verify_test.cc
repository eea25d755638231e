// The verifier of kernels: each rule has a kernel that breaks it.
#include <gtest/gtest.h>

#include "ir/domain.h"
#include "ir/error.h"
#include "ir/loop.h"

namespace tc {
namespace {

Affine v(const std::string& name) { return Affine::variable(name); }

Access at(int buffer, const std::vector<Affine>& index) {
  Access access{buffer, {}};
  for (const Affine& affine : index) access.index.push_back({affine, nullptr});
  return access;
}

// A one-dimensional convolution with padding and a symbolic length.
Kernel sound() {
  Kernel kernel;
  kernel.name = "conv";
  kernel.parameters = {{"p0", Dim::symbol("n"), 1, 1000}};
  kernel.buffers = {{"I", DType::F32, {v("p0")}, Scope::Input, ""},
                    {"K", DType::F32, {3}, Scope::Constant, ""},
                    {"O", DType::F32, {v("p0")}, Scope::Output, ""}};
  Affine tap = v("x") + v("s") - 1;
  kernel.statements = {
      {"init", {{"x", v("p0")}}, {}, at(2, {v("x")}), Reduction::None, constant(DType::F32, 0)},
      {"macc",
       {{"x", v("p0")}, {"s", 3}},
       {tap, v("p0") - 1 - tap},
       at(2, {v("x")}),
       Reduction::Sum,
       binary(BinaryOp::Mul, load(DType::F32, 0, std::vector<Affine>{tap}),
              load(DType::F32, 1, std::vector<Affine>{v("s")}))}};
  return kernel;
}

std::string error_of(const Kernel& kernel) {
  try {
    verify(kernel);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Internal);
    std::string text = error.what();
    return text.substr(text.find(": ") + 2);
  }
  return "no error";
}

TEST(Verify, AcceptsASoundKernel) { EXPECT_EQ(error_of(sound()), "no error"); }

TEST(Verify, Names) {
  Kernel kernel = sound();
  kernel.statements[1].name = "init";
  EXPECT_EQ(error_of(kernel), "the name is taken");
  kernel.statements[1].name = "a-b";
  EXPECT_EQ(error_of(kernel), "the name is no identifier");
  kernel = sound();
  kernel.buffers[1].name = "I";
  EXPECT_EQ(error_of(kernel), "buffer 'I' is declared twice");
  kernel = sound();
  kernel.statements[1].iterators[1].name = "p0";
  EXPECT_EQ(error_of(kernel), "iterator 'p0' has a name that is taken");
  kernel = sound();
  kernel.statements[0].iterators[0].extent = v("y");
  EXPECT_EQ(error_of(kernel), "extent `y` uses 'y', which is not known");
}

TEST(Verify, TypesAndRanks) {
  Kernel kernel = sound();
  kernel.statements[0].value = constant(DType::F64, 0);
  EXPECT_EQ(error_of(kernel), "it stores f64 to f32 buffer 'O'");
  kernel = sound();
  kernel.statements[0].write.index.push_back({0, nullptr});
  EXPECT_EQ(error_of(kernel), "buffer 'O' of rank 1 is accessed with 2 subscripts");
  kernel = sound();
  kernel.statements[0].value = load(DType::F32, 7, std::vector<Affine>{});
  EXPECT_EQ(error_of(kernel), "an access refers to buffer 7, which does not exist");
  kernel = sound();
  kernel.buffers[0].dtype = DType::F16;
  EXPECT_EQ(error_of(kernel), "a load of f16 buffer 'I' has type f32");
  kernel = sound();
  ExprPtr half = cast(DType::F16, constant(DType::F32, 1));
  kernel.statements[0].value = cast(DType::F32, binary(BinaryOp::Add, half, half));
  EXPECT_EQ(error_of(kernel), "add of f16: it is a storage type; cast to f32 first");
  kernel.statements[0].value = cast(DType::F32, unary(UnaryOp::Exp, int_constant(DType::I32, 1)));
  EXPECT_EQ(error_of(kernel), "exp has no meaning for i32");
}

TEST(Verify, OrderOfDefinition) {
  Kernel kernel = sound();
  std::swap(kernel.statements[0], kernel.statements[1]);
  EXPECT_EQ(error_of(kernel), "it reduces into buffer 'O', which no earlier statement initialises");
  kernel = sound();
  kernel.buffers.push_back({"T", DType::F32, {1}, Scope::Local, ""});
  kernel.statements[0].value = load(DType::F32, 3, std::vector<Affine>{0});
  EXPECT_EQ(error_of(kernel), "it reads buffer 'T', which no earlier statement writes");
  kernel = sound();
  kernel.statements[0].write.buffer = 0;
  EXPECT_EQ(error_of(kernel), "it writes input buffer 'I'");
}

TEST(Verify, RangesOfAccesses) {
  Kernel kernel = sound();
  kernel.statements[1].constraints.erase(kernel.statements[1].constraints.begin());
  EXPECT_EQ(error_of(kernel),
            "subscript `s + x - 1` of dimension 0 of buffer 'I' is -1 at [s=0, "
            "x=0, p0=1], outside 0 .. 0");
  kernel = sound();
  kernel.statements[1].constraints.pop_back();
  EXPECT_EQ(error_of(kernel),
            "subscript `s + x - 1` of dimension 0 of buffer 'I' is 1 at [s=2, "
            "x=0, p0=1], outside 0 .. 0");
}

TEST(Verify, SelectGuardsLoads) {
  Kernel kernel = sound();
  ExprPtr x = index_value(v("x"));
  ExprPtr left = load(DType::F32, 0, std::vector<Affine>{v("x") - 1});
  auto guarded = [&](int64_t bound) {
    return select(binary(BinaryOp::Ge, x, int_constant(DType::I64, bound)), left, constant(DType::F32, 0));
  };
  kernel.statements[0].value = guarded(1);
  EXPECT_EQ(error_of(kernel), "no error");
  kernel.statements[0].value = guarded(0);
  EXPECT_EQ(error_of(kernel),
            "subscript `x - 1` of dimension 0 of buffer 'I' is -1 at [x=0, "
            "p0=1], outside 0 .. 0");
}

TEST(Verify, Packings) {
  Kernel kernel = sound();
  kernel.packings = {{"O", {"i"}, {3}, {v("i")}, 0, {}, "", "", {}, ""}};
  EXPECT_EQ(error_of(kernel), "packing of 'O', which is no constant buffer");
  kernel.packings = {{"K", {"i"}, {3, 1}, {v("i")}, 0, {}, "", "", {}, ""}};
  EXPECT_EQ(error_of(kernel), "the packing of 'K' needs one index per dimension of the original");
}

TEST(Domain, ProvesBlockedIndices) {
  // 60 channels in blocks of 16: 16*co + ci < 60 by a constraint; the box alone reaches 63.
  Affine channel = v("co") * 16 + v("ci");
  Domain domain({{"co", {0, 3}}, {"ci", {0, 15}}}, {Affine(59) - channel});
  EXPECT_EQ(domain.is_nonnegative(Affine(59) - channel, nullptr), Domain::Answer::Yes);
  EXPECT_EQ(domain.is_nonnegative(Affine(118) - channel * 2, nullptr), Domain::Answer::Yes);
  std::map<std::string, int64_t> point;
  EXPECT_EQ(domain.is_nonnegative(Affine(58) - channel, &point), Domain::Answer::No);
  EXPECT_EQ(point, (std::map<std::string, int64_t>{{"co", 3}, {"ci", 11}}));
  Domain large({{"a", {0, 1 << 20}}, {"b", {0, 1 << 20}}}, {v("a") - v("b") * 3});
  EXPECT_EQ(large.is_nonnegative(v("a") - v("b") * 2 - 1, nullptr), Domain::Answer::Unknown);
  EXPECT_EQ(large.is_nonnegative(v("a") - v("b") * 2, nullptr), Domain::Answer::Yes);
  EXPECT_TRUE(Domain({{"a", {0, 3}}}, {v("a") - 4}).is_empty());
}

}  // namespace
}  // namespace tc
