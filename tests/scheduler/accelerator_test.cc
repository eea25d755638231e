// Kernels on an accelerator by the default schedule: what they compute, and what is refused.
#include <gtest/gtest.h>

#include <random>

#include "ir/error.h"
#include "ir/scheduled.h"
#include "tests/accelerator.h"
#include "tests/error_of.h"
#include "tests/scheduler_kernels.h"

namespace tc::testing {
namespace {

const bool kIsRegistered = (register_accelerator(test_accelerator()), true);

Target target() { return parse_target("rv64gc+accel:array"); }

// A convolution of rows by seeded sizes, or a product of matrices.
std::string random_layer(uint32_t seed) {
  std::mt19937 random(seed);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  const int m = draw(1, 20), k = draw(1, 20), n = draw(1, 20);
  if (seed % 2 == 0) {
    return text("kernel product\n  input A u8[", m, ", ", k, "]\n  constant B i8[", k, ", ", n,
                "]\n  output C i32[", m, ", ", n, "]\n  local T i32[", m, ", ", n, "]\n  init[i:", m,
                ", j:", n, "]: T[i, j] = 0\n  macc[i:", m, ", j:", n, ", k:", k,
                "]: T[i, j] += i32(A[i, k]) * i32(B[k, j])\n  tail[i:", m, ", j:", n,
                "]: C[i, j] = T[i, j] + 3\n");
  }
  const int taps = 2 * draw(0, 1) + 1, before = taps / 2;
  return text("kernel rows\n  input A u8[", m, ", ", k, "]\n  constant B i8[", taps, ", ", k, ", ", n,
              "]\n  output C i32[", m, ", ", n, "]\n  init[y:", m, ", f:", n, "]: C[y, f] = 0\n  macc[y:", m,
              ", f:", n, ", r:", taps, ", c:", k, "] where r + y - ", before, " >= 0, -r - y + ",
              m - 1 + before, " >= 0: C[y, f] += i32(A[r + y - ", before, ", c]) * i32(B[r, c, f])\n");
}

TEST(Accelerator, ComputesRandomLayers) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Kernel kernel = parse_kernel(random_layer(seed));
    const Schedule schedule = default_schedule(kernel, target(), 1);
    const std::string loops = str(schedule.finish());
    EXPECT_NE(loops.find("command MULTIPLY"), std::string::npos)
        << loops << str(default_report(Schedule(kernel, target()), 1));
    EXPECT_EQ(difference(kernel, schedule, seed), "") << loops;
  }
}

TEST(Accelerator, ExecutesWhatFitsAlone) {
  const Kernel floats = parse_kernel(
      "kernel product\n  input A f32[8, 8]\n  constant B f32[8, 8]\n  output C f32[8, 8]\n  init[i:8, j:8]: C[i, j] = 0\n"
      "  macc[i:8, j:8, k:8]: C[i, j] += A[i, k] * B[k, j]\n");
  const ScheduledKernel scheduled = default_schedule(floats, target(), 1).finish();
  EXPECT_EQ(scheduled.accelerator, nullptr);
  EXPECT_EQ(str(scheduled).find("command"), std::string::npos);
}

Schedule product(const std::vector<std::string>& lines, int depth = 8, const Target& on = target()) {
  Schedule schedule(
      parse_kernel(text("kernel product\n  input A u8[8, ", depth, "]\n  constant B i8[", depth,
                        ", 8]\n  output C i32[8, 8]\n  local T i32[8, 8]\n  init[i:8, j:8]: T[i, j] = 0\n"
                        "  macc[i:8, j:8, k:",
                        depth,
                        "]: T[i, j] += i32(A[i, k]) * i32(B[k, j])\n"
                        "  tail[i:8, j:8]: C[i, j] = T[i, j]\n")),
      on);
  for (const std::string& line : lines) EXPECT_EQ(schedule.apply(line), std::nullopt);
  return schedule;
}

TEST(Accelerator, HoldsWhatTheHostDoesNotReach) {
  const std::vector<std::string> lines = {"load_tile A tiles 1 :", "load_tile B tiles 1 :", "place T sums 1",
                                          "command MULTIPLY macc_i macc_j macc_k"};
  EXPECT_EQ(
      error_of([&] { product(lines).finish(); }),
      "schedule of kernel 'product': statement load_B is executed by the host, which does not reach buffer "
      "B_tile in tiles");
  const std::vector<std::string> large = {"strip macc_k 8 as k_o k",
                                          "load_tile A tiles 2 :",
                                          "load_tile B tiles 2 :",
                                          "place T sums 1",
                                          "command LOAD_U8 load_A_d0 load_A_d1",
                                          "command LOAD_I8 load_B_d0 load_B_d1",
                                          "command CLEAR init_i init_j",
                                          "order macc_k_o macc_i macc_j macc_k",
                                          "command MULTIPLY macc_i macc_j macc_k",
                                          "command STORE_I32 tail_i tail_j"};
  EXPECT_EQ(error_of([&] { product(large, 512).finish(); }),
            "schedule of kernel 'product': its buffers do not fit the memories of accelerator 'array'");
  EXPECT_EQ(error_of([&] { product(large, 64).finish(); }), "no error");
}

TEST(Accelerator, IsKnownByItsName) {
  EXPECT_EQ(target().name, "rv64gc+accel:array");
  EXPECT_EQ(parse_target("rv64gc+accel:array,+zba").name, "rv64gc+zba,+accel:array");
  EXPECT_EQ(target().block, 8);
  EXPECT_EQ(error_of([] { parse_target("rv64gc+accel:other"); }),
            "accelerator 'other' is not known; give the file that describes it, as --accelerator FILE or "
            "tc.accelerator.load(FILE)");
  Schedule schedule(parse_kernel("kernel c\n  input A f32[4]\n  output C f32[4]\n  c[i:4]: C[i] = A[i]\n"),
                    parse_target("rv64gc"));
  EXPECT_EQ(schedule.apply("command LOAD_U8 c_i"), "command LOAD_U8 c_i: target rv64gc has no accelerator");
}

// An accelerator whose memories are addressed by rows of so many bytes.
Accelerator by_rows(const std::string& name, int64_t tiles, int64_t sums) {
  Accelerator made = test_accelerator();
  made.name = name;
  made.memories[0].row = made.memories[0].alignment = tiles;
  made.memories[1].row = made.memories[1].alignment = sums;
  for (AcceleratorInstruction& each : made.instructions) each.meaning.parameters.back().maximum = 8;
  return made;
}

TEST(Accelerator, ComputesRandomLayersByRows) {
  register_accelerator(by_rows("rows", 8, 32));
  const Target rows = parse_target("rv64gc+accel:rows");
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Kernel kernel = parse_kernel(random_layer(seed));
    const Schedule schedule = default_schedule(kernel, rows, 1);
    const std::string loops = str(schedule.finish());
    EXPECT_NE(loops.find("command MULTIPLY"), std::string::npos)
        << loops << str(default_report(Schedule(kernel, rows), 1));
    EXPECT_EQ(difference(kernel, schedule, seed), "") << loops;
  }
}

TEST(Accelerator, CommandsAreWholeRows) {
  Accelerator made = by_rows("rows", 8, 32);
  register_accelerator(made);
  const std::vector<std::string> within = {"strip macc_k 4 as k_o k",
                                           "load_tile A tiles 1 :", "load_tile B tiles 1 :", "place T sums 1",
                                           "order macc_k_o macc_i macc_j macc_k"};
  Schedule schedule = product(within, 8, parse_target("rv64gc+accel:rows"));
  EXPECT_EQ(schedule.apply("command MULTIPLY macc_i macc_j macc_k"), std::nullopt);
  for (const char* line : {"command LOAD_U8 load_A_d0 load_A_d1", "command LOAD_I8 load_B_d0 load_B_d1",
                           "command CLEAR init_i init_j", "command STORE_I32 tail_i tail_j"})
    EXPECT_EQ(schedule.apply(line), std::nullopt) << line;
  EXPECT_EQ(
      error_of([&] { schedule.finish(); }),
      "schedule of kernel 'product': command MULTIPLY of statement macc: operand a does not begin at a row of "
      "its memory");
  made.instructions.back().fixed_steps = {{1, "k", 16}};
  register_accelerator(made);
  Schedule fixed = product({"load_tile A tiles 1 :", "load_tile B tiles 1 :", "place T sums 1"}, 8,
                           parse_target("rv64gc+accel:rows"));
  EXPECT_EQ(fixed.apply("command MULTIPLY macc_i macc_j macc_k"),
            "command MULTIPLY macc_i macc_j macc_k: operand b of MULTIPLY cannot move 8 elements along k");
}

TEST(Accelerator, RowsAndStepsAreChecked) {
  EXPECT_EQ(error_of([] { check(by_rows("rows", 8, 32)); }), "no error");
  EXPECT_EQ(
      error_of([] { check(by_rows("rows", 4, 32)); }),
      "accelerator 'rows', instruction 'LOAD_U8': operand 'b' has up to 8 bytes along j, more than a row of "
      "memory 'tiles'");
  const auto wrong = [](const std::function<void(Accelerator&)>& change) {
    Accelerator made = by_rows("rows", 8, 32);
    change(made);
    return error_of([&] { check(made); });
  };
  EXPECT_EQ(
      wrong([](Accelerator& a) { a.memories[0].row = 3; }),
      "accelerator 'rows': memory 'tiles' has rows of 3 bytes, which do not divide its alignment and its size");
  EXPECT_EQ(wrong([](Accelerator& a) { a.wait = "fence"; }),
            "accelerator 'rows': it says `wait`, the core's instruction that waits for all, exactly where "
            "instructions have encodings");
  const auto encoded = [&](const std::string& assembly, int bit, const std::string& wait = "fence") {
    return wrong([&](Accelerator& a) {
      a.wait = wait;
      for (AcceleratorInstruction& each : a.instructions)
        each.encoding = {{assembly, {{{bit, loop_constant(1)}}}}};
    });
  };
  const std::string begin = "accelerator 'rows', instruction 'LOAD_U8': the word ";
  EXPECT_EQ(encoded(".insn r 0x7b, 3, 2, x0, %0, %0", 63), "no error");
  EXPECT_EQ(encoded("nop\n", 0), begin + "\"nop\\n\" has a character that no instruction has");
  EXPECT_EQ(encoded("mv x1, %1", 0),
            begin + "\"mv x1, %1\" has a register that has no value; there are 1, counted from %0");
  EXPECT_EQ(encoded("mv x1, %0", 64),
            begin + "\"mv x1, %0\" has a value from bit 64 on; registers have bits 0 to 63");
  EXPECT_EQ(
      encoded("nop", 0, "fence %0"),
      "accelerator 'rows': its `wait` \"fence %0\" has a character that no instruction without registers has");
  EXPECT_EQ(
      wrong([](Accelerator& a) { a.instructions[1].encoding = {{"nop", {}}}; }),
      "accelerator 'rows': instruction 'LOAD_I8' and instruction 'LOAD_U8' do not both have an encoding");
}

// Every check of a description.
TEST(Accelerator, IsChecked) {
  const auto wrong = [](const std::function<void(Accelerator&)>& change) {
    Accelerator made = test_accelerator();
    change(made);
    return error_of([&] { check(made); });
  };
  EXPECT_EQ(wrong([](Accelerator&) {}), "no error");
  EXPECT_EQ(wrong([](Accelerator& a) { a.name = "a b"; }),
            "accelerator 'a b': its name is no identifier of C of at most 60 letters");
  EXPECT_EQ(wrong([](Accelerator& a) { a.memories.clear(); }),
            "accelerator 'array': it has 0 memories, not 1 to 16");
  EXPECT_EQ(wrong([](Accelerator& a) { a.block = 0; }),
            "accelerator 'array': its block of channels is not 1 to 256");
  EXPECT_EQ(wrong([](Accelerator& a) { a.issue_cycles = -1; }),
            "accelerator 'array': a command is written in -1 cycles, not 0 to 1000000");
  EXPECT_EQ(wrong([](Accelerator& a) { a.queue = 0; }),
            "accelerator 'array': its queue holds 0 commands, not 1 to 1024");
  EXPECT_EQ(wrong([](Accelerator& a) { a.memories[1].name = "tiles"; }),
            "accelerator 'array': memory 'tiles' has a name that is taken or no identifier of C");
  const auto instruction = [&](const std::function<void(AcceleratorInstruction&)>& change) {
    return wrong([&](Accelerator& a) { change(a.instructions[0]); });
  };
  const std::string begin = "accelerator 'array', instruction 'LOAD_U8': ";
  EXPECT_EQ(instruction([](auto& i) { i.name = "1"; }),
            "accelerator 'array', instruction '1': its name is no identifier of C");
  EXPECT_EQ(instruction([](auto& i) { i.unit = ""; }), begin + "its unit \"\" is no identifier of C");
  EXPECT_EQ(instruction([](auto& i) { i.cycles = nullptr; }), begin + "it has no cycles");
  EXPECT_EQ(instruction([](auto& i) { i.memories.clear(); }), begin + "an operand has no memory");
  EXPECT_EQ(instruction([](auto& i) { i.meaning.statements.push_back(i.meaning.statements[0]); }),
            begin + "its meaning is not one statement");
  EXPECT_EQ(instruction([](auto& i) { i.meaning.statements[0].constraints.push_back(Affine(1)); }),
            begin + "its meaning has conditions");
  EXPECT_EQ(instruction([](auto& i) { i.meaning.parameters.pop_back(); }),
            begin + "its meaning is no kernel: kernel 'LOAD_U8': size `nj` uses 'nj', which is not known");
  EXPECT_EQ(instruction([](auto& i) { i.meaning.parameters[1].minimum = 0; }),
            begin + "iterator 'j' has no limit from 1 to 2147483648");
  EXPECT_EQ(instruction([](auto& i) { i.meaning.statements[0].iterators[1].extent = Affine(1); }),
            begin + "iterator 'j' has no extent of its own");
}

}  // namespace
}  // namespace tc::testing
