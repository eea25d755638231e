// Compiles, links, loads and runs single kernels, and compares them with the interpreter.
#include "tests/codegen_harness.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>

#include "ir/error.h"

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
    base_ = static_cast<uint8_t*>(
        mmap(nullptr, total_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
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
  using Function = void (*)(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                            int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                            int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                            int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                            int64_t, int64_t, int64_t, int64_t);
  reinterpret_cast<Function>(function)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9],
                                       a[10], a[11], a[12], a[13], a[14], a[15], a[16], a[17],
                                       a[18], a[19], a[20], a[21], a[22], a[23], a[24], a[25],
                                       a[26], a[27], a[28], a[29], a[30], a[31]);
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
  return target;
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
  }
  return target;
}

Target host_target() {
  return __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")
             ? avx512_target()
             : avx2_target();
}

LoopNodePtr block(std::vector<LoopNodePtr> children) {
  auto node = std::make_shared<LoopNode>();
  node->kind = LoopNode::Kind::Block;
  node->children = std::move(children);
  return node;
}

LoopNodePtr for_loop(const std::string& variable, LoopExprPtr lower, LoopExprPtr upper,
                     LoopNodePtr body, bool parallel) {
  auto node = std::make_shared<LoopNode>();
  node->kind = LoopNode::Kind::For;
  node->variable = variable;
  node->lower = std::move(lower);
  node->upper = std::move(upper);
  node->children = {std::move(body)};
  node->parallel = parallel;
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

static void run_once(void* function, const ScheduledKernel& kernel, const Parameters& parameters,
                     Tensors& tensors, int threads, bool at_end) {
  std::vector<std::unique_ptr<GuardedBytes>> memory;
  std::vector<void*> pointers;
  std::map<std::string, size_t> place;
  for (const Buffer& buffer : kernel.kernel.buffers) {
    if (buffer.scope != Scope::Input && buffer.scope != Scope::Output &&
        buffer.scope != Scope::Constant) {
      continue;
    }
    const auto shared = place.find(buffer.in_place_of);
    if (shared != place.end()) {
      place[buffer.name] = shared->second;
      pointers.push_back(memory[shared->second]->data());
      continue;
    }
    TC_CHECK(tensors.count(buffer.name) != 0, "a tensor for ", buffer.name);
    place[buffer.name] = memory.size();
    memory.push_back(std::make_unique<GuardedBytes>(tensors.at(buffer.name).bytes, at_end));
    pointers.push_back(memory.back()->data());
  }
  std::vector<int64_t> values;
  for (const Parameter& parameter : kernel.kernel.parameters) {
    values.push_back(parameters.at(parameter.name));
  }
  pointers.push_back(values.data());
  // Scratch is 64-byte aligned and starts out as garbage.
  const size_t scratch_size = static_cast<size_t>((scratch_bytes(kernel) + 63) / 64 * 64);
  for (int thread = 0; thread < threads; ++thread) {
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

void run_compiled(const ScheduledKernel& kernel, const Target& target, const Parameters& parameters,
                  Tensors& tensors, int threads) {
  char folder[] = "/tmp/tc-test-XXXXXX";
  TC_CHECK(mkdtemp(folder) != nullptr);
  const std::string path = std::string(folder) + "/kernel.so";
  link_shared({kernel_object(kernel, target, "kernel")}, target, path);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  TC_CHECK(library != nullptr, dlerror());
  void* function = dlsym(library, "kernel");
  TC_CHECK(function != nullptr, dlerror());
  std::filesystem::remove_all(folder);
  Tensors again = tensors;
  run_once(function, kernel, parameters, tensors, threads, true);
  run_once(function, kernel, parameters, again, threads, false);
  for (const Buffer& buffer : kernel.kernel.buffers) {
    if (buffer.scope == Scope::Output) {
      EXPECT_EQ(tensors.at(buffer.name).bytes, again.at(buffer.name).bytes)
          << buffer.name << " depends on where it is";
    }
  }
  dlclose(library);
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
    const auto original = inputs.find(buffer.in_place_of);
    if (original != inputs.end()) tensor = original->second;
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
        equal = a == b || (std::isnan(a) && std::isnan(b)) ||
                std::fabs(a - b) <= tolerance * largest;
      }
      if (equal) continue;
      ++shown;
      ADD_FAILURE() << buffer.name << "[" << i << "]: interpreter " << a << ", compiled " << b
                    << ", largest " << largest;
    }
    if (shown > 0) std::fprintf(stderr, "%s\n", str(kernel).c_str());
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
  std::string best;
  int best_count = 0;
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
    if (line.rfind(".LBB", 0) == 0) labels[line.substr(0, line.find(':'))] = lines.size();
    const size_t place = line.find(".LBB");
    if (place == 0 || place == std::string::npos) continue;
    const std::string label = line.substr(place, line.find_first_of(" \t#,", place) - place);
    const auto found = labels.find(label);
    if (found == labels.end()) continue;  // a jump forwards
    std::string body;
    int depth = 0;
    for (size_t i = found->second; i < lines.size(); ++i) {
      body += lines[i] + "\n";
      depth += lines[i].rfind(".LBB", 0) == 0 ? 1 : 0;
    }
    const int count = count_lines(body, part);
    if (count > best_count || (count == best_count && count > 0 && body.size() < best.size())) {
      best_count = count;
      best = body;
    }
  }
  return best;
}

}  // namespace tc::testing
