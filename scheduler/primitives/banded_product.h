// A sum of products of an input and a constant as a matrix unit takes it: bands of rows, panels of features.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/primitives/product_rewrite.h"

namespace tc {

// Rows of a band, pairs of a panel, blocks of features and accumulators at a time, rows of an accumulator.
struct BandSizes {
  int64_t band = 1, panel = 1, blocks = 1, tiles = 1, rows = 1;
};

// The part of the input's map that a band reads is numbered consecutively: a position is the number of an
// element, borders included, so that the rows of outputs have positions at a fixed step.
class BandedProduct : protected ProductRewrite {
 protected:
  // For operands of this type; refuses a type that the unit does not multiply.
  BandedProduct(const ScheduleState& state, size_t statement, DType operand, const BandSizes& sizes);

  // To be called after find_operands(): fills in the fields below; refuses what does not fit.
  void analyse();

  // The extent of an iterator of the sum, which may be symbolic.
  const Affine& size(const std::string& iterator) const { return iterator_extent(macc_, iterator); }
  // The number of bands, an upper bound where the number of rows is symbolic; and the conditions that then
  // hold for the bands that exist.
  Affine bands() const { return rows_are_symbolic() ? size(banded_) : Affine(bands_); }
  std::vector<Affine> in_bands() const;
  bool rows_are_symbolic() const { return !size(banded_).is_constant(); }
  // Positions that one instruction takes; numbers of a position next to each other; groups of these.
  int64_t joined_positions() const { return member_ > 0 ? depth_ / member_ : 1; }
  int64_t position_depth() const { return member_ > 0 ? member_ : depth_; }
  int64_t position_depths() const { return member_ > 0 ? 1 : depths_; }
  // The joined tap, and what it adds to a position.
  Affine joined_position() const { return var(names_.depth, joined_positions()) + var(names_.group); }
  static int64_t parts(int64_t size, int64_t part) { return (size + part - 1) / part; }
  // The one place at which the statement reads the result, by iterators that count as the sum's do.
  std::optional<Access> result_of(const Statement& statement) const;

  // One dimension of the input other than the channels'.
  struct Dimension {
    size_t dim = 0;
    std::vector<std::string> rows, taps;
    int64_t step = 1;            // input elements from one position to the next
    int64_t size = 1;            // positions that a band reads
    int64_t pitch = 1;           // positions from one to the next along the dimension
    std::string name;            // iterator of the statements that read the input
    bool own_dimension = false;  // counts images: stays a dimension of its own
  };
  struct Names {
    std::string band, panel, pair, block, tile, depth, row, group, member, part, other, order, half, lane,
        position;
  };

  const MatrixUnit& unit_;
  MatrixUnit::Format format_;                     // before analyse(): the deepest
  int64_t band_, panel_, blocks_, tiles_, rows_;  // as in BandSizes, but tiles_: all of a band
  int64_t accumulator_tiles_ = 1;                 // tiles
  int64_t bands_ = 1, panels_ = 1, depths_ = 1, depth_ = 1;
  std::string lane_, block_;  // of features
  std::string channel_, channel_outer_;
  std::vector<std::string> row_names_, sums_, images_;  // sums_: without channels
  // Iterators: of the innermost rows, and of those that bands divide.
  std::string column_, banded_;
  int64_t features_ = 1, blocks_of_features_ = 1, channels_ = 1, channel_block_ = 0, channel_blocks_ = 1;
  size_t channel_dim_ = 0;
  // Where one instruction takes several positions, whose channels are next to each other in memory: how many
  // channels a position has there (0 where it takes one position), and the tap that counts the positions.
  // That is empty where there is none: all positions but the first are then multiplied by zeros.
  int64_t member_ = 0;
  std::string joined_;
  std::vector<Dimension> dimensions_;
  std::map<std::string, int64_t> strides_;  // of rows and taps, in positions
  int64_t positions_ = 1, read_positions_ = 1, flat_rows_ = 1;
  bool lines_apart_ = false;  // rows of an accumulator do not continue from line to line
  std::vector<Statement> tails_;
  Names names_;
  std::string result_name_;

 private:
  void add_row();
  void find_result();
  void classify();
  void find_channels();
  void find_channel_block();
  void join_positions();
  std::vector<Dimension*> outwards();
  void find_conditions();
  void find_neighbours();
  void find_positions();
  void size_blocks();
};

}  // namespace tc
