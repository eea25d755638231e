// The geometry of products in bands, and the reasons to refuse them.
#include "scheduler/primitives/banded_product.h"

#include <algorithm>

#include "ir/access.h"
#include "ir/target/register_groups.h"

namespace tc {

BandedProduct::BandedProduct(const ScheduleState& state, size_t statement, DType operand,
                             const BandSizes& sizes)
    : ProductRewrite(state, statement),
      unit_(state.target.matrix),
      band_(sizes.band),
      panel_(sizes.panel),
      blocks_(sizes.blocks),
      tiles_(sizes.tiles),
      rows_(sizes.rows) {
  const MatrixUnit::Format* format = unit_.format(operand);
  if (format == nullptr)
    refuse("the matrix unit of target ", state.target.name, " does not multiply ", name_of(operand));
  format_ = *format;
  if (rows_ > unit_.rows) refuse("an accumulator has ", unit_.rows, " rows, fewer than ", rows_);
}

void BandedProduct::analyse() {
  add_row();
  find_result();
  classify();
  find_channels();
  find_conditions();
  find_neighbours();
  find_positions();
  size_blocks();
}

// A sum without rows gets one: where the result and the input have a dimension of one element.
void BandedProduct::add_row() {
  for (const Iterator& iterator : macc_.iterators) {
    if (depends_on(macc_.write, iterator.name) && depends_on(input_, iterator.name)) return;
  }
  auto single = [&](const Access& access) -> std::optional<size_t> {
    for (size_t d = 0; d + 1 < access.index.size(); ++d) {
      const bool blocks = std::any_of(
          state_.blocked.begin(), state_.blocked.end(),
          [&](const BlockedDim& dim) { return dim.buffer == buffer(access.buffer).name && dim.outer == d; });
      if (!blocks && access.index[d].affine == Affine(0) && buffer(access.buffer).shape[d] == Affine(1))
        return d;
    }
    return std::nullopt;
  };
  const auto written = single(macc_.write), read = single(input_);
  if (!written || !read) return;
  const std::string row = fresh("m");
  for (size_t i = 0; i < kernel_.statements.size(); ++i) {
    Statement& statement = kernel_.statements[i];
    if (i < which_) continue;
    statement.iterators.insert(statement.iterators.begin(), {row, Affine(1)});
    edit_accesses(statement, [&](const Access& each) {
      Access result = each;
      if (each.buffer == macc_.write.buffer && each.index[*written].affine == Affine(0))
        result.index[*written].affine = var(row);
      if (i == which_ && each.buffer == input_.buffer) result.index[*read].affine = var(row);
      return result;
    });
  }
  macc_ = kernel_.statements[which_];
  find_operands();
}

// Finds the result: a private buffer with its features in blocks of the unit's columns.
void BandedProduct::find_result() {
  refuse_dynamic();
  const Buffer& result = buffer(macc_.write.buffer);
  result_name_ = result.name;
  if (result.scope != Scope::Local)
    refuse("the sums are in ", result.name, ", which is not private: stage it");
  lane_ = macc_.write.index.empty() ? "" : macc_.write.index.back().affine.as_variable();
  if (lane_.empty() || extent(lane_) != unit_.columns || result.shape.back() != Affine(unit_.columns)) {
    refuse("the features of ", result.name, " are not in blocks of ", unit_.columns);
  }
}

// Finds out which iterators count rows, features and terms of the sum.
void BandedProduct::classify() {
  for (const Iterator& iterator : macc_.iterators) {
    const std::string& name = iterator.name;
    const bool output = depends_on(macc_.write, name), in = depends_on(input_, name),
               by = depends_on(constant_, name);
    if (output && in && by) refuse("iterator ", name, " counts groups: they are not supported");
    if (!output || by) extent(name);
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
      refuse("constant ", buffer(constant_.buffer).name, " is not indexed by blocks of ", unit_.columns,
             " features");
    }
  }
}

// Finds the channels: the iterators that are summed over along the input's innermost dimension, which may be
// in blocks. An input without such a dimension has one channel, which only units take that join positions.
void BandedProduct::find_channels() {
  const Buffer& input = buffer(input_.buffer);
  channel_ = input_.index.empty() ? "" : input_.index.back().affine.as_variable();
  if (channel_.empty() || std::count(sums_.begin(), sums_.end(), channel_) == 0) {
    if (!sums_are_scalars(unit_))
      refuse("what is summed over is not the innermost dimension of ", input.name);
    channel_.clear();
  } else {
    find_channel_block();
  }
  channel_blocks_ = channel_outer_.empty() ? 1 : extent(channel_outer_);
  channels_ = channel_.empty() ? 1 : channel_blocks_ * extent(channel_);
  format_ = *unit_.format(format_.operand, channels_);
  depth_ = int64_t{format_.groups} * format_.pack;
  if (channel_block_ > 0 && (depth_ % channel_block_ != 0 || extent(channel_) != channel_block_)) {
    refuse("blocks of ", channel_block_, " channels do not fill a depth of ", depth_);
  }
  join_positions();
}

void BandedProduct::find_channel_block() {
  const Buffer& input = buffer(input_.buffer);
  sums_.erase(std::find(sums_.begin(), sums_.end(), channel_));
  const auto last = input_.index.size() - 1;
  for (const BlockedDim& dim : state_.blocked) {
    if (dim.buffer != input.name || dim.inner != last) continue;
    channel_block_ = dim.block;
    channel_dim_ = dim.outer;
  }
  if (channel_block_ > 0) {
    const Affine& outer = input_.index[channel_dim_].affine;
    channel_outer_ = outer.as_variable();
    if (channel_outer_.empty() && outer != Affine(0))
      refuse("channels of ", input.name, " are counted by ", outer.str());
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
}

// Where the channels of several positions fit one instruction, it takes neighbours: of the taps those that
// leave the fewest instructions, and of equal ones the innermost.
void BandedProduct::join_positions() {
  if (!sums_are_scalars(unit_)) return;
  int64_t member = 1;
  while (member < channels_) member *= 2;
  if (member >= depth_ || depth_ % member != 0) return;
  member_ = member;
  int64_t least = 1;
  for (const std::string& tap : sums_) least *= extent(tap);
  for (const std::string& tap : sums_) {
    int64_t instructions = parts(extent(tap), joined_positions());
    for (const std::string& other : sums_) instructions *= other == tap ? 1 : extent(other);
    const bool neighbours =
        std::all_of(input_.index.begin(), input_.index.end(), [&](const Subscript& subscript) {
          const int64_t step = subscript.affine.coefficient(tap);
          return step == 0 || step == 1;
        });
    if (!neighbours || instructions > least) continue;
    least = instructions;
    joined_ = tap;
  }
  if (!joined_.empty()) sums_.erase(std::find(sums_.begin(), sums_.end(), joined_));
}

// Refuses conditions other than those of padding: elements beyond the input's borders are zeros, and so are
// features and channels beyond the constant's.
void BandedProduct::find_conditions() {
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

// Checks the other statements: an initialisation by zero before the sum, elementwise statements that read the
// result after it.
void BandedProduct::find_neighbours() {
  const int result = macc_.write.buffer;
  bool initial = false;
  for (size_t i = 0; i < kernel_.statements.size(); ++i) {
    const Statement& statement = kernel_.statements[i];
    if (i == which_) continue;
    if (i < which_) {
      const bool zero = statement.write.buffer == result && statement.value->kind == Expr::Kind::Const &&
                        statement.value->number == 0 && statement.value->integer == 0;
      if (!zero)
        refuse("statement ", statement.name, " before ", macc_.name, " does not only set ", result_name_,
               " to 0");
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
std::optional<Access> BandedProduct::result_of(const Statement& statement) const {
  std::optional<Access> read;
  bool several = false;
  for_each_load(statement.value, [&](const Expr& load) {
    if (load.access.buffer != macc_.write.buffer) return;
    for (size_t d = 0; d < load.access.index.size(); ++d) {
      several = several || load.access.index[d].dynamic ||
                (read && read->index[d].affine != load.access.index[d].affine);
    }
    read = load.access;
  });
  if (!read || several) return std::nullopt;
  for (size_t d = 0; d < read->index.size(); ++d) {
    const std::string own = macc_.write.index[d].affine.as_variable();
    const Affine& index = read->index[d].affine;
    if (own.empty()
            ? index != Affine(0)
            : index.as_variable().empty() || iterator_extent(statement, index.as_variable()) != size(own)) {
      return std::nullopt;
    }
  }
  return read;
}

// The dimensions from the one along which positions are next to each other: that of joined positions, or the
// last.
std::vector<BandedProduct::Dimension*> BandedProduct::outwards() {
  std::vector<Dimension*> result;
  for (const bool first : {true, false}) {
    for (size_t i = dimensions_.size(); i-- > 0;) {
      const std::vector<std::string>& taps = dimensions_[i].taps;
      const bool joined = std::find(taps.begin(), taps.end(), joined_) != taps.end();
      if (joined == first) result.push_back(&dimensions_[i]);
    }
  }
  return result;
}

// Finds the positions of rows and taps in a band.
void BandedProduct::find_positions() {
  std::vector<std::pair<std::string, size_t>> rows;  // and the dimension
  for (size_t d = 0; d + (channel_.empty() ? 0 : 1) < input_.index.size(); ++d) {
    if (channel_block_ > 0 && d == channel_dim_) continue;
    Dimension at;
    at.dim = d;
    auto terms = input_.index[d].affine.terms();
    std::stable_sort(terms.begin(), terms.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
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
    if (image.rows.size() != 1 || !image.taps.empty())
      refuse("rows are counted by more than three iterators");
    image.own_dimension = true;
    images_.push_back(rows[i].first);
  }
  if (rows_are_symbolic()) {
    constexpr int64_t kMaxRows = 1024;
    if (band_ > kMaxRows)
      refuse("the number of rows, ", size(banded_).str(), ", is symbolic: a band has at most ", kMaxRows);
  } else if (extent(banded_) == 0) {
    refuse("there are no rows");
  } else {
    band_ = std::min(band_, extent(banded_));
    bands_ = parts(extent(banded_), band_);
  }
  int64_t pitch = 1;
  for (Dimension* each : outwards()) {
    Dimension& at = *each;
    at.pitch = pitch;
    const Affine& index = input_.index[at.dim].affine;
    for (const std::vector<std::string>* names : {&at.rows, &at.taps}) {
      for (const std::string& name : *names) {
        const int64_t step = index.coefficient(name) / at.step;
        const int64_t count = name == banded_ ? band_ : at.own_dimension ? 1 : extent(name);
        strides_[name] = step * pitch;
        at.size += step * (count - 1);
      }
    }
    if (!at.own_dimension) pitch *= at.size;
  }
  positions_ = pitch;
  // The rows of an accumulator may continue from one line of the map to the next, where that takes fewer
  // accumulators.
  const int64_t step = strides_[column_], lines = banded_ == column_ ? 1 : band_;
  const int64_t width = banded_ == column_ ? band_ : extent(column_);
  flat_rows_ = width;
  if (lines > 1 && strides_[banded_] % step == 0) {
    const int64_t all = (lines - 1) * (strides_[banded_] / step) + width;
    // An accumulator costs as much as its rows and about six more, for what is done once per accumulator.
    auto cost = [&](int64_t rows) {
      const int64_t count = parts(rows, unit_.rows);
      return count * (parts(rows, count) + 6);
    };
    // With vectors, only the positions between two lines cost extra.
    if (unit_.vectors ? all <= lines * width : cost(all) < lines * cost(width)) flat_rows_ = all;
  }
  lines_apart_ = lines > 1 && flat_rows_ == width;
}

std::vector<Affine> BandedProduct::in_bands() const {
  if (!rows_are_symbolic()) return {};
  return {size(banded_) - Affine(1) - var(names_.band, band_)};
}

void BandedProduct::size_blocks() {
  const int64_t blocks = blocks_of_features_;
  blocks_ = std::min(blocks_, blocks);
  panel_ = std::min(panel_, parts(blocks, blocks_));
  panels_ = parts(blocks, blocks_ * panel_);
  rows_ = std::min(rows_, flat_rows_);
  accumulator_tiles_ = tiles_;
  tiles_ *= parts(parts(flat_rows_, rows_), tiles_);
  int64_t reach = strides_[column_] * (tiles_ * rows_ - 1) + 1;
  if (lines_apart_) reach += strides_[banded_] * (band_ - 1);
  for (const std::string& tap : sums_) reach += strides_[tap] * (extent(tap) - 1);
  depths_ = member_ == 0      ? parts(channels_, depth_)
            : joined_.empty() ? 1
                              : parts(extent(joined_), joined_positions());
  if (member_ > 0) reach += joined_positions() * depths_ - 1;
  read_positions_ = positions_;
  positions_ = std::max(positions_, reach);
  names_ = {fresh("band"), fresh("panel"), fresh("fp"), fresh("fn"), fresh("rt"),
            fresh("cb"),   fresh("row"),   fresh("g"),  fresh("e"),  fresh("part"),
            fresh("by"),   fresh("order"), fresh("h"),  fresh("l"),  fresh("at")};
  for (size_t i = 0; i < dimensions_.size(); ++i) dimensions_[i].name = fresh("q" + std::to_string(i));
}

}  // namespace tc
