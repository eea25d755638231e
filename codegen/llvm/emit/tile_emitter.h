// Emits one leaf of the loop tree, a register tile, as straight-line vector code and reduction loops.
//
// Unrolled loops become copies of the code, the vector loop becomes the lanes of one LLVM vector,
// serial loops become loops whose register elements are carried in phi nodes. Nothing here knows
// operators: convolution, pooling, softmax rows and elementwise groups differ only in their accesses.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "codegen/llvm/emit/arithmetic.h"
#include "codegen/llvm/emit/kernel_context.h"
#include "codegen/llvm/emit/matrix_plan.h"
#include "codegen/llvm/units/matrix_unit.h"

namespace tc {

class TileEmitter {
 public:
  // `assumed` holds affine expressions of outer variables and parameters known to be >= 0 here.
  TileEmitter(KernelContext& context, const LoopNode& leaf, std::vector<Affine> assumed);

  // Emits the leaf at the builder's insertion point.
  void emit();

 private:
  // A value of one instance: the same for all lanes, or a vector with one value per lane.
  struct Value {
    llvm::Value* value = nullptr;
    bool vector = false;
  };

  // When an expression is needed: a condition on the instance and one per lane; null means always.
  struct Guard {
    llvm::Value* scalar = nullptr;
    llvm::Value* mask = nullptr;
    int level = -1;          // of `scalar`; -1 where it is known only at its point of use
    bool some_lane = false;  // `mask` is known to have a lane set
    int id = 0;              // equal ids mean equal guards
    bool empty() const { return scalar == nullptr && mask == nullptr; }
  };

  // A run of register elements held in one LLVM value: element index + lane * step for each lane.
  struct ElementKey {
    int buffer = -1;
    std::vector<int64_t> index, step;
    int lanes = 1;
    auto operator<=>(const ElementKey&) const = default;
  };
  struct Element {
    llvm::Value* value = nullptr;
    std::set<std::string> valid_where;  // constraints outside of which the value is undefined
  };

  // A loop level of the leaf: 0 is the leaf itself. Values that depend only on the variables of this and
  // outer levels are computed at the end of the block `setup`.
  struct Level {
    llvm::BasicBlock* setup = nullptr;
    std::map<std::string, llvm::Value*> values;
  };

  // What the reduction loops carry: one accumulator of a statement.
  struct Accumulator {
    llvm::Value* value = nullptr;
    ElementKey element;                         // Register buffers
    bool fresh = false;                         // a register without an earlier value
    llvm::Value* total = nullptr;               // address of the sum of earlier blocks
    std::map<std::string, Affine> copy_values;  // values_ of one copy that writes it
    // The constraints, as texts, under which the element exists: elsewhere its value does not matter.
    std::set<std::string> exists_where;
    // Those under which it is loaded from memory and stored to it.
    std::vector<Affine> existence;
    // Products that are not in `value` yet, as integers of 16 bits whose magnitudes are at most `short_most`.
    llvm::Value* short_sum = nullptr;
    int64_t short_most = 0;
  };
  // Products of bytes that are added to an accumulator each of whose lanes is a register of its own.
  struct WordProduct {
    std::string sum;                 // the accumulator's name
    llvm::Value* shared = nullptr;   // a word of four bytes, for all lanes
    llvm::Value* weights = nullptr;  // such words, one for each lane
    bool shared_is_signed = false, weights_are_signed = false;
  };
  // The statements over which accumulators stay in registers.
  struct AccumulatorRegion {
    bool active = false;
    bool lane_partial = false;  // lanes are parts of one result
    // The outermost loop is divided into blocks: the first one continues from the accumulators' initial
    // values.
    bool outer_blocks = false;
    bool in_blocks = false;  // accumulators have the sum of a block; `total` is in memory
    // Accumulators begin at zero; at the end they are added to the elements in memory.
    bool from_zero = false;
    std::map<std::string, Accumulator> accumulators;
  };

  // Where the bytes of an access are: base + affine (numbers) + symbolic strides + dynamic parts.
  struct Address {
    int buffer = -1;
    Affine bytes;                                           // lane part removed
    std::vector<std::pair<llvm::Value*, Affine>> symbolic;  // stride times affine
    int64_t lane_bytes = 0;                                 // per lane
    std::vector<std::pair<llvm::Value*, int64_t>> symbolic_lane;
    llvm::Value* dynamic = nullptr;        // bytes, the same for all lanes
    llvm::Value* dynamic_lanes = nullptr;  // bytes per lane, as a vector of i64
    bool contiguous(int64_t element_bytes) const {
      return lane_bytes == element_bytes && symbolic_lane.empty() && dynamic_lanes == nullptr;
    }
    bool lane_invariant() const {
      return lane_bytes == 0 && symbolic_lane.empty() && dynamic_lanes == nullptr;
    }
  };

  // A store that waits for those of the neighbouring copies.
  struct WaitingStore {
    Address address;
    llvm::Value* value = nullptr;
    llvm::Constant* mask = nullptr;  // null: all lanes
  };

  // Lanes that read elements of one row of the buffer's last dimension, known while compiling.
  struct RowShuffle {
    int64_t first = 0, extent = 0;  // the address's element in the row; elements of the row
    std::vector<int> elements;      // of the row, per lane
  };

  using Constraints = std::vector<Affine>;

  // tile_emitter.cc and, of serial loops, tile_loops.cc: statements and their loop nests.
  void emit_statement(const TileStatement& tile, bool from_zero);
  void nest(size_t position, Constraints pending);
  void serial_loop(size_t position, const Constraints& pending);
  // A serial loop's first and last value. Constraints that are fixed but for this loop's variable are its
  // bounds (`bounds`); the others are `rest`.
  struct SerialBounds {
    Constraints bounds, rest;
    LoopExprPtr lower, upper;
    Interval low, high;  // of the values that `lower` and `upper` can have
  };
  SerialBounds serial_bounds(const TileLoop& loop, const Constraints& pending) const;
  // One copy of the serial loop's body. After all copies but the last of a block there is a fence, past
  // which LLVM must not move loads.
  void serial_copy(size_t position, const SerialBounds& bounds, const Affine& value, bool ends_block);
  // One emitted loop over first .. last, with `copies` copies of the body per trip; returns the first value
  // that it does not cover.
  struct Trips {
    llvm::Value *first, *last;
    Interval range;
    int64_t copies;
    bool may_be_empty;
  };
  llvm::Value* serial_trips(size_t position, const SerialBounds& bounds, const Trips& trips);
  // The last of the trips low .. high that needs no masks: where some lanes of the last trip do not exist,
  // that one is emitted separately.
  int64_t last_whole_trip(size_t position, const SerialBounds& bounds, Interval trips) const;
  void known_trips(size_t position, const SerialBounds& bounds, Interval trips);
  void unknown_trips(size_t position, const SerialBounds& bounds);
  // The least and the most that a function of the copies and lanes has among them.
  std::pair<Affine, Affine> over_copies(const Affine& affine) const;
  // Emits the trips in which all copies and lanes exist and those after them, in which only some do, as two
  // loops, so that only the second has masks. False, and nothing is emitted, where all exist in each trip, or
  // the second loop would have many of the trips.
  bool divide_trips(size_t position, const SerialBounds& bounds);
  void instance(const Constraints& pending);
  void store_instance(const Constraints& pending);
  void accumulate_instance(const Constraints& pending);
  // The element's new value, for a statement without a reduction.
  void replace_element(Accumulator& accumulator, const Constraints& pending, Constraints needed);
  // The accumulator plus a product. Clears `needed` where operands are 0 wherever the conditions do not
  // hold: the product then adds nothing.
  llvm::Value* add_product(const Accumulator& accumulator, std::pair<ExprPtr, ExprPtr> product,
                           const Constraints& pending, Constraints& needed);
  // The same for a product of two bytes in vectors of RISC-V; null where the statement's value is no such
  // product.
  llvm::Value* add_short_product(const Accumulator& accumulator, const Constraints& pending);
  llvm::Value* shaped_like(const Accumulator& accumulator, const Value& value);
  // `next` where the conditions hold, else `before`.
  llvm::Value* selected(const Constraints& needed, llvm::Value* next, llvm::Value* before);
  // Runs `body` under a branch on the conditions; registers that it changes are merged afterwards.
  void branch_on(const Constraints& constraints, const std::function<void()>& body);
  Affine with_values(const Affine& affine) const;
  // What must hold for any of the copies and lanes to have a result, where that is not known.
  Constraints any_result_exists(const Constraints& pending) const;
  bool simplify(Constraints& pending) const;         // drops what holds; false where one never holds
  llvm::Value* condition(const Affine& constraint);  // a fixed constraint's, hoisted
  llvm::Value* lane_mask(const Affine& constraint);
  Guard guard_for(const Constraints& constraints);

  // tile_byte_products.cc: products of bytes, several of which an instruction sums up. False, and nothing is
  // emitted, where the loop at this position does not run over such products.
  bool sum_bytes(size_t position, const Constraints& pending);
  // An operand of a product of bytes: the elements of each lane are the bytes of a number of 32 bits.
  struct ByteOperand {
    ExprPtr expr;
    bool shared = false;  // the same in all lanes, else each lane has its own
    DType dtype = DType::U8;
    int64_t most = 255;  // the largest value, of U8
    bool plain = false;  // a load and nothing else
  };
  std::optional<ByteOperand> byte_operand(const ExprPtr& expr, const TileLoop& bytes_loop);
  std::optional<ByteOperand> byte_load(const ExprPtr& expr, const TileLoop& bytes_loop);
  std::optional<std::pair<ByteOperand, ByteOperand>> byte_operands(const TileLoop& bytes_loop);
  Address bytes_address(const Access& access, const TileLoop& bytes_loop);
  std::optional<Affine> shift_of(const ExprPtr& expr) const;
  bool loads_in_bounds(const ExprPtr& expr) const;
  llvm::Value* bytes_of(const ExprPtr& expr, const TileLoop& bytes_loop, const Guard& guard, bool shared);
  llvm::Value* load_bytes(const Expr& load, const Address& address, const Guard& guard, bool shared);
  llvm::Value* add_bytes(llvm::Value* sums, const ByteOperand& a, llvm::Value* a_bytes, const ByteOperand& b,
                         llvm::Value* b_bytes);

  // tile_16_bit_sums.cc: products of bytes that are summed up in 16 bits before they are added to an
  // accumulator. False, and nothing is emitted, where the value is no product of such bytes.
  bool add_to_short_sum(Accumulator& accumulator, const Guard& guard);
  // A byte in each lane, or one for all lanes; `most` is its largest magnitude.
  struct ByteValue {
    llvm::Value* value = nullptr;
    bool vector = false;
    DType dtype = DType::U8;
    int64_t most = 255;
  };
  std::optional<ByteValue> byte_value(const ExprPtr& expr, const Guard& guard);
  std::optional<ByteValue> difference_of_byte(const ExprPtr& expr, int64_t number, const Guard& guard);
  std::optional<Value> float_of_bytes(const Expr& cast, const Guard& guard);
  void add_short_sum(Accumulator& accumulator);
  // Adds what is not in the accumulators yet: sums of 16 bits, and products of words (below).
  void add_waiting_products();

  // tile_dsp_products.cc: the same on general-purpose registers. Products wait for those of other columns
  // and steps; add_word_products() emits them, before anything else reads the accumulators.
  void add_word_product(const WordProduct& product, const Constraints& needed);
  void add_word_products();
  void add_one_word_product(const WordProduct& product);
  // Adds the whole sum, where a loop around the leaf has widened its words; else returns false.
  bool add_widened_words();
  // The same where it has widened the rows of a map, over which a window slides.
  bool add_widened_rows();
  bool add_gathered_windows();

  // tile_word_copies.cc: copies of bytes, words or 16 at a time.
  int64_t copies_of_bytes(size_t position, const Expr* source, const Constraints& pending) const;
  // Runs with the variables of each copy of the unrolled loops from `position` on.
  void for_each_copy(size_t position, int64_t count, const std::function<void()>& run);
  bool copy_bytes(size_t position, const Constraints& pending);
  bool copy_words(size_t position, const Constraints& pending);

  std::vector<llvm::Value*> lanes_of_sum(const std::string& name);
  void set_lanes_of_sum(const std::string& name, const std::vector<llvm::Value*>& lanes);
  // Adds products of two bytes in each of four lanes, of which one operand may be the same in all lanes.
  llvm::Value* add_products_of_lanes(llvm::Value* sums, std::pair<Value, DType> first,
                                     std::pair<Value, DType> second);

  // tile_transposed_stores.cc: stores whose lanes are far apart while the copies write adjacent elements.
  bool stores_across(size_t position) const;
  void store_transposed();
  void store_interleaved();

  // tile_registers.cc: register elements and accumulators.
  void begin_region(size_t position, const Constraints& pending);
  void end_region();
  // The variable of the element that the instance adds to, where a loop around the leaf holds it; else null.
  llvm::AllocaInst* held_element();
  // Of lanes that are parts of one result: where results are the lanes of one vector, adds up all of them
  // together, and takes their accumulators out of the region.
  void end_partial_sums(AccumulatorRegion& region, DType dtype);

  // tile_blocked_sums.cc: sums in blocks.
  void begin_blocks(size_t position);
  void sum_in_blocks(size_t position, const SerialBounds& bounds, Interval trips);
  // Trips that are whole blocks, whose sums are added to the totals.
  void full_blocks(size_t position, const SerialBounds& bounds, Interval trips, int64_t block);
  void end_block();
  // The total goes to memory, and the accumulator begins at zero again.
  void store_total(Accumulator& accumulator, llvm::Value* total);
  void store_totals();  // the accumulators' values
  llvm::Value* with_total(const Accumulator& accumulator);

  void collect_accumulators(size_t position, Constraints pending);
  bool accumulators_are_disjoint() const;
  std::string accumulator_key() const;
  ElementKey element_key(const Access& access) const;
  Value read_register(const ElementKey& key);
  void write_register(const ElementKey& key, llvm::Value* value, std::set<std::string> valid_where);
  std::pair<const ElementKey*, int> find_lane(int buffer, const std::vector<int64_t>& index) const;

  // tile_matrix.cc: products on the matrix unit. LLVM has no values for what is in tile registers;
  // accumulators in vector registers are kept like the sums of other leaves, under names that no element has.
  //
  // By number of a statement that only sets accumulators to zero: the number of the product that adds to
  // them.
  std::map<size_t, size_t> zeroing_statements() const;
  void emit_matrix(bool from_zero);
  void matrix_batch(const Constraints& pending);
  llvm::Value* tile_pointer(const MatrixTile& tile);
  void emit_tiles(bool from_zero);
  void tile_batch();
  void load_operand(TileInstructions& unit, int number, const MatrixTile& tile);
  void emit_vectors(bool from_zero);
  void vector_batch();
  // The same as one piece of code of the unit, where it has such for these steps.
  bool vector_steps(VectorInstructions& unit);
  llvm::Value*& vector_sum(const char* of, int number);
  // The same for accumulators that may be structs of parts, of this type.
  llvm::Value* sum_of(const char* of, int number, llvm::Type* type);
  void set_sum(const char* of, int number, llvm::Value* value);
  MemoryRows sums_of(const MatrixTile& tile);
  Address group_of(const MatrixTile& tile, int64_t offset);
  llvm::Type* conversion_type(llvm::Value* sums);

  // Whether the accumulators leave less than half of the registers to the operands.
  bool fills_registers() const;
  // Of sums that fill them: the steps of a scalar sum, and what keeps their loads apart.
  bool is_step(const TileLoop& loop) const;
  void end_step();

  // tile_values.cc: expressions.
  Value evaluate(const ExprPtr& expr, const Guard& guard);
  Value compute(const ExprPtr& expr, const Guard& guard);
  std::optional<Value> sum_of_multiples(const Expr& sum, const Guard& guard);
  std::optional<Value> upper_product(const Expr& cast, const Guard& guard);
  std::optional<Value> saturated_byte(const Expr& cast, const Guard& guard);
  Value evaluate_select(const Expr& expr, const Guard& guard);
  Value evaluate_compare(const Expr& expr, const Guard& guard);
  std::optional<Affine> as_affine(const ExprPtr& expr) const;
  Value affine_value(const Affine& affine);
  llvm::Value* spread(const Value& value);  // as a vector of lanes_ elements
  Guard narrow(const Guard& guard, const Value& condition, bool holds);
  std::optional<std::pair<ExprPtr, ExprPtr>> product_of(const ExprPtr& expr) const;

  // tile_memory.cc: addresses, loads, stores.
  Address address_of(const Access& access, const Guard& guard);
  bool in_bounds(const Access& access) const;
  llvm::Value* hoisted(const Affine& affine);  // value at its own level
  llvm::Value* pointer(const Address& address);
  llvm::Value* guarded_pointer(const Address& address, llvm::Value* scalar, int level, int id, int64_t bytes);
  llvm::Value* lane_offsets(const Address& address);
  llvm::Value* shuffled_row(const RowShuffle& row, llvm::Type* type, llvm::Value* from, llvm::Align align);
  std::optional<RowShuffle> row_shuffle(const Access& access, const Address& address) const;
  Value load(const Access& access, DType dtype, const Guard& guard, bool must_guard);
  // What makes two loads of this leaf the same value.
  std::string load_key(const Access& access, const Address& address, const Guard& guard,
                       const RowShuffle* row) const;
  // One load instruction of `bytes` bytes, from elsewhere where the guard does not hold.
  llvm::Value* load_whole(const Address& address, llvm::Type* type, const Guard& guard, int64_t bytes,
                          llvm::Align align);
  // A masked load, or a gather of elements of `element` bytes.
  llvm::Value* load_lanes(const Address& address, llvm::Type* type, const Guard& guard, int64_t element,
                          llvm::Align align);
  bool is_near_apart(const Address& address) const;
  llvm::Value* load_apart(int64_t stride, llvm::Type* type, llvm::Value* from, llvm::Align align);
  void store(const Access& access, DType dtype, const Value& value, const Guard& guard);
  void scatter(const Address& address, llvm::Value* value, llvm::Value* mask, llvm::Align align);
  bool scatter_bytes(const Address& address, llvm::Value* value, llvm::Value* mask);
  Value from_memory(llvm::Value* value, DType dtype, bool vector);
  bool is_read_only(int buffer) const;

  // tile_load_prefetch.cc: prefetches of data ahead of loads. The values are the locality levels of LLVM's
  // prefetch. Data that only the second-level cache can hold is prefetched to the first level all the same:
  // Zen 4 takes longer to prefetch to the second alone (BERT 1.5 %).
  enum class CacheLevel : uint8_t { Second = 2, First = 3 };
  // Prefetches what a later load will read, where the leaf asks for it.
  void prefetch(const Access& access, const Address& address, CacheLevel level = CacheLevel::First);
  void prefetch_by_load(const Address& ahead);
  // Loads a byte of the cache line into the register that is always zero.
  void load_line(llvm::Value* place);
  void prefetch_lanes(const Access& access, const Address& address);
  llvm::Value* hidden(llvm::Constant* constant);
  void prefetch_next_trip(const Access& access, const Address& address);

  // tile_store_prefetch.cc: runs of adjacent cache lines that a statement stores: bytes `first` to `end`,
  // counted from an address that the leaf's outer variables determine; `start` is the offset of `first` in
  // the buffer.
  struct StoredRun {
    int buffer = -1;
    Affine start;
    int64_t first = 0, end = 0;
  };
  std::vector<StoredRun> stored_runs(const TileStatement& tile) const;
  std::vector<StoredRun> runs_stored_after_sum() const;
  void prefetch_stores(const std::string& variable, const Trips& trips);
  void prefetch_all_stores();
  void prefetch_lines(const StoredRun& run, int64_t all, int64_t count, const Affine& moved);

  int level_of(const Affine& affine) const;
  llvm::Value* at_level(int level, const std::string& key, const std::function<llvm::Value*()>& compute);

  KernelContext& context_;
  const Kernel& kernel_;
  const LoopNode& leaf_;
  Builder& builder_;
  Arithmetic arithmetic_;
  std::vector<Affine> known_;  // >= 0 at this point of the emission
  std::map<ElementKey, Element> registers_;
  std::vector<Level> levels_;
  std::map<std::string, int> variable_level_;         // serial loop variables
  std::map<std::string, int64_t> variable_step_;      // by which a trip moves each
  std::vector<std::map<std::string, Value>> loaded_;  // scopes of loads already done
  std::set<std::string> prefetched_;                  // addresses of lines that the leaf prefetches
  std::set<int> written_;                             // memory buffers that the leaf writes
  std::map<std::string, int> guard_ids_;
  int names_ = 0;
  size_t next_statement_ = 0;  // of the leaf, after the one being emitted

  // The statement being emitted.
  const TileStatement* tile_ = nullptr;
  const Statement* statement_ = nullptr;
  std::map<std::string, Affine> values_;     // of the tile's loops that are fixed
  std::map<std::string, Affine> iterators_;  // the statement's, for the current instance
  std::map<std::pair<const Expr*, int>, Value> evaluated_;
  std::string lane_;  // name of the vector loop, or empty
  int lanes_ = 1;
  AccumulatorRegion region_;
  std::vector<WordProduct> word_products_;  // not emitted yet
  size_t region_position_ = 0;
  const MatrixPlan* matrix_ = nullptr;  // of a matrix product
  bool waits_ = false;                  // stores of the copies being emitted go to `waiting_`
  std::vector<WaitingStore> waiting_;
};

// The bytes that a buffer spans, from its first to its last one; nothing where only a run knows a size or a
// stride.
std::optional<int64_t> spanned_bytes(const BufferSlot& slot, const Buffer& buffer);

// The terms of an address whose innermost loop is of this level.
Affine terms_of_level(const Affine& affine, int level, const std::map<std::string, int>& levels);

}  // namespace tc
