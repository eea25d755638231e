// algorithm bf16x3: products of floats as three products of their halves, on a matrix unit.
#include <algorithm>

#include "ir/access.h"
#include "scheduler/primitives/algorithm.h"
#include "scheduler/primitives/product_rewrite.h"

namespace tc {
namespace {

// Replaces a sum of products of an input and a constant: both become sums of two numbers of the unit's
// type, high and low, of which the product of the low ones is left out. The input is divided by
// statements into a buffer [.., depth / D][2][positions][D], where D is the depth of one instruction;
// a position is an element of the input's map, borders included, so that rows of outputs are positions
// in steps.
class TwoTermsRewrite : ProductRewrite {
 public:
  TwoTermsRewrite(const ScheduleState& state, const std::string& statement, int64_t band, int64_t panel,
                  int64_t blocks, int64_t tiles, int64_t rows)
      : ProductRewrite(state, statement), unit_(state.target.matrix), band_(band), panel_(panel), blocks_(blocks),
        tiles_(tiles), rows_(rows) {
    if (unit_.registers == 0) refuse("target ", state.target.name, " has no matrix unit");
    if (rows > unit_.rows) refuse("an accumulator has ", unit_.rows, " rows, fewer than ", rows);
    depth_ = int64_t{unit_.groups} * unit_.members;
  }

  Kernel run() {
    find_operands();
    find_result();
    classify();
    find_channels();
    find_conditions();
    find_neighbours();
    find_positions();
    size_blocks();
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
  BlockedDim padded() const { return {sums_name_, sums_block_, sums_rank_ - 1, unit_.columns, Affine(features_)}; }
  const std::string& result() const { return result_name_; }

 private:
  static int64_t parts(int64_t size, int64_t part) { return (size + part - 1) / part; }

  // A private buffer, its features in blocks of the unit's columns.
  void find_result() {
    refuse_dynamic();
    const Buffer& result = buffer(macc_.write.buffer);
    result_name_ = result.name;
    if (result.scope != Scope::Local) refuse("the sums are in ", result.name, ", which is not private: stage it");
    lane_ = macc_.write.index.empty() ? "" : macc_.write.index.back().affine.as_variable();
    if (lane_.empty() || extent(lane_) != unit_.columns || result.shape.back() != Affine(unit_.columns)) {
      refuse("the features of ", result.name, " are not in blocks of ", unit_.columns);
    }
  }

  // Which iterators are rows, features and what is summed over.
  void classify() {
    for (const Iterator& iterator : macc_.iterators) {
      const std::string& name = iterator.name;
      extent(name);
      const bool output = depends_on(macc_.write, name), in = depends_on(input_, name), by = depends_on(constant_, name);
      if (output && in && by) refuse("iterator ", name, " counts groups: they are not supported");
      if (!in && !by) refuse("iterator ", name, " is in no operand of ", macc_.name);
      if (output && by) {
        if (name == lane_) continue;
        if (!block_.empty()) refuse("features are counted by ", block_, " and by ", name);
        block_ = name;
      } else if (output) {
        if (name == lane_) refuse("iterator ", name, " is not along the constant's features");
        row_names_.push_back(name);
      } else if (in && by) {
        sums_.push_back(name);
      } else {
        refuse("iterator ", name, " of ", macc_.name, " is summed over in one operand only");
      }
    }
    if (!depends_on(constant_, lane_)) refuse("iterator ", lane_, " is not along the constant's features");
    if (row_names_.empty()) refuse("statement ", macc_.name, " has no rows");
    for (const Subscript& subscript : macc_.write.index) {
      const Affine& index = subscript.affine;
      if (index != Affine(0) && index.as_variable().empty()) {
        refuse("statement ", macc_.name, " writes at ", index.str());
      }
    }
    blocks_of_features_ = block_.empty() ? 1 : extent(block_);
    features_ = unit_.columns * blocks_of_features_;
    for (const BlockedDim& dim : state_.blocked) {
      if (dim.buffer == result_name_ && dim.extent.is_constant()) features_ = dim.extent.constant();
    }
    for (const Subscript& subscript : constant_.index) {
      const Affine& index = subscript.affine;
      if (!block_.empty() && index.coefficient(block_) != unit_.columns * index.coefficient(lane_)) {
        refuse("constant ", buffer(constant_.buffer).name, " is not indexed by blocks of ", unit_.columns, " features");
      }
    }
  }

  // What is summed over along the input's innermost dimension, whole or in blocks.
  void find_channels() {
    const Buffer& input = buffer(input_.buffer);
    channel_ = input_.index.empty() ? "" : input_.index.back().affine.as_variable();
    if (channel_.empty() || std::count(sums_.begin(), sums_.end(), channel_) == 0) {
      refuse("what is summed over is not the innermost dimension of ", input.name);
    }
    sums_.erase(std::find(sums_.begin(), sums_.end(), channel_));
    const auto last = input_.index.size() - 1;
    for (const BlockedDim& dim : state_.blocked) {
      if (dim.buffer != input.name || dim.inner != last) continue;
      channel_block_ = dim.block;
      channel_dim_ = dim.outer;
    }
    if (channel_block_ > 0 && (depth_ % channel_block_ != 0 || extent(channel_) != channel_block_)) {
      refuse("blocks of ", channel_block_, " channels do not fill a depth of ", depth_);
    }
    if (channel_block_ > 0) {
      const Affine& outer = input_.index[channel_dim_].affine;
      channel_outer_ = outer.as_variable();
      if (channel_outer_.empty() && outer != Affine(0)) refuse("channels of ", input.name, " are counted by ", outer.str());
      if (!channel_outer_.empty()) {
        const auto found = std::find(sums_.begin(), sums_.end(), channel_outer_);
        if (found == sums_.end()) refuse("iterator ", channel_outer_, " does not count channels only");
        sums_.erase(found);
      }
    }
    for (size_t d = 0; d < input_.index.size(); ++d) {
      const Affine& index = input_.index[d].affine;
      const bool other = d != last && (channel_block_ == 0 || d != channel_dim_);
      if (other && (index.coefficient(channel_) != 0 ||
                    (!channel_outer_.empty() && index.coefficient(channel_outer_) != 0))) {
        refuse("channels of ", input.name, " are in several dimensions");
      }
    }
    for (const Subscript& subscript : constant_.index) {
      const Affine& index = subscript.affine;
      if (!channel_outer_.empty() &&
          index.coefficient(channel_outer_) != channel_block_ * index.coefficient(channel_)) {
        refuse("constant ", buffer(constant_.buffer).name, " is not indexed by all channels");
      }
    }
    channel_blocks_ = channel_outer_.empty() ? 1 : extent(channel_outer_);
    channels_ = channel_block_ > 0 ? channel_blocks_ * channel_block_ : extent(channel_);
  }

  // Elements beyond the input's borders are zeros; features and channels beyond the constant's, too.
  void find_conditions() {
    for (const Affine& condition : macc_.constraints) {
      bool known = false;
      for (const Access* access : {&input_, &constant_}) {
        for (size_t d = 0; d < access->index.size(); ++d) {
          const Affine& index = access->index[d].affine;
          known = known || (access == &input_ && condition == index) ||
                  condition == buffer(access->buffer).shape[d] - Affine(1) - index;
        }
      }
      if (!known) refuse("statement ", macc_.name, " has the condition ", condition.str(), " >= 0");
    }
  }

  // An initialisation by zero before, elementwise statements that read the result after.
  void find_neighbours() {
    const int result = macc_.write.buffer;
    bool initial = false;
    for (size_t i = 0; i < kernel_.statements.size(); ++i) {
      const Statement& statement = kernel_.statements[i];
      if (i == which_) continue;
      if (i < which_) {
        const bool zero = statement.write.buffer == result && statement.value->kind == Expr::Kind::Const &&
                          statement.value->number == 0;
        if (!zero) refuse("statement ", statement.name, " before ", macc_.name, " does not only set ", result_name_, " to 0");
        initial = true;
        continue;
      }
      if (statement.reduction != Reduction::None || !result_of(statement) || statement.write.buffer == result) {
        refuse("statement ", statement.name, " after ", macc_.name, " is not elementwise over ", result_name_);
      }
      tails_.push_back(statement);
    }
    if (!initial) refuse("nothing initialises ", result_name_);
  }

  // The one place at which the statement reads the result, by iterators that count as the sum's do.
  std::optional<Access> result_of(const Statement& statement) const {
    std::optional<Access> read;
    bool several = false;
    for_each_load(statement.value, [&](const Expr& load) {
      if (load.access.buffer != macc_.write.buffer) return;
      for (size_t d = 0; d < load.access.index.size(); ++d) {
        several = several || load.access.index[d].dynamic || (read && read->index[d].affine != load.access.index[d].affine);
      }
      read = load.access;
    });
    if (!read || several) return std::nullopt;
    for (size_t d = 0; d < read->index.size(); ++d) {
      const std::string own = macc_.write.index[d].affine.as_variable();
      const Affine& index = read->index[d].affine;
      if (own.empty() ? index != Affine(0)
                      : index.as_variable().empty() || iterator_extent(statement, index.as_variable()) != Affine(extent(own))) {
        return std::nullopt;
      }
    }
    return read;
  }

  // One dimension of the input that is no channels'.
  struct Dimension {
    size_t dim = 0;
    std::vector<std::string> rows, taps;
    int64_t step = 1;              // input elements from one position to the next
    int64_t size = 1;              // positions that a band reads
    int64_t pitch = 1;             // positions from one to the next along the dimension
    std::string name;              // iterator of the statements that read the input
    bool apart = false;            // of images: a dimension of its own
  };

  // Places of rows and taps among the positions of a band.
  void find_positions() {
    std::vector<std::pair<std::string, size_t>> rows;   // and the dimension
    for (size_t d = 0; d + 1 < input_.index.size(); ++d) {
      if (channel_block_ > 0 && d == channel_dim_) continue;
      Dimension at;
      at.dim = d;
      auto terms = input_.index[d].affine.terms();
      std::stable_sort(terms.begin(), terms.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
      for (const auto& [name, coefficient] : terms) {
        if (coefficient < 0) refuse("the input is read backwards along ", name);
        const bool row = std::count(row_names_.begin(), row_names_.end(), name) > 0;
        (row ? at.rows : at.taps).push_back(name);
        if (!row) continue;
        rows.emplace_back(name, dimensions_.size());
        if (std::count_if(rows.begin(), rows.end(), [&](const auto& each) { return each.first == name; }) > 1) {
          refuse("iterator ", name, " is in several dimensions of ", buffer(input_.buffer).name);
        }
      }
      if (at.taps.empty() && at.rows.size() == 1) at.step = terms[0].second;
      if (!terms.empty()) dimensions_.push_back(at);
    }
    column_ = rows.back().first;
    banded_ = rows.size() > 1 ? rows[rows.size() - 2].first : column_;
    for (size_t i = 0; i + 2 < rows.size(); ++i) {
      Dimension& image = dimensions_[rows[i].second];
      if (image.rows.size() != 1 || !image.taps.empty()) refuse("rows are counted by more than three iterators");
      image.apart = true;
      images_.push_back(rows[i].first);
    }
    band_ = std::min(band_, extent(banded_));
    bands_ = parts(extent(banded_), band_);
    int64_t pitch = 1;
    for (size_t i = dimensions_.size(); i-- > 0;) {
      Dimension& at = dimensions_[i];
      at.pitch = pitch;
      const Affine& index = input_.index[at.dim].affine;
      for (const std::vector<std::string>* names : {&at.rows, &at.taps}) {
        for (const std::string& name : *names) {
          const int64_t step = index.coefficient(name) / at.step;
          const int64_t count = name == banded_ ? band_ : extent(name);
          strides_[name] = step * pitch;
          at.size += step * (count - 1);
        }
      }
      if (!at.apart) pitch *= at.size;
    }
    positions_ = pitch;
    // Rows may run on from one line of the map to the next, where fewer accumulators do.
    const int64_t step = strides_[column_], lines = banded_ == column_ ? 1 : band_;
    const int64_t width = banded_ == column_ ? band_ : extent(column_);
    flat_rows_ = width;
    if (lines > 1 && strides_[banded_] % step == 0) {
      const int64_t all = (lines - 1) * (strides_[banded_] / step) + width;
      if (parts(all, unit_.rows) <= lines * parts(width, unit_.rows)) flat_rows_ = all;
    }
    lines_apart_ = lines > 1 && flat_rows_ == width;
  }

  void size_blocks() {
    const int64_t blocks = blocks_of_features_;
    blocks_ = std::min(blocks_, blocks);
    panel_ = std::min(panel_, parts(blocks, blocks_));
    panels_ = parts(blocks, blocks_ * panel_);
    rows_ = std::min(rows_, flat_rows_);
    tiles_ *= parts(parts(flat_rows_, rows_), tiles_);
    int64_t reach = strides_[column_] * (tiles_ * rows_ - 1) + 1;
    if (lines_apart_) reach += strides_[banded_] * (band_ - 1);
    for (const std::string& tap : sums_) reach += strides_[tap] * (extent(tap) - 1);
    read_positions_ = positions_;
    positions_ = std::max(positions_, reach);
    depths_ = parts(channels_, depth_);
    names_ = {fresh("band"), fresh("panel"), fresh("fp"), fresh("fn"), fresh("rt"), fresh("cb"),
              fresh("row"),  fresh("g"),     fresh("e"),  fresh("part"), fresh("h"), fresh("l"), fresh("at")};
    for (size_t i = 0; i < dimensions_.size(); ++i) dimensions_[i].name = fresh("q" + std::to_string(i));
  }

  struct Names {
    std::string band, panel, pair, block, tile, depth, row, group, member, part, half, lane, position;
  };

  // --- buffers ---------------------------------------------------------------------------------

  int add_buffer(const std::string& stem, DType dtype, const std::vector<int64_t>& sizes) {
    std::vector<Affine> shape;
    for (const std::string& image : images_) shape.push_back(Affine(extent(image)));
    shape.push_back(Affine(bands_));
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

  void pack_constant() {
    Buffer& constant = kernel_.buffers[static_cast<size_t>(constant_.buffer)];
    Packing packing;
    packing.buffer = constant.name;
    packing.terms = names_.part;
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
    dimension(names_.depth, depths_);
    for (const std::string& tap : sums_) dimension(tap, extent(tap));
    dimension(names_.block, blocks_);
    dimension(names_.part, 2);
    dimension(names_.group, unit_.groups);
    dimension(lane_, unit_.columns);
    dimension(names_.member, unit_.members);
    std::map<std::string, Affine> values;
    values[lane_] = feature_block() * unit_.columns + var(lane_);
    values[channel_] = var(names_.depth, depth_) + in_depth();
    if (!block_.empty()) values[block_] = Affine(0);
    if (!channel_outer_.empty()) values[channel_outer_] = Affine(0);
    for (const Subscript& subscript : constant_.index) packing.index.push_back(subscript.affine.substitute(values));
    constant.shape = shape;
    constant.dtype = unit_.operand;
    constant.logical = "packed";
    kernel_.packings.push_back(std::move(packing));
  }

  Affine feature_block() const {
    return var(names_.panel, panel_ * blocks_) + var(names_.pair, blocks_) + var(names_.block);
  }
  Affine in_depth() const { return var(names_.group, unit_.members) + var(names_.member); }

  // --- statements ------------------------------------------------------------------------------

  // A statement over images, bands and panels, then the given iterators.
  Statement statement(const std::string& suffix, const std::vector<Iterator>& rest) const {
    Statement made;
    made.name = suffix.empty() ? macc_.name : fresh_statement(suffix);
    for (const std::string& image : images_) made.iterators.push_back({image, Affine(extent(image))});
    made.iterators.push_back({names_.band, Affine(bands_)});
    made.iterators.push_back({names_.panel, Affine(panels_)});
    made.iterators.insert(made.iterators.end(), rest.begin(), rest.end());
    return made;
  }

  void input_statements(std::vector<Statement>& statements) {
    const std::string& stem = buffer(input_.buffer).name;
    terms_ = add_buffer(stem + "_terms", unit_.operand, {panels_, depths_, 2, positions_, depth_});
    const int64_t lanes = channel_block_ > 0 ? channel_block_ : std::min<int64_t>(unit_.columns, depth_);
    const int64_t halves = channel_block_ > 0 ? std::min(depth_ / lanes, channel_blocks_) : depth_ / lanes;
    std::vector<Iterator> iterators = {{names_.depth, Affine(depths_)}};
    Affine position;
    Access from = input_;
    for (const Dimension& at : dimensions_) {
      const Affine& index = input_.index[at.dim].affine;
      if (at.apart) continue;   // an image's index stays
      iterators.push_back({at.name, Affine(at.size)});
      position = position + var(at.name, at.pitch);
      Affine place = var(at.name, at.step) + Affine(index.constant());
      if (std::count(at.rows.begin(), at.rows.end(), banded_) > 0) {
        place = place + var(names_.band, band_ * index.coefficient(banded_));
      }
      from.index[at.dim] = {place, nullptr};
    }
    iterators.push_back({names_.half, Affine(halves)});
    iterators.push_back({names_.lane, Affine(lanes)});
    Statement high = statement("_high", iterators), low = statement("_low", iterators);
    const Affine lane = var(names_.half, lanes) + var(names_.lane);
    bool lacks = false;   // channels of the last depth
    if (channel_block_ > 0) {
      const Affine block = var(names_.depth, depth_ / lanes) + var(names_.half);
      from.index[channel_dim_] = {channel_outer_.empty() ? Affine(0) : block, nullptr};
      from.index.back() = {var(names_.lane), nullptr};
      lacks = channel_blocks_ * lanes < depths_ * depth_;
      if (lacks && channel_blocks_ > 1) high.constraints.push_back(Affine(channel_blocks_ - 1) - block);
    } else {
      const Affine channel = var(names_.depth, depth_) + lane;
      from.index.back() = {channel, nullptr};
      lacks = channels_ < depths_ * depth_;
      if (lacks) high.constraints.push_back(Affine(channels_ - 1) - channel);
    }
    bool borders = false;
    const auto box = box_of(kernel_, high);
    for (const Dimension& at : dimensions_) {
      const Affine& index = from.index[at.dim].affine;
      for (const Affine& condition : {index, buffer(input_.buffer).shape[at.dim] - Affine(1) - index}) {
        if (range_of(condition, box).low >= 0) continue;
        high.constraints.push_back(condition);
        borders = true;
      }
    }
    low.constraints = high.constraints;
    const ExprPtr value = load(DType::F32, from.buffer, from.index);
    const ExprPtr rounded = cast(unit_.operand, value);
    auto place = [&](const Affine& part, const Affine& depth, const Affine& at, const Affine& in) {
      return access_at(terms_, at_band({var(names_.panel), depth, part, at, in}));
    };
    high.write = place(Affine(0), var(names_.depth), position, lane);
    high.value = rounded;
    low.write = place(Affine(1), var(names_.depth), position, lane);
    low.value = cast(unit_.operand, binary(BinaryOp::Sub, value, cast(DType::F32, rounded)));

    auto zero = [&](const std::string& suffix, int64_t first_depth, int64_t first_position) {
      Statement made = statement(suffix, {{names_.depth, Affine(depths_ - first_depth)}, {names_.part, Affine(2)},
                                          {names_.position, Affine(positions_ - first_position)},
                                          {names_.lane, Affine(depth_)}});
      made.write = place(var(names_.part), var(names_.depth) + Affine(first_depth),
                         var(names_.position) + Affine(first_position), var(names_.lane));
      made.value = constant(unit_.operand, 0);
      statements.push_back(made);
    };
    if (borders) {
      zero("_zero", 0, 0);
    } else {
      if (lacks) zero("_zero", depths_ - 1, 0);
      if (positions_ > read_positions_) zero("_rest", 0, read_positions_);
    }
    statements.insert(statements.end(), {high, low});
  }

  void product_statements(std::vector<Statement>& statements) {
    const int64_t blocks = panels_ * panel_ * blocks_;
    std::vector<int64_t> shape = {blocks};
    if (lines_apart_) shape.push_back(band_);
    shape.insert(shape.end(), {tiles_ * rows_, unit_.columns});
    accumulators_ = add_buffer(result_name_ + "_sums", DType::F32, shape);
    sums_name_ = buffer(accumulators_).name;
    sums_rank_ = buffer(accumulators_).shape.size();
    sums_block_ = images_.size() + 1;
    std::vector<Iterator> outputs = {{names_.pair, Affine(panel_)}, {names_.block, Affine(blocks_)}};
    std::vector<Affine> place = {feature_block()};
    Affine position = var(names_.tile, strides_[column_] * rows_) + var(names_.row, strides_[column_]);
    if (lines_apart_) {
      outputs.push_back({banded_, Affine(band_)});
      place.push_back(var(banded_));
      position = position + var(banded_, strides_[banded_]);
    }
    outputs.push_back({names_.tile, Affine(tiles_)});
    place.push_back(var(names_.tile, rows_) + var(names_.row));
    place.push_back(var(lane_));
    std::vector<Iterator> starting = outputs, adding = outputs;
    starting.insert(starting.end(), {{names_.row, Affine(rows_)}, {lane_, Affine(unit_.columns)}});
    adding.push_back({names_.depth, Affine(depths_)});
    for (const std::string& tap : sums_) {
      adding.push_back({tap, Affine(extent(tap))});
      position = position + var(tap, strides_[tap]);
    }
    adding.insert(adding.end(), {{names_.row, Affine(rows_)}, {lane_, Affine(unit_.columns)},
                                 {names_.group, Affine(unit_.groups)}, {names_.member, Affine(unit_.members)}});
    Statement start = statement("_start", starting), add = statement("", adding);
    start.write = add.write = access_at(accumulators_, at_band(place));
    start.value = constant(DType::F32, 0);
    add.reduction = Reduction::Sum;
    auto input = [&](int64_t part) {
      return cast(DType::F32, load(unit_.operand, terms_,
                                   at_band({var(names_.panel), var(names_.depth), Affine(part), position, in_depth()})));
    };
    auto weight = [&](int64_t part) {
      std::vector<Affine> index = {var(names_.panel), var(names_.pair), var(names_.depth)};
      for (const std::string& tap : sums_) index.push_back(var(tap));
      for (const Affine& each : {var(names_.block), Affine(part), var(names_.group), var(lane_),
                                 var(names_.member)}) {
        index.push_back(each);
      }
      return cast(DType::F32, load(unit_.operand, constant_.buffer, index));
    };
    auto product = [&](int64_t a, int64_t b) { return binary(BinaryOp::Mul, input(a), weight(b)); };
    add.value = binary(BinaryOp::Add, binary(BinaryOp::Add, product(0, 0), product(0, 1)), product(1, 0));
    statements.insert(statements.end(), {start, add});
  }

  // The statement with its rows counted by bands, reading the accumulators.
  Statement rewritten(const Statement& tail) const {
    const Access read = *result_of(tail);
    Statement result = tail;
    std::map<std::string, Affine> at;      // the sum's iterators in the tail's
    for (size_t d = 0; d < read.index.size(); ++d) {
      const std::string own = macc_.write.index[d].affine.as_variable();
      if (!own.empty()) at[own] = read.index[d].affine;
    }
    const std::string line = at.at(banded_).as_variable();
    const Affine whole = var(names_.band, band_) + var(line);
    const std::map<std::string, Affine> values = {{line, whole}};
    for (Affine& constraint : result.constraints) constraint = constraint.substitute(values);
    if (bands_ * band_ > extent(banded_)) result.constraints.push_back(Affine(extent(banded_) - 1) - whole);
    std::vector<Affine> index;
    for (const std::string& image : images_) index.push_back(at.at(image));
    index.push_back(var(names_.band));
    // A single block of features is counted, too: the statements around it have a loop for it.
    if (block_.empty()) result.iterators.push_back({names_.block, Affine(1)});
    index.push_back(block_.empty() ? var(names_.block) : at.at(block_));
    Affine row = at.at(column_);
    if (lines_apart_) index.push_back(at.at(banded_));
    else if (banded_ != column_) row = row + at.at(banded_) * (strides_.at(banded_) / strides_.at(column_));
    index.push_back(row);
    index.push_back(at.at(lane_));
    result.write = substitute(result.write, values);
    result.value = substitute(result.value, values);
    edit_accesses(result, [&](const Access& each) {
      return each.buffer == macc_.write.buffer ? access_at(accumulators_, index) : each;
    });
    const auto found = std::find_if(result.iterators.begin(), result.iterators.end(),
                                    [&](const Iterator& each) { return each.name == line; });
    found->extent = Affine(band_);
    result.iterators.insert(found, {names_.band, Affine(bands_)});
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

  const MatrixUnit& unit_;
  // Rows of a band, pairs of a panel, blocks of features and accumulators at a time, rows of one.
  int64_t band_, panel_, blocks_, tiles_, rows_;
  int64_t bands_ = 1, panels_ = 1, depths_ = 1, depth_ = 1;
  std::string lane_, block_;               // of features
  std::string channel_, channel_outer_;
  std::vector<std::string> row_names_, sums_, images_;   // sums_: but channels
  std::string column_, banded_;            // the innermost rows, and those that bands divide
  int64_t features_ = 1, blocks_of_features_ = 1, channels_ = 1, channel_block_ = 0, channel_blocks_ = 1;
  size_t channel_dim_ = 0;
  std::vector<Dimension> dimensions_;
  std::map<std::string, int64_t> strides_; // of rows and taps, in positions
  int64_t positions_ = 1, read_positions_ = 1, flat_rows_ = 1;
  bool lines_apart_ = false;
  std::vector<Statement> tails_;
  Names names_;
  int terms_ = -1, accumulators_ = -1;     // buffers
  std::string result_name_, sums_name_;
  size_t sums_rank_ = 0, sums_block_ = 0;
};

}  // namespace

void apply_two_terms(ScheduleState& state, const std::string& statement, Words& words) {
  const int64_t band = words.number("the rows of a band", 1);
  const int64_t panel = words.number("the blocks of a panel", 1);
  const int64_t blocks = words.number("the blocks at a time", 1);
  const int64_t tiles = words.number("the accumulators at a time", 1);
  const int64_t rows = words.number("the rows of an accumulator", 1);
  TwoTermsRewrite rewrite(state, statement, band, panel, blocks, tiles, rows);
  Kernel kernel = rewrite.run();
  state.blocked.erase(std::remove_if(state.blocked.begin(), state.blocked.end(),
                                     [&](const BlockedDim& dim) { return dim.buffer == rewrite.result(); }),
                      state.blocked.end());
  state.blocked.push_back(rewrite.padded());
  replace_kernel(state, std::move(kernel));
}

}  // namespace tc
