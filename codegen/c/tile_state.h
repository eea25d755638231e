// What the writers of one leaf share: the statement that is being written, register elements, memory.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/c/kernel_context.h"
#include "codegen/c/line_buffer.h"

namespace tc::c {

struct TileState {
  TileState(KernelContext& context, std::vector<Affine> assumed)
      : context(context), kernel(context.kernel), lines(context.names), known(std::move(assumed)) {}

  KernelContext& context;
  const Kernel& kernel;
  LineBuffer lines;
  std::vector<Affine> known;         // >= 0 at this point
  std::set<int> written;             // memory buffers that the leaf writes
  std::vector<Prefetch> prefetches;  // the leaf's

  // The statement being written.
  const TileStatement* tile = nullptr;
  const Statement* statement = nullptr;
  std::map<std::string, Affine> values;     // of the tile's loops that are fixed
  std::map<std::string, Affine> iterators;  // the statement's, for the current instance
  std::string lane;                         // name of the vector loop, or empty
  int lanes = 1;
  std::map<std::string, int> variable_level;  // of serial loop variables

  Functions& functions() { return context.functions; }
  Affine with_values(const Affine& affine) const { return affine.substitute(values); }
  // Binds the statement's iterators to the values of this copy.
  void bind_iterators();
  int64_t lane_step(const Affine& affine) const { return lanes > 1 ? affine.coefficient(lane) : 0; }
  Affine without_lane(const Affine& affine) const {
    return affine - Affine::variable(lane, lane_step(affine));
  }
  // Divides constraints into those of scalars, which decide on whole instances, and those of lanes.
  void divide(const std::vector<Affine>& pending, std::vector<Affine>& scalar,
              std::vector<Affine>& of_lanes) const;
  int level_of(const Affine& affine) const;
  // An affine expression that does not depend on the lane, as a sum of constants: one for each level whose
  // variables it has.
  std::string hoisted(const Affine& affine);
  // The mask of the lanes in which the constraints hold; constraints that are the same for all lanes are
  // ignored.
  std::string mask_of(const std::vector<Affine>& constraints);
  std::string lane_mask(const Affine& constraint);
  // A mask of both; either may be empty, which means all lanes.
  std::string both(const std::string& a, const std::string& b);
};

// A run of register elements: index + lane * step for each lane.
struct ElementKey {
  int buffer = -1;
  std::vector<int64_t> index, step;
  int lanes = 1;
  auto operator<=>(const ElementKey&) const = default;
};

// The leaf's register elements: variables of C, each with one or several elements.
class Registers {
 public:
  explicit Registers(TileState& state) : state_(state) {}

  ElementKey key_of(const Access& access) const;
  // The variable that holds exactly these elements; empty where there is none.
  std::string holder(const ElementKey& key) const;
  // As holder(), but makes a variable where none of the elements has one. Empty where they have other
  // variables.
  std::string make(const ElementKey& key);
  Value read(const ElementKey& key);
  void write(const ElementKey& key, const std::string& value);
  bool has(int buffer, const std::vector<int64_t>& index) const { return !place_of(buffer, index).empty(); }
  // Constraints outside of which the elements are undefined.
  std::set<std::string>& valid_where(const ElementKey& key) { return valid_[key]; }

 private:
  std::vector<int64_t> index_of(const ElementKey& key, int lane) const;
  // One element, to read or assign to.
  std::string place_of(int buffer, const std::vector<int64_t>& index) const;
  static std::string scalar_of(DType dtype, const std::string& place);
  void assign(DType dtype, const std::string& place, const std::string& scalar);
  TileState& state_;
  std::map<ElementKey, std::string> variables_;
  std::map<ElementKey, std::set<std::string>> valid_;
};

// Addresses, loads and stores.
class Memory {
 public:
  // Evaluates an expression for the lanes of a mask.
  using Evaluate = std::function<Value(const ExprPtr&, const std::string& mask)>;
  Memory(TileState& state, Evaluate evaluate) : state_(state), evaluate_(std::move(evaluate)) {}

  // Lanes outside of the mask read nothing, which gives 0.
  Value load(const Access& access, DType dtype, const std::string& mask);
  void store(const Access& access, DType dtype, const Value& value, const std::string& mask);

  // byte_products.cc. Whether the bytes over which the loop goes are adjacent and the same in all lanes, or
  // adjacent in each lane and after those of the lane before; nothing where they are neither.
  std::optional<bool> is_shared_word(const Access& access, const std::string& loop) const;
  // Whether all lanes' elements are in the buffer.
  bool is_inside(const Access& access) const;
  // The name of four bytes as a word, or of a word for each lane.
  std::string load_words(const Access& access, bool is_shared);

 private:
  struct Place {
    std::string first;  // where lane 0 is, as an index of the buffer
    std::string step;   // elements from lane to lane; empty: all lanes have the same place
    std::string lanes;  // a vector of i64: elements of each lane from `first`; empty: step tells
    std::string key;
    std::optional<Affine> elements;  // `first`, unless it depends on a size or value that only a run knows
  };
  Place place_of(const Access& access, const std::string& mask);
  // Writes the prefetch of the load at this place for a later load.
  void prefetch(const Access& access, const Affine& elements);
  TileState& state_;
  Evaluate evaluate_;
};

// Expressions of a leaf's statements.
class Expressions {
 public:
  Expressions(TileState& state, Registers& registers);

  // Forgets what was computed for the instance before.
  void begin_instance(const ExprPtr& value);
  Value evaluate(const ExprPtr& expr, const std::string& mask);
  // As a vector of the statement's lanes, where there are several.
  std::string spread(DType dtype, const Value& value);
  Memory& memory() { return memory_; }

 private:
  Value compute(const ExprPtr& expr, const std::string& mask);
  Value select(const Expr& expr, const std::string& mask);
  Value compare(const Expr& expr, const std::string& mask);
  Value named(const ExprPtr& expr, const Value& value);
  std::optional<Affine> as_affine(const ExprPtr& expr) const;
  Value affine_value(const Affine& affine);
  void count(const ExprPtr& expr);

  TileState& state_;
  Registers& registers_;
  Memory memory_;
  std::map<const Expr*, int> uses_;
  std::map<std::pair<const Expr*, std::string>, Value> evaluated_;
};

}  // namespace tc::c
