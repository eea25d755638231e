// Hand-scheduled kernels that the code generator's tests share.
#include "tests/codegen_kernels.h"

#include "ir/error.h"

namespace tc::testing {
namespace {

Buffer buffer(const std::string& name, Scope scope, std::vector<Affine> shape, DType dtype = DType::F32) {
  Buffer result;
  result.name = name;
  result.scope = scope;
  result.shape = std::move(shape);
  result.dtype = dtype;
  return result;
}

Access access(int buffer, const std::vector<Affine>& index) {
  Access result;
  result.buffer = buffer;
  for (const Affine& affine : index) result.index.push_back({affine, nullptr});
  return result;
}

Statement statement(const std::string& name, std::vector<Iterator> iterators, Access write, ExprPtr value,
                    Reduction reduction = Reduction::None) {
  Statement result;
  result.name = name;
  result.iterators = std::move(iterators);
  result.write = std::move(write);
  result.value = std::move(value);
  result.reduction = reduction;
  return result;
}

TileStatement tile(int index, std::vector<TileLoop> loops, std::map<std::string, Affine> iterators,
                   std::vector<Affine> constraints = {}) {
  TileStatement result;
  result.statement = index;
  result.loops = std::move(loops);
  result.iterators = std::move(iterators);
  result.constraints = std::move(constraints);
  return result;
}

ExprPtr relu(ExprPtr value) { return binary(BinaryOp::Max, value, constant(DType::F32, 0)); }

}  // namespace

ScheduledKernel blocked_convolution(const ConvolutionSpec& spec) {
  const int64_t b = spec.block, n = spec.vectors;
  const int64_t oh = spec.out(spec.height), ow = spec.out(spec.width);
  Kernel kernel;
  kernel.name = "conv";
  kernel.buffers = {buffer("I", Scope::Input, {spec.input_blocks, spec.height, spec.width, b}),
                    buffer("K", Scope::Constant,
                           {spec.output_blocks / n, spec.input_blocks, spec.filter, spec.filter, b, n, b}),
                    buffer("bias", Scope::Constant, {spec.output_blocks * b}),
                    buffer("O", Scope::Output, {spec.output_blocks, oh, ow, b}),
                    buffer("T", Scope::Register, {spec.output_blocks, oh, ow, b})};
  const std::vector<Iterator> outer = {
      {"fo", spec.output_blocks / n}, {"fn", n}, {"fi", b}, {"y", oh}, {"x", ow}};
  std::vector<Iterator> inner = outer;
  inner.insert(inner.end(), {{"co", spec.input_blocks}, {"r", spec.filter}, {"s", spec.filter}, {"ci", b}});
  const std::vector<Affine> place = {v("fo") * n + v("fn"), v("y"), v("x"), v("fi")};
  const Affine row = v("y") * spec.stride + v("r") - spec.padding;
  const Affine column = v("x") * spec.stride + v("s") - spec.padding;
  kernel.statements = {
      statement("init", outer, access(4, place), constant(DType::F32, 0)),
      statement("macc", inner, access(4, place),
                binary(BinaryOp::Mul, load(DType::F32, 0, {v("co"), row, column, v("ci")}),
                       load(DType::F32, 1, {v("fo"), v("co"), v("r"), v("s"), v("ci"), v("fn"), v("fi")})),
                Reduction::Sum),
      statement("tail", outer, access(3, place),
                relu(binary(BinaryOp::Add, load(DType::F32, 4, place),
                            load(DType::F32, 2, {(v("fo") * n + v("fn")) * b + v("fi")}))))};
  std::vector<Affine> constraints;
  if (spec.padding > 0) {
    constraints = {row, Affine(spec.height - 1) - row, column, Affine(spec.width - 1) - column};
    kernel.statements[1].constraints = constraints;
  }

  const int64_t tiles = (ow + spec.columns - 1) / spec.columns;
  std::map<std::string, Affine> iterators = {{"fo", v("o_fo")},
                                             {"fn", v("fn")},
                                             {"fi", v("fi")},
                                             {"y", v("o_y")},
                                             {"x", v("o_x") * spec.columns + v("xi")}};
  const std::vector<TileLoop> copies = {unrolled("xi", spec.columns), unrolled("fn", n), lanes("fi", b)};
  std::vector<Affine> tail;
  if (ow % spec.columns != 0) tail = {Affine(ow - 1) - iterators["x"]};
  std::vector<TileLoop> nest = {serial("co", spec.input_blocks), serial("r", spec.filter),
                                serial("s", spec.filter), serial("ci", b, spec.unroll)};
  nest.insert(nest.end(), copies.begin(), copies.end());
  std::map<std::string, Affine> all = iterators;
  for (const char* name : {"co", "r", "s", "ci"}) all[name] = v(name);
  for (Affine& constraint : constraints) constraint = constraint.substitute(all);
  constraints.insert(constraints.end(), tail.begin(), tail.end());
  ScheduledKernel result;
  result.kernel = kernel;
  result.root =
      for_loop("o_fo", spec.output_blocks / n,
               for_loop("o_y", oh,
                        for_loop("o_x", tiles,
                                 leaf({tile(0, copies, iterators, tail), tile(1, nest, all, constraints),
                                       tile(2, copies, iterators, tail)})),
                        true),
               true);
  return result;
}

Tensors convolution_inputs(const ConvolutionSpec& spec) {
  const int64_t b = spec.block;
  return {{"I", seeded(DType::F32, {spec.input_blocks, spec.height, spec.width, b}, 1)},
          {"K", seeded(DType::F32,
                       {spec.output_blocks / spec.vectors, spec.input_blocks, spec.filter, spec.filter, b,
                        spec.vectors, b},
                       2)},
          {"bias", seeded(DType::F32, {spec.output_blocks * b}, 3)}};
}

ScheduledKernel elementwise(int64_t count, int64_t width, DType from, DType to,
                            const std::function<ExprPtr(const std::vector<ExprPtr>&)>& value,
                            const std::vector<DType>& input_types) {
  Kernel kernel;
  kernel.name = "elementwise";
  const std::vector<std::string> names = {"A", "B", "C"};
  std::vector<ExprPtr> loads;
  for (size_t i = 0; i < names.size(); ++i) {
    const DType dtype = i < input_types.size() ? input_types[i] : from;
    kernel.buffers.push_back(buffer(names[i], Scope::Input, {count}, dtype));
    loads.push_back(load(dtype, static_cast<int>(i), std::vector<Affine>{v("i")}));
  }
  const ExprPtr expr = value(loads);
  // Only inputs that are read are arguments.
  size_t used = 0;
  for_each_load(
      expr, [&](const Expr& load) { used = std::max(used, static_cast<size_t>(load.access.buffer) + 1); });
  kernel.buffers.resize(used);
  kernel.buffers.push_back(buffer("O", Scope::Output, {count}, to));
  kernel.statements = {statement("map", {{"i", count}}, access(static_cast<int>(used), {v("i")}), expr)};
  const Affine i = v("io") * width + v("ii");
  std::vector<Affine> tail;
  if (count % width != 0) tail = {Affine(count - 1) - i};
  ScheduledKernel result;
  result.kernel = kernel;
  result.root = for_loop("io", (count + width - 1) / width,
                         leaf({tile(0, {lanes("ii", width)}, {{"i", i}}, tail)}), true);
  return result;
}

ScheduledKernel several(int64_t count, int64_t width, const std::vector<DType>& inputs,
                        const std::vector<Result>& results) {
  Kernel kernel;
  kernel.name = "several";
  const std::vector<std::string> names = {"A", "B", "C"};
  std::vector<ExprPtr> loads;
  for (size_t i = 0; i < inputs.size(); ++i) {
    kernel.buffers.push_back(buffer(names[i], Scope::Input, {count}, inputs[i]));
    loads.push_back(load(inputs[i], static_cast<int>(i), std::vector<Affine>{v("i")}));
  }
  const Affine i = v("io") * width + v("ii");
  std::vector<Affine> tail;
  if (count % width != 0) tail = {Affine(count - 1) - i};
  std::vector<TileStatement> tiles;
  for (size_t r = 0; r < results.size(); ++r) {
    const std::string number = std::to_string(r);
    kernel.statements.push_back(statement("map" + number, {{"i", count}},
                                          access(static_cast<int>(kernel.buffers.size()), {v("i")}),
                                          results[r].value(loads)));
    kernel.buffers.push_back(buffer("O" + number, Scope::Output, {count}, results[r].dtype));
    tiles.push_back(tile(static_cast<int>(r), {lanes("ii", width)}, {{"i", i}}, tail));
  }
  ScheduledKernel result;
  result.kernel = kernel;
  result.root = for_loop("io", (count + width - 1) / width, leaf(tiles), true);
  return result;
}

ScheduledKernel elementwise_relu(int64_t count, int64_t width) {
  return elementwise(count, width, DType::F32, DType::F32, [](const std::vector<ExprPtr>& inputs) {
    return relu(binary(BinaryOp::Add, inputs[0], inputs[1]));
  });
}

ScheduledKernel transposed(int64_t rows, int64_t columns, int64_t width, int64_t copies, DType dtype,
                           bool apart) {
  Kernel kernel;
  kernel.name = "transposed";
  kernel.buffers = {buffer("A", Scope::Input, {columns, rows}), buffer("O", Scope::Output, {rows, columns})};
  for (Buffer& each : kernel.buffers) each.dtype = dtype;
  kernel.statements = {
      statement("copy", {{"i", rows}, {"j", columns}}, access(1, {v("i"), v("j")}),
                binary(BinaryOp::Add, load(dtype, 0, {v("j"), v("i")}), constant(dtype, 1)))};
  auto leaf_at = [&](const Affine& io, const Affine& jo, bool tail) {
    const Affine i = io * width + v("ii"), j = jo * copies + v("ju");
    const std::vector<Affine> ends = {Affine(rows - 1) - i, Affine(columns - 1) - j};
    return leaf({tile(0, {unrolled("ju", copies), lanes("ii", width)}, {{"i", i}, {"j", j}},
                      tail ? ends : std::vector<Affine>())});
  };
  auto row_of = [&](const Affine& io, bool tail) {
    const int64_t whole = columns / copies;
    if (!apart) return for_loop("jo", (columns + copies - 1) / copies, leaf_at(io, v("jo"), true));
    std::vector<LoopNodePtr> parts = {for_loop("jo", whole, leaf_at(io, v("jo"), tail))};
    if (columns % copies != 0) parts.push_back(leaf_at(io, Affine(whole), true));
    return block(parts);
  };
  const int64_t whole = rows / width;
  ScheduledKernel result;
  result.kernel = kernel;
  result.root = for_loop("io", apart ? whole : (rows + width - 1) / width, row_of(v("io"), false));
  if (apart && rows % width != 0) result.root = block({result.root, row_of(Affine(whole), true)});
  return result;
}

ScheduledKernel symbolic_add(Scope second) {
  Kernel kernel;
  kernel.name = "add";
  Parameter count;
  count.name = "p0";
  count.value = Dim::symbol("n");
  count.minimum = 1;
  count.maximum = 5000;
  kernel.parameters = {count};
  const Affine extent = second == Scope::Constant ? Affine(5000) : v("p0");
  kernel.buffers = {buffer("A", Scope::Input, {v("p0")}), buffer("B", second, {extent}),
                    buffer("O", Scope::Output, {v("p0")})};
  const std::vector<Affine> place = {v("i")};
  kernel.statements = {
      statement("add", {{"i", v("p0")}}, access(2, place),
                binary(BinaryOp::Add, load(DType::F32, 0, place), load(DType::F32, 1, place)))};
  const Affine i = v("io") * 16 + v("ii");
  using Kind = LoopExpr::Kind;
  const LoopExprPtr last = loop_expr(
      Kind::FloorDiv, {loop_expr(Kind::Sub, {loop_variable("p0"), loop_constant(1)}), loop_constant(16)});
  ScheduledKernel result;
  result.kernel = kernel;
  result.root = for_loop("io", loop_constant(0), last,
                         leaf({tile(0, {lanes("ii", 16)}, {{"i", i}}, {v("p0") - 1 - i})}), true);
  return result;
}

ScheduledKernel gemm(int64_t m, int64_t n, int64_t k) {
  Kernel kernel;
  kernel.name = "gemm";
  kernel.buffers = {buffer("A", Scope::Input, {m, k}), buffer("B", Scope::Input, {k, n}),
                    buffer("bias", Scope::Constant, {n}), buffer("O", Scope::Output, {m, n}),
                    buffer("T", Scope::Register, {m, n})};
  const std::vector<Iterator> outer = {{"i", m}, {"j", n}};
  kernel.statements = {
      statement("init", outer, access(4, {v("i"), v("j")}), load(DType::F32, 2, {v("j")})),
      statement(
          "macc", {{"i", m}, {"j", n}, {"k", k}}, access(4, {v("i"), v("j")}),
          binary(BinaryOp::Mul, load(DType::F32, 0, {v("i"), v("k")}), load(DType::F32, 1, {v("k"), v("j")})),
          Reduction::Sum),
      statement("out", outer, access(3, {v("i"), v("j")}), load(DType::F32, 4, {v("i"), v("j")}))};
  std::map<std::string, Affine> iterators = {{"i", v("io") * 4 + v("ii")},
                                             {"j", v("jo") * 32 + v("jn") * 16 + v("ji")}};
  std::map<std::string, Affine> all = iterators;
  all["k"] = v("k");
  const std::vector<TileLoop> copies = {unrolled("ii", 4), unrolled("jn", 2), lanes("ji", 16)};
  std::vector<TileLoop> nest = {serial("k", k, 2)};
  nest.insert(nest.end(), copies.begin(), copies.end());
  std::vector<Affine> tail;
  if (m % 4 != 0) tail.push_back(Affine(m - 1) - iterators["i"]);
  if (n % 32 != 0) tail.push_back(Affine(n - 1) - iterators["j"]);
  ScheduledKernel result;
  result.kernel = kernel;
  result.root = for_loop("io", (m + 3) / 4,
                         for_loop("jo", (n + 31) / 32,
                                  leaf({tile(0, copies, iterators, tail), tile(1, nest, all, tail),
                                        tile(2, copies, iterators, tail)}),
                                  true),
                         true);
  return result;
}

ScheduledKernel row_reduction(int64_t rows, int64_t columns, Reduction reduction) {
  Kernel kernel;
  kernel.name = "rows";
  kernel.buffers = {buffer("A", Scope::Input, {rows, columns}), buffer("O", Scope::Output, {rows}),
                    buffer("T", Scope::Register, {rows})};
  kernel.statements = {statement("init", {{"r", rows}}, access(2, {v("r")}), identity(reduction, DType::F32)),
                       statement("sum", {{"r", rows}, {"c", columns}}, access(2, {v("r")}),
                                 load(DType::F32, 0, {v("r"), v("c")}), reduction),
                       statement("out", {{"r", rows}}, access(1, {v("r")}), load(DType::F32, 2, {v("r")}))};
  const Affine c = v("co") * 16 + v("ci");
  std::vector<Affine> tail;
  if (columns % 16 != 0) tail = {Affine(columns - 1) - c};
  ScheduledKernel result;
  result.kernel = kernel;
  result.root = for_loop(
      "ro", rows,
      leaf({tile(0, {}, {{"r", v("ro")}}),
            tile(1, {serial("co", (columns + 15) / 16), lanes("ci", 16)}, {{"r", v("ro")}, {"c", c}}, tail),
            tile(2, {}, {{"r", v("ro")}})}),
      true);
  return result;
}

ScheduledKernel softmax(int64_t rows, int64_t columns) {
  Kernel kernel;
  kernel.name = "softmax";
  kernel.buffers = {buffer("A", Scope::Input, {rows, columns}), buffer("O", Scope::Output, {rows, columns}),
                    buffer("E", Scope::Stack, {columns}), buffer("M", Scope::Register, {rows}),
                    buffer("S", Scope::Register, {rows})};
  const std::vector<Iterator> row = {{"r", rows}}, both = {{"r", rows}, {"c", columns}};
  const std::vector<Affine> r = {v("r")}, c = {v("c")}, rc = {v("r"), v("c")};
  const ExprPtr input = load(DType::F32, 0, rc);
  kernel.statements = {statement("low", row, access(3, r), identity(Reduction::Max, DType::F32)),
                       statement("top", both, access(3, r), input, Reduction::Max),
                       statement("zero", row, access(4, r), constant(DType::F32, 0)),
                       statement("power", both, access(2, c),
                                 unary(UnaryOp::Exp, binary(BinaryOp::Sub, input, load(DType::F32, 3, r)))),
                       statement("sum", both, access(4, r), load(DType::F32, 2, c), Reduction::Sum),
                       statement("share", both, access(1, rc),
                                 binary(BinaryOp::Div, load(DType::F32, 2, c), load(DType::F32, 4, r)))};
  const Affine column = v("co") * 8 + v("ci");
  std::vector<Affine> tail;
  if (columns % 8 != 0) tail = {Affine(columns - 1) - column};
  auto scalar = [&](int index) { return tile(index, {}, {{"r", v("ro")}}); };
  auto vector = [&](int index) {
    return tile(index, {serial("co", (columns + 7) / 8, 2), lanes("ci", 8)}, {{"r", v("ro")}, {"c", column}},
                tail);
  };
  ScheduledKernel result;
  result.kernel = kernel;
  result.root =
      for_loop("ro", rows, leaf({scalar(0), vector(1), scalar(2), vector(3), vector(4), vector(5)}), true);
  return result;
}

ScheduledKernel products(const Products& p, const MatrixUnit& unit, const MatrixUnit::Format& format) {
  const int64_t depth = int64_t{format.groups} * format.pack, rows = p.rows * p.tiles, columns = unit.columns;
  const std::string type = name_of(format.operand), sum = name_of(format.accumulator),
                    row = text(p.rows, "*mo + mi");
  ScheduledKernel scheduled;
  scheduled.kernel = parse_kernel(text(
      "kernel \"products\"\n  input A ", type,
      p.next_to_each_other ? text("[", p.steps, ", ", rows) : text("[", rows, ", ", p.steps), ", ", depth,
      "]\n  input B ", type, "[", p.blocks, ", ", p.steps, ", ", format.groups, ", ", columns, ", ",
      format.pack, "]\n  output C ", sum, "[", rows, ", ", columns * p.blocks, "]\n  init[m:", rows,
      ", n:", columns * p.blocks, "]: C[m, n] = 0\n  macc[mo:", p.tiles, ", no:", p.blocks, ", s:", p.steps,
      ", mi:", p.rows, ", ni:", columns, ", g:", format.groups, ", e:", format.pack, "]: C[", row, ", ",
      columns, "*no + ni] += ", sum, "(A[", p.next_to_each_other ? text("s, ", row) : text(row, ", s"), ", ",
      format.pack, "*g + e]) * ", sum, "(B[no, s, g, ni, e])\n"));
  TileStatement init, macc;
  init.statement = 0;
  init.loops = {unrolled("m", rows), unrolled("c", p.blocks), lanes("l", columns)};
  init.iterators = {{"m", v("m")}, {"n", v("c") * columns + v("l")}};
  macc.statement = 1;
  macc.loops = {serial("s", p.steps),    unrolled("no", p.blocks), unrolled("mo", p.tiles),
                matrix("mi", p.rows),    matrix("ni", columns),    matrix("g", format.groups),
                matrix("e", format.pack)};
  for (const char* name : {"mo", "no", "s", "mi", "ni", "g", "e"}) macc.iterators[name] = v(name);
  scheduled.root = leaf({init, macc});
  return scheduled;
}

}  // namespace tc::testing
