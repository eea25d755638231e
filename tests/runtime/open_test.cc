// Opening artefacts: what is accepted, and what every bad file is refused with.
#include <elf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "fakes.h"
#include "sealed.h"

namespace tc {
namespace {

std::string data_file(const std::string& name) { return "tests/runtime/" + name; }

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string write_file(const std::string& name, const std::string& bytes) {
  const std::string path = testing::TempDir() + "/" + name;
  std::remove(path.c_str());
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

// Status and text of opening `path`; nothing stays open.
std::pair<tc_status, std::string> open_and_close(const std::string& path) {
  tc_model* model = nullptr;
  const tc_status status = tc_model_open(path.c_str(), &model);
  EXPECT_EQ(model != nullptr, status == TC_OK);
  tc_model_close(model);
  return {status, status == TC_OK ? "" : tc_last_error()};
}

void expect_refused(const std::string& path, tc_status status, const std::string& text) {
  const auto [got, message] = open_and_close(path);
  EXPECT_EQ(got, status) << path;
  EXPECT_EQ(message, path + ": " + text);
}

TEST(Open, TellsWhatTheModelIs) {
  tc_model* model = nullptr;
  ASSERT_EQ(tc_model_open(data_file("fake_model.so").c_str(), &model), TC_OK) << tc_last_error();
  tc_model_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(tc_model_get_info(model, &info), TC_OK);
  EXPECT_STREQ(info.model, "fake");
  EXPECT_STREQ(info.target, "x86-64-v9");
  EXPECT_STREQ(info.provenance, "written by hand");
  EXPECT_EQ(info.constant_bytes, 64);
  EXPECT_EQ(info.symbol_count, 1);
  EXPECT_EQ(info.default_threads, tc_core_count());
  ASSERT_EQ(tc_model_input_count(model), 2);
  ASSERT_EQ(tc_model_output_count(model), 3);
  tc_port_info port = {};
  port.struct_size = sizeof port;
  ASSERT_EQ(tc_model_input_info(model, 1, &port), TC_OK);
  EXPECT_STREQ(port.name, "y");
  EXPECT_STREQ(tc_dtype_name(port.dtype), "f32");
  ASSERT_EQ(port.rank, 2);
  EXPECT_EQ(port.dims[0], -1);
  EXPECT_STREQ(port.symbols[0], "batch");
  EXPECT_EQ(port.dims[1], 3);
  EXPECT_EQ(port.symbols[1], nullptr);
  ASSERT_EQ(tc_model_output_info(model, 2, &port), TC_OK);
  EXPECT_EQ(port.dims[0], -1);
  EXPECT_EQ(port.symbols[0], nullptr);
  const char* name;
  int64_t minimum, maximum;
  ASSERT_EQ(tc_model_symbol_info(model, 0, &name, &minimum, &maximum), TC_OK);
  EXPECT_STREQ(name, "batch");
  EXPECT_EQ(minimum, 1);
  EXPECT_EQ(maximum, 100000);
  EXPECT_STREQ(tc_model_step_name(model, 1), "reverse");
  EXPECT_EQ(tc_model_step_name(model, 3), nullptr);
  EXPECT_EQ(tc_model_input_info(model, 2, &port), TC_ERROR_ARGUMENT);
  EXPECT_STREQ(tc_last_error(), "tc_model_input_info: index 2 is out of range; the model has 2");
  tc_model_close(model);
}

TEST(Open, RunsTheFile) {
  tc_model* model = nullptr;
  ASSERT_EQ(tc_model_open(data_file("fake_model.so").c_str(), &model), TC_OK) << tc_last_error();
  tc_context* context = nullptr;
  ASSERT_EQ(tc_context_create(model, 2, &context), TC_OK);
  tc_model_close(model);  // the context keeps the library
  EXPECT_EQ(run_fake(context, 5, 1), "");
  tc_context_destroy(context);
}

TEST(Open, RefusesOtherVersions) {
  expect_refused(data_file("fake_old.so"), TC_ERROR_MODEL,
                 "the model has interface version 8, this runtime (0.1.0) takes 1 to 7; compile the "
                 "model again, or use the runtime of its compiler");
  expect_refused(data_file("fake_magic.so"), TC_ERROR_MODEL,
                 "not a compiled model (its descriptor starts with 00000001)");
  expect_refused(data_file("fake_short.so"), TC_ERROR_MODEL,
                 "the model's descriptor is damaged (it is too short); compile the model again");
  expect_refused(data_file("fake_unnamed.so"), TC_ERROR_MODEL,
                 "not a compiled model (it has no symbol tc_model_descriptor)");
}

TEST(Open, NamesTheMissingFeature) {
  expect_refused(data_file("fake_features.so"), TC_ERROR_TARGET,
                 "compiled for target 'x86-64-v9', which needs the CPU feature 'avx2000', which "
                 "this version of the runtime does not know. Compile for a target that this machine "
                 "has");
}

#if defined(__x86_64__)
// Ends the process of the test that runs it: 0 where the artefact is refused as it should be.
void open_without_permission(const std::string& path) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {sizeof program / sizeof program[0], program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    _exit(2);
  }
  const auto [status, text] = open_and_close(path);
  const std::string expected =
      path +
      ": compiled for target 'x86-64-v9', which uses AMX, and the system does not "
      "grant its tile registers. Compile for the target with ',-amx-tile' behind its name";
  if (text != expected) fprintf(stderr, "%s\n", text.c_str());
  _exit(status == TC_ERROR_TARGET && text == expected ? 0 : 1);
}

TEST(Open, AsksForMatrixRegisters) {
  const std::string path = data_file("fake_tiles.so");
  if (!__builtin_cpu_supports("amx-bf16")) {
    expect_refused(
        path, TC_ERROR_TARGET,
        "compiled for target 'x86-64-v9', which needs the CPU feature 'amx-bf16', which this machine "
        "lacks. Compile for a target that this machine has");
    return;
  }
  EXPECT_EXIT(open_without_permission(path), testing::ExitedWithCode(0), "");
  EXPECT_EQ(open_and_close(path).first, TC_OK);
  constexpr long kGetPermission = 0x1022, kTileData = 18;  // ARCH_GET_XCOMP_PERM
  uint64_t granted = 0;
  ASSERT_EQ(syscall(SYS_arch_prctl, kGetPermission, &granted), 0);
  EXPECT_EQ(granted >> kTileData & 1, 1u);
}
#endif

TEST(Open, RefusesWhatIsNoArtefact) {
  expect_refused("/nonexistent/model.so", TC_ERROR_MODEL, "cannot be opened: No such file or directory");
  expect_refused("/tmp", TC_ERROR_MODEL, "not a compiled model (it is no regular file)");
  expect_refused(write_file("empty.so", ""), TC_ERROR_MODEL, "not a compiled model (the file is empty)");
  expect_refused(write_file("text.so", std::string(100, 'x')), TC_ERROR_MODEL,
                 "not a compiled model (it is no ELF file)");
  expect_refused(write_file("short.so",
                            "\x7f"
                            "ELF"),
                 TC_ERROR_MODEL, "not a compiled model (the file is too short for an ELF header)");
  tc_model* model = nullptr;
  EXPECT_EQ(tc_model_open(nullptr, &model), TC_ERROR_ARGUMENT);
  EXPECT_EQ(tc_model_open("x", nullptr), TC_ERROR_ARGUMENT);
}

#if defined(__x86_64__)
TEST(Open, NamesTheOtherMachine) {
  std::string bytes = read_file(data_file("fake_model.so"));
  const auto machine = [&](uint16_t number) {
    bytes[offsetof(Elf64_Ehdr, e_machine)] = static_cast<char>(number & 255);
    bytes[offsetof(Elf64_Ehdr, e_machine) + 1] = static_cast<char>(number >> 8);
    return write_file("machine.so", sealed(bytes.substr(0, bytes.size() - sizeof(runtime::Seal))));
  };
  expect_refused(machine(243), TC_ERROR_TARGET,
                 "built for riscv64; this machine is x86-64. Run it there, or compile the model for "
                 "a target of this machine");
  expect_refused(machine(9999), TC_ERROR_TARGET,
                 "built for ELF machine 9999; this machine is x86-64. Run it there, or compile the "
                 "model for a target of this machine");
}
#endif

TEST(Open, SurvivesTruncatedFiles) {
  const std::string bytes = read_file(data_file("fake_model.so"));
  ASSERT_GT(bytes.size(), 4000u);
  size_t refused = 0;
  for (size_t size = 0; size < bytes.size(); size += 97) {
    const auto [status, text] = open_and_close(write_file("cut.so", bytes.substr(0, size)));
    EXPECT_EQ(status, TC_ERROR_MODEL) << size << " " << text;
    ++refused;
  }
  EXPECT_EQ(refused, bytes.size() / 97 + 1);
}

constexpr const char* kNoChecksum =
    "there is no checksum at the file's end: it is cut short, another program (strip, for instance) has written it anew, or an older "
    "tc made it. Compile the model again, or open it without the check (tc.load(path, check=False), TC_OPEN_UNCHECKED in C)";
constexpr const char* kDamaged =
    "the file is damaged: its checksum is not that of its contents. Copy it again from where it came, or compile the model again";

TEST(Open, ComparesTheChecksum) {
  const std::string good = read_file(data_file("fake_model.so"));
  for (const size_t at : {size_t{0}, size_t{18}, size_t{64}, good.size() / 2,
                          good.size() - sizeof(runtime::Seal) - 1, good.size() - 1}) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    expect_refused(write_file("damaged.so", bytes), TC_ERROR_MODEL, kDamaged);
  }
  expect_refused(write_file("longer.so", good + "x"), TC_ERROR_MODEL, kNoChecksum);
  const std::string bare = write_file("bare.so", good.substr(0, good.size() - sizeof(runtime::Seal)));
  expect_refused(bare, TC_ERROR_MODEL, kNoChecksum);
  tc_model* model = nullptr;
  ASSERT_EQ(tc_model_open_with(bare.c_str(), TC_OPEN_UNCHECKED, &model), TC_OK) << tc_last_error();
  expect_refused(bare, TC_ERROR_MODEL, kNoChecksum);  // though it is loaded already
  tc_model_close(model);
  EXPECT_EQ(tc_model_open_with(bare.c_str(), 4, &model), TC_ERROR_ARGUMENT);
  EXPECT_STREQ(tc_last_error(), "tc_model_open_with: unknown flags 4; take those of tc_open_flags");
}

TEST(Open, DoesNotWaitForPipes) {
  const std::string path = testing::TempDir() + "/pipe.so";
  std::remove(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  expect_refused(path, TC_ERROR_MODEL, "not a compiled model (it is no regular file)");
}

TEST(Checksum, DependsOnTheBytesAloneNotOnTheirPieces) {
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes += static_cast<char>(i * i % 251);
  runtime::Checksum whole;
  whole.add(bytes.data(), bytes.size());
  for (const size_t piece : {1, 7, 63, 64, 65, 128, 999}) {
    runtime::Checksum parts;
    for (size_t at = 0; at < bytes.size(); at += piece)
      parts.add(bytes.data() + at, std::min(piece, bytes.size() - at));
    EXPECT_EQ(parts.value(), whole.value()) << piece;
  }
  runtime::Checksum longer = whole;
  longer.add("", 1);
  EXPECT_NE(longer.value(), whole.value());  // a zero more
}

TEST(Open, ReplacedFileIsReadAnew) {
  const std::string path = write_file("replaced.so", read_file(data_file("fake_model.so")));
  tc_model* old = nullptr;
  ASSERT_EQ(tc_model_open(path.c_str(), &old), TC_OK) << tc_last_error();
  const std::string newer = write_file("newer.so", read_file(data_file("fake_old.so")));
  ASSERT_EQ(std::rename(newer.c_str(), path.c_str()), 0);
  EXPECT_EQ(open_and_close(path).first, TC_ERROR_MODEL);
  tc_model_close(old);
}

tc_descriptor good() { return tc_model_fake; }

void expect_damaged(const tc_descriptor& descriptor, const std::string& what) {
  tc_model* model = nullptr;
  EXPECT_EQ(tc_model_open_linked(&descriptor, &model), TC_ERROR_MODEL);
  EXPECT_EQ(std::string(tc_last_error()),
            "linked model: the model's descriptor is damaged (" + what + "); compile the model again");
}

TEST(Open, ChecksTheDescriptor) {
  tc_descriptor d = good();
  d.run = nullptr;
  expect_damaged(d, "its code is missing");
  d = good();
  d.target = nullptr;
  expect_damaged(d, "a text is missing");
  d = good();
  d.output_count = -1;
  expect_damaged(d, "a count is out of range");
  d = good();
  d.steps = nullptr;
  expect_damaged(d, "a table is missing");
  d = good();
  d.scratch_bytes = -8;
  expect_damaged(d, "scratch size is out of range");
  for (const int64_t bytes : {-8, 101}) {
    d = good();
    d.abi_version = 5;
    d.struct_size = sizeof d;
    d.scratch_bytes = 100;
    d.first_scratch_bytes = bytes;
    expect_damaged(d, "the first thread's scratch size is out of range");
  }
  d.struct_size = offsetof(tc_descriptor, first_scratch_bytes);
  expect_damaged(d, "it is too short");
  const uint8_t* weights = nullptr;
  d = good();
  d.constant_bytes = 64;
  d.weights_file = "some.weights";
  expect_damaged(d, "it has no weights where it says so");
  d.weights = &weights;
  for (const char* name : {"", ".", "..", "a/b"}) {
    d.weights_file = name;
    expect_damaged(d, "the file of its weights has a name that is none");
  }
  d = good();
  d.default_threads = 100000;
  expect_damaged(d, "default number of threads is out of range");
  const tc_dim strange[] = {{0, 4, 0}}, huge[] = {{int64_t{1} << 60, -1, 0}};
  const tc_port ports[] = {{"x", TC_F32, 1, strange},     {"x", 77, 0, nullptr},
                           {"x", TC_F32, 99, strange},    {"x", TC_F32, 1, huge},
                           {nullptr, TC_F32, 0, nullptr}, {"x", TC_F32, 0, nullptr}};
  const char* const texts[] = {"a port's symbol is out of range", "a port of an unknown element type",
                               "a port's rank is out of range",   "a port's size is out of range",
                               "a port without a name",           "a symbol that no input has"};
  for (int i = 0; i < 6; ++i) {
    d = good();
    d.inputs = ports + i;
    d.input_count = 1;
    d.outputs = nullptr;
    d.output_count = 0;
    expect_damaged(d, texts[i]);
  }
}

TEST(Open, ClosedHandlesAreRefused) {
  tc_model_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(tc_model_get_info(nullptr, &info), TC_ERROR_ARGUMENT);
  EXPECT_STREQ(tc_last_error(), "tc_model_get_info: the model handle is null or closed");
  const ModelPtr model = open_linked(tc_model_fake);
  EXPECT_EQ(tc_model_get_info(model.get(), nullptr), TC_ERROR_ARGUMENT);
  info.struct_size = 0;
  EXPECT_EQ(tc_model_get_info(model.get(), &info), TC_ERROR_ARGUMENT);
  EXPECT_STREQ(tc_last_error(), "tc_model_get_info: set info->struct_size to sizeof *info before the call");
}

TEST(Open, OlderAndNewerCallersGetTheirPart) {
  const ModelPtr model = open_linked(tc_model_fake);
  tc_model_info info = {};
  info.struct_size = offsetof(tc_model_info, features);
  ASSERT_EQ(tc_model_get_info(model.get(), &info), TC_OK);
  EXPECT_STREQ(info.target, "x86-64-v9");
  EXPECT_EQ(info.features, nullptr);
  struct {
    tc_model_info known;
    int64_t added = 5;
  } newer;
  newer.known.struct_size = sizeof newer;
  ASSERT_EQ(tc_model_get_info(model.get(), &newer.known), TC_OK);
  EXPECT_EQ(newer.known.step_count, 3);
  EXPECT_EQ(newer.added, 0);
}

}  // namespace
}  // namespace tc
