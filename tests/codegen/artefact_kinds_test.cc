// What artefacts of a plan export and hold, whatever their kind.
#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "codegen/llvm/artefact/link.h"
#include "codegen/llvm/artefact/model_objects.h"
#include "codegen/llvm/artefact/rename_symbols.h"
#include "ir/error.h"
#include "runtime/abi.h"
#include "tests/codegen_harness.h"
#include "tests/small_plan.h"

namespace tc::testing {
namespace {

// Names of the dynamic symbols that a shared object defines.
std::vector<std::string> exported(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  std::memcpy(sections.data(), bytes.data() + header.e_shoff, sections.size() * sizeof(Elf64_Shdr));
  std::vector<std::string> names;
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_DYNSYM) continue;
    for (size_t i = 1; i < section.sh_size / sizeof(Elf64_Sym); ++i) {
      Elf64_Sym symbol;
      std::memcpy(&symbol, bytes.data() + section.sh_offset + i * sizeof symbol, sizeof symbol);
      names.push_back(bytes.data() + sections[section.sh_link].sh_offset + symbol.st_name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(CodegenArtefactKinds, ExportsTheDescriptorAlone) {
  const Loaded model(small_plan(), "tc_model_small");
  EXPECT_EQ(exported(model.path), (std::vector<std::string>{TC_DESCRIPTOR_SYMBOL, "tc_model_small"}));
  EXPECT_EQ(dlsym(model.library, TC_DESCRIPTOR_SYMBOL), model.descriptor);
  EXPECT_EQ(exported(Loaded(small_plan()).path), std::vector<std::string>{TC_DESCRIPTOR_SYMBOL});
}

// A file that is called as the weak name is has the descriptor itself under it.
TEST(CodegenArtefactKinds, ObjectsAreCalledAfterTheFile) {
  const ModelObjects objects = model_objects(small_plan(), host_target(), "unnamed", 1);
  char folder[] = "/tmp/tc-test-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string library = std::string(folder) + "/model.so";
  link_shared(renamed(objects, "unnamed", "first_descriptor", Renamed::Descriptor), host_target(), library);
  EXPECT_EQ(exported(library), (std::vector<std::string>{"first_descriptor", TC_DESCRIPTOR_SYMBOL}));
  link_shared(renamed(objects, "unnamed", TC_DESCRIPTOR_SYMBOL, Renamed::All), host_target(), library);
  EXPECT_EQ(exported(library),
            (std::vector<std::string>{TC_DESCRIPTOR_SYMBOL, std::string(TC_DESCRIPTOR_SYMBOL) + "_alias"}));
  std::filesystem::remove_all(folder);
}

TEST(CodegenArtefactKinds, SameBytesForAnyNumberOfWorkers) {
  const Plan plan = small_plan();
  for (const Target& target : {avx512_target(), riscv_target(256)}) {
    const auto one = model_objects(plan, target, TC_DESCRIPTOR_SYMBOL, 1);
    const auto three = model_objects(plan, target, TC_DESCRIPTOR_SYMBOL, 3);
    EXPECT_EQ(one.code, three.code);
    char folder[] = "/tmp/tc-test-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    const std::string first = std::string(folder) + "/a.so", second = std::string(folder) + "/b.so";
    link_shared(one, target, first);
    link_shared(three, target, second);
    auto read = [](const std::string& path) {
      std::ifstream file(path, std::ios::binary);
      return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    };
    EXPECT_EQ(read(first), read(second));
    EXPECT_FALSE(read(first).empty());
    link_object(one, target, first);
    EXPECT_FALSE(read(first).empty());
    write_archive(one, {{"more.o", one.code[1]}}, target, first);
    write_archive(three, {{"more.o", three.code[1]}}, target, second);
    EXPECT_EQ(read(first), read(second));
    EXPECT_EQ(read(first).substr(0, 8), "!<arch>\n");
    std::filesystem::remove_all(folder);
  }
}

Bytes file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

// The members of an archive in the GNU format, without its index.
std::vector<Bytes> members_of(const Bytes& archive) {
  std::vector<Bytes> members;
  for (size_t at = 8; at + 60 <= archive.size();) {
    const std::string header(archive.begin() + static_cast<std::ptrdiff_t>(at),
                             archive.begin() + static_cast<std::ptrdiff_t>(at + 60));
    const size_t size = std::stoull(header.substr(48, 10));
    EXPECT_LE(at + 60 + size, archive.size()) << header;
    const auto begin = archive.begin() + static_cast<std::ptrdiff_t>(at + 60);
    if (header[0] != '/') members.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(size));
    at += 60 + size + size % 2;
  }
  return members;
}

// The bytes that the linker leaves out of each kind come to their place.
TEST(CodegenArtefactKinds, EveryKindOfArtefactHoldsTheConstants) {
  Plan plan = small_plan();
  plan.constants.emplace_back(std::make_shared<Tensor>(seeded(DType::F32, {600000}, 9)));
  const ModelObjects objects = model_objects(plan, host_target(), TC_DESCRIPTOR_SYMBOL, 2);
  char folder[] = "/tmp/tc-test-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/artefact", library = std::string(folder) + "/model.so";
  const auto expect_constants = [&](const std::string& kind) {
    void* opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(opened, nullptr) << kind << ": " << dlerror();
    const auto* descriptor = static_cast<const tc_descriptor*>(dlsym(opened, TC_DESCRIPTOR_SYMBOL));
    int64_t offset = 0;
    for (const PlanConstant& constant : plan.constants) {
      const TensorPtr made = constant.make();
      EXPECT_EQ(std::memcmp(descriptor->constants + offset, made->bytes.data(), made->bytes.size()), 0)
          << kind;
      offset += (constant.byte_count() + 63) / 64 * 64;
    }
    EXPECT_EQ(descriptor->constant_bytes, offset);
    dlclose(opened);
  };
  link_shared(objects, host_target(), library);
  expect_constants("shared");
  std::filesystem::remove(library);
  link_object(objects, host_target(), path);
  link_shared({{file_bytes(path)}}, host_target(), library);
  expect_constants("object");
  std::filesystem::remove(library);
  write_archive(objects, {}, host_target(), path);
  link_shared({members_of(file_bytes(path))}, host_target(), library);
  expect_constants("static");
  std::filesystem::remove_all(folder);
}

// Large constants begin a huge page in the file and in memory; small ones leave no hole for it.
TEST(CodegenArtefactKinds, LargeConstantsBeginAHugePage) {
  constexpr uintptr_t kHugePage = 2 << 20;
  Plan plan = small_plan();
  const auto size_of_file = [](const Loaded& model) { return std::filesystem::file_size(model.path); };
  EXPECT_LT(size_of_file(Loaded(plan, "tc_model_small")), kHugePage);
  plan.constants.emplace_back(std::make_shared<Tensor>(seeded(DType::F32, {2 << 20}, 9)));
  const Loaded model(plan, "tc_model_large");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(model.descriptor->constants) % kHugePage, 0U);
  EXPECT_LT(size_of_file(model), 5 * kHugePage + kHugePage / 2);  // four are constants
}

}  // namespace
}  // namespace tc::testing
