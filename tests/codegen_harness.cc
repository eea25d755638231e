// Compiles, links, loads and runs single kernels, and compares them with the interpreter.
#include "tests/codegen_harness.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>

#include "codegen/llvm/artefact/link.h"
#include "codegen/llvm/kernel_code.h"
#include "ir/error.h"
#include "ir/scratch.h"
#include "tests/c_kernels.h"

namespace tc::testing {
namespace {

constexpr uint8_t kPoison = 0xab;

// Bytes between two unreadable pages, against the last or the first of the two.
class GuardedBytes {
 public:
  GuardedBytes(const std::vector<uint8_t>& bytes, bool at_end) : size_(bytes.size()) {
    page_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    inside_ = (size_ + page_ - 1) / page_ * page_ + page_;
    total_ = inside_ + 2 * page_;
    base_ = static_cast<uint8_t*>(mmap(nullptr, total_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    TC_CHECK(base_ != MAP_FAILED);
    TC_CHECK(mprotect(base_ + page_, inside_, PROT_READ | PROT_WRITE) == 0);
    std::memset(base_ + page_, kPoison, inside_);
    data_ = at_end ? base_ + page_ + inside_ - size_ : base_ + page_;
    if (size_ > 0) std::memcpy(data_, bytes.data(), size_);
  }
  ~GuardedBytes() { munmap(base_, total_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  uint8_t* data() { return data_; }
  std::vector<uint8_t> bytes() const { return {data_, data_ + size_}; }
  bool surroundings_untouched() const {
    for (const uint8_t* byte = base_ + page_; byte < base_ + page_ + inside_; ++byte) {
      if ((byte < data_ || byte >= data_ + size_) && *byte != kPoison) return false;
    }
    return true;
  }

 private:
  size_t size_, page_, inside_, total_;
  uint8_t *base_, *data_;
};

// Calls a function whose arguments are all pointers but the last two.
void call(void* function, std::vector<void*> pointers, int32_t thread, int32_t threads) {
  // Integer arguments beyond the sixth go to the stack in 8-byte slots: passing all as 64-bit
  // integers is the same call on the architectures that the tests run on.
  std::vector<int64_t> a(32, 0);
  TC_CHECK(pointers.size() + 2 <= a.size());
  for (size_t i = 0; i < pointers.size(); ++i) a[i] = reinterpret_cast<int64_t>(pointers[i]);
  a[pointers.size()] = thread;
  a[pointers.size() + 1] = threads;
  using Function = void (*)(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                            int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                            int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                            int64_t, int64_t, int64_t, int64_t, int64_t);
  reinterpret_cast<Function>(function)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10],
                                       a[11], a[12], a[13], a[14], a[15], a[16], a[17], a[18], a[19], a[20],
                                       a[21], a[22], a[23], a[24], a[25], a[26], a[27], a[28], a[29], a[30],
                                       a[31]);
}

Target x86_target(const std::string& cpu, int bits) {
  Target target;
  target.name = cpu;
  target.arch = Arch::X86_64;
  target.triple = "x86_64-unknown-linux-gnu";
  target.cpu = cpu;
  target.vector_bits = bits;
  target.vector_registers = bits == 512 ? 32 : 16;
  target.masked_memory = bits == 512;
  target.broadcast_operand = bits == 512;
  target.window = 224;
  return target;
}

std::vector<int64_t> fixed_shape(const Buffer& buffer) {
  std::vector<int64_t> shape;
  for (const Affine& size : buffer.shape) shape.push_back(size.constant());
  return shape;
}

}  // namespace

Target avx512_target() { return x86_target("x86-64-v4", 512); }
Target avx2_target() { return x86_target("x86-64-v3", 256); }

Target riscv_target(int vector_bits) {
  Target target;
  target.arch = Arch::RiscV64;
  target.triple = "riscv64-unknown-linux-gnu";
  target.cpu = "generic-rv64";
  target.abi = "lp64d";
  target.vector_registers = 32;
  target.vector_bits = vector_bits;
  target.name = "rv64gc";
  target.features = "+m,+a,+f,+d,+c";
  if (vector_bits > 0) {
    target.name = text("rv64gcv_zvl", vector_bits, "b");
    target.features += text(",+v,+zvl", vector_bits, "b");
    target.scalable = target.masked_memory = target.broadcast_operand = true;
    target.rescheduled_for = "sifive-x280";
  }
  return target;
}

Target host_target() { return host_targets().back(); }

std::vector<Target> host_targets() {
  std::vector<Target> targets = {avx2_target()};
  if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
    targets.push_back(avx512_target());
  return targets;
}

LoopNodePtr block(std::vector<LoopNodePtr> children) {
  auto node = std::make_shared<LoopNode>();
  node->kind = LoopNode::Kind::Block;
  node->children = std::move(children);
  return node;
}

LoopNodePtr for_loop(const std::string& variable, LoopExprPtr lower, LoopExprPtr upper, LoopNodePtr body,
                     bool parallel) {
  auto node = std::make_shared<LoopNode>();
  node->kind = LoopNode::Kind::For;
  node->variable = variable;
  node->lower = std::move(lower);
  node->upper = std::move(upper);
  node->children = {std::move(body)};
  if (parallel) node->marks.push_back({"parallel", 0, {}});
  return node;
}

LoopNodePtr for_loop(const std::string& variable, int64_t extent, LoopNodePtr body, bool parallel) {
  return for_loop(variable, loop_constant(0), loop_constant(extent - 1), std::move(body), parallel);
}

LoopNodePtr leaf(std::vector<TileStatement> statements) {
  auto node = std::make_shared<LoopNode>();
  node->kind = LoopNode::Kind::Leaf;
  node->statements = std::move(statements);
  node->name = "leaf";
  return node;
}

static TileLoop tile_loop(const std::string& name, TileLoop::Kind kind, int64_t extent, int unroll) {
  TileLoop loop;
  loop.name = name;
  loop.kind = kind;
  loop.extent = extent;
  loop.unroll = unroll;
  return loop;
}

TileLoop serial(const std::string& name, int64_t extent, int unroll) {
  return tile_loop(name, TileLoop::Kind::Serial, extent, unroll);
}
TileLoop unrolled(const std::string& name, int64_t extent) {
  return tile_loop(name, TileLoop::Kind::Unroll, extent, 1);
}
TileLoop lanes(const std::string& name, int64_t extent) {
  return tile_loop(name, TileLoop::Kind::Vector, extent, 1);
}
TileLoop matrix(const std::string& name, int64_t extent) {
  return tile_loop(name, TileLoop::Kind::Matrix, extent, 1);
}
Affine v(const std::string& name) { return Affine::variable(name); }

Tensor seeded(DType dtype, std::vector<int64_t> shape, uint32_t seed) {
  Tensor tensor(dtype, std::move(shape));
  uint64_t state = seed * 2654435761u + 12345;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint32_t bits = static_cast<uint32_t>(state >> 33);
    if (is_float(dtype)) {
      tensor.set(i, (bits % 20001) / 10000.0 - 1);
    } else {
      const int64_t low = is_signed(dtype) ? -50 : 0;
      tensor.set_int(i, dtype == DType::Bool ? bits % 2 : low + bits % 101);
    }
  }
  return tensor;
}

Tensors seeded_arguments(const Kernel& kernel) {
  Tensors tensors;
  uint32_t seed = 1;
  for (const Buffer& buffer : kernel.buffers) {
    if (!is_argument(buffer)) continue;
    tensors[buffer.name] = seeded(buffer.dtype, fixed_shape(buffer), seed++);
  }
  return tensors;
}

Tensors drawn_inputs(const Kernel& kernel, const std::function<int64_t(const Buffer&, std::mt19937&)>& draw) {
  std::mt19937 random(3);
  Tensors tensors;
  for (const Buffer& buffer : kernel.buffers) {
    if (buffer.scope != Scope::Input) continue;
    Tensor& tensor = tensors[buffer.name] = Tensor(buffer.dtype, fixed_shape(buffer));
    for (int64_t i = 0; i < tensor.count(); ++i) tensor.set(i, static_cast<double>(draw(buffer, random)));
  }
  return tensors;
}

// What runs a kernel for another machine under qemu: reads the sizes and bytes of the arguments from a file,
// places them against unreadable pages, calls, and writes them back.
const char* const kDriver = R"(
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
typedef void Kernel(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                    int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                    int64_t, int64_t, int64_t, int64_t, int64_t, int64_t);
extern Kernel* const kernels[];
enum { kPage = 4096, kPoison = 0xab };
static uint8_t* place(size_t size, int at_end, uint8_t** base, size_t* inside) {
  *inside = (size + kPage - 1) / kPage * kPage + kPage;
  *base = mmap(NULL, *inside + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (*base == MAP_FAILED || mprotect(*base + kPage, *inside, PROT_READ | PROT_WRITE) != 0) exit(3);
  memset(*base + kPage, kPoison, *inside);
  return at_end ? *base + kPage + *inside - size : *base + kPage;
}
int main(int argc, char** argv) {
  (void)argc;
  FILE* file = fopen(argv[1], "r+b");
  int64_t head[5];  // buffers, at_end, threads, scratch bytes, which kernel
  if (file == NULL || fread(head, 8, 5, file) != 5) return 4;
  uint8_t *data[24], *base[24], *scratch_base;
  size_t inside[24], scratch_inside;
  int64_t size[24], argument[24] = {0};
  if (fread(size, 8, head[0], file) != (size_t)head[0]) return 5;
  for (int64_t i = 0; i < head[0]; ++i) {
    data[i] = place(size[i], head[1], &base[i], &inside[i]);
    if (size[i] != 0 && fread(data[i], 1, size[i], file) != (size_t)size[i]) return 6;
    argument[i] = (int64_t)data[i];
  }
  for (int64_t thread = 0; thread < head[2]; ++thread) {
    uint8_t* scratch = place(head[3], head[1], &scratch_base, &scratch_inside);
    argument[head[0]] = (int64_t)scratch;
    argument[head[0] + 1] = thread;
    argument[head[0] + 2] = head[2];
    kernels[head[4]](
        argument[0], argument[1], argument[2], argument[3], argument[4], argument[5], argument[6],
        argument[7], argument[8], argument[9], argument[10], argument[11], argument[12],
        argument[13], argument[14], argument[15], argument[16], argument[17], argument[18],
        argument[19], argument[20], argument[21], argument[22], argument[23]);
  }
  fseek(file, 8 * (5 + head[0]), SEEK_SET);
  for (int64_t i = 0; i < head[0]; ++i) {
    for (uint8_t* byte = base[i] + kPage; byte < base[i] + kPage + inside[i]; ++byte)
      if ((byte < data[i] || byte >= data[i] + size[i]) && *byte != kPoison) return 10 + i;
    if (fwrite(data[i], 1, size[i], file) != (size_t)size[i]) return 7;
  }
  return fclose(file) == 0 ? 0 : 8;
}
)";

static std::string shell_quiet(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::string output;
  char buffer[256];
  while (fgets(buffer, sizeof buffer, pipe) != nullptr) output += buffer;
  const int status = pclose(pipe);
  return status == 0 ? "" : command + ": status " + std::to_string(status) + "\n" + output;
}

// Writes a file.
static void write_file(const std::string& path, const void* data, size_t size) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  TC_CHECK(file != nullptr && std::fwrite(data, 1, size, file) == size, path);
  std::fclose(file);
}
static void write_file(const std::string& path, const std::string& content) {
  write_file(path, content.data(), content.size());
}

// How kernels of another machine are run: as qemu and clang name it, and cores that have what the target has.
// Results must be the same on each.
struct Emulation {
  std::string name;
  std::vector<std::string> cores;
};

// Whether it has SpacemiT's, which tests/qemu/ime_emulator.c computes, for vectors of 256 bits alone.
static bool has_encoded_instruction(const Target& target) {
  const auto is_emulated = [](const NarrowProduct* row) {
    return std::string_view(row->feature) == "xsmtvdot";
  };
  return std::any_of(target.matrix.formats.begin(), target.matrix.formats.end(),
                     [&](const auto& each) { return is_emulated(each.instruction); }) ||
         std::any_of(target.lane_products.begin(), target.lane_products.end(), is_emulated);
}

static Emulation emulation_of(const Target& target) {
  if (target.arch == Arch::AArch64) {
    const auto has = [&](const char* feature) { return target.features.find(feature) != std::string::npos; };
    const bool newest = has("i8mm") || has("bf16");
    return {"aarch64", {newest ? "max" : has("dotprod") ? "neoverse-n1" : "cortex-a53", "max"}};
  }
  if (target.vector_bits == 0) return {"riscv64", {"rv64,v=false", "rv64,v=false"}};
  const std::string vectors = "rv64,v=true,vext_spec=v1.0,vlen=";
  if (has_encoded_instruction(target)) return {"riscv64", {vectors + "256", vectors + "256"}};
  return {"riscv64",
          {vectors + std::to_string(target.vector_bits), vectors + std::to_string(2 * target.vector_bits)}};
}

static std::string compiler_for(const std::string& machine) {
  return "clang-19 --target=" + machine + "-linux-gnu ";
}

// The driver's object for the machine, compiled once for all kernels of this process.
static std::string object_for(const std::string& machine, const std::string& source,
                              const std::string& options) {
  struct Drivers {
    Drivers() {
      char pattern[] = "/tmp/tc-driver-XXXXXX";
      TC_CHECK(mkdtemp(pattern) != nullptr);
      folder = pattern;
      write_file(folder + "/driver.c", kDriver);
    }
    ~Drivers() { std::filesystem::remove_all(folder); }
    std::string folder;
  };
  static const Drivers drivers;
  const std::string object =
      drivers.folder + "/" + machine + std::filesystem::path(source).stem().string() + ".o";
  if (std::filesystem::exists(object)) return object;
  const std::string path = source.empty() ? drivers.folder + "/driver.c" : source;
  const std::string problem =
      shell_quiet(compiler_for(machine) + options + " -O1 -c " + path + " -o " + object);
  TC_CHECK(problem.empty(), problem);
  return object;
}

// What runs the target's kernels: the driver and, for instructions that qemu does not know, their emulator.
static std::string objects_for(const Target& target) {
  const std::string machine = emulation_of(target).name;
  const std::string driver = object_for(machine, "", "");
  return has_encoded_instruction(target)
             ? driver + " " + object_for(machine, "tests/qemu/ime_emulator.c", "-march=rv64gc")
             : driver;
}

// Links the kernel objects `kernel0.o`, … of the folder with the driver into `program`.
static void link_for_qemu(const Target& target, const std::string& folder, size_t count) {
  std::string table, names, objects;
  for (size_t i = 0; i < count; ++i) {
    table += text("extern void kernel", i, "();\n");
    names += text("kernel", i, ", ");
    objects += text(" ", folder, "/kernel", i, ".o");
  }
  write_file(folder + "/table.c", table + "void (*const kernels[])() = {" + names + "};\n");
  const std::string problem =
      shell_quiet(compiler_for(emulation_of(target).name) + "-fuse-ld=lld -static " + objects_for(target) +
                  " " + folder + "/table.c" + objects + " -o " + folder + "/program");
  TC_CHECK(problem.empty(), problem);
}

// A call of a kernel of a program: its number, the scratch memory's bytes, how many threads in turn, and
// whether buffers end at unreadable pages or begin there.
struct EmulatedCall {
  size_t which = 0;
  int64_t scratch = 0;
  int threads = 1;
  bool at_end = true;
};

// Sizes that are given, or the products of such that a schedule has added; the number of the run behind them
// where loops alternate.
static std::vector<int64_t> values_of(const ScheduledKernel& kernel, const Parameters& parameters,
                                      int64_t run) {
  std::vector<int64_t> values;
  for (const Parameter& parameter : kernel.kernel.parameters) {
    const auto found = parameters.find(parameter.name);
    values.push_back(found == parameters.end() ? parameter.value.evaluate(parameters) : found->second);
  }
  if (alternates(kernel)) values.push_back(run);
  return values;
}

// Calls with these argument buffers (parameters last) in the emulator.
static void run_in_qemu(const std::string& emulator, const std::string& folder, const EmulatedCall& call,
                        std::vector<std::vector<uint8_t>>& arguments) {
  const std::string data = folder + "/data";
  std::FILE* file = std::fopen(data.c_str(), "wb");
  const int64_t head[5] = {static_cast<int64_t>(arguments.size()), call.at_end, call.threads,
                           (call.scratch + 63) / 64 * 64, static_cast<int64_t>(call.which)};
  std::fwrite(head, 8, 5, file);
  for (const auto& argument : arguments) {
    const int64_t size = static_cast<int64_t>(argument.size());
    std::fwrite(&size, 8, 1, file);
  }
  for (const auto& argument : arguments) {
    if (!argument.empty()) std::fwrite(argument.data(), 1, argument.size(), file);
  }
  std::fclose(file);
  EXPECT_EQ(shell_quiet(emulator + " " + folder + "/program " + data), "");
  file = std::fopen(data.c_str(), "rb");
  std::fseek(file, static_cast<long>(8 * (5 + arguments.size())), SEEK_SET);
  for (auto& argument : arguments) {
    TC_CHECK(argument.empty() || std::fread(argument.data(), 1, argument.size(), file) == argument.size());
  }
  std::fclose(file);
}

// Runs in qemu, tensors in and out, on each core.
static void run_emulated(const std::string& folder, const ScheduledKernel& kernel, const Target& target,
                         EmulatedCall call, const Parameters& parameters, Tensors& tensors) {
  Tensors results;
  const Emulation emulation = emulation_of(target);
  call.scratch = scratch_bytes(kernel);
  for (size_t core = 0; core < emulation.cores.size(); ++core) {
    std::vector<std::vector<uint8_t>> arguments;
    std::vector<std::string> names;
    for (const Buffer& buffer : kernel.kernel.buffers) {
      if (buffer.scope != Scope::Input && buffer.scope != Scope::Output && buffer.scope != Scope::Constant) {
        continue;
      }
      arguments.push_back(tensors.at(buffer.name).bytes);
      names.push_back(buffer.name);
    }
    const std::vector<int64_t> values = values_of(kernel, parameters, core == 0);
    arguments.emplace_back(values.size() * 8);
    if (!values.empty()) std::memcpy(arguments.back().data(), values.data(), values.size() * 8);
    call.at_end = core == 0;
    run_in_qemu("qemu-" + emulation.name + " -cpu " + emulation.cores[core], folder, call, arguments);
    for (size_t i = 0; i < names.size(); ++i) {
      Tensor result = tensors.at(names[i]);
      result.bytes = arguments[i];
      if (core > 0) {
        EXPECT_EQ(results.at(names[i]).bytes, result.bytes) << names[i] << " on " << emulation.cores[core];
      }
      results[names[i]] = result;
    }
  }
  for (const Buffer& buffer : kernel.kernel.buffers) {
    if (buffer.scope == Scope::Output) tensors.at(buffer.name) = results.at(buffer.name);
  }
}

static void run_once(void* function, const ScheduledKernel& kernel, const Parameters& parameters,
                     Tensors& tensors, int first_thread, int last_thread, int threads, bool at_end) {
  std::vector<std::unique_ptr<GuardedBytes>> memory;
  std::vector<void*> pointers;
  std::map<std::string, size_t> place;
  for (const Buffer& buffer : kernel.kernel.buffers) {
    if (buffer.scope != Scope::Input && buffer.scope != Scope::Output && buffer.scope != Scope::Constant) {
      continue;
    }
    TC_CHECK(tensors.count(buffer.name) != 0, "a tensor for ", buffer.name);
    place[buffer.name] = memory.size();
    memory.push_back(std::make_unique<GuardedBytes>(tensors.at(buffer.name).bytes, at_end));
    pointers.push_back(memory.back()->data());
  }
  std::vector<int64_t> values = values_of(kernel, parameters, at_end);
  pointers.push_back(values.data());
  // Scratch is 64-byte aligned and starts out as garbage.
  const size_t scratch_size = static_cast<size_t>((scratch_bytes(kernel) + 63) / 64 * 64);
  for (int thread = first_thread; thread <= last_thread; ++thread) {
    GuardedBytes scratch(std::vector<uint8_t>(scratch_size, 0x5a), at_end);
    std::vector<void*> arguments = pointers;
    arguments.push_back(scratch.data());
    call(function, arguments, thread, threads);
    EXPECT_TRUE(scratch.surroundings_untouched()) << "around the scratch memory";
  }
  for (const Buffer& buffer : kernel.kernel.buffers) {
    const auto found = place.find(buffer.name);
    if (found == place.end()) continue;
    EXPECT_TRUE(memory[found->second]->surroundings_untouched()) << "around " << buffer.name;
    if (buffer.scope == Scope::Output) {
      tensors.at(buffer.name).bytes = memory[found->second]->bytes();
    }
  }
}

CompiledKernels::CompiledKernels(std::vector<ScheduledKernel> kernels, const Target& target)
    : kernels_(std::move(kernels)), target_(target) {
  char pattern[] = "/tmp/tc-test-XXXXXX";
  TC_CHECK(mkdtemp(pattern) != nullptr);
  folder_ = pattern;
  if (!c_compiler().empty() && target.arch == Arch::X86_64) {
    is_c_ = true;
    compile_as_c(kernels_, c_compiler(), folder_);
    library_ = dlopen((folder_ + "/kernels.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    TC_CHECK(library_ != nullptr, dlerror());
    return;
  }
  std::vector<Bytes> objects;
  for (size_t i = 0; i < kernels_.size(); ++i) {
    objects.push_back(kernel_object(kernels_[i], target, text("kernel", i)));
  }
  if (target.arch != Arch::X86_64) {
    for (size_t i = 0; i < objects.size(); ++i) {
      write_file(text(folder_, "/kernel", i, ".o"), objects[i].data(), objects[i].size());
    }
    link_for_qemu(target, folder_, objects.size());
    return;
  }
  link_shared({objects}, target, folder_ + "/kernels.so");
  library_ = dlopen((folder_ + "/kernels.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  TC_CHECK(library_ != nullptr, dlerror());
}

CompiledKernels::~CompiledKernels() {
  if (library_ != nullptr) dlclose(library_);
  std::filesystem::remove_all(folder_);
}

void CompiledKernels::run(size_t which, const Parameters& parameters, Tensors& tensors, int threads) const {
  const ScheduledKernel& kernel = kernels_.at(which);
  if (target_.arch != Arch::X86_64) {
    run_emulated(folder_, kernel, target_, {.which = which, .threads = threads}, parameters, tensors);
    return;
  }
  if (is_c_) threads = 1;  // the whole kernel is one function
  Tensors again = tensors;
  run_once(function(which), kernel, parameters, tensors, 0, threads - 1, threads, true);
  run_once(function(which), kernel, parameters, again, 0, threads - 1, threads, false);
  for (const Buffer& buffer : kernel.kernel.buffers) {
    if (buffer.scope == Scope::Output) {
      EXPECT_EQ(tensors.at(buffer.name).bytes, again.at(buffer.name).bytes)
          << buffer.name << " depends on where it is";
    }
  }
}

void CompiledKernels::run_thread(size_t which, const Parameters& parameters, Tensors& tensors, int thread,
                                 int threads) const {
  run_once(function(which), kernels_.at(which), parameters, tensors, thread, thread, threads, true);
}

void* CompiledKernels::function(size_t which) const {
  TC_CHECK(library_ != nullptr, "kernels of another machine");
  void* found = dlsym(library_, text("kernel", which).c_str());
  TC_CHECK(found != nullptr, dlerror());
  return found;
}

void run_compiled(const ScheduledKernel& kernel, const Target& target, const Parameters& parameters,
                  Tensors& tensors, int threads) {
  CompiledKernels({kernel}, target).run(0, parameters, tensors, threads);
}

void expect_like_interpreter(const ScheduledKernel& kernel, const Target& target,
                             const Parameters& parameters, const Tensors& inputs, double tolerance,
                             int threads) {
  Tensors expected = inputs, computed = inputs;
  for (const Buffer& buffer : kernel.kernel.buffers) {
    if (buffer.scope != Scope::Output || inputs.count(buffer.name) != 0) continue;
    std::vector<int64_t> shape;
    for (const Affine& extent : buffer.shape) shape.push_back(extent.evaluate(parameters));
    // What is not written shows as this value.
    Tensor tensor = seeded(buffer.dtype, shape, 99);
    expected[buffer.name] = computed[buffer.name] = tensor;
  }
  interpret(kernel, parameters, expected, true);
  run_compiled(kernel, target, parameters, computed, threads);
  for (const Buffer& buffer : kernel.kernel.buffers) {
    if (buffer.scope != Scope::Output) continue;
    const Tensor& want = expected.at(buffer.name);
    const Tensor& got = computed.at(buffer.name);
    ASSERT_EQ(want.bytes.size(), got.bytes.size());
    double largest = 0;
    for (int64_t i = 0; i < want.count(); ++i) {
      if (std::isfinite(want.as_double(i))) largest = std::max(largest, std::fabs(want.as_double(i)));
    }
    int shown = 0;
    for (int64_t i = 0; i < want.count() && shown < 5; ++i) {
      const double a = want.as_double(i), b = got.as_double(i);
      bool equal = want.as_int(i) == got.as_int(i);
      if (is_float(buffer.dtype)) {
        equal = a == b || (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= tolerance * largest;
      }
      if (equal) continue;
      ++shown;
      ADD_FAILURE() << buffer.name << "[" << i << "]: interpreter " << a << ", compiled " << b << ", largest "
                    << largest;
    }
    if (shown > 0) std::fprintf(stderr, "%s\n", str(kernel).c_str());
  }
}

void expect_like_interpreter(const ScheduledKernel& kernel, const std::vector<Target>& targets,
                             const Parameters& parameters, const Tensors& inputs, double tolerance,
                             int threads) {
  for (const Target& target : targets) {
    SCOPED_TRACE(target.name);
    expect_like_interpreter(kernel, target, parameters, inputs, tolerance, threads);
  }
}

int count_lines(const std::string& text, const std::string& part) {
  std::istringstream stream(text);
  int count = 0;
  for (std::string line; std::getline(stream, line);) {
    count += line.find(part) != std::string::npos ? 1 : 0;
  }
  return count;
}

std::string hottest_loop(const std::string& assembly, const std::string& part) {
  std::istringstream stream(assembly);
  std::vector<std::string> lines;
  std::map<std::string, size_t> labels;
  std::vector<std::pair<size_t, size_t>> loops;  // first line, line behind the jump back
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
    if (line.rfind(".LBB", 0) == 0) labels[line.substr(0, line.find(':'))] = lines.size();
    const size_t place = line.find(".LBB");
    if (place == 0 || place == std::string::npos) continue;
    const std::string label = line.substr(place, line.find_first_of(" \t#,", place) - place);
    const auto found = labels.find(label);
    if (found != labels.end()) loops.push_back({found->second, lines.size()});
  }
  std::string best;
  for (const auto& [first, last] : loops) {
    const bool innermost = std::none_of(loops.begin(), loops.end(), [&](const auto& other) {
      return other.first >= first && other.second <= last && other != std::make_pair(first, last);
    });
    if (!innermost) continue;
    std::string body;
    for (size_t i = first; i < last; ++i) body += lines[i] + "\n";
    if (count_lines(body, part) > count_lines(best, part)) best = body;
  }
  return best;
}

}  // namespace tc::testing
