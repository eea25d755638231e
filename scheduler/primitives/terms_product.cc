// Products of floats as products of shorter numbers, on a matrix unit.
#include "scheduler/primitives/terms_product.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "ir/access.h"
#include "ir/target/register_groups.h"
#include "scheduler/algebra/algorithms.h"
#include "scheduler/primitives/banded_product.h"

namespace tc {
namespace {

// The lower limit of a band's largest magnitude, by which the inverse of the scale does not overflow.
constexpr double kMinPeak = 1e-30;
constexpr int64_t kHalfOfBytes = 128;

// A byte less 128, as the signed number with the other highest bit.
ExprPtr centred(const ExprPtr& byte) {
  return cast(DType::I8, binary(BinaryOp::Xor, byte, int_constant(DType::U8, kHalfOfBytes)));
}

// Both operands become terms of the unit's type. The input is divided by statements into a buffer [.., depth
// / D][terms][positions][D], where D is the depth of one instruction, or, where each sum is in a scalar
// register, [.., positions][terms][depth / D][D]. Whole numbers of the input have one
// scale per band, those of the constant one per feature; products of digits are summed up in whole numbers,
// those of one order (i + j) together. Where there is a single row, its digits are the rows of an
// accumulator, and the products of each pair of digits have a sum of their own.
class TermsRewrite : BandedProduct {
 public:
  TermsRewrite(const ScheduleState& state, size_t statement, const TermsAlgorithm& algorithm,
               const BandSizes& sizes)
      : BandedProduct(state, statement, algorithm.operand, sizes), algorithm_(algorithm) {
    bytes_ = algorithm.whole();
    narrow_constants_ = !bytes_;
  }

  Kernel run() {
    find_operands();
    if (bytes_) require_bytes();
    if (algorithm_.digits || is_centred()) scales_ = insert_scales();
    analyse();
    if (format_.accumulator == DType::I32 && !bytes_) refuse_overflow();
    pack_constant();
    std::vector<Statement> statements;
    input_statements(statements);
    product_statements(statements);
    for (const Statement& tail : tails_) statements.push_back(rewritten(tail));
    kernel_.statements = std::move(statements);
    remove_result();
    return std::move(kernel_);
  }

  // The accumulators, whose last block of features may be padded.
  BlockedDim padded() const {
    return {sums_name_, sums_block_, sums_rank_ - 1, unit_.columns, Affine(features_)};
  }
  const std::string& result() const { return result_name_; }

 private:
  int64_t terms() const { return algorithm_.terms; }
  // Whether digits of the input are an accumulator's rows.
  bool digits_are_rows() const { return ordered() && unit_.rows >= terms() && tiles_ * rows_ == 1; }
  // Whether the input's numbers are stored less 128, and the constant's sums make up for it.
  bool is_centred() const { return bytes_ && first_operand(format_) != format_.operand; }
  // Whether products of each order have sums of their own.
  bool ordered() const { return algorithm_.sums() > 1; }
  // Whether terms are in a buffer [.., depth / D][terms][groups][positions][pack]: the groups of several
  // rows, which vectors take together, are next to each other.
  bool rows_of_groups() const { return unit_.vectors && unit_.rows > 1 && format_.groups > 1; }
  int64_t groups() const { return rows_of_groups() ? format_.groups : 1; }
  // The index of a term after those of images and band.
  std::vector<Affine> term_at(const Affine& depth, const Affine& term, const Affine& group,
                              const Affine& position, const Affine& member) const {
    if (sums_are_scalars(unit_)) return {var(names_.panel), position, term, depth, member};
    std::vector<Affine> result = {var(names_.panel), depth, term, position, member};
    if (rows_of_groups()) result.insert(result.begin() + 3, group);
    return result;
  }

  void require_bytes() const {
    const DType input = buffer(input_.buffer).dtype, constant = buffer(constant_.buffer).dtype;
    if (input != format_.operand || constant != second_operand(format_))
      refuse("statement ", macc_.name, " multiplies ", name_of(input), " by ", name_of(constant),
             ", but the unit ", name_of(format_.operand), " by ", name_of(second_operand(format_)));
  }

  // --- buffers ---------------------------------------------------------------------------------

  // Refuses sums of products of one order that may not fit 31 bits: a digit is up to 128.
  void refuse_overflow() const {
    int64_t most = terms() * channels_;
    for (const std::string& tap : sums_) most *= extent(tap);
    constexpr int64_t kMost = (int64_t{1} << 31) / (128 * 128) - 1;
    if (most > kMost)
      refuse("statement ", macc_.name, " sums up ", most, " products of digits, but i32 holds ", kMost);
  }

  int add_buffer(const std::string& stem, DType dtype, const std::vector<int64_t>& sizes) {
    std::vector<Affine> shape;
    for (const std::string& image : images_) shape.push_back(size(image));
    shape.push_back(bands());
    for (int64_t size : sizes) shape.push_back(Affine(size));
    return add_local(stem, dtype, std::move(shape));
  }

  // The index of a private buffer: images and band, then the rest.
  std::vector<Affine> at_band(const std::vector<Affine>& rest) const {
    std::vector<Affine> index;
    for (const std::string& image : images_) index.push_back(var(image));
    index.push_back(var(names_.band));
    index.insert(index.end(), rest.begin(), rest.end());
    return index;
  }

  // Packs the constant in tiles as the unit loads them. With vectors, each block of features is a stream of
  // its own: hardware prefetches several streams at a time best (9216 x 4080 from memory: 2.9 ms where one
  // stream takes 4.4).
  void pack_constant() {
    Buffer& constant = kernel_.buffers[static_cast<size_t>(constant_.buffer)];
    Packing packing;
    packing.buffer = constant.name;
    if (!bytes_) packing.terms = names_.part;
    if (scales_ >= 0) packing.scaled = {names_.panel, names_.pair, names_.block, lane_};
    for (const Affine& size : constant.shape) {
      if (!size.is_constant()) refuse("constant ", constant.name, " has a symbolic shape");
      packing.original_shape.push_back(size.constant());
    }
    std::vector<Affine> shape;
    auto dimension = [&](const std::string& name, int64_t size) {
      packing.iterators.push_back(name);
      shape.push_back(Affine(size));
    };
    dimension(names_.panel, panels_);
    dimension(names_.pair, panel_);
    if (unit_.vectors) dimension(names_.block, blocks_);
    dimension(names_.depth, depths_);
    for (const std::string& tap : sums_) dimension(tap, extent(tap));
    if (!unit_.vectors) dimension(names_.block, blocks_);
    const bool inside = unit_.vectors && ordered();
    if (!inside && !bytes_) dimension(names_.part, terms());
    if (member_ == 0) dimension(names_.group, format_.groups);
    if (inside) dimension(names_.part, terms());
    dimension(lane_, unit_.columns);
    if (member_ > 0) dimension(names_.group, joined_positions());
    dimension(names_.member, member_ > 0 ? member_ : format_.pack);
    std::map<std::string, Affine> values;
    values[lane_] = feature_block() * unit_.columns + var(lane_);
    if (member_ == 0) values[channel_] = var(names_.depth, depth_) + in_depth();
    if (member_ > 0 && !channel_.empty())
      values[channel_] = var(names_.member) + (joined_.empty() ? var(names_.group, member_) : Affine(0));
    if (!joined_.empty()) values[joined_] = joined_position();
    if (!block_.empty()) values[block_] = Affine(0);
    if (!channel_outer_.empty()) values[channel_outer_] = Affine(0);
    for (const Subscript& subscript : constant_.index)
      packing.index.push_back(subscript.affine.substitute(values));
    constant.shape = shape;
    constant.dtype = second_operand(format_);
    constant.logical = "packed";
    packing_ = kernel_.packings.size();
    kernel_.packings.push_back(std::move(packing));
    if (scales_ < 0) return;
    Buffer& scales = kernel_.buffers[static_cast<size_t>(scales_)];
    scales.shape = {Affine(panels_ * panel_ * blocks_), Affine(unit_.columns)};
    if (is_centred()) scales.dtype = DType::I32;
    Packing of_scales;
    of_scales.sums = is_centred();
    of_scales.buffer = scales.name;
    of_scales.scales_of = buffer(constant_.buffer).name;
    kernel_.packings.push_back(std::move(of_scales));
  }

  Affine feature_block() const {
    return var(names_.panel, panel_ * blocks_) + var(names_.pair, blocks_) + var(names_.block);
  }
  Affine in_depth() const { return var(names_.group, format_.pack) + var(names_.member); }

  // --- statements ------------------------------------------------------------------------------

  // A statement over images, bands and panels, then the given iterators.
  Statement statement(const std::string& suffix, const std::vector<Iterator>& rest) const {
    Statement made;
    made.name = suffix.empty() ? macc_.name : fresh_statement(suffix);
    for (const std::string& image : images_) made.iterators.push_back({image, size(image)});
    made.iterators.push_back({names_.band, bands()});
    made.iterators.push_back({names_.panel, Affine(panels_)});
    made.iterators.insert(made.iterators.end(), rest.begin(), rest.end());
    made.constraints = in_bands();
    return made;
  }

  void input_statements(std::vector<Statement>& statements) {
    const std::string& stem = buffer(input_.buffer).name;
    std::vector<int64_t> shape = {panels_, depths_, terms(), positions_, depth_ / groups()};
    if (rows_of_groups()) shape.insert(shape.begin() + 3, groups());
    // Positions outside, so that one address serves all depths of a position.
    if (sums_are_scalars(unit_)) shape = {panels_, positions_, terms(), position_depths(), position_depth()};
    terms_ = add_buffer(stem + "_terms", first_operand(format_), shape);
    // A block of channels, or what is copied at a time: the groups of a block, if they are apart.
    const int64_t pack = format_.pack;
    const int64_t block = channel_block_ > 0 ? channel_block_
                          : rows_of_groups() ? pack
                                             : std::min<int64_t>(unit_.columns, position_depth());
    if (rows_of_groups() && block % pack != 0)
      refuse("blocks of ", block, " channels are no groups of ", pack);
    const int64_t lanes = rows_of_groups() ? pack : block;
    const int64_t all = position_depth() / block,
                  halves = channel_block_ > 0 ? std::min(all, channel_blocks_) : all;
    std::vector<Iterator> iterators = {{names_.depth, Affine(position_depths())}};
    Affine position;
    Access from = input_;
    for (const Dimension& at : dimensions_) {
      const Affine& index = input_.index[at.dim].affine;
      if (at.own_dimension) continue;  // an image's index stays
      iterators.push_back({at.name, Affine(at.size)});
      position = position + var(at.name, at.pitch);
      Affine place = var(at.name, at.step) + Affine(index.constant());
      if (std::count(at.rows.begin(), at.rows.end(), banded_) > 0) {
        place = place + var(names_.band, band_ * index.coefficient(banded_));
      }
      from.index[at.dim] = {place, nullptr};
    }
    iterators.push_back({names_.half, Affine(halves)});
    if (rows_of_groups()) iterators.push_back({names_.group, Affine(block / lanes)});
    iterators.push_back({names_.lane, Affine(lanes)});
    Statement read;  // what all statements that read the input share
    read.iterators = iterators;
    read.constraints = in_bands();
    const Affine within = rows_of_groups() ? var(names_.group, lanes) + var(names_.lane) : var(names_.lane);
    const Affine lane = var(names_.half, block) + within;
    bool lacks = false;  // whether the last depth has fewer channels
    if (channel_block_ > 0) {
      const Affine number = var(names_.depth, depth_ / block) + var(names_.half);
      from.index[channel_dim_] = {channel_outer_.empty() ? Affine(0) : number, nullptr};
      from.index.back() = {within, nullptr};
      lacks = channel_blocks_ * block < position_depths() * position_depth();
      if (lacks && channel_blocks_ > 1) read.constraints.push_back(Affine(channel_blocks_ - 1) - number);
    } else if (!channel_.empty()) {
      const Affine channel = var(names_.depth, depth_) + lane;
      from.index.back() = {channel, nullptr};
      lacks = channels_ < position_depths() * position_depth();
      if (lacks) read.constraints.push_back(Affine(channels_ - 1) - channel);
    }
    bool borders = false;
    const auto box = box_of(kernel_, statement("", iterators));
    for (const Dimension& at : dimensions_) {
      const Affine& index = from.index[at.dim].affine;
      for (const Affine& condition : {index, buffer(input_.buffer).shape[at.dim] - Affine(1) - index}) {
        if (range_of(condition, box).low >= 0) continue;
        read.constraints.push_back(condition);
        borders = true;
      }
    }
    if (borders) {
      statements.push_back(zero("_zero", 0, 0));
    } else {
      if (lacks) statements.push_back(zero("_zero", position_depths() - 1, 0));
      if (positions_ > read_positions_) statements.push_back(zero("_rest", 0, read_positions_));
    }
    const ExprPtr value = load(buffer(from.buffer).dtype, from.buffer, from.index);
    if (algorithm_.digits) scale_statements(statements, read, value);
    for (int64_t term = 0; term < terms(); ++term) {
      Statement made = statement(text("_term", term), read.iterators);
      made.constraints = read.constraints;
      const Affine group = rows_of_groups() ? var(names_.half, block / lanes) + var(names_.group) : Affine(0);
      made.write = access_at(terms_, at_band(term_at(var(names_.depth), Affine(term), group, position,
                                                     rows_of_groups() ? var(names_.lane) : lane)));
      made.value = term_of(value, term);
      statements.push_back(std::move(made));
    }
  }

  // A statement that sets to zero the terms that no element of the input gives: borders, channels beyond the
  // last.
  Statement zero(const std::string& suffix, int64_t first_depth, int64_t first_position) const {
    std::vector<Iterator> iterators = {{names_.depth, Affine(position_depths() - first_depth)},
                                       {names_.part, Affine(terms())},
                                       {names_.position, Affine(positions_ - first_position)},
                                       {names_.lane, Affine(position_depth() / groups())}};
    if (rows_of_groups()) iterators.insert(iterators.begin() + 2, {names_.group, Affine(groups())});
    Statement made = statement(suffix, iterators);
    made.write = access_at(
        terms_, at_band(term_at(var(names_.depth) + Affine(first_depth), var(names_.part), var(names_.group),
                                var(names_.position) + Affine(first_position), var(names_.lane))));
    made.value = is_centred() ? int_constant(DType::I8, -kHalfOfBytes) : none(format_.operand);
    return made;
  }

  ExprPtr term_of(const ExprPtr& value, int64_t term) const {
    if (is_centred()) return centred(value);
    if (bytes_) return value;
    return algorithm_.digits ? digit(value, term) : part(value, term);
  }

  static ExprPtr none(DType dtype) { return is_float(dtype) ? constant(dtype, 0) : int_constant(dtype, 0); }

  // A term of the value: what the terms before it leave, rounded to the operand's type.
  ExprPtr part(ExprPtr value, int64_t term) const {
    for (int64_t before = 0; before < term; ++before) {
      value = binary(BinaryOp::Sub, value, cast(DType::F32, cast(format_.operand, value)));
    }
    return cast(format_.operand, value);
  }

  // A digit of the whole number that the value is in units of the band's scale.
  ExprPtr digit(const ExprPtr& value, int64_t term) const {
    const ExprPtr scaled =
        binary(BinaryOp::Mul, value, load(DType::F32, inverse_, at_band({var(names_.panel)})));
    const ExprPtr whole = cast(DType::I32, unary(UnaryOp::Round, scaled));
    const int64_t below = terms() - 1 - term;
    int64_t half = 0;  // what rounds the digits below away
    for (int64_t i = 0; i < below; ++i) half = 256 * half + 128;
    if (below == 0) return cast(format_.operand, whole);
    return cast(format_.operand,
                binary(BinaryOp::Shr, binary(BinaryOp::Add, whole, int_constant(DType::I32, half)),
                       int_constant(DType::I32, 8 * below)));
  }

  // The statements that compute the largest magnitude of a band and the factor for its numbers. A NaN or an
  // infinity makes both such that all results of the band are NaN.
  void scale_statements(std::vector<Statement>& statements, const Statement& read, const ExprPtr& value) {
    const std::string& stem = buffer(input_.buffer).name;
    const Iterator half = read.iterators.at(read.iterators.size() - 2);
    const int64_t halves = half.extent.constant();
    // Partial maxima, which need not wait for each other.
    const int peaks = add_buffer(stem + "_peaks", DType::F32, {panels_, halves});
    peak_ = add_buffer(stem + "_peak", DType::F32, {panels_});
    inverse_ = add_buffer(stem + "_inverse", DType::F32, {panels_});
    Statement least = statement("_least", {half}), most = statement("_peaks", read.iterators);
    Statement whole = statement("_peak", {}), invert = statement("_inverse", {});
    least.write = most.write = access_at(peaks, at_band({var(names_.panel), var(half.name)}));
    least.value = constant(DType::F32, kMinPeak);
    most.constraints = read.constraints;
    most.reduction = Reduction::Max;
    most.value = unary(UnaryOp::Abs, value);
    whole.write = access_at(peak_, at_band({var(names_.panel)}));
    for (int64_t i = 0; i < halves; ++i) {
      const ExprPtr each = load(DType::F32, peaks, at_band({var(names_.panel), Affine(i)}));
      whole.value = whole.value == nullptr ? each : binary(BinaryOp::Max, whole.value, each);
    }
    invert.write = access_at(inverse_, at_band({var(names_.panel)}));
    invert.value = binary(BinaryOp::Div, constant(DType::F32, algorithm_.largest()),
                          load(DType::F32, peak_, at_band({var(names_.panel)})));
    statements.insert(statements.end(), {least, most, whole, invert});
  }

  void product_statements(std::vector<Statement>& statements) {
    const int64_t blocks = panels_ * panel_ * blocks_;
    std::vector<int64_t> shape = {blocks};
    if (lines_apart_) shape.push_back(band_);
    shape.push_back(tiles_ * rows_);
    if (ordered()) shape.push_back(terms());
    if (digits_are_rows()) shape.push_back(terms());
    shape.push_back(unit_.columns);
    accumulators_ = add_buffer(result_name_ + "_sums", format_.accumulator, shape);
    sums_name_ = buffer(accumulators_).name;
    sums_rank_ = buffer(accumulators_).shape.size();
    sums_block_ = images_.size() + 1;
    std::vector<Iterator> outputs = {{names_.pair, Affine(panel_)}, {names_.block, Affine(blocks_)}};
    std::vector<Affine> place = {feature_block()};
    Affine position = var(names_.tile, strides_[column_] * rows_);
    if (!digits_are_rows()) position = position + var(names_.row, strides_[column_]);
    if (lines_apart_) {
      outputs.push_back({banded_, Affine(band_)});
      place.push_back(var(banded_));
      position = position + var(banded_, strides_[banded_]);
    }
    outputs.push_back({names_.tile, Affine(tiles_)});
    place.push_back(digits_are_rows() ? var(names_.tile) : var(names_.tile, rows_) + var(names_.row));
    std::vector<Iterator> starting = outputs, adding = outputs;
    std::vector<Affine> started = place;
    const int64_t rows = digits_are_rows() ? terms() : rows_;
    if (ordered()) {
      starting.push_back({names_.order, Affine(terms())});
      started.push_back(var(names_.order));
      place.push_back(digits_are_rows() ? var(names_.other) : var(names_.part) + var(names_.other));
    }
    if (digits_are_rows()) {
      started.push_back(var(names_.row));
      place.push_back(var(names_.row));
    }
    started.push_back(var(lane_));
    place.push_back(var(lane_));
    starting.insert(starting.end(), {{names_.row, Affine(rows)}, {lane_, Affine(unit_.columns)}});
    adding.push_back({names_.depth, Affine(depths_)});
    for (const std::string& tap : sums_) {
      adding.push_back({tap, Affine(extent(tap))});
      position = position + var(tap, strides_[tap]);
    }
    if (member_ > 0) position = position + joined_position();
    if (!digits_are_rows()) adding.push_back({names_.part, Affine(terms())});
    adding.insert(adding.end(), {{names_.other, Affine(terms())},
                                 {names_.row, Affine(rows)},
                                 {lane_, Affine(unit_.columns)},
                                 {names_.group, Affine(member_ > 0 ? joined_positions() : format_.groups)},
                                 {names_.member, Affine(member_ > 0 ? member_ : format_.pack)}});
    Statement start = statement("_start", starting), add = statement("", adding);
    start.write = access_at(accumulators_, at_band(started));
    start.value = none(format_.accumulator);
    add.write = access_at(accumulators_, at_band(place));
    // Leave out tiles without rows.
    if (rows_are_symbolic() && accumulator_tiles_ == 1 && banded_ == column_) {
      const Affine left = size(banded_) - Affine(1) - var(names_.band, band_) - var(names_.tile, rows_);
      start.constraints.push_back(left);
      add.constraints.push_back(left);
    }
    if (!digits_are_rows())
      add.constraints.push_back(Affine(terms() - 1) - var(names_.part) - var(names_.other));
    add.reduction = Reduction::Sum;
    const Affine part = var(digits_are_rows() ? names_.row : names_.part);
    const bool members = rows_of_groups() || member_ > 0;
    const ExprPtr input =
        load(first_operand(format_), terms_,
             at_band(term_at(member_ > 0 ? Affine(0) : var(names_.depth), part, var(names_.group), position,
                             members ? var(names_.member) : in_depth())));
    std::vector<Affine> index;
    for (const std::string& name : kernel_.packings.at(packing_).iterators) {
      index.push_back(var(name == names_.part ? names_.other : name));
    }
    const ExprPtr weight = load(second_operand(format_), constant_.buffer, index);
    add.value = binary(BinaryOp::Mul, cast(format_.accumulator, input), cast(format_.accumulator, weight));
    statements.insert(statements.end(), {start, add});
  }

  // The sum at a place of the accumulators, in f32. The sum of order o has the weight 256^(terms - 1 - o), in
  // units of 256^(terms - 1).
  ExprPtr sum_at(std::vector<Affine> band, const std::vector<Affine>& rows, const Affine& lane) const {
    std::vector<Affine> index = band;
    index.push_back(feature_block());
    index.insert(index.end(), rows.begin(), rows.end());
    if (!algorithm_.digits) {
      index.push_back(lane);
      const ExprPtr sum = load(format_.accumulator, accumulators_, index);
      if (!is_centred()) return sum;
      return binary(BinaryOp::Add, sum,
                    load(DType::I32, scales_, std::vector<Affine>{feature_block(), lane}));
    }
    ExprPtr whole;
    auto summed = [&](std::vector<int64_t> place) {
      std::vector<Affine> at = index;
      for (int64_t each : place) at.push_back(Affine(each));
      at.push_back(lane);
      return load(format_.accumulator, accumulators_, at);
    };
    for (int64_t order = 0; order < terms(); ++order) {
      ExprPtr sum = digits_are_rows() ? summed({order, 0}) : ordered() ? summed({order}) : summed({});
      for (int64_t part = 1; digits_are_rows() && part <= order; ++part) {
        sum = binary(BinaryOp::Add, sum, summed({order - part, part}));
      }
      const ExprPtr next = is_float(format_.accumulator) ? sum : cast(DType::F32, sum);
      whole = whole == nullptr
                  ? next
                  : binary(BinaryOp::Add, binary(BinaryOp::Mul, whole, constant(DType::F32, 256)), next);
    }
    band.push_back(var(names_.panel));
    const double unit = std::ldexp(1.0, static_cast<int>(8 * (terms() - 1))) / algorithm_.largest();
    const ExprPtr scale = binary(BinaryOp::Mul, load(DType::F32, peak_, band), constant(DType::F32, unit));
    return binary(
        BinaryOp::Mul,
        binary(BinaryOp::Mul, whole, load(DType::F32, scales_, std::vector<Affine>{feature_block(), lane})),
        scale);
  }

  // A statement of the epilogue, over images, bands and panels like the others, then over rows and lanes; it
  // reads the accumulators.
  Statement rewritten(const Statement& tail) const {
    const Access read = *result_of(tail);
    std::map<std::string, Affine> at;  // the sum's iterators in the tail's
    for (size_t d = 0; d < read.index.size(); ++d) {
      const std::string own = macc_.write.index[d].affine.as_variable();
      if (!own.empty()) at[own] = read.index[d].affine;
    }
    Statement result = tail;
    result.iterators.clear();
    std::set<std::string> placed;
    auto place = [&](const std::string& name, const Affine& size) {
      result.iterators.push_back({name, size});
      placed.insert(name);
    };
    auto own = [&](const std::string& of_sum) { return at.at(of_sum).as_variable(); };
    for (const std::string& image : images_) place(own(image), size(image));
    place(names_.band, bands());
    place(names_.panel, Affine(panels_));
    place(names_.pair, Affine(panel_));
    place(names_.block, Affine(blocks_));
    place(own(banded_), Affine(band_));
    if (column_ != banded_) place(own(column_), Affine(extent(column_)));
    const std::string lane = own(lane_), block = block_.empty() ? "" : own(block_);
    for (const Iterator& each : tail.iterators) {
      if (placed.count(each.name) == 0 && each.name != lane && each.name != block)
        result.iterators.push_back(each);
    }
    place(lane, Affine(unit_.columns));

    const Affine line = var(names_.band, band_) + at.at(banded_);
    std::map<std::string, Affine> values = {{own(banded_), line}};
    if (!block.empty()) values[block] = feature_block();
    for (Affine& constraint : result.constraints) constraint = constraint.substitute(values);
    if (rows_are_symbolic() || bands_ * band_ > extent(banded_))
      result.constraints.push_back(size(banded_) - Affine(1) - line);
    if (panels_ * panel_ * blocks_ > blocks_of_features_) {
      result.constraints.push_back(Affine(blocks_of_features_ - 1) - feature_block());
    }
    std::vector<Affine> band, rows;
    for (const std::string& image : images_) band.push_back(at.at(image));
    band.push_back(var(names_.band));
    Affine row = at.at(column_);
    if (lines_apart_) rows.push_back(at.at(banded_));
    else if (banded_ != column_) row = row + at.at(banded_) * (strides_.at(banded_) / strides_.at(column_));
    rows.push_back(row);
    const ExprPtr sum = sum_at(band, rows, at.at(lane_));
    result.write = substitute(result.write, values);
    result.value = rewrite(substitute(result.value, values), [&](const ExprPtr& each) {
      return each->kind == Expr::Kind::Load && each->access.buffer == macc_.write.buffer ? sum : nullptr;
    });
    return result;
  }

  // Nothing uses the buffer of the original sums any more.
  void remove_result() {
    const int gone = macc_.write.buffer;
    for (Statement& statement : kernel_.statements) {
      edit_accesses(statement, [&](const Access& each) {
        Access moved = each;
        moved.buffer -= each.buffer > gone;
        return moved;
      });
    }
    kernel_.buffers.erase(kernel_.buffers.begin() + gone);
  }

  const TermsAlgorithm& algorithm_;
  int terms_ = -1, accumulators_ = -1, scales_ = -1, peak_ = -1, inverse_ = -1;  // buffers
  size_t packing_ = 0;
  std::string sums_name_;
  size_t sums_rank_ = 0, sums_block_ = 0;
};

void apply_terms(ScheduleState& state, const TermsAlgorithm& algorithm, const Arguments& given) {
  const BandSizes sizes = {given.number("BAND"), given.number("PANEL"), given.number("BLOCKS"),
                           given.number("TILES"), given.number("ROWS")};
  TermsRewrite rewrite(state, given.statement("STATEMENT"), algorithm, sizes);
  Kernel kernel = rewrite.run();
  state.blocked.erase(std::remove_if(state.blocked.begin(), state.blocked.end(),
                                     [&](const BlockedDim& dim) { return dim.buffer == rewrite.result(); }),
                      state.blocked.end());
  state.blocked.push_back(rewrite.padded());
  replace_kernel(state, std::move(kernel));
}

}  // namespace

Primitive terms_primitive(const std::string& name, const std::string& doc) {
  using namespace argument;
  const auto* found = std::find_if(std::begin(kTermsAlgorithms), std::end(kTermsAlgorithms),
                                   [&](const TermsAlgorithm& each) { return each.name == name; });
  TC_CHECK(found != std::end(kTermsAlgorithms), "algorithm ", name);
  const TermsAlgorithm& algorithm = *found;
  Primitive primitive;
  primitive.row = {
      name,
      PrimitiveKind::Rewrite,
      {statement("STATEMENT"), keyword(name), number("BAND", "the rows of a band", 1),
       number("PANEL", "the blocks of a panel", 1), number("BLOCKS", "the blocks at a time", 1),
       number("TILES", "the accumulators at a time", 1), number("ROWS", "the rows of an accumulator", 1)},
      doc +
          " In bands of BAND rows and panels of PANEL x BLOCKS blocks of features; BLOCKS x TILES "
          "accumulators of ROWS rows at a time."};
  primitive.row.verb = "algorithm";
  primitive.row.matrix_unit = true;
  primitive.apply = [&algorithm](ScheduleState& state, const Arguments& given) {
    apply_terms(state, algorithm, given);
  };
  primitive.algorithm = [&algorithm](const PrimitiveLine&) {
    return TraceAlgorithm{algorithm.name, algorithm.error, algorithm.error * kLayers};
  };
  return primitive;
}

}  // namespace tc
