// Products by matrices that are stored in few bits (ir/ops/weight_formats.h), or by those of several such
// matrices that an input chooses, and gathering of their rows. A weight is decoded where it is multiplied: no
// decoded copy of the matrix exists.
#include <algorithm>

#include "ir/ops/rows.h"
#include "ir/ops/sizes.h"
#include "ir/ops/weight_formats.h"

namespace tc {
namespace {

// Input 0 is the operand; the planes follow it.
constexpr int kFirstPlane = 1;

struct Matrix {
  const WeightFormat* format = nullptr;
  int64_t rows = 0, columns = 0;
  int64_t experts = 0;  // how many matrices there are, of which an input chooses; 0: one, without an input
  int64_t blocks() const { return (columns + format->block - 1) / format->block; }
};

Matrix matrix_of(const Node& node) {
  return {&weight_format(string_attribute(node, "format")), int_attribute(node, "N"),
          int_attribute(node, "K"), has_attribute(node, "experts") ? int_attribute(node, "experts") : 0};
}

Matrix checked_matrix(InferContext& context, int first_plane) {
  const Matrix matrix = matrix_of(context.node());
  const auto& planes = matrix.format->planes;
  if (context.input_count() != first_plane + static_cast<int>(planes.size())) {
    context.fail_at(ErrorKind::Model, text("has ", context.input_count() - first_plane, " planes; format ",
                                           matrix.format->name, " has ", planes.size()));
  }
  for (size_t i = 0; i < planes.size(); ++i) {
    const int input = first_plane + static_cast<int>(i);
    Shape needed = {Dim(matrix.rows), Dim(matrix.blocks()), Dim(planes[i].elements)};
    if (matrix.experts > 0) needed.insert(needed.begin(), Dim(matrix.experts));
    const std::string what = text("plane ", planes[i].name, " of format ", matrix.format->name);
    if (context.dtype(input) != planes[i].dtype) {
      context.error(what, " is ", name_of(context.dtype(input)), "; ", name_of(planes[i].dtype),
                    " is needed");
    }
    need_shape(context, input, needed, what);
  }
  return matrix;
}

// Reads elements of the planes, which are the inputs from `first_plane` on, in the given row and block; of
// several matrices, those of the one with the number `expert`.
ReadPlane plane_reader(const LowerContext& context, int first_plane, const Subscript& row,
                       const Affine& block, const ExprPtr& expert = nullptr) {
  return [&context, first_plane, row, block, expert](size_t plane, const Affine& element) {
    std::vector<Subscript> index = {row, {block, nullptr}, {element, nullptr}};
    if (expert != nullptr) index.insert(index.begin(), {Affine(0), expert});
    ExprPtr value = context.read(first_plane + static_cast<int>(plane), index);
    return is_integer(value->dtype) ? cast(DType::I32, value) : value;
  };
}

// The number in an input that chooses one of `count`. As in Gather, negative ones count from the end, and all
// are clamped.
ExprPtr chosen_of(const LowerContext& context, int input, const std::vector<Affine>& position,
                  int64_t count) {
  ExprPtr chosen = context.read(input, position);
  if (chosen->dtype != DType::I64) chosen = cast(DType::I64, chosen);
  const ExprPtr zero = int_constant(DType::I64, 0), all = int_constant(DType::I64, count);
  chosen = select(binary(BinaryOp::Lt, chosen, zero), binary(BinaryOp::Add, chosen, all), chosen);
  return binary(BinaryOp::Max, binary(BinaryOp::Min, chosen, int_constant(DType::I64, count - 1)), zero);
}

// The loops over the weights of a row: over blocks, and within a block. Loops that run once are left out.
struct RowLoops {
  std::vector<Iterator> loops;
  Affine block, column;
  std::vector<Affine> constraints;
};

RowLoops loops_of(const Matrix& matrix) {
  RowLoops result;
  if (matrix.blocks() > 1) {
    result.loops.push_back({"b", Affine(matrix.blocks())});
    result.block = Affine::variable("b");
  }
  for (const Iterator& loop : matrix.format->loops) result.loops.push_back(loop);
  result.column = result.block * matrix.format->block + matrix.format->place;
  if (matrix.columns % matrix.format->block != 0)
    result.constraints.push_back(Affine(matrix.columns - 1) - result.column);
  return result;
}

// --- BlockMatMul and ExpertMatMul ----------------------------------------------------------------------

// The inputs of ExpertMatMul: an operand [.., K], or [.., choices, K] with one for each choice; the numbers
// of the chosen matrices [.., choices]; then the planes of all matrices. Its result is [.., choices, N].
enum { kOperand, kChosen, kPlanesOfExperts };

// Whether there is one operand for all choices, by the numbers of axes.
bool is_shared(size_t operand_axes, size_t chosen_axes) { return operand_axes == chosen_axes; }

// Checks the shape `operand`, without its last axis, against that of the chosen numbers; returns the latter.
Shape checked_choices(InferContext& context, int input, Shape operand) {
  const Shape chosen = context.shape(input);
  const std::string unfit = text("input ", input, " has shape ", str(chosen), "; numbers of matrices [.., ",
                                 "choices] are needed for operands ", str(operand));
  if (chosen.empty()) context.error(unfit);
  Shape rows = chosen;
  if (is_shared(operand.size() + 1, chosen.size())) rows.pop_back();
  if (rows.size() != operand.size()) context.error(unfit);
  for (size_t i = 0; i < rows.size(); ++i) need_equal(context, operand[i], rows[i], unfit);
  return chosen;
}

void infer_product(InferContext& context) {
  const bool chooses = matrix_of(context.node()).experts > 0;
  const Matrix matrix = checked_matrix(context, chooses ? static_cast<int>(kPlanesOfExperts) : kFirstPlane);
  Shape shape = context.shape(kOperand);
  const std::string unfit =
      text("input 0 has shape ", str(shape), "; its last axis must be K, ", matrix.columns);
  if (shape.empty()) context.error(unfit);
  need_equal(context, shape.back(), Dim(matrix.columns), unfit);
  shape.pop_back();
  if (chooses) shape = checked_choices(context, kChosen, shape);
  shape.push_back(Dim(matrix.rows));
  context.set_output(0, DType::F32, shape);
}

void lower_product(LowerContext& context) {
  const Matrix matrix = matrix_of(context.node());
  const auto space = context.space("i", *context.output_value(0).shape);
  const RowLoops row = loops_of(matrix);
  std::vector<Affine> operand = space.position;
  const Affine feature = operand.back();
  operand.pop_back();
  ExprPtr expert;
  if (matrix.experts > 0) {
    expert = chosen_of(context, kChosen, operand, matrix.experts);
    if (is_shared(context.shape(kOperand).size(), operand.size())) operand.pop_back();
  }
  operand.push_back(row.column);
  const int planes = expert ? static_cast<int>(kPlanesOfExperts) : kFirstPlane;
  const ExprPtr weight =
      matrix.format->value(plane_reader(context, planes, {feature, nullptr}, row.block, expert));
  context.reduce("macc", {space.iterators, row.loops, row.constraints}, context.output(0), space.position,
                 Reduction::Sum, binary(BinaryOp::Mul, context.read(kOperand, operand), weight));
}

// --- BlockGather ---------------------------------------------------------------------------------------

void infer_rows(InferContext& context) {
  const Matrix matrix = checked_matrix(context, kFirstPlane);
  Shape shape = context.shape(0);
  shape.push_back(Dim(matrix.columns));
  context.set_output(0, DType::F32, shape);
}

void lower_rows(LowerContext& context) {
  const Matrix matrix = matrix_of(context.node());
  auto space = context.space("i", context.shape(0));
  RowLoops row = loops_of(matrix);
  const ExprPtr chosen = chosen_of(context, 0, space.position, matrix.rows);
  const ExprPtr weight =
      matrix.format->value(plane_reader(context, kFirstPlane, {Affine(0), chosen}, row.block));
  std::vector<Iterator> iterators = space.iterators;
  iterators.insert(iterators.end(), row.loops.begin(), row.loops.end());
  std::vector<Affine> position = space.position;
  position.push_back(row.column);
  context.assign("decode", iterators, context.output(0), position, weight, row.constraints);
}

// --- BlockQuantize -------------------------------------------------------------------------------------

// Scales are computed from at least this magnitude, so that their inverses do not overflow; much smaller
// numbers become 0.
constexpr double kMinPeak = 1e-30;

struct Groups {
  int64_t size = 1, digits = 1;
};

Groups groups_of(const Node& node) { return {int_attribute(node, "group"), int_attribute(node, "digits")}; }

void infer_quantised(InferContext& context) {
  const Groups groups = groups_of(context.node());
  Shape shape = context.shape(0);
  if (shape.empty() || !shape.back().is_constant() || shape.back().constant() % groups.size != 0) {
    context.error("input 0 has shape ", str(shape), "; its last axis must be whole groups of ", groups.size);
  }
  shape.back() = Dim(shape.back().constant() / groups.size);
  context.set_output(1, DType::F32, shape);
  context.set_output(2, DType::F32, shape);
  shape.insert(shape.end(), {Dim(std::max<int64_t>(groups.digits, 1)), Dim(groups.size)});
  context.set_output(0, groups.digits > 0 ? DType::I8 : DType::F32, shape);
}

// Without digits the numbers stay as they are, and only their sums are computed.
void lower_unquantised(LowerContext& context, int64_t size) {
  const Shape shape = *context.output_value(1).shape;
  const auto group = context.space("i", shape);
  const Iterator inside{"l", Affine(size)};
  std::vector<Affine> place = group.position, index = group.position;
  place.back() = group.position.back() * size + Affine::variable("l");
  index.insert(index.end(), {Affine(0), Affine::variable("l")});
  const ExprPtr value = context.read(0, place);
  std::vector<Iterator> all = group.iterators;
  all.push_back(inside);
  context.assign("number", all, context.output(0), index, value);
  context.assign("scale", group.iterators, context.output(1), group.position, constant(DType::F32, 1));
  context.reduce("sum", {group.iterators, {inside}}, context.output(2), group.position, Reduction::Sum,
                 value);
}

// Converts each number of a group to a whole number with a fixed number of digits to base 256, in units of
// the group's scale.
void lower_quantised(LowerContext& context) {
  const Groups groups = groups_of(context.node());
  if (groups.digits == 0) return lower_unquantised(context, groups.size);
  const double largest = largest_of_digits(groups.digits);
  const Shape shape = *context.output_value(1).shape;
  const auto group = context.space("i", shape);
  const Iterator inside{"l", Affine(groups.size)};
  std::vector<Affine> place = group.position;
  place.back() = group.position.back() * groups.size + Affine::variable("l");
  const ExprPtr value = context.read(0, place);
  const int peak = context.local("peak", DType::F32, shape),
            inverse = context.local("inverse", DType::F32, shape);
  const int total = context.local("total", DType::F32, shape);
  const auto at_group = [&](int buffer) { return context.read_buffer(buffer, group.position); };

  context.reduce("peak", {group.iterators, {inside}}, peak, group.position, Reduction::Max,
                 unary(UnaryOp::Abs, value));
  const ExprPtr bounded = binary(BinaryOp::Max, at_group(peak), constant(DType::F32, kMinPeak));
  context.assign("scale", group.iterators, context.output(1), group.position,
                 binary(BinaryOp::Div, bounded, constant(DType::F32, largest)));
  context.assign("inverse", group.iterators, inverse, group.position,
                 binary(BinaryOp::Div, constant(DType::F32, largest), bounded));
  const ExprPtr rounded = unary(UnaryOp::Round, binary(BinaryOp::Mul, value, at_group(inverse)));
  std::vector<Iterator> all = group.iterators;
  all.push_back(inside);
  for (int64_t digit = 0; digit < groups.digits; ++digit) {
    ExprPtr whole = cast(DType::I32, rounded);
    const int64_t below = groups.digits - 1 - digit;
    int64_t half = 0;  // added to round the lower digits away
    for (int64_t i = 0; i < below; ++i) half = 256 * half + 128;
    if (below > 0) {
      whole = binary(BinaryOp::Shr, binary(BinaryOp::Add, whole, int_constant(DType::I32, half)),
                     int_constant(DType::I32, 8 * below));
    }
    std::vector<Affine> index = group.position;
    index.insert(index.end(), {Affine(digit), Affine::variable("l")});
    context.assign("digit", all, context.output(0), index, cast(DType::I8, whole));
  }
  context.reduce("total", {group.iterators, {inside}}, total, group.position, Reduction::Sum, rounded);
  context.assign(
      "sum", group.iterators, context.output(2), group.position,
      binary(BinaryOp::Mul, at_group(total), context.read_buffer(context.output(1), group.position)));
}

// --- BlockDot and ExpertDot ----------------------------------------------------------------------------

// Inputs of BlockDot: the results of BlockQuantize for the operand, then the planes. ExpertDot has the
// numbers of the chosen matrices before the planes.
enum { kCodes, kScales, kSums, kPlanesOfDot, kChosenOfDot = kPlanesOfDot, kPlanesOfExpertDot };

void infer_dot(InferContext& context) {
  const bool chooses = matrix_of(context.node()).experts > 0;
  const Matrix matrix = checked_matrix(context, chooses ? kPlanesOfExpertDot : kPlanesOfDot);
  const int64_t group = matrix.format->group();
  TC_CHECK(group > 1, "format ", matrix.format->name);
  Shape shape = context.shape(kScales);
  const Dim groups(matrix.columns / group);
  if (shape.empty() || shape.back() != groups)
    context.error("the scales have shape ", str(shape), "; ", groups.str(), " groups are needed");
  need_shape(context, kSums, shape, "the sums");
  const Shape& codes = context.shape(kCodes);
  Shape needed = shape;
  needed.insert(needed.end(), {codes.size() > 1 ? codes[codes.size() - 2] : Dim(1), Dim(group)});
  need_shape(context, kCodes, needed, "the codes");
  need_number(context, needed[needed.size() - 2], "the number of digits");
  shape.pop_back();
  if (chooses) shape = checked_choices(context, kChosenOfDot, shape);
  shape.push_back(Dim(matrix.rows));
  context.set_output(0, DType::F32, shape);
}

// Floats lose nothing where the bias is subtracted from the code and not from the sums.
ExprPtr unbiased(const DecodedWeight& weight) {
  return weight.bias == 0 ? weight.code
                          : binary(BinaryOp::Sub, weight.code, int_constant(DType::I32, weight.bias));
}

// Computes for each group the sums of products of codes, one sum for each digit of the operand, scales them
// and adds them to the result. Where the operand has no digits, the sums are floats.
void lower_dot(LowerContext& context) {
  const Matrix matrix = matrix_of(context.node());
  const WeightFormat& format = *matrix.format;
  const Shape shape = *context.output_value(0).shape;
  const auto space = context.space("i", shape);
  RowLoops row = loops_of(matrix);
  const size_t inner = format.group_loops;
  const std::vector<Iterator> inside(row.loops.end() - static_cast<int64_t>(inner), row.loops.end());
  const std::vector<Iterator> outside(row.loops.begin(), row.loops.end() - static_cast<int64_t>(inner));
  // The group's number, and the weight's place in the group.
  Affine number = row.block * (format.block / format.group()), place;
  for (const auto& [name, coefficient] : format.place.terms()) {
    const bool is_inside = std::any_of(inside.begin(), inside.end(),
                                       [&, name = name](const Iterator& each) { return each.name == name; });
    if (is_inside) place = place + Affine::variable(name, coefficient);
    else number = number + Affine::variable(name, coefficient / format.group());
  }
  std::vector<Affine> group(space.position.begin(), space.position.end() - 1);
  ExprPtr expert;
  if (matrix.experts > 0) {
    expert = chosen_of(context, kChosenOfDot, group, matrix.experts);
    if (is_shared(context.shape(kScales).size(), group.size())) group.pop_back();
  }
  group.push_back(number);
  const DecodedWeight weight =
      format.decode(plane_reader(context, expert ? kPlanesOfExpertDot : kPlanesOfDot,
                                 {space.position.back(), nullptr}, row.block, expert));
  const int64_t digits = context.shape(kCodes)[context.shape(kCodes).size() - 2].constant();

  Shape sums_shape = shape;
  std::vector<Affine> at = space.position;
  for (const Iterator& each : outside) {
    sums_shape.push_back(Dim(each.extent.constant()));
    at.push_back(Affine::variable(each.name));
  }
  sums_shape.push_back(Dim(digits));
  std::vector<Iterator> each_group = space.iterators;
  each_group.insert(each_group.end(), outside.begin(), outside.end());
  const bool is_whole = context.input_value(kCodes).dtype == DType::I8;
  const int dots = context.local("dots", is_whole ? DType::I32 : DType::F32, sums_shape);
  std::vector<Affine> code = group;
  std::vector<Iterator> each_digit = each_group;
  if (digits > 1) each_digit.push_back({"d", Affine(digits)});
  const Affine digit = digits > 1 ? Affine::variable("d") : Affine(0);
  code.insert(code.end(), {digit, place});
  at.push_back(digit);
  // Results start at 0 before the loop over groups, which the following statements may share.
  context.assign("start", space.iterators, context.output(0), space.position, constant(DType::F32, 0));
  const ExprPtr operand = context.read(kCodes, code);
  context.reduce("dot", {each_digit, inside}, dots, at, Reduction::Sum,
                 is_whole ? binary(BinaryOp::Mul, cast(DType::I32, operand), weight.code)
                          : binary(BinaryOp::Mul, operand, cast(DType::F32, unbiased(weight))));
  ExprPtr whole;
  for (int64_t each = 0; each < digits; ++each) {
    at.back() = Affine(each);
    const ExprPtr read = context.read_buffer(dots, at);
    const ExprPtr next = is_whole ? cast(DType::F32, read) : read;
    whole = whole == nullptr
                ? next
                : binary(BinaryOp::Add, binary(BinaryOp::Mul, whole, constant(DType::F32, 256)), next);
  }
  ExprPtr value = is_whole ? binary(BinaryOp::Mul, whole, context.read(kScales, group)) : whole;
  const ExprPtr sum = context.read(kSums, group);
  if (is_whole && weight.bias != 0)
    value = binary(BinaryOp::Sub, value,
                   binary(BinaryOp::Mul, sum, constant(DType::F32, static_cast<double>(weight.bias))));
  if (weight.scale) value = binary(BinaryOp::Mul, value, weight.scale);
  if (weight.offset) value = binary(BinaryOp::Add, value, binary(BinaryOp::Mul, sum, weight.offset));
  Statement add;
  add.name = context.fresh("add");
  add.iterators = each_group;
  add.write = {context.output(0), {}};
  for (const Affine& index : space.position) add.write.index.push_back({index, nullptr});
  add.reduction = Reduction::Sum;
  add.value = value;
  context.add(std::move(add));
}

OpRow block_row(const std::string& name, int operands, const std::string& doc, bool chooses = false) {
  OpRow row = onnx_row("quantisation", {name, 1, nullptr, "tc"}, doc, {operands + 1, -1},
                       {{"format", std::string(), true, "of ir/ops/weight_formats.h"},
                        {"N", int64_t{0}, true, "rows", from_to(1, int64_t{1} << 31)},
                        {"K", int64_t{0}, true, "columns", from_to(1, int64_t{1} << 31)}});
  if (chooses) row.attributes.push_back({"experts", int64_t{0}, true, "matrices", from_to(1, 1 << 16)});
  return row;
}

const TypeSet kSingle{"f32", [](DType type) { return type == DType::F32; }};

}  // namespace

void register_packed_weight_ops(OpTable& table) {
  for (const bool chooses : {false, true}) {
    OpRow product =
        chooses
            ? block_row("ExpertMatMul", kPlanesOfExperts,
                        "BlockMatMul by those of several matrices that an input chooses for each row.", true)
            : block_row(
                  "BlockMatMul", kFirstPlane,
                  "Product of a tensor's last axis by the transpose of a matrix that is stored in blocks of few bits.");
    product.types = {{kSingle, {kOperand}}};
    if (chooses) product.types.push_back({kIndices, {kChosen}});
    product.infer = infer_product;
    product.lower = lower_product;
    table.add(std::move(product));
  }

  OpRow rows = block_row("BlockGather", kFirstPlane,
                         "Rows of a matrix that is stored in blocks of few bits, by their numbers.");
  rows.types = {{kIndices, {0}}};
  rows.infer = infer_rows;
  rows.lower = lower_rows;
  table.add(std::move(rows));

  OpRow quantised;
  quantised.name = "BlockQuantize";
  quantised.category = "quantisation";
  quantised.doc =
      "Groups of numbers along the last axis as whole numbers of one to three digits of 8 bits (or, with 0 digits, as they are), the groups' scales and their sums.";
  quantised.outputs = 3;
  quantised.attributes = {{"group", int64_t{32}, false, "numbers with one scale", from_to(1, 1 << 20)},
                          {"digits", int64_t{2}, false, "", from_to(0, 3)}};
  quantised.types = {{kSingle, {0}}};
  quantised.infer = infer_quantised;
  quantised.lower = lower_quantised;
  table.add(std::move(quantised));

  for (const bool chooses : {false, true}) {
    OpRow dot =
        chooses ? block_row(
                      "ExpertDot", kPlanesOfExpertDot,
                      "The product of ExpertMatMul of an operand that BlockQuantize has made whole numbers.",
                      true)
                : block_row("BlockDot", kPlanesOfDot,
                            "The same product of an operand that BlockQuantize has made whole numbers.");
    dot.onnx.clear();
    dot.types = {
        {{"i8 or f32", [](DType type) { return type == DType::I8 || type == DType::F32; }}, {kCodes}},
        {kSingle, {kScales, kSums}}};
    if (chooses) dot.types.push_back({kIndices, {kChosenOfDot}});
    dot.infer = infer_dot;
    dot.lower = lower_dot;
    table.add(std::move(dot));
  }
}

}  // namespace tc
