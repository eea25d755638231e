// What the default asks about a reduction. Nothing here changes the kernel.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/default/classify.h"
#include "scheduler/default/prepare.h"

namespace tc {

constexpr int64_t kAssumedSymbolic = 64;  // assumed for extents that are not known

// A view: the reduction has to outlive it, and answers change with the lines that are applied to it.
class ReductionFacts {
 public:
  explicit ReductionFacts(const ReductionKernel& reduction) : reduction_(&reduction) {}

  const ReductionKernel& reduction() const { return *reduction_; }
  const Kernel& kernel() const { return reduction_->builder.kernel(); }
  const Target& target() const { return reduction_->builder.target(); }
  const Statement& sum() const { return reduction_->statement(); }
  const Buffer& buffer(const Access& access) const {
    return kernel().buffers[static_cast<size_t>(access.buffer)];
  }
  ReductionClass reduction_class() const { return classify(sum()); }

  // Iterators of the sum: those of its result, and those that are summed over.
  bool is_output(const std::string& iterator) const { return depends_on(sum().write, iterator); }
  std::vector<std::string> outputs() const;
  std::vector<std::string> reductions() const;
  int64_t extent(const std::string& iterator, int64_t fallback) const {
    return extent_or(sum(), iterator, fallback);
  }
  // The iterators that are summed over, in the order of their loops: those along the innermost dimension of
  // what the columns read come last; where lanes read elements of several groups, windows along the columns
  // come after what moves along these.
  std::vector<std::string> reduction_order(const std::string& vector, const std::string& columns) const;

  // Whether some load has both iterators in one subscript: a window that slides along `columns`.
  bool is_window(const std::string& reduction, const std::string& columns) const;
  // Whether the sum reads one operand only and each of its reductions is a window of it, as in pooling.
  bool is_window_alone() const;
  // Whether the load along the window is a scalar that is broadcast to the lanes.
  bool shares_broadcasts(const std::string& window, const std::string& columns,
                         const std::string& lane) const;
  // Whether some condition of the sum depends on the iterator, as padding does.
  bool constrained(const std::string& iterator) const;
  // Whether the iterator moves along a row from which each lane reads the element of its own group.
  bool moves_groups(const std::string& iterator) const;
  // Whether conditions exclude some lanes of each vector in some trips of the iterator. Copies of an unrolled
  // loop know at compile time which lanes.
  bool cuts_lanes(const std::string& iterator, const std::string& lane) const;

  // Dimension of the accumulators' buffer that the iterator indexes alone, with coefficient 1 or as the
  // finest of several; nothing where there is none.
  std::optional<size_t> dimension_of(const std::string& iterator) const;
  // The blocked dimension of the buffer whose lanes are dimension `inner`; null where there is none.
  const BlockedDim* blocked_dim(const Access& access, size_t inner) const;
  bool is_blocked(int buffer) const;
  // Whether the iterator is in the subscript of this dimension of the accumulators' buffer, or of one before
  // it, such as a batch.
  bool shares_dimension(const std::string& iterator, size_t dim) const;

  double bytes_of(const Access& access) const;
  bool is_constant(const Access& access) const { return buffer(access).scope == Scope::Constant; }
  int times_read(int buffer) const;
  // Whether it reads a constant that nothing but the sum reads, without dynamic subscripts: such a constant
  // can be packed in panels.
  bool packable(const Access& access) const;
  // Whether it reads an input whose lanes are not contiguous and that all columns share: a packed copy has
  // its lanes side by side.
  bool is_packable_input(const Access& access, const std::string& lane, const std::string& columns) const;
  // Whether it is such an input, and tiles of all widths read the copy again.
  bool reads_packed(const Access& load, const std::string& vector, const std::string& columns) const;
  // For a sum of products of bytes, on targets that add several such products together: the iterator of the
  // sum that may count these products, in steps of `byte_products`. Both operands then have the bytes side by
  // side, the constant by packing. Nothing where lanes along `lane` do not allow it.
  std::optional<std::string> byte_iterator(const std::string& lane) const;
  // Whether each step of the sum reads another page of it, and there are more pages than the first level of
  // the TLB holds.
  bool crosses_pages(const Access& load) const;

 private:
  const ReductionKernel* reduction_;
};

// For a sum with a `byte_iterator`: whether the words that columns read may be widened once for all lanes.
// Neither they nor the conditions under which they exist depend on the lanes, and those of a tile fit a
// little memory.
bool may_widen(const ReductionFacts& facts, const std::string& lane, const std::string& columns);
// Instructions of the epilogue per accumulator, roughly.
double epilogue_weight(const ReductionFacts& facts);
// The iterator of another statement that counts the results which `iterator` of the sum counts, as the
// statement's only access of the accumulators has it; empty where there is none.
std::string same_result(const ReductionFacts& facts, const Statement& other, const std::string& iterator);
// Whether the expression is a byte that is loaded and cast.
bool is_cast_byte(const Expr& expr);
// Whether the subscript has a part that is computed from iterators alone, as `join` makes them.
bool is_computed(const Subscript& subscript);

}  // namespace tc
