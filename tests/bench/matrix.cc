// Products of matrices on the matrix unit, with loops by hand: float32 as two terms of bfloat16.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "codegen/llvm/kernel_code.h"
#include "codegen/llvm/artefact/link.h"
#include "ir/error.h"
#include "runtime/machine.h"
#include "tests/bench/support.h"

namespace tc::bench {
namespace {

constexpr int64_t kTile = 16, kDepth = 32;  // rows and columns of an accumulator; depth of an instruction
constexpr int64_t kRows = 256;              // of a panel of A that stays in the second cache

TileLoop loop(TileLoop::Kind kind, const std::string& name, int64_t extent) {
  TileLoop result;
  result.name = name;
  result.kind = kind;
  result.extent = extent;
  return result;
}

LoopNodePtr for_loop(const std::string& variable, int64_t extent, const LoopNodePtr& body) {
  auto node = std::make_shared<LoopNode>();
  node->kind = LoopNode::Kind::For;
  node->variable = variable;
  node->lower = loop_constant(0);
  node->upper = loop_constant(extent - 1);
  node->children = {body};
  return node;
}

// C = A B of size n, both stored as tiles of the unit: for a panel of A's rows, for two tiles of columns, for
// two of rows, all of the depth.
ScheduledKernel product(int64_t n, int products) {
  using Kind = TileLoop::Kind;
  const int64_t blocks = n / kTile, steps = n / kDepth, panel = std::min(n, kRows) / kTile;
  std::string buffers, value;
  for (int i = 0; i < (products == 1 ? 1 : 2); ++i) {
    for (const char* name : {"A", "B"}) {
      buffers += text("  input ", name, i, " bf16[", blocks, ", ", steps, ", 16, ",
                      *name == 'A' ? "32]\n" : "16, 2]\n");
    }
  }
  for (const auto& [a, b] : std::vector<std::pair<int, int>>{{0, 0}, {0, 1}, {1, 0}}) {
    if (a + b > 0 && products == 1) continue;
    value += text(value.empty() ? "" : " + ", "f32(A", a, "[mo, s, mi, 2*g + e]) * f32(B", b,
                  "[no, s, g, ni, e])");
  }
  ScheduledKernel scheduled;
  scheduled.kernel =
      parse_kernel(text("kernel \"product\"\n", buffers, "  output C f32[", n, ", ", n, "]\n  init[m:", n,
                        ", n:", n, "]: C[m, n] = 0\n  macc[mo:", blocks, ", mi:16, no:", blocks,
                        ", ni:16, s:", steps, ", g:16, e:2]: C[16*mo + mi, 16*no + ni] += ", value, "\n"));
  const auto v = [](const char* name) { return Affine::variable(name); };
  const Affine row = v("p") * panel + v("m2") * 2, column = v("n2") * 2;
  TileStatement init, macc;
  init.statement = 0;
  init.loops = {loop(Kind::Unroll, "r", 2 * kTile), loop(Kind::Unroll, "c", 2),
                loop(Kind::Vector, "l", kTile)};
  init.iterators = {{"m", row * kTile + v("r")}, {"n", (column + v("c")) * kTile + v("l")}};
  macc.statement = 1;
  macc.loops = {loop(Kind::Serial, "s", steps),  loop(Kind::Unroll, "x", 2),      loop(Kind::Unroll, "y", 2),
                loop(Kind::Matrix, "mi", kTile), loop(Kind::Matrix, "ni", kTile), loop(Kind::Matrix, "g", 16),
                loop(Kind::Matrix, "e", 2)};
  for (const char* name : {"s", "mi", "ni", "g", "e"}) macc.iterators[name] = v(name);
  macc.iterators["mo"] = row + v("x");
  macc.iterators["no"] = column + v("y");
  auto leaf = std::make_shared<LoopNode>();
  leaf->kind = LoopNode::Kind::Leaf;
  leaf->statements = {init, macc};
  scheduled.root = for_loop("p", blocks / panel, for_loop("n2", blocks / 2, for_loop("m2", panel / 2, leaf)));
  return scheduled;
}

// Compiled and loaded; runs on zeros, which take the unit as long as other numbers.
class Loaded {
 public:
  Loaded(const ScheduledKernel& scheduled, const Target& target) {
    char pattern[] = "/tmp/tc-bench-XXXXXX";
    TC_CHECK(mkdtemp(pattern) != nullptr);
    const std::string path = std::string(pattern) + "/product.so";
    link_shared({{kernel_object(scheduled, target, "product")}}, target, path);
    library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    std::filesystem::remove_all(pattern);
    TC_CHECK(library_ != nullptr, dlerror());
    function_ = dlsym(library_, "product");
    for (const Buffer& buffer : scheduled.kernel.buffers) {
      size_t bytes = static_cast<size_t>(size_of(buffer.dtype));
      for (const Affine& extent : buffer.shape) bytes *= static_cast<size_t>(extent.constant());
      memory_.emplace_back(static_cast<char*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)),
                           std::free);
      std::fill_n(memory_.back().get(), bytes, 0);
    }
  }
  ~Loaded() { dlclose(library_); }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  void run() {
    void* const none = nullptr;
    const auto p = [&](size_t i) { return memory_[i].get(); };
    if (memory_.size() == 3) {
      using Function = void (*)(void*, void*, void*, void*, void*, int32_t, int32_t);
      reinterpret_cast<Function>(function_)(p(0), p(1), p(2), none, none, 0, 1);
    } else {
      using Function = void (*)(void*, void*, void*, void*, void*, void*, void*, int32_t, int32_t);
      reinterpret_cast<Function>(function_)(p(0), p(1), p(2), p(3), p(4), none, none, 0, 1);
    }
  }

 private:
  void* library_ = nullptr;
  void* function_ = nullptr;
  std::vector<std::unique_ptr<char, void (*)(void*)>> memory_;
};

void matrix_product(benchmark::State& state) {
  const int64_t n = state.range(0);
  Loaded loaded(product(n, static_cast<int>(state.range(1))), parse_target("native"));
  for (auto _ : state) loaded.run();
  // Of the product in float32, however many products of terms it takes.
  state.counters["FLOP/s"] =
      benchmark::Counter(2.0 * static_cast<double>(n * n * n), benchmark::Counter::kIsIterationInvariantRate);
}

// Where this machine has a unit: the cases do not exist elsewhere.
const bool registered = [] {
  if (parse_target("native").matrix.registers == 0 || !runtime::enable_features("amx-tile")) return false;
  benchmark::RegisterBenchmark("matrix_unit", matrix_product)
      ->ArgNames({"size", "products"})
      ->Args({256, 3})
      ->Args({512, 3})
      ->Args({1024, 3})
      ->Args({512, 1})
      ->Unit(benchmark::kMicrosecond);
  return true;
}();

}  // namespace
}  // namespace tc::bench
