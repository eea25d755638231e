#include "scheduler/default/choices.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "ir/target/narrow_product.h"
#include "scheduler/algebra/algorithms.h"
#include "ir/target/register_groups.h"
#include "ir/target/weight_pairs.h"

namespace tc {
namespace {

// Loads of the epilogue per accumulator.
double epilogue_loads(const ReductionFacts& facts) {
  double count = 0;
  for (const std::string& tail : facts.reduction().epilogue) {
    for (const Access& load : loads_of(facts.reduction().builder.statement(tail))) {
      const Scope scope = facts.buffer(load).scope;
      count += scope == Scope::Input || scope == Scope::Constant;
    }
  }
  return count;
}

// Cycles per vector that the last statement stores: 1, or one for each lane where lanes are not contiguous.
double store_cost(const ReductionFacts& facts, const std::string& vector, int64_t lanes) {
  if (facts.reduction().epilogue.empty()) return 1;
  const auto dim = facts.dimension_of(vector);
  const Statement& last = facts.reduction().builder.statement(facts.reduction().epilogue.back());
  double cost = static_cast<double>(lanes);
  for (const Access& load : loads_of(last)) {
    if (load.buffer != facts.sum().write.buffer || !dim) continue;
    for (const auto& [name, coefficient] : load.index[*dim].affine.terms()) {
      if (coefficient != 1) continue;
      if (element_stride(facts.kernel(), last.write, name) == 1) cost = 1;
    }
    return cost;
  }
  return 1;  // further statements are between
}

// Whether vectors of `lanes` floats take at most two registers, so that code generation may join two of them
// into one on an in-order core. Not where kernels have versions for several vector lengths: these share one
// packed copy of a constant, in which two panels are not next to each other.
bool has_pairs(const ReductionFacts& facts, int64_t lanes) {
  const Target& target = facts.target();
  if (!target.scalable || !target.broadcast_operand || !target.wider_targets.empty()) return false;
  return lanes * 32 <= 2 * target.vector_bits && facts.buffer(facts.sum().write).dtype == DType::F32;
}

// Whether two vectors of a tile may become one (codegen/llvm/passes/join_vectors.h): in products with a
// constant along the lanes. The same layers qualify at each vector length: those whose channels fill pairs of
// 32 lanes or, where there are many channels, all pairs but the last.
bool may_join(const ReductionFacts& facts, const std::string& vector, int64_t lanes) {
  constexpr int64_t kChannels = 64, kMany = 8 * kChannels;
  if (!has_pairs(facts, lanes) || !facts.is_output(vector) ||
      classify(facts.sum()) != ReductionClass::MatrixProduct)
    return false;
  int64_t channels = facts.extent(vector, 0);
  if (const auto dim = facts.dimension_of(vector)) {
    const BlockedDim* blocked = facts.blocked_dim(facts.sum().write, *dim);
    if (blocked != nullptr && blocked->extent.is_constant()) channels = blocked->extent.constant();
  }
  // After pairs of blocks of 32 channels, of two registers each, a last tile of one block may follow. With
  // blocks of 16 channels, joining such layers took 1 to 3 % more cycles at 256 bits and spilled more
  // registers at 1024 bits.
  const Target& target = facts.target();
  const bool may_rest = target.small_block > 0 && lanes == target.block &&
                        lanes * 32 == 2 * target.vector_bits && channels > kChannels;
  if (channels % kChannels != 0 && channels < kMany && !may_rest) return false;
  const std::vector<Access> loads = loads_of(facts.sum());
  return std::all_of(loads.begin(), loads.end(),
                     [&](const Access& load) { return facts.packable(load) == depends_on(load, vector); });
}

TileProblem problem_for(const ReductionFacts& facts, const std::string& vector, const std::string& columns,
                        int64_t lanes) {
  TileProblem problem;
  problem.lanes = static_cast<int>(lanes);
  problem.element_bytes =
      static_cast<int>(std::max<int64_t>(4, size_of(facts.buffer(facts.sum().write).dtype)));
  problem.epilogue_loads = epilogue_loads(facts);
  // An epilogue of more operations than this has constants that LLVM keeps in registers.
  constexpr double kLongEpilogue = 20;
  problem.held = epilogue_weight(facts) > kLongEpilogue ? 1 : 0;
  problem.threads = facts.reduction().builder.threads();
  problem.integers = !is_float(facts.sum().value->dtype);
  problem.joins = !columns.empty() && may_join(facts, vector, lanes);
  if (facts.byte_iterator(vector)) {
    problem.steps /= static_cast<double>(byte_products(facts.target()));
    const std::vector<Access> loads = loads_of(facts.sum());
    problem.bytes = has_byte_instruction(facts.target(), lanes, facts.buffer(loads[0]).dtype,
                                         facts.buffer(loads[1]).dtype);
    problem.halves = !problem.bytes;
    problem.widens =
        problem.halves && facts.extent(vector, 0) % lanes == 0 && may_widen(facts, vector, columns);
  }
  for (const Iterator& iterator : facts.sum().iterators) {
    const auto extent = static_cast<double>(facts.extent(iterator.name, kAssumedSymbolic));
    if (iterator.name == vector) {
      if (facts.is_output(vector)) {
        problem.blocks = static_cast<int64_t>(std::ceil(extent / static_cast<double>(lanes)));
        problem.partial = static_cast<int64_t>(extent) % lanes != 0;
      } else {
        problem.steps *= std::ceil(extent / static_cast<double>(lanes));
      }
    } else if (iterator.name == columns) {
      problem.columns = static_cast<int64_t>(extent);
    } else if (facts.is_output(iterator.name)) {
      problem.others *= extent;
    } else {
      problem.steps *= extent;
    }
  }
  return problem;
}

TileProblem::Operand operand_for(const ReductionFacts& facts, const Access& load, const Choice& choice) {
  const auto& [over_reduction, vector, columns, lanes, tile, open] = choice;
  TileProblem::Operand operand;
  operand.along_vector = depends_on(load, vector);
  operand.along_columns = !columns.empty() && depends_on(load, columns);
  operand.once =
      facts.packable(load) && facts.bytes_of(load) > static_cast<double>(facts.target().l1_bytes) / 2;
  for (const std::string& name : facts.outputs()) {
    const bool again = facts.extent(name, kAssumedSymbolic) > 1 && !depends_on(load, name);
    operand.once = operand.once && !again;
  }
  operand.streams = facts.packable(load) && !operand.along_columns && !operand.once;
  const auto stride = element_stride(facts.kernel(), load, vector);
  if (operand.along_vector && stride != 1 && !facts.packable(load) &&
      !facts.reads_packed(load, vector, columns)) {
    operand.vector_cost = facts.target().gather_cost * static_cast<double>(lanes);
  }
  if (operand.along_columns && !operand.along_vector) {
    const Buffer& buffer = facts.buffer(load);
    operand.column_bytes = element_stride(facts.kernel(), load, columns).value_or(0) * size_of(buffer.dtype);
  }
  if (operand.along_vector && !stride && std::any_of(load.index.begin(), load.index.end(), is_computed)) {
    operand.vector_cost = operand.taps = 1;
    for (const Iterator& iterator : facts.sum().iterators) {
      if (facts.is_output(iterator.name) || !facts.is_window(iterator.name, columns)) continue;
      operand.taps = static_cast<double>(facts.extent(iterator.name, 1));
    }
  }
  return operand;
}

// Whether an in-order core waits for the elements of a constant that the second cache does not hold, one
// after the other, since all lanes share one element. (With lanes along the constant, its vectors come from a
// panel that is prefetched.)
bool waits_for_memory(const ReductionFacts& facts, const Access& load, const std::string& vector) {
  if (facts.target().out_of_order() || !facts.packable(load) || depends_on(load, vector)) return false;
  return facts.bytes_of(load) > static_cast<double>(facts.target().l2_bytes);
}

// Whether the last vector of an operand that is not packed has fewer lanes: its loads then need a mask, which
// takes a register.
bool masks_lanes(const ReductionFacts& facts, const std::string& vector, int64_t lanes) {
  if (!counts_registers(facts.target()) || facts.target().vector_bits == 0 ||
      facts.extent(vector, lanes) % lanes == 0)
    return false;
  const std::vector<Access> loads = loads_of(facts.sum());
  return std::any_of(loads.begin(), loads.end(),
                     [&](const Access& load) { return depends_on(load, vector) && !facts.packable(load); });
}

// The choice with these lanes, columns and width; `outer` is the iterator over blocks of lanes, where such
// blocks exist already.
ReductionChoice choice_for(const ReductionFacts& facts, const Choice& iterators, const std::string& outer) {
  const auto& [over_reduction, vector, columns, width, tile, open] = iterators;
  TileProblem problem = problem_for(facts, vector, columns, width);
  if (!outer.empty()) {
    problem.blocks = facts.extent(outer, 1);
    problem.others /= static_cast<double>(problem.blocks);
  }
  double preference = over_reduction ? calibration::kOverReduction : 1;
  for (const Access& load : loads_of(facts.sum())) {
    if (!over_reduction && !depends_on(load, vector) && facts.crosses_pages(load))
      preference = calibration::kAcrossPages;
    if (!over_reduction && waits_for_memory(facts, load, vector))
      preference = calibration::kBroadcastFromMemory;
    problem.operands.push_back(operand_for(facts, load, iterators));
    if (over_reduction && element_stride(facts.kernel(), load, vector).value_or(2) > 1) {
      problem.operands.back().vector_cost = facts.target().gather_cost * static_cast<double>(width);
    }
  }
  if (over_reduction) {
    // Adding up vectors in pairs takes an addition and two shuffles for each sum.
    problem.finish = sums_fill_vectors(facts, iterators) ? 3 : std::log2(static_cast<double>(width)) * 2 + 4;
    problem.store_cost = 1;
    // Registers for the mask of the last lanes and the zeros that the other lanes add; an out-of-order core
    // reads both from memory.
    const bool masked = problem.steps > 0 && facts.extent(vector, 0) % width != 0;
    if (masked && counts_registers(facts.target()) && facts.target().vector_bits > 0) problem.held += 2;
  } else {
    problem.store_cost = store_cost(facts, vector, width);
    problem.held += masks_lanes(facts, vector, width);
  }
  const bool unknown_batch =
      !columns.empty() && columns == facts.outputs().front() && facts.extent(columns, 0) == 0;
  // For targets with blocks of 32 channels: of the two values that were tried (0.94 and this one), the one
  // with which nsNet2 executes half as many instructions as at 256 bits (tests/runtime/test_lengths.py). In
  // the model of a core it takes 2.6 % more cycles, as the last panel of 600 results uses 24 of 64 lanes
  // only.
  constexpr double kDoubledBlocks = 0.89;
  if (!over_reduction && has_doubled_lanes(facts, width))
    preference *= facts.target().small_block > 0 ? kDoubledBlocks : calibration::kDoubledLanes;
  ReductionChoice choice{iterators, problem, preference, 1, facts.outputs().size() - (outer.empty() ? 0 : 1)};
  for (const std::string& name : facts.outputs()) {
    if (name == vector || name == columns || name == outer) continue;
    choice.rows = facts.extent(name, kAssumedSymbolic);
    if (unknown_batch && choice.rows > 1) choice.preference = calibration::kUnknownBatch * preference;
  }
  return choice;
}

// Blocks of lanes along an iterator of the result.
struct Blocks {
  int64_t lanes = 0;  // of a block
  std::string outer;  // the iterator that counts the blocks, where they exist already
};

// Blocks along a dimension that has no layout yet, none of which crosses the border of a group; a small group
// is one block. Where the extent is symbolic, it has to be a multiple of the lanes.
std::optional<Blocks> free_blocks(const Affine& index, const Iterator& vector, int64_t lanes) {
  if (!vector.extent.is_constant()) {
    const bool whole = index.as_variable() == vector.name && vector.extent.is_multiple_of(lanes);
    return whole ? std::optional<Blocks>({lanes, ""}) : std::nullopt;
  }
  const int64_t size = vector.extent.constant(), least = std::min<int64_t>(lanes, 4);
  Blocks result{lanes, ""};
  for (const auto& [name, coefficient] : index.terms()) {
    if (name != vector.name) result.lanes = std::gcd(result.lanes, coefficient);
  }
  const bool whole = std::all_of(index.terms().begin(), index.terms().end(), [&](const auto& term) {
    return term.first == vector.name || term.second % size == 0;
  });
  if (result.lanes < least && whole && size <= lanes) result.lanes = size;
  if (result.lanes < least) return std::nullopt;
  for (const auto& [name, coefficient] : index.terms()) {
    if (name != vector.name && coefficient == result.lanes) result.outer = name;
  }
  return result;
}

// The blocks that lanes along this iterator of the result make, of up to four vectors; nothing where they do
// not fit the layout of the accumulators.
std::optional<Blocks> blocks_along(const ReductionFacts& facts, const Iterator& vector, int64_t lanes) {
  const Access& write = facts.sum().write;
  const auto dim = facts.dimension_of(vector.name);
  if (!dim) return std::nullopt;
  std::optional<Blocks> result;
  if (const BlockedDim* blocked = facts.blocked_dim(write, *dim)) {
    result = {blocked->block, outer_part(write.index[blocked->outer].affine)};
  } else if (facts.is_blocked(write.buffer)) {
    return std::nullopt;
  } else if (const int64_t block = block_of(facts.reduction(), *dim)) {
    if (!vector.extent.is_constant()) return std::nullopt;
    result = {block, ""};
    for (const auto& [name, coefficient] : write.index[*dim].affine.terms()) {
      if (coefficient == block) result->outer = name;
      if (name != vector.name && coefficient % block != 0) return std::nullopt;
    }
  } else {
    result = free_blocks(write.index[*dim].affine, vector, lanes);
  }
  return result && result->lanes <= 4 * lanes ? result : std::nullopt;
}

// The width, at most `most`, of tiles of (nearly) equal width along the columns.
int64_t even_columns(const ReductionFacts& facts, const std::string& columns, int64_t most) {
  const int64_t extent = facts.extent(columns, most), tiles = (extent + most - 1) / most;
  return (extent + tiles - 1) / tiles;
}

// Columns of a tile for a window along the columns without broadcasts, where registers are counted: all
// accumulators, the window's elements that are used again and its weights stay in registers, and kAhead more
// registers take the next loads and what the epilogue needs. A maximum of floats has a second accumulator,
// which tells whether there was a NaN.
int64_t columns_in_order(const ReductionFacts& facts, const Choice& choice, double parts, int64_t taps) {
  constexpr int64_t kAhead = 3;
  int64_t operands = 0;
  for (const Access& load : loads_of(facts.sum())) operands += depends_on(load, choice.vector);
  const auto groups = static_cast<int64_t>(facts.target().vector_registers / parts);
  const bool largest =
      facts.sum().reduction == Reduction::Max && is_float(facts.buffer(facts.sum().write).dtype);
  const int64_t columns = (groups - operands * taps - kAhead) / (largest ? 2 : 1);
  return even_columns(facts, choice.columns, std::clamp<int64_t>(columns, 2, choice.tile.columns));
}

// A large tile pays where its vectors share broadcasts. Without broadcasts, a tile needs no more accumulators
// than hide the latency. For windows along the columns, as in pooling and depthwise convolutions, it is cut
// to one vector of about that many columns. Other tiles are cut only where the epilogue would be too long to
// overlap with the next tile, or where conditions on lanes need registers too. Vectors of several registers
// hide the latency with few columns anyway.
void shrink_tile(const ReductionFacts& facts, Choice& choice) {
  const Target& target = facts.target();
  if (target.vector_bits == 0) return;
  TileChoice& tile = choice.tile;
  bool cut = false, window = false;
  int64_t taps = 1;
  for (const Iterator& iterator : facts.sum().iterators) {
    if (facts.is_output(iterator.name)) continue;
    if (facts.is_window(iterator.name, choice.columns)) {
      window = true;
      taps = std::max(taps, facts.extent(iterator.name, 1));
    }
    cut = cut || facts.cuts_lanes(iterator.name, choice.vector);
  }
  const double parts = std::max(1.0, static_cast<double>(choice.lanes) * 32 / target.vector_bits);
  if (window && counts_registers(target)) {
    tile.columns = columns_in_order(facts, choice, parts, taps);
    tile.vectors = 1;
    return;
  }
  if (window && parts > 1) return;
  const std::vector<Access> loads = loads_of(facts.sum());
  const bool apart =
      loads.size() == 1 && depends_on(loads[0], choice.vector) && depends_on(loads[0], choice.columns);
  if (!target.out_of_order() && !choice.over_reduction && apart && !cut) {
    // Each column reads vectors of its own, as pooling does: half of the registers are for loads, so that the
    // core waits for none.
    const auto half = static_cast<int64_t>(target.vector_registers / parts / 2);
    tile.columns = std::min(tile.columns, std::max<int64_t>(1, half / tile.vectors));
    return;
  }
  const auto most = static_cast<int64_t>(std::ceil(target.latency * target.multiply_adds / parts));
  const bool heavy =
      epilogue_weight(facts) * static_cast<double>(tile.vectors * tile.columns) > kHeavyEpilogue;
  if ((!heavy && !cut && !window) || tile.vectors * tile.columns <= most) return;
  if (window) {
    tile.columns = even_columns(facts, choice.columns, most);
    tile.vectors = std::clamp<int64_t>(most / tile.columns, 1, tile.vectors);
  } else {
    tile.vectors = std::min(tile.vectors, most);
    tile.columns = std::max<int64_t>(1, most / tile.vectors);
  }
}

// Whether vectors of twice the registers (four instead of the target's two, or two instead of one) are an
// alternative: twice as many elements then share each scalar load of a product and its other instructions.
// Not for channels of a map, nor where a panel of one block stays in the first cache: a product of 256 x 256
// x 256 takes 3 % longer with panels of two.
bool may_double(const ReductionFacts& facts, const Iterator& vector, int64_t lanes) {
  const Target& target = facts.target();
  if (!has_pairs(facts, lanes) || facts.extent(vector.name, 0) < 2 * lanes) return false;
  if (element_stride(facts.kernel(), facts.sum().write, vector.name) != 1) return false;
  double panel = static_cast<double>(lanes * size_of(DType::F32));
  for (const Iterator& iterator : facts.sum().iterators) {
    if (!facts.is_output(iterator.name)) panel *= static_cast<double>(facts.extent(iterator.name, 1));
  }
  if (panel <= static_cast<double>(target.l1_bytes) / 2) return false;
  const ReductionClass kind = classify(facts.sum());
  return kind == ReductionClass::MatrixProduct || kind == ReductionClass::MatrixVector;
}

// Whether shorter vectors than the target's are an alternative. On an in-order core that halves blocks, only
// lanes along constants are shortened: an attention's inputs are packed while it runs, and its products need
// lanes of one width to be computed in bands. A matrix times a vector waits for its matrix, which panels of
// several shorter vectors make no smaller.
bool may_shorten(const ReductionFacts& facts, const std::string& vector) {
  if (!counts_registers(facts.target()) || facts.target().small_block > 0) return true;
  const std::vector<Access> loads = loads_of(facts.sum());
  return classify(facts.sum()) != ReductionClass::MatrixVector &&
         std::all_of(loads.begin(), loads.end(),
                     [&](const Access& load) { return facts.packable(load) || !depends_on(load, vector); });
}

// Whether the statement's constraints say which results there are, and not which products a result adds up.
bool limits_outputs_only(const ReductionFacts& facts) {
  const std::vector<std::string> outputs = facts.outputs();
  for (const Affine& constraint : facts.sum().constraints) {
    for (const Iterator& iterator : facts.sum().iterators) {
      if (constraint.coefficient(iterator.name) != 0 &&
          std::find(outputs.begin(), outputs.end(), iterator.name) == outputs.end())
        return false;
    }
  }
  return true;
}

// Whether lanes may run along this output of open size, with columns along the other: both operands of a
// product of floats are matrices, and a copy of each panel has the elements of one side by side. Vectors of a
// length that only the machine knows are not transposed in registers, so that such a copy would cost more.
bool has_open_lanes(const ReductionFacts& facts, const Iterator& vector, const std::string& columns) {
  const Target& target = facts.target();
  if (columns.empty() || vector.extent.is_constant() || target.vector_bits == 0 || target.scalable)
    return false;
  const Access& write = facts.sum().write;
  const std::vector<Access> loads = loads_of(facts.sum());
  if (facts.reduction_class() != ReductionClass::MatrixProduct || loads.size() != 2 ||
      facts.buffer(write).dtype != DType::F32 || !limits_outputs_only(facts) ||
      facts.is_blocked(write.buffer) || write.index.back().affine.as_variable() != vector.name)
    return false;
  return std::all_of(loads.begin(), loads.end(), [&](const Access& load) {
    return depends_on(load, vector.name) ? facts.reads_packed(load, vector.name, columns)
                                         : depends_on(load, columns);
  });
}

}  // namespace

bool has_doubled_lanes(const ReductionFacts& facts, int64_t lanes) {
  return lanes > facts.reduction().builder.lanes(facts.sum());
}

std::vector<ReductionChoice> choices_of(const ReductionFacts& facts) {
  std::vector<ReductionChoice> result;
  // The innermost first: it wins between equals.
  std::vector<std::string> column_choices = facts.outputs();
  std::reverse(column_choices.begin(), column_choices.end());
  column_choices.push_back("");
  const int64_t lanes = facts.reduction().builder.lanes(facts.sum());
  for (const Iterator& vector : facts.sum().iterators) {
    const bool over_reduction = !facts.is_output(vector.name), known = vector.extent.is_constant();
    if (over_reduction && (!known || vector.extent.constant() < 2)) continue;
    const auto blocks = over_reduction ? Blocks{lanes, ""} : blocks_along(facts, vector, lanes);
    if (!blocks) {
      for (const std::string& columns : column_choices) {
        if (columns == vector.name || !has_open_lanes(facts, vector, columns)) continue;
        result.push_back(choice_for(facts, {false, vector.name, columns, lanes, {}, true}, ""));
      }
      continue;
    }
    std::vector<int64_t> widths = {blocks->lanes};
    const bool free = !over_reduction && blocks->outer.empty() && blocks->lanes == lanes &&
                      !facts.is_blocked(facts.sum().write.buffer);
    const int64_t less =
        known ? facts.target().width_for(vector.extent.constant(), blocks->lanes) : blocks->lanes;
    if (free && less < blocks->lanes && may_shorten(facts, vector.name)) widths.push_back(less);
    if (free && may_double(facts, vector, lanes)) widths.push_back(2 * lanes);
    for (const int64_t width : widths) {
      for (const std::string& columns : column_choices) {
        if (columns == vector.name || (!columns.empty() && columns == blocks->outer)) continue;
        result.push_back(
            choice_for(facts, {over_reduction, vector.name, columns, width, {}, false}, blocks->outer));
      }
    }
  }
  if (result.empty()) throw NotApplicable{"no iterator to vectorise"};
  return result;
}

bool sums_fill_vectors(const ReductionFacts& facts, const Choice& choice) {
  const Target& target = facts.target();
  if (!choice.over_reduction || choice.columns.empty() || target.scalable || target.vector_bits == 0)
    return false;
  const int64_t lanes = choice.lanes;
  if (!is_float(facts.buffer(facts.sum().write).dtype) || (lanes & (lanes - 1)) != 0 ||
      facts.extent(choice.vector, 0) < lanes || facts.extent(choice.columns, lanes) < lanes ||
      !leaves_registers(target, lanes * size_of(DType::F32), lanes))
    return false;
  if (facts.reduction().epilogue.empty()) return false;
  const Statement& last = facts.reduction().builder.statement(facts.reduction().epilogue.back());
  return element_stride(facts.kernel(), last.write, same_result(facts, last, choice.columns)) == 1;
}

Choice with_tile(const ReductionFacts& facts, const ReductionChoice& choice) {
  Choice taken = choice.choice;
  if (sums_fill_vectors(facts, taken))
    taken.tile.columns = std::max<int64_t>(1, taken.tile.columns / taken.lanes) * taken.lanes;
  const bool broadcasts =
      std::any_of(choice.problem.operands.begin(), choice.problem.operands.end(),
                  [&](const auto& operand) { return !operand.along_vector || operand.taps > 0; });
  if (!taken.over_reduction && !broadcasts) shrink_tile(facts, taken);
  // A matrix times a vector: one accumulator of four registers hides the latency, and the other registers
  // hold what is loaded ahead.
  if (taken.columns.empty() && has_doubled_lanes(facts, taken.lanes) && !taken.over_reduction)
    taken.tile.vectors = 1;
  return taken;
}

std::optional<PairedWeights> pays_in_pairs(const ReductionFacts& facts, const ReductionChoice& choice,
                                           const Choice& taken, const ReductionKnobs& knobs) {
  const Statement& sum = facts.sum();
  const Expr& value = *sum.value;
  if (!pairs_weights(facts.target()) || knobs.words == 1 || taken.over_reduction) return std::nullopt;
  if (sum.reduction != Reduction::Sum || value.dtype != DType::I32 || value.kind != Expr::Kind::Binary ||
      value.binary != BinaryOp::Mul)
    return std::nullopt;
  const Access *shared = nullptr, *weights = nullptr;
  for (const ExprPtr& operand : value.operands) {
    if (!is_cast_byte(*operand) || operand->operands[0]->dtype != DType::I8) return std::nullopt;
    const Access& access = operand->operands[0]->access;
    (depends_on(access, taken.vector) ? weights : shared) = &access;
  }
  if (shared == nullptr || weights == nullptr || !facts.packable(*weights)) return std::nullopt;
  // Both steps' words of all lanes are in registers while the columns take turns: fewer lanes leave room for
  // more columns.
  TileProblem problem = choice.problem;
  if (!taken.columns.empty() && problem.lanes % 2 == 0 &&
      facts.extent(taken.vector, 1) % problem.lanes == 0) {
    problem.lanes /= 2;
    problem.blocks *= 2;
  }
  const auto tile =
      tile_of_pairs(problem, facts.target(), taken.tile.vectors * taken.lanes, taken.tile.columns);
  if (!tile) return std::nullopt;
  // The innermost one of which there are two steps wherever there is one.
  const std::vector<std::string> sums = facts.reduction_order(taken.vector, taken.columns);
  const auto steps = std::find_if(sums.rbegin(), sums.rend(), [&](const std::string& name) {
    const int64_t extent = facts.extent(name, 1);
    return extent > 0 && extent % 2 == 0 && !facts.constrained(name) && depends_on(*shared, name) &&
           depends_on(*weights, name);
  });
  if (steps == sums.rend()) return std::nullopt;
  return PairedWeights{*tile, problem.lanes, *steps};
}

bool pays_in_words(const ReductionFacts& facts, const Choice& choice, const ReductionKnobs& knobs) {
  const Target& target = facts.target();
  if (!has_words(target)) return false;
  if (knobs.words == 1 || facts.reduction().tolerance < kWordsError * kLayers) return false;
  const Expr& value = *facts.sum().value;
  const bool product = value.kind == Expr::Kind::Binary && value.binary == BinaryOp::Mul &&
                       value.dtype == DType::F32 && value.operands[0]->kind == Expr::Kind::Load &&
                       value.operands[1]->kind == Expr::Kind::Load;
  if (!product || choice.over_reduction || !choice.columns.empty() ||
      facts.reduction_class() != ReductionClass::MatrixVector)
    return false;
  const double caches = static_cast<double>(target.l2_bytes) * facts.reduction().builder.threads();
  const std::vector<Access> loads = loads_of(facts.sum());
  return std::any_of(loads.begin(), loads.end(), [&](const Access& load) {
    return facts.packable(load) && depends_on(load, choice.vector) && facts.bytes_of(load) > caches;
  });
}

std::string in_words(const Choice& choice) {
  std::string result =
      text(choice.lanes, choice.over_reduction ? " partial sums along " : " lanes along ", choice.vector);
  const TileChoice& tile = choice.tile;
  if (!choice.over_reduction)
    result += text(", tiles of ", tile.vectors, tile.vectors == 1 ? " vector" : " vectors");
  if (choice.columns.empty()) return result;
  return result + text(choice.over_reduction ? ", tiles of " : " by ", tile.columns,
                       tile.columns == 1 ? " column along " : " columns along ", choice.columns);
}

}  // namespace tc
