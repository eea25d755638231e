// Target names: rows, features, error texts, and the machine that the tests run on.
#include "ir/target/target.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ir/error.h"
#include "ir/target/narrow_product.h"
#include "ir/target/riscv_cores.h"
#include "ir/target/tables.h"
#include "ir/target/weight_pairs.h"

namespace tc {
namespace {

std::string error_of(const std::string& name) {
  try {
    parse_target(name);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Target);
    return error.what();
  }
  return "no error";
}

TEST(Target, RowsSayWhatCodegenNeeds) {
  Target v4 = parse_target("x86-64-v4");
  EXPECT_EQ(v4.arch, Arch::X86_64);
  EXPECT_EQ(v4.vector_bits, 512);
  EXPECT_EQ(v4.vector_registers, 32);
  EXPECT_EQ(v4.block, 16);
  EXPECT_EQ(v4.tiles.at(0), (std::pair{2, 14}));
  EXPECT_EQ(v4.lanes(DType::F32), 16);
  EXPECT_EQ(v4.lanes(DType::F64), 8);
  Target v3 = parse_target("x86-64-v3");
  EXPECT_EQ(v3.block, 8);
  EXPECT_FALSE(v3.masked_memory);
  Target rvv = parse_target("rv64gcv");
  EXPECT_EQ(rvv.triple, "riscv64-unknown-linux-gnu");
  EXPECT_EQ(rvv.features, "+m,+a,+f,+d,+c,+v,+zvl128b");
  EXPECT_EQ(rvv.abi, "lp64d");
  EXPECT_TRUE(rvv.scalable);
  EXPECT_EQ(rvv.tiles.at(0), (std::pair{1, 7}));
  EXPECT_EQ(parse_target("rv64gcv_zvl256b").tiles.at(0), (std::pair{1, 14}));
  EXPECT_EQ(parse_target("rv64gcv_zvl512b").tiles.at(0), (std::pair{1, 14}));
  EXPECT_EQ(parse_target("rv64gcv_zvl512b").width_for(16, 32), 16);
  // Three registers, where two blocks would lack a quarter of their lanes; not where a block is one register.
  EXPECT_EQ(parse_target("rv64gcv_zvl512b").width_for(48, 32), 16);
  EXPECT_EQ(parse_target("rv64gcv_zvl512b").width_for(24, 32), 32);
  EXPECT_EQ(parse_target("rv64gcv_zvl512b").width_for(80, 32), 32);
  EXPECT_EQ(parse_target("rv64gcv_zvl1024b").width_for(48, 32), 32);
  // Halves of blocks where they have a tenth fewer lanes, unless versions for longer vectors have the same
  // blocks.
  for (const char* name : {"rv64gcv", "rv64gcv_zvl256b"}) {
    const Target target = parse_target(name);
    EXPECT_EQ(target.width_for(8, 16), 8);
    EXPECT_EQ(target.width_for(24, 16), 8);
    EXPECT_EQ(target.width_for(72, 16), 8);
    EXPECT_EQ(target.width_for(88, 16), 16);
    EXPECT_EQ(target.width_for(32, 16), 16);
    EXPECT_EQ(parse_target(std::string(name) + "+lengths").width_for(24, 16), 16);
  }
  EXPECT_EQ(parse_target("rv64gcv+zvl1024b").name, "rv64gcv_zvl1024b");
  EXPECT_EQ(parse_target("rv64gcv_zvl1024b").tiles.at(0), (std::pair{1, 28}));
  EXPECT_EQ(parse_target("rv64gc").lanes(DType::F32), 1);
}

// Addresses of 32 bits, with the tiles of the same vectors on 64 bits.
TEST(Target, SmallSystemsHaveShortAddresses) {
  const Target scalar = parse_target("rv32imfc"), vectors = parse_target("rv32imfc_zve32f");
  for (const Target& target : {scalar, vectors}) {
    EXPECT_EQ(target.arch, Arch::RiscV32);
    EXPECT_TRUE(target.is_riscv());
    EXPECT_EQ(target.triple, "riscv32-unknown-elf");
    EXPECT_EQ(target.abi, "ilp32f");
  }
  EXPECT_EQ(scalar.features, "+m,+f,+c");
  EXPECT_EQ(scalar.lanes(DType::F32), 1);
  EXPECT_EQ(vectors.features, "+m,+f,+c,+zve32f,+zvl128b");
  EXPECT_EQ(vectors.tiles, parse_target("rv64gcv").tiles);
  EXPECT_EQ(parse_target("rv32imfc+zbb").features, "+m,+f,+c,+zbb");
  EXPECT_EQ(parse_target("rv32imfc+zve32f").name, "rv32imfc_zve32f");
  // There are no rows for longer vectors.
  EXPECT_EQ(error_of("rv32imfc_zve32f+zvl256b"),
            "unknown feature 'zvl256b' of target 'rv32imfc_zve32f'; did you mean 'zve32f', 'zbb' or 'zvfh'?");
  EXPECT_TRUE(parse_target("rv64gc").is_riscv());
  EXPECT_FALSE(parse_target("aarch64").is_riscv());
}

TEST(Target, MicrocontrollersOfArm) {
  for (const char* name : {"cortex-m0plus", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55"}) {
    const Target target = parse_target(name);
    EXPECT_EQ(target.arch, Arch::ArmM) << name;
    EXPECT_EQ(target.cpu, name);
    EXPECT_EQ(target.word_bits, 32) << name;
    EXPECT_FALSE(target.has_runtime) << name;
    const bool least = target.name == "cortex-m0plus";
    EXPECT_EQ(target.float_unit, !least) << name;
    EXPECT_EQ(target.triple.find("hf") != std::string::npos, !least) << name;
    const bool vectors = target.name == "cortex-m55";
    EXPECT_EQ(target.vector_bits, vectors ? 128 : 0) << name;
    EXPECT_EQ(adds_products_in_scalars(target), !least && !vectors) << name;
    EXPECT_EQ(byte_products(target), least || vectors ? 0 : 4) << name;
    const MatrixUnit::Format* bytes = target.matrix.format(DType::U8);
    EXPECT_EQ(bytes != nullptr, vectors) << name;
    if (vectors) {
      EXPECT_STREQ(bytes->instruction->name, "vmladava.s8");
      EXPECT_TRUE(bytes->instruction->centred);
    }
    EXPECT_FALSE(adds_products_in_scalars(for_least_code(target))) << name;
    EXPECT_FALSE(runs_here(target, nullptr)) << name;
  }
  EXPECT_EQ(byte_products(parse_target("cortex-m33,-dsp")), 0);
  EXPECT_EQ(parse_target("cortex-m33+mve").matrix.registers, 0);
  EXPECT_FALSE(parse_target("cortex-m4").rounding_instructions);
  EXPECT_TRUE(parse_target("cortex-m7").rounding_instructions);
  EXPECT_EQ(error_of("cortex-m4,-fp64"), "no error");
  EXPECT_EQ(error_of("cortex-m3"),
            "unknown target 'cortex-m3': it is given by its core: 'cortex-m0plus', 'cortex-m4', 'cortex-m7', "
            "'cortex-m33' or 'cortex-m55'. The command `python -m tc targets` lists all");
  EXPECT_EQ(error_of("cortex-m4+neon"),
            "unknown feature 'neon' of target 'cortex-m4'; did you mean 'dsp', 'fp64' or 'mve'?");
}

// Accumulators, one block of weights per vector and one spare register fit the register file, with the
// narrowest blocks of those that the menu is for.
TEST(Target, TilesFitTheRegisters) {
  for (const auto& [name, description] : known_targets()) {
    Target target = parse_target(name);
    int lanes = target.lanes(DType::F32);
    const int shortest =
        target.small_block > 0 ? target.small_block : target.block / (target.half_blocks ? 2 : 1);
    int group = std::max(1, shortest / lanes);
    if (target.vector_bits == 0) group = 1;
    std::set<std::pair<int, int>> seen;
    for (auto [vectors, columns] : target.tiles) {
      EXPECT_TRUE(seen.insert({vectors, columns}).second) << name;
      EXPECT_LE(vectors * columns * group + vectors * group, target.vector_registers)
          << name << " tile " << vectors << "x" << columns;
    }
    EXPECT_TRUE(seen.count({1, 1})) << name;
    EXPECT_FALSE(description.empty());
  }
}

TEST(Target, FeaturesFollowTheName) {
  Target target = parse_target("x86-64-v4+avx512vnni,+avx512bf16,-avxvnni");
  EXPECT_EQ(target.name, "x86-64-v4+avx512bf16,+avx512vnni,-avxvnni");
  EXPECT_EQ(target.features, "+avx512bf16,+avx512vnni,-avxvnni");
  EXPECT_EQ(parse_target(target.name).name, target.name);
  EXPECT_EQ(parse_target("x86-64-v4+fma").name, "x86-64-v4");
  EXPECT_EQ(parse_target("rv64gcv+zvl256b").name, "rv64gcv_zvl256b");
  EXPECT_EQ(parse_target("rv64gc+v").name, "rv64gcv");
  EXPECT_EQ(parse_target("rv64gcv+zfh").name, "rv64gcv+zfh");
}

TEST(Target, ByteInstructionsFollowTheFeatures) {
  const std::map<std::string, int> lanes = {
      {"znver4", 16},           {"znver5", 16},   {"sapphirerapids", 16}, {"x86-64-v4+avx512vnni", 16},
      {"x86-64-v3+avxvnni", 8}, {"x86-64-v3", 0}, {"x86-64-v4", 0},       {"znver4,-avx512vnni", 0},
      {"rv64gcv", 0},           {"aarch64", 0}};
  for (const auto& [name, widest] : lanes) {
    const Target target = parse_target(name);
    EXPECT_EQ(has_byte_instruction(target, 8, DType::U8, DType::I8), widest >= 8) << name;
    EXPECT_EQ(has_byte_instruction(target, 16, DType::U8, DType::I8), widest >= 16) << name;
    EXPECT_FALSE(has_byte_instruction(target, 8, DType::I8, DType::I8)) << name;
  }
}

TEST(Target, LengthsAreVersionsForLongerVectors) {
  const Target target = parse_target("rv64gcv+lengths");
  EXPECT_EQ(target.name, "rv64gcv+lengths");
  EXPECT_EQ(target.features, parse_target("rv64gcv").features);
  EXPECT_EQ(target.wider_targets, (std::vector<std::string>{"rv64gcv_zvl256b", "rv64gcv_zvl512b"}));
  const Target more = parse_target("rv64gcv_zvl256b+zfh,+lengths");
  EXPECT_EQ(more.wider_targets, std::vector<std::string>{"rv64gcv_zvl512b+zfh"});
  EXPECT_EQ(parse_target(more.name).name, more.name);
  EXPECT_EQ(parse_target("rv64gcv+lengths,-lengths").name, "rv64gcv");
  EXPECT_TRUE(parse_target("rv64gcv").wider_targets.empty());
  for (const char* name :
       {"rv64gcv_zvl512b+lengths", "rv64gcv_zvl1024b+lengths", "x86-64-v3+lengths", "rv64gc+lengths"}) {
    try {
      parse_target(name);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(
          std::string(error.what()),
          "target '" + std::string(name).substr(0, std::string(name).find('+')) +
              "' has no versions for longer vectors; '+lengths' is for 'rv64gcv' and 'rv64gcv_zvl256b'");
    }
  }
}

TEST(Target, MatrixUnitFollowsTheFeatures) {
  const std::map<std::string, std::vector<DType>> formats = {
      {"sapphirerapids", {DType::BF16, DType::I8}},
      {"x86-64-v4+amx-tile,+amx-bf16", {DType::BF16}},
      {"sapphirerapids,-amx-int8", {DType::BF16}},
      {"x86-64-v4,-amx-bf16,+amx-bf16,+amx-tile", {DType::BF16}},
      {"sapphirerapids,-amx-bf16", {DType::I8}},
      {"x86-64-v4+amx-int8,+amx-tile", {DType::I8}}};
  for (const auto& [name, operands] : formats) {
    const MatrixUnit unit = parse_target(name).matrix;
    EXPECT_EQ(unit.registers, 8) << name;
    EXPECT_EQ(unit.rows * unit.columns, 256) << name;
    ASSERT_EQ(unit.formats.size(), operands.size()) << name;
    for (size_t i = 0; i < operands.size(); ++i) {
      const MatrixUnit::Format& format = unit.formats[i];
      EXPECT_EQ(format.operand, operands[i]) << name;
      EXPECT_EQ(format.groups * format.pack * size_of(format.operand), 64) << name;
      EXPECT_GT(format.cycles, 0) << name;
      EXPECT_EQ(unit.format(operands[i]), &format) << name;
    }
    EXPECT_EQ(unit.format(DType::F32), nullptr) << name;
  }
  for (const char* name : {"x86-64-v4", "x86-64-v3", "x86-64-v3+avx512vnni", "x86-64-v4+avxvnni",
                           "x86-64-v4+amx-tile", "x86-64-v4+amx-bf16", "sapphirerapids,-amx-bf16,-amx-int8",
                           "x86-64-v3+avx512bf16", "rv64gcv", "aarch64"}) {
    EXPECT_EQ(parse_target(name).matrix.registers, 0) << name;
  }
  EXPECT_EQ(parse_target("sapphirerapids,-amx-tile").features, "-amx-tile");
  EXPECT_EQ(parse_target("sapphirerapids,-amx-tile,+amx-tile").name, "sapphirerapids");
  const Target native = parse_target("native");
  const auto has = [&](const char* feature) {
    return native.name.find(std::string("+") + feature) != std::string::npos;
  };
  EXPECT_EQ(native.matrix.registers > 0, has("amx-tile") || has("avx512vnni") || has("avx512bf16"))
      << native.name;
  EXPECT_EQ(native.matrix.vectors, (has("avx512vnni") || has("avx512bf16")) && !has("amx-tile"))
      << native.name;
  // What is switched off is not asked of a machine.
  std::string why;
  if (!runs_here(parse_target("x86-64-v4+amx-bf16"), nullptr)) {
    runs_here(parse_target("sapphirerapids,-amx-bf16,-amx-int8,-amx-tile"), &why);
    EXPECT_EQ(why.find("amx", why.find("needs")), std::string::npos) << why;
  }
}

TEST(Target, VectorsAreAUnitOfOneRow) {
  const std::vector<DType> whole = {DType::I8, DType::I16, DType::I16, DType::I16};  // of three depths
  const std::vector<DType> all = {DType::BF16, DType::I8, DType::I16, DType::I16, DType::I16};
  for (const auto& [name, operands] :
       std::map<std::string, std::vector<DType>>{{"znver5", all},
                                                 {"x86-64-v4+avx512vnni", whole},
                                                 {"sapphirerapids,-amx-tile", all},
                                                 {"znver5,-avx512vnni", {DType::BF16}},
                                                 {"sapphirerapids,-amx-tile,-avx512vnni", {DType::BF16}}}) {
    const MatrixUnit unit = parse_target(name).matrix;
    EXPECT_TRUE(unit.vectors) << name;
    EXPECT_EQ(unit.rows, 1) << name;
    EXPECT_EQ(unit.registers, parse_target(name).vector_registers) << name;
    ASSERT_EQ(unit.formats.size(), operands.size()) << name;
    for (size_t i = 0; i < operands.size(); ++i) {
      const MatrixUnit::Format& format = unit.formats[i];
      EXPECT_EQ(format.operand, operands[i]) << name;
      EXPECT_EQ(unit.columns * format.pack * size_of(format.operand) * 8, parse_target(name).vector_bits)
          << name;
      EXPECT_EQ(unit.columns * size_of(format.accumulator) * 8, parse_target(name).vector_bits) << name;
      EXPECT_EQ(format.groups * format.pack % parse_target(name).block, 0)
          << name;  // so that blocks of channels fill a depth
    }
  }
  for (const char* name : {"sapphirerapids", "sapphirerapids,-amx-int8", "znver5+amx-tile,+amx-int8"}) {
    EXPECT_FALSE(parse_target(name).matrix.vectors) << name;
  }
}

TEST(Target, UnitsOfArmFollowTheFeatures) {
  const std::map<std::string, std::vector<std::string>> instructions = {
      {"aarch64", {}},
      {"aarch64+dotprod", {"sdot"}},
      {"aarch64+bf16", {"bfdot"}},
      {"aarch64+bf16,+dotprod", {"bfdot", "sdot"}},
      {"aarch64+i8mm", {"smmla"}},
      {"aarch64+dotprod,+i8mm", {"smmla"}},
      {"aarch64+bf16,+i8mm", {"bfmmla", "smmla"}}};
  for (const auto& [name, wanted] : instructions) {
    const Target target = parse_target(name);
    std::vector<std::string> found;
    for (const MatrixUnit::Format& format : target.matrix.formats) found.push_back(format.instruction->name);
    EXPECT_EQ(found, wanted) << name;
    if (wanted.empty()) continue;
    EXPECT_TRUE(target.matrix.vectors) << name;
    EXPECT_EQ(target.matrix.columns, target.lanes(DType::F32)) << name;
    EXPECT_EQ(target.matrix.rows, target.matrix.parts) << name;
  }
}

// What every row has to say for the code that reads it.
TEST(Target, InstructionsFillTheRegisters) {
  for (const Arch arch : {Arch::X86_64, Arch::RiscV64, Arch::RiscV32, Arch::AArch64, Arch::ArmM}) {
    for (const targets::ProductGroup& unit : targets::narrow_products(arch)) {
      for (const NarrowProduct& row : unit.instructions) {
        EXPECT_EQ(row.rows, unit.rows) << row.name;
        EXPECT_EQ(row.depth % row.pack, 0) << row.name;
        const bool lanes = unit.route == ProductRoute::Lanes;
        EXPECT_EQ(targets::needs_tile_unit(arch, row.feature), unit.route == ProductRoute::Tiles) << row.name;
        EXPECT_EQ(size_of(row.a), size_of(row.b)) << row.name;
        EXPECT_EQ(row.depth_multiples[0] > 0, !lanes) << row.name;
        if (lanes) {  // the operands of a lane are no wider than its sum, and the sums fill a vector
          EXPECT_LE(row.depth * size_of(row.a), 4) << row.name;
          EXPECT_TRUE(row.columns == 0 || row.columns == unit.columns) << row.name;
          continue;
        }
        // A tile's row has 64 bytes; a vector is as long as the processors with the feature have them.
        const std::string feature = unit.feature;
        const int64_t bytes =
            unit.route == ProductRoute::Vectors && (arch == Arch::AArch64 || arch == Arch::ArmM) ? 16
            : feature == "avxvnni" || feature == "zvl256b"                                       ? 32
                                                                                                 : 64;
        EXPECT_EQ(unit.columns % row.columns, 0) << row.name;
        EXPECT_EQ(row.columns * row.pack * size_of(row.b), bytes) << row.name;
      }
    }
  }
}

// Two weights in a word are multiplied at a time where no instruction adds up products of bytes.
TEST(Target, ScalarCoresOf32BitsPairWeights) {
  for (const char* name : {"rv32imfc", "rv32imfc+zba,+zbb"}) {
    const Target target = parse_target(name);
    EXPECT_TRUE(pairs_weights(target)) << name;
    EXPECT_EQ(byte_products(target), 0) << name;
    EXPECT_FALSE(pairs_weights(for_least_constants(target))) << name;
    EXPECT_FALSE(pairs_weights(for_least_code(target))) << name;
  }
  for (const char* name : {"rv32imfc_zve32f", "rv64gc", "rv64gcv", "cortex-m4", "cortex-m0plus", "x86-64-v4"})
    EXPECT_FALSE(pairs_weights(parse_target(name))) << name;
}

// Signed numbers are what kernels multiply: where an instruction takes b as unsigned, its row says so.
TEST(Target, RowsSayWhichOperandIsUnsigned) {
  EXPECT_EQ(parse_target("x86-64-v4+avx512vnni").matrix.format(DType::I8)->instruction->b, DType::U8);
  EXPECT_EQ(parse_target("sapphirerapids").matrix.format(DType::I8)->instruction->b, DType::I8);
  EXPECT_EQ(parse_target("aarch64+dotprod").matrix.format(DType::I8)->instruction->b, DType::I8);
}

TEST(Target, InstructionsAreChosenWhereAFeatureAsksForThem) {
  EXPECT_EQ(parse_target("znver4").tuning, "+fast-dpwssd");
  EXPECT_EQ(parse_target("x86-64-v4+avx512vnni").tuning, "+fast-dpwssd");
  for (const char* name : {"x86-64-v3", "x86-64-v4", "rv64gcv", "aarch64", "aarch64+dotprod"}) {
    EXPECT_EQ(parse_target(name).tuning, "") << name;
  }
}

TEST(Target, FeaturesOfArmFollowTheAuxiliaryVector) {
  using Names = std::vector<std::string>;
  // A Cortex-A53 and a Cortex-A76, as their Linux shows them.
  EXPECT_EQ(targets::arm_features(0xff, 0), (Names{"neon"}));
  EXPECT_EQ(targets::arm_features(0x100fff, 0), (Names{"dotprod", "fullfp16", "neon"}));
  const Names all = targets::arm_features(~uint64_t{0}, ~uint64_t{0});
  EXPECT_EQ(all, targets::aarch64_features());
  EXPECT_EQ(targets::arm_features(0, 0), Names{});
  EXPECT_EQ(targets::arm_features(uint64_t{1} << 20, uint64_t{1} << 20),
            (Names{"dotprod"}));  // of the first word only
}

TEST(Target, ErrorsNameTheNearest) {
  EXPECT_EQ(error_of("x86-64-v5"),
            "unknown target 'x86-64-v5'; did you mean 'x86-64-v3', 'x86-64-v4' or 'rv64gc'? The "
            "command `python -m tc targets` lists all");
  EXPECT_EQ(error_of("rv64gvc"),
            "unknown target 'rv64gvc'; did you mean 'rv64gc', 'rv64gcv' or 'rv32imfc'? The command "
            "`python -m tc targets` lists all");
  EXPECT_EQ(error_of("x86-64-v4+avx512vni"),
            "unknown feature 'avx512vni' of target 'x86-64-v4'; did you mean 'avx512vnni', "
            "'avx512vl' or 'avx512vbmi'?");
  EXPECT_EQ(error_of("x86-64-v4,-avx512f"),
            "target 'x86-64-v4' cannot do without 'avx512f'; choose a smaller target instead");
  EXPECT_EQ(error_of("x86-64-v4,avx512vnni"),
            "target 'x86-64-v4,avx512vnni': features follow the name as `+feature,-feature`, as in "
            "'x86-64-v4+avx512vnni'");
  EXPECT_EQ(error_of(std::string(300, 'x')), "a target's name has at most 200 letters");
  EXPECT_NE(error_of(""), "no error");
}

TEST(Target, NativeRunsHere) {
  Target native = parse_target("native");
  std::string why;
  EXPECT_TRUE(runs_here(native, &why)) << why;
  EXPECT_NE(native.name, "native");
  EXPECT_GE(native.cores, 1);
  EXPECT_GE(native.clock_ghz, 0.1);
  EXPECT_LE(native.clock_ghz, 10);
  EXPECT_GE(native.l3_bytes, 1 << 20);
  EXPECT_LE(native.l3_bytes,
            parse_target(native.name).l3_bytes);  // what a host of many has is not one program's
  EXPECT_EQ(parse_target(native.name).features, native.features);
  Target foreign = parse_target(native.arch == Arch::RiscV64 ? "aarch64" : "rv64gcv");
  EXPECT_FALSE(runs_here(foreign, &why));
  EXPECT_EQ(why, "code for " + foreign.triple + " does not run on this machine");
}

// Costs of a core are those of vectors as long as the instruction set has them.
TEST(Target, CoresFollowTheInstructionSet) {
  const Target level3 = parse_target("x86-64-v3@znver4"), level4 = parse_target("x86-64-v4@znver4");
  EXPECT_EQ(level3.name, "x86-64-v3@znver4");
  EXPECT_EQ(level3.features, parse_target("x86-64-v3").features);
  EXPECT_EQ(level3.cpu, "x86-64-v3");
  EXPECT_EQ(level3.scheduled_for, "znver4");
  EXPECT_EQ(level3.multiply_adds, 2);
  EXPECT_FALSE(level3.half_blocks);
  EXPECT_EQ(level4.multiply_adds, 1);
  EXPECT_EQ(level4.stores, 0.5);
  EXPECT_TRUE(level4.half_blocks);
  EXPECT_EQ(parse_target("x86-64-v4+avx512vnni@znver4").name, "x86-64-v4+avx512vnni@znver4");
  EXPECT_EQ(parse_target("rv64gcv@sifive-x280").multiply_adds, 1);
  EXPECT_EQ(parse_target("rv64gcv@sifive-x280").vector_bits, 128);
  EXPECT_EQ(parse_target("rv64gcv+lengths@sifive-x280").wider_targets,
            (std::vector<std::string>{"rv64gcv_zvl256b@sifive-x280", "rv64gcv_zvl512b@sifive-x280"}));
  EXPECT_EQ(parse_target("native@sapphirerapids").core, "sapphirerapids");
  // A target's own core is no part of its name.
  for (const char* name : {"znver4", "x86-64-v3", "cortex-a53", "sifive-p670", "aarch64"}) {
    EXPECT_EQ(parse_target(std::string(name) + "@" + name).name, name);
    EXPECT_EQ(parse_target(name).scheduled_for, parse_target(std::string(name) + "@" + name).scheduled_for);
  }
  for (const char* name : {"x86-64-v3@znver4", "aarch64+dotprod@cortex-a55", "rv64gcv@generic"}) {
    const Target target = parse_target(name);
    EXPECT_EQ(parse_target(target.name).name, name);
  }
  EXPECT_EQ(error_of("x86-64-v3@znver6"),
            "target 'x86-64-v3@znver6': there is no core 'znver6' of x86_64-unknown-linux-gnu; did you mean "
            "'znver4', 'znver5' or 'x86-64-v3'? docs/targets.md lists all");
  EXPECT_NE(error_of("aarch64@znver4"), "no error");
  EXPECT_NE(error_of("aarch64@"), "no error");
}

TEST(Target, ArmCoresExecuteAsTheirRowsSay) {
  for (const char* name : {"cortex-a53", "cortex-a55"}) {
    const Target target = parse_target(name);
    EXPECT_FALSE(target.out_of_order()) << name;
    EXPECT_EQ(target.scheduled_for, name);
    EXPECT_EQ(target.rescheduled_for, name);
    EXPECT_TRUE(target.prefetch_instruction && !target.prefetch_by_loads) << name;
  }
  EXPECT_EQ(parse_target("cortex-a53").multiply_adds, 0.5);
  EXPECT_EQ(parse_target("cortex-a55").multiply_adds, 1);
  EXPECT_EQ(parse_target("cortex-a55").features, "+neon,+dotprod,+fullfp16");
  EXPECT_STREQ(parse_target("cortex-a55").matrix.format(DType::I8)->instruction->name, "sdot");
  for (const char* name : {"neoverse-n1", "aarch64"}) EXPECT_TRUE(parse_target(name).out_of_order()) << name;
  EXPECT_EQ(parse_target("aarch64").scheduled_for, "");
}

TEST(Target, CoresFollowWhatLinuxSays) {
  const std::string pi = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd03\nCPU revision\t: 4\n";
  EXPECT_EQ(targets::core_of_cpuinfo(Arch::AArch64, pi), "cortex-a53");
  EXPECT_EQ(targets::core_of_cpuinfo(Arch::RiscV64, pi), "");
  const std::string other = "CPU implementer\t: 0x51\nCPU part\t: 0xd03\n";  // another maker's part numbers
  EXPECT_EQ(targets::core_of_cpuinfo(Arch::AArch64, other), "");
  const std::string board = "hart\t\t: 0\nisa\t\t: rv64imafdcv\nuarch\t\t: spacemit,x60\n";
  EXPECT_EQ(targets::core_of_cpuinfo(Arch::RiscV64, board), "spacemit-x60");
  EXPECT_EQ(targets::core_of_cpuinfo(Arch::AArch64, ""), "");
  for (const Arch arch : {Arch::X86_64, Arch::RiscV64, Arch::AArch64, Arch::ArmM}) {
    for (const CoreRow* row : targets::cores_of(arch)) EXPECT_EQ(targets::core_of(arch, row->name), row);
  }
}

TEST(Target, RiscvCoresAreTheirRows) {
  for (const CoreRow& core : kRiscvCores) {
    if (std::string(core.name) == "generic") continue;
    const Target target = parse_target(core.name);
    EXPECT_EQ(target.name, core.name);
    EXPECT_EQ(target.vector_bits, core.vector_bits) << core.name;
    EXPECT_EQ(target.l1_bytes, core.first_level_kib * 1024) << core.name;
    EXPECT_EQ(target.latency, core.latency.vector) << core.name;
    EXPECT_EQ(target.out_of_order(), core.window > 0) << core.name;
    EXPECT_DOUBLE_EQ(target.multiply_adds * core.vector_bits, core.datapath_bits * core.vector_units)
        << core.name;
    EXPECT_EQ(riscv_core(core.name), &core);
  }
  EXPECT_TRUE(parse_target("sifive-p670").out_of_order());
  EXPECT_EQ(parse_target("sifive-x280").multiply_adds, 0.5);
  EXPECT_EQ(riscv_core("sifive-x281"), nullptr);
}

}  // namespace
}  // namespace tc
