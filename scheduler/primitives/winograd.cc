// winograd: a convolution by transforms of tiles and products between them.
#include <algorithm>
#include <array>

#include "scheduler/algebra/algorithms.h"
#include "scheduler/algebra/winograd.h"
#include "scheduler/core/primitive.h"
#include "scheduler/primitives/product_rewrite.h"

namespace tc {
namespace {

// The part of an index that is one variable with coefficient 1, plus a number.
struct Shifted {
  std::string variable;
  int64_t shift = 0;
};
std::optional<Shifted> shifted(const Affine& affine) {
  const std::string name = (affine - affine.constant()).as_variable();
  if (name.empty()) return std::nullopt;
  return Shifted{name, affine.constant()};
}

// Replaces a convolution over blocked channels by transforms of tiles and products between.
class WinogradRewrite : ProductRewrite {
 public:
  WinogradRewrite(const ScheduleState& state, size_t statement, const Winograd& algebra, int64_t rows,
                  int64_t columns)
      : ProductRewrite(state, statement), algebra_(algebra), rows_(rows), columns_(columns) {}

  Kernel run() {
    if (!kernel_.parameters.empty()) refuse("the kernel has symbolic sizes");
    find_operands();
    find_channels();
    find_window();
    find_conditions();
    find_neighbours();
    size_blocks();
    transform_constant();
    std::vector<Statement> statements;
    input_statements(statements);
    product_statements(statements);
    output_statements(statements);
    for (const Statement& tail : tails_) statements.push_back(in_tiles(tail));
    kernel_.statements = std::move(statements);
    return std::move(kernel_);
  }

 private:
  struct Direction {
    std::string output, tap;  // iterators
    int64_t outputs = 0, inputs = 0, padding = 0;
    int64_t tiles = 0, block = 0, blocks = 0;
    std::string block_name, tile_name, product_name;  // fresh iterators
    Affine tile() const { return Affine::variable(block_name, block) + Affine::variable(tile_name); }
  };

  int64_t extent(const std::string& iterator) const {
    return iterator == single_channel_ || iterator == single_feature_ ? 1 : ProductRewrite::extent(iterator);
  }

  // Finds the blocked channels and features, and the iterator over images.
  void find_channels() {
    if (constant_.index.size() != 4) refuse("statement ", macc_.name, " is no two-dimensional convolution");
    refuse_dynamic();
    auto blocked = [&](const Access& access) {
      return access.index.size() == 5 && !access.index[4].affine.as_variable().empty() &&
             buffer(access.buffer).shape[4] == iterator_extent(macc_, access.index[4].affine.as_variable());
    };
    if (!blocked(input_)) refuse("the channels of ", buffer(input_.buffer).name, " are not in blocks");
    if (!blocked(macc_.write)) {
      refuse("the channels of ", buffer(macc_.write.buffer).name, " are not in blocks");
    }
    channel_ = channels(input_, constant_.index[1].affine, "co", single_channel_);
    feature_ = channels(macc_.write, constant_.index[0].affine, "fo", single_feature_);
    const Affine& batch = macc_.write.index[0].affine;
    if (batch != input_.index[0].affine || (batch.as_variable().empty() && batch != Affine(0))) {
      refuse("the first indices of input and output differ");
    }
    batch_ = batch.as_variable();
  }

  // Outer and inner iterator of blocked channels, which index the filter as a whole. A single block
  // has no outer one: it gets one of a single trip.
  std::pair<std::string, std::string> channels(const Access& access, const Affine& whole, const char* base,
                                               std::string& single) const {
    std::string outer = access.index[1].affine.as_variable();
    const std::string inner = access.index[4].affine.as_variable();
    if (access.index[1].affine == Affine(0) && Affine::variable(inner) == whole) {
      single = fresh(base);
      return {single, inner};
    }
    if (outer.empty() || Affine::variable(outer, extent(inner)) + Affine::variable(inner) != whole) {
      refuse("the filter is not indexed by all channels of ", buffer(access.buffer).name,
             ": groups are not supported");
    }
    return {outer, inner};
  }

  void find_window() {
    for (int d = 0; d < 2; ++d) {
      Direction& at = directions_[d];
      const auto dim = static_cast<size_t>(2 + d);
      at.tap = constant_.index[dim].affine.as_variable();
      if (at.tap.empty() || extent(at.tap) != algebra_.taps) {
        refuse("the filter has ", at.tap.empty() ? 1 : extent(at.tap), " taps along dimension ", dim,
               ", not ", algebra_.taps);
      }
      const Affine& index = input_.index[dim].affine;
      if (index.coefficient(at.tap) != 1) {
        refuse("taps are ", index.coefficient(at.tap), " apart along dimension ", dim,
               ": only dilation 1 is supported");
      }
      at.output = macc_.write.index[dim].affine.as_variable();
      const auto rest = shifted(index - Affine::variable(at.tap));
      if (at.output.empty() || !rest || rest->variable != at.output) {
        refuse("the window does not move by one element per output along dimension ", dim,
               ": only stride 1 is supported");
      }
      at.padding = -rest->shift;
      at.outputs = extent(at.output);
      const Affine& size = buffer(input_.buffer).shape[dim];
      if (!size.is_constant()) refuse("the input has a symbolic size");
      at.inputs = size.constant();
    }
    std::vector<std::string> known = {feature_.second, channel_.second};
    if (single_feature_.empty()) known.push_back(feature_.first);
    if (single_channel_.empty()) known.push_back(channel_.first);
    for (const Direction& at : directions_) known.insert(known.end(), {at.output, at.tap});
    if (!batch_.empty()) known.push_back(batch_);
    for (const Iterator& iterator : macc_.iterators) {
      if (std::count(known.begin(), known.end(), iterator.name) != 1) {
        refuse("iterator ", iterator.name, " of ", macc_.name, " is not one of a convolution's");
      }
    }
  }

  // Refuses conditions other than those that leave out taps outside of the input and lanes beyond the
  // channels.
  void find_conditions() {
    for (const Affine& condition : macc_.constraints) {
      bool border = false, channels = true;
      for (int d = 0; d < 2; ++d) {
        const Affine& index = input_.index[static_cast<size_t>(2 + d)].affine;
        border = border || condition == index || condition == Affine(directions_[d].inputs - 1) - index;
      }
      for (const auto& [name, coefficient] : condition.terms()) {
        channels = channels && (name == channel_.first || name == channel_.second || name == feature_.first ||
                                name == feature_.second);
      }
      if (!border && !channels) {
        refuse("statement ", macc_.name, " has the condition ", condition.str(), " >= 0");
      }
      if (!border) conditions_.push_back(condition);
    }
  }

  // Checks the other statements: the initialisation before the sum, elementwise statements that read the
  // result after it.
  void find_neighbours() {
    const std::string& name = buffer(macc_.write.buffer).name;
    for (size_t i = 0; i < kernel_.statements.size(); ++i) {
      const Statement& statement = kernel_.statements[i];
      if (i == which_) continue;
      if (i < which_) {
        if (initial_ || statement.write.buffer != macc_.write.buffer ||
            statement.reduction != Reduction::None) {
          refuse("statement ", statement.name, " before ", macc_.name, " does not only initialise ", name);
        }
        initial_ = initial_value(statement);
        continue;
      }
      const Access* read = result_of(statement);
      if (statement.reduction != Reduction::None || read == nullptr ||
          statement.write.buffer == macc_.write.buffer) {
        refuse("statement ", statement.name, " after ", macc_.name, " is not elementwise over ", name);
      }
      tails_.push_back(statement);
    }
    if (!initial_) refuse("nothing initialises ", name);
  }

  // What the initialisation sets at the element that the reduction writes.
  ExprPtr initial_value(const Statement& statement) const {
    std::map<std::string, Affine> values;
    for (size_t d = 0; d < statement.write.index.size(); ++d) {
      const Affine& index = statement.write.index[d].affine;
      if (index.is_constant()) continue;
      if (index.as_variable().empty()) refuse("statement ", statement.name, " writes at ", index.str());
      values[index.as_variable()] = macc_.write.index[d].affine;
    }
    return substitute(statement.value, values);
  }

  // The one place at which the statement reads the result; null where it does not, or at several.
  const Access* result_of(const Statement& statement) const {
    const Access* read = nullptr;
    bool several = false;
    for_each_load(statement.value, [&](const Expr& load) {
      if (load.access.buffer != macc_.write.buffer) return;
      if (read != nullptr) {
        for (size_t d = 0; d < read->index.size(); ++d) {
          several = several || read->index[d].affine != load.access.index[d].affine;
        }
      }
      read = &load.access;
    });
    if (several || read == nullptr) return nullptr;
    for (int d = 0; d < 2; ++d) {
      const std::string name = read->index[static_cast<size_t>(2 + d)].affine.as_variable();
      if (name.empty() || iterator_extent(statement, name) != Affine(directions_[d].outputs)) return nullptr;
    }
    return read;
  }

  void size_blocks() {
    for (int d = 0; d < 2; ++d) {
      Direction& at = directions_[d];
      at.tiles = (at.outputs + algebra_.outputs - 1) / algebra_.outputs;
      at.block = std::min(d == 0 ? rows_ : columns_, at.tiles);
      at.blocks = (at.tiles + at.block - 1) / at.block;
      at.block_name = fresh(d == 0 ? "by" : "bx");
      at.tile_name = fresh(d == 0 ? "ty" : "tx");
      at.product_name = fresh(d == 0 ? "u" : "v");
    }
    if (directions_[1].blocks > 1 && directions_[0].block > 1) {
      refuse("a block of ", directions_[0].block, " rows holds ", directions_[1].block, " of ",
             directions_[1].tiles, " tiles of each: it has to hold all of them");
    }
    tile_name_ = fresh("t");
    block_tiles_ = directions_[0].block * directions_[1].block;
  }

  void transform_constant() {
    Buffer& filter = kernel_.buffers[static_cast<size_t>(constant_.buffer)];
    Packing packing;
    packing.buffer = filter.name;
    for (size_t d = 0; d < 4; ++d) {
      if (!filter.shape[d].is_constant()) refuse("constant ", filter.name, " has a symbolic shape");
      packing.original_shape.push_back(filter.shape[d].constant());
      packing.iterators.push_back("d" + std::to_string(d));
      packing.index.push_back(Affine::variable(packing.iterators.back()));
      if (d >= 2) {
        packing.combinations.push_back({d, algebra_.filter_rows()});
        filter.shape[d] = Affine(algebra_.products());
      }
    }
    filter.logical = "transformed";
    kernel_.packings.push_back(std::move(packing));
  }

  // In the buffers between transforms and products, the elements of a tile are far from each other: an odd
  // number of blocks, so that they do not fall into few sets of a cache.
  static int64_t odd(int64_t size) { return size | 1; }

  // --- statements ------------------------------------------------------------------------------

  // A private buffer with a dimension per batch and block of tiles, then those given.
  int add_buffer(const std::string& stem, const std::vector<int64_t>& sizes) {
    std::vector<Affine> shape;
    if (!batch_.empty()) shape.push_back(Affine(extent(batch_)));
    for (const Direction& at : directions_) shape.push_back(Affine(at.blocks));
    for (int64_t size : sizes) shape.push_back(Affine(size));
    return add_local(stem, DType::F32, std::move(shape));
  }

  std::vector<Affine> at_block(const std::vector<Affine>& rest) const {
    std::vector<Affine> index;
    if (!batch_.empty()) index.push_back(Affine::variable(batch_));
    for (const Direction& each : directions_) index.push_back(Affine::variable(each.block_name));
    index.insert(index.end(), rest.begin(), rest.end());
    return index;
  }

  Access access(int which, const std::vector<Affine>& rest) const { return access_at(which, at_block(rest)); }

  ExprPtr read(int which, const std::vector<Affine>& rest) const {
    return load(DType::F32, which, at_block(rest));
  }

  Iterator own(const std::string& name) const { return {name, Affine(extent(name))}; }

  // A statement over batch and blocks, then the given iterators.
  Statement statement(const std::string& suffix, const std::vector<Iterator>& rest) const {
    Statement made;
    made.name = suffix.empty() ? macc_.name : fresh_statement(suffix);
    if (!batch_.empty()) made.iterators.push_back(own(batch_));
    for (const Direction& at : directions_) made.iterators.push_back({at.block_name, Affine(at.blocks)});
    made.iterators.insert(made.iterators.end(), rest.begin(), rest.end());
    return made;
  }

  // Adds conditions that leave out tiles beyond the map, where the last block is not full.
  void limit_tiles(Statement& statement) const {
    for (const Direction& at : directions_) {
      if (at.blocks * at.block > at.tiles) statement.constraints.push_back(Affine(at.tiles - 1) - at.tile());
    }
  }

  // The same where a block's tiles are counted by one iterator.
  void limit_flat_tiles(Statement& statement) const {
    const Direction &y = directions_[0], &x = directions_[1];
    const bool whole_rows = x.blocks == 1;
    const Direction& at = whole_rows ? y : x;
    if (at.blocks * at.block == at.tiles) return;
    const int64_t width = whole_rows ? x.tiles : 1;
    statement.constraints.push_back(Affine(at.tiles * width - 1) -
                                    Affine::variable(at.block_name, at.block * width) - var(tile_name_));
  }

  Affine flat_tile() const {
    return Affine::variable(directions_[0].tile_name, directions_[1].block) + var(directions_[1].tile_name);
  }

  // values[i] where the iterator is i.
  static ExprPtr by_index(const std::string& iterator, const std::vector<ExprPtr>& values) {
    ExprPtr result = values.back();
    for (size_t i = values.size() - 1; i-- > 0;) {
      result = select(
          binary(BinaryOp::Eq, index_value(var(iterator)), int_constant(DType::I64, static_cast<int64_t>(i))),
          values[i], result);
    }
    return result;
  }

  // Tiles are read with zeros beyond the input, then transformed along columns and rows.
  void input_statements(std::vector<Statement>& statements) {
    const Direction &y = directions_[0], &x = directions_[1];
    const auto& [c, lane] = channel_;
    const int64_t products = algebra_.products(), blocks = extent(c), lanes = extent(lane);
    const std::string stem = buffer(input_.buffer).name;
    const std::vector<int64_t> tile = {blocks, block_tiles_, products, products, lanes};
    const int patch = add_buffer(stem + "_patch", tile);
    const int half = add_buffer(stem + "_half", tile);
    tiles_ = add_buffer(stem + "_tiles", {products, products, odd(blocks), odd(block_tiles_), lanes});
    const Affine u = var(y.product_name), v = var(x.product_name), t = flat_tile();
    auto per_tile = [&](const std::string& suffix) {
      Statement made = statement(suffix, {own(c),
                                          {y.tile_name, Affine(y.block)},
                                          {x.tile_name, Affine(x.block)},
                                          {y.product_name, Affine(products)},
                                          {x.product_name, Affine(products)},
                                          own(lane)});
      limit_tiles(made);
      return made;
    };
    Statement zero = per_tile("_zero"), copy = per_tile("_read");
    zero.write = copy.write = access(patch, {var(c), t, u, v, var(lane)});
    zero.value = constant(DType::F32, 0);
    Access from = input_;
    const auto box = box_of(kernel_, copy);
    const size_t conditions = copy.constraints.size();
    for (int d = 0; d < 2; ++d) {
      const Direction& at = directions_[d];
      const Affine index = at.tile() * algebra_.outputs + var(at.product_name) - Affine(at.padding);
      from.index[static_cast<size_t>(2 + d)] = {index, nullptr};
      if (range_of(index, box).low < 0) copy.constraints.push_back(index);
      const Affine room = Affine(at.inputs - 1) - index;
      if (range_of(room, box).low < 0) copy.constraints.push_back(room);
    }
    copy.value = load(DType::F32, from.buffer, from.index);
    Statement columns = per_tile("_columns"), rows = per_tile("_rows");
    std::vector<ExprPtr> inputs, values;
    for (int64_t k = 0; k < products; ++k)
      inputs.push_back(read(patch, {var(c), t, Affine(k), v, var(lane)}));
    for (int64_t k = 0; k < products; ++k) values.push_back(algebra_.input_row(k, inputs));
    columns.write = access(half, {var(c), t, u, v, var(lane)});
    columns.value = by_index(y.product_name, values);
    inputs.clear();
    values.clear();
    for (int64_t k = 0; k < products; ++k) inputs.push_back(read(half, {var(c), t, u, Affine(k), var(lane)}));
    for (int64_t k = 0; k < products; ++k) values.push_back(algebra_.input_row(k, inputs));
    rows.write = access(tiles_, {u, v, var(c), t, var(lane)});
    rows.value = by_index(x.product_name, values);
    if (copy.constraints.size() > conditions) statements.push_back(zero);
    statements.insert(statements.end(), {copy, columns, rows});
  }

  // One product of matrices per point: tiles by channels, channels by features.
  void product_statements(std::vector<Statement>& statements) {
    const auto& [f, lane] = feature_;
    const int64_t products = algebra_.products(), blocks = extent(f), lanes = extent(lane);
    const std::string stem = buffer(macc_.write.buffer).name;
    const int sum = add_buffer(stem + "_sum", {blocks, products, products, block_tiles_, lanes});
    products_ = add_buffer(stem + "_products", {blocks, products, products, odd(block_tiles_), lanes});
    const std::string &u = directions_[0].product_name, &v = directions_[1].product_name;
    auto per_product = [&](const std::string& suffix) {
      Statement made = statement(suffix, {own(f),
                                          {u, Affine(products)},
                                          {v, Affine(products)},
                                          {tile_name_, Affine(block_tiles_)},
                                          own(lane)});
      limit_flat_tiles(made);
      made.write = access(sum, {var(f), var(u), var(v), var(tile_name_), var(lane)});
      return made;
    };
    Statement start = per_product("_start"), add = per_product(""), keep = per_product("_keep");
    start.value = constant(DType::F32, 0);
    add.reduction = Reduction::Sum;
    for (const std::string& name : {channel_.first, channel_.second}) add.iterators.push_back(own(name));
    add.constraints.insert(add.constraints.end(), conditions_.begin(), conditions_.end());
    Access filter = constant_;
    filter.index[2] = {var(u), nullptr};
    filter.index[3] = {var(v), nullptr};
    add.value =
        binary(BinaryOp::Mul,
               read(tiles_, {var(u), var(v), var(channel_.first), var(tile_name_), var(channel_.second)}),
               load(DType::F32, filter.buffer, filter.index));
    keep.value = load(DType::F32, sum, keep.write.index);
    keep.write.buffer = products_;
    statements.insert(statements.end(), {start, add, keep});
  }

  void output_statements(std::vector<Statement>& statements) {
    const Direction &y = directions_[0], &x = directions_[1];
    const auto& [f, lane] = feature_;
    const int64_t products = algebra_.products(), outputs = algebra_.outputs;
    const int half = add_buffer(buffer(macc_.write.buffer).name + "_half",
                                {extent(f), block_tiles_, outputs, products, extent(lane)});
    const Affine u = var(y.product_name), v = var(x.product_name), t = flat_tile();
    Statement columns = statement("_back", {own(f),
                                            {y.tile_name, Affine(y.block)},
                                            {x.tile_name, Affine(x.block)},
                                            {y.product_name, Affine(outputs)},
                                            {x.product_name, Affine(products)},
                                            own(lane)});
    limit_tiles(columns);
    std::vector<ExprPtr> inputs, values;
    for (int64_t k = 0; k < products; ++k)
      inputs.push_back(read(products_, {var(f), Affine(k), v, t, var(lane)}));
    for (int64_t k = 0; k < outputs; ++k) values.push_back(algebra_.output_row(k, inputs));
    columns.write = access(half, {var(f), t, u, v, var(lane)});
    columns.value = by_index(y.product_name, values);
    statements.push_back(columns);

    Statement rows = columns;
    rows.name = fresh_statement("_out");
    rows.constraints.clear();
    for (Iterator& iterator : rows.iterators) {
      if (iterator.name == x.product_name) iterator.extent = Affine(outputs);
    }
    inputs.clear();
    values.clear();
    for (int64_t k = 0; k < products; ++k) inputs.push_back(read(half, {var(f), t, u, Affine(k), var(lane)}));
    for (int64_t k = 0; k < outputs; ++k) values.push_back(algebra_.output_row(k, inputs));
    const std::map<std::string, Affine> places = {{y.output, place(y)}, {x.output, place(x)}};
    rows.write = substitute(macc_.write, places);
    rows.value = by_index(x.product_name, values);
    const bool zero = initial_->kind == Expr::Kind::Const && initial_->number == 0;
    if (!zero) rows.value = binary(BinaryOp::Add, rows.value, substitute(initial_, places));
    limit_outputs(rows);
    for (const Affine& condition : conditions_) {
      if (condition.coefficient(channel_.first) == 0 && condition.coefficient(channel_.second) == 0) {
        rows.constraints.push_back(condition);
      }
    }
    statements.push_back(rows);
  }

  Affine place(const Direction& at) const { return at.tile() * algebra_.outputs + var(at.product_name); }

  // Adds conditions that leave out the outputs of a last tile that are beyond the map.
  void limit_outputs(Statement& statement) const {
    for (const Direction& at : directions_) {
      if (at.blocks * at.block * algebra_.outputs > at.outputs) {
        statement.constraints.push_back(Affine(at.outputs - 1) - place(at));
      }
    }
  }

  // The statement with its rows and columns counted by block, tile and output of a tile.
  Statement in_tiles(const Statement& tail) const {
    const Access* read = result_of(tail);
    std::map<std::string, Affine> values;
    Statement result = tail;
    for (int d = 0; d < 2; ++d) {
      const Direction& at = directions_[d];
      const std::string name = read->index[static_cast<size_t>(2 + d)].affine.as_variable();
      values[name] = place(at);
      auto found = std::find_if(result.iterators.begin(), result.iterators.end(),
                                [&](const Iterator& each) { return each.name == name; });
      *found = {at.block_name, Affine(at.blocks)};
      result.iterators.insert(
          found + 1, {{at.tile_name, Affine(at.block)}, {at.product_name, Affine(algebra_.outputs)}});
    }
    if (!single_feature_.empty()) result.iterators.push_back(own(single_feature_));
    for (Affine& constraint : result.constraints) constraint = constraint.substitute(values);
    result.write = substitute(result.write, values);
    result.value = substitute(result.value, values);
    limit_outputs(result);
    return result;
  }

  const Winograd& algebra_;
  const int64_t rows_, columns_;                           // of a block, in tiles
  std::pair<std::string, std::string> channel_, feature_;  // outer and inner iterator
  std::string single_channel_, single_feature_;            // outer iterators that stand for a single block
  std::string batch_;                                      // iterator, or empty
  std::array<Direction, 2> directions_;
  std::vector<Affine> conditions_;  // of padded channels
  ExprPtr initial_;
  std::vector<Statement> tails_;
  std::string tile_name_;  // counts the tiles of a block
  int64_t block_tiles_ = 0;
  int tiles_ = -1, products_ = -1;  // buffers
};

void apply_winograd(ScheduleState& state, const Arguments& given) {
  const int64_t outputs = given.number("OUTPUTS"), taps = given.number("TAPS");
  const Winograd* algebra = find_winograd(outputs, taps);
  if (algebra == nullptr) {
    std::string names;
    for (const Winograd& row : winograd_rows()) {
      names += text(names.empty() ? "" : ", ", "F(", row.outputs, ", ", row.taps, ")");
    }
    refuse("there is no row F(", outputs, ", ", taps, "); there are ", names);
  }
  WinogradRewrite rewrite(state, given.statement("STATEMENT"), *algebra, given.number("ROWS"),
                          given.number("COLUMNS"));
  replace_kernel(state, rewrite.run());
}

TraceAlgorithm algorithm_of_line(const PrimitiveLine& line) {
  const Winograd* row = find_winograd(std::stoll(line.words[3]), std::stoll(line.words[4]));
  if (row == nullptr) return {};
  return {text("winograd F(", row->outputs, ", ", row->taps, ")"), row->error, row->error * kLayers};
}

}  // namespace

Primitive winograd_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {
      "winograd",
      PrimitiveKind::Rewrite,
      {statement("STATEMENT"), keyword("winograd"), number("OUTPUTS", "the outputs of a tile", 1),
       number("TAPS", "the taps", 1), number("ROWS", "the rows of a block", 1),
       number("COLUMNS", "the columns of a block", 1)},
      "O[y, x] += I[y+r, x+s] * K[r, s]  ->  U = B' I B; P += U * (G K G'); O = A' P A: a convolution "
      "of TAPS x TAPS is computed by Winograd's F(2, 3), F(4, 3), F(6, 3), F(2, 5) or F(4, 5), in blocks "
      "of ROWS x COLUMNS tiles of OUTPUTS x OUTPUTS. G K G' is computed while compiling."};
  primitive.row.verb = "algorithm";
  primitive.apply = apply_winograd;
  primitive.algorithm = algorithm_of_line;
  return primitive;
}

}  // namespace tc
