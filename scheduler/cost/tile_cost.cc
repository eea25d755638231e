// The analytic cost model: cycles of a register tile on a target.
#include "scheduler/cost/tile_cost.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "ir/target/narrow_product.h"

namespace tc {
namespace {

// Cycles per register in which a joined sum is separated: its upper half moves down, and the epilogue waits
// for it.
constexpr double kTakeApart = 3;

// How many native vectors the vector units process per vector of `lanes` elements: at least one, or a half
// where an instruction on half a vector takes half the time; one per element on scalar targets.
double parts_of(const TileProblem& problem, const Target& target) {
  if (target.vector_bits == 0) return problem.lanes;
  return std::max(target.half_blocks && target.out_of_order() ? 0.5 : 1,
                  problem.lanes * problem.element_bytes * 8.0 / target.vector_bits);
}

// Cache lines that do not fit the sets of the first cache, where each column reads a line of its own.
int64_t crowded_out(const Target& target, int64_t column_bytes, int64_t columns) {
  const int64_t ways = target.l1_bytes / target.l1_way_bytes;
  if (column_bytes < kLineBytes || columns <= ways) return 0;
  std::map<int64_t, int64_t> held;  // by set
  int64_t result = 0;
  for (int64_t column = 0; column < columns; ++column) {
    result += ++held[column * column_bytes % target.l1_way_bytes / kLineBytes] > ways;
  }
  return result;
}

// Cycles of a step's multiply-adds, each of which waits for that of the step before. Exactly as many
// multiply-adds as hide the latency are not enough: a port is not always free at the moment when one becomes
// ready.
double hiding_latency(double issue, const Target& target) {
  constexpr double sharpness = calibration::kSharpness;
  return std::pow(std::pow(issue, sharpness) + std::pow(target.latency, sharpness), 1 / sharpness);
}

// What products of bytes cost where no single instruction computes them: each takes two products and two
// additions. Both halves of each operand are extracted after it is loaded and stay in registers, together
// with the mask of one half and a product.
struct Halves {
  double issue = 0, registers = 0;  // beyond those of multiply-adds
};

Halves halves_of(const TileProblem& problem, double vectors, double columns) {
  if (!problem.halves) return {};
  return {vectors * columns + columns + 1.5 * vectors, vectors + 3};
}

// Whether sums of bytes are so short that their epilogues count, and that tiles of few columns read their
// panels again and again from the first cache.
bool is_short(const TileProblem& problem, const Target& target) {
  constexpr double kVectors = 2;
  const double panel = problem.steps * kVectors * problem.lanes * problem.element_bytes;
  return problem.bytes && target.out_of_order() && panel <= static_cast<double>(target.l1_bytes) / 2;
}

// Additional cycles per accumulator that the epilogue of a short sum takes, compared with a tile of few
// accumulators. In a small tile the next tile's sums begin before the epilogue ends, as the instructions of
// both fit the core's out-of-order window.
double after_sums(const TileProblem& problem, const Target& target, double accumulators) {
  if (!is_short(problem, target)) return 0;
  constexpr double kOverlapped = 8, kAlone = 20;  // accumulators of a tile
  return calibration::kAfterSumsOfBytes *
         std::clamp((accumulators - kOverlapped) / (kAlone - kOverlapped), 0.0, 1.0);
}

// Whether code generation makes one vector of the tile's two (codegen/llvm/passes/join_vectors.h).
bool is_joined(const TileProblem& problem, int64_t vectors) { return problem.joins && vectors == 2; }

// Whether a tile reads words that were widened beforehand.
bool is_widened(const TileProblem& problem, int64_t vectors, int64_t columns) {
  constexpr int kLanes = 4;
  return problem.widens && problem.lanes == kLanes && problem.blocks > 1 && vectors == 1 &&
         columns == kWidenedColumns;
}

// The same with words that were widened for all vectors: each half of the lanes loads and widens its weights
// by itself, and loads all words.
double tile_of_widened_words(const TileProblem& problem) {
  constexpr double kStep = 54, kWiden = 18, kEpilogue = 9, kSums = 16;
  return problem.steps * (kStep + kWiden / static_cast<double>(problem.blocks)) + kSums * kEpilogue +
         calibration::kTileStart;
}

// Products of bytes on general-purpose registers, one for each sum: the halves of each operand's words are
// widened, and each pair of halves takes an instruction. In registers are the sums, a half of each column and
// of one weight, and two addresses.
double tile_of_words(const TileProblem& problem, const Target& target, int64_t vectors, int64_t columns) {
  constexpr double kLoadAndWiden = 3, kProducts = 2, kAddresses = 2, kStoreAndLoad = 2, kLoop = 4,
                   kEpilogue = 8;
  if (is_widened(problem, vectors, columns)) return tile_of_widened_words(problem);
  const auto weights = static_cast<double>(vectors * problem.lanes), words = static_cast<double>(columns);
  const double sums = weights * words;
  const double spilled = std::max(0.0, sums + words + 1 + kAddresses - target.integer_registers);
  const double step =
      kLoadAndWiden * (weights + words) + kProducts * sums + kProducts * kStoreAndLoad * spilled + kLoop;
  return problem.steps * step + sums * kEpilogue + calibration::kTileStart;
}

double one_tile(const TileProblem& problem, const Target& target, int64_t vectors, int64_t columns,
                double panel_bytes) {
  if (problem.halves && target.vector_bits == 0) return tile_of_words(problem, target, vectors, columns);
  const double parts = parts_of(problem, target);
  const auto accumulators = static_cast<double>(vectors * columns);
  double loads = 0, held = 0, streamed = 0, from_second_cache = 0, shuffles = 0;
  bool broadcasts = false;
  for (const TileProblem::Operand& operand : problem.operands) {
    double count = operand.along_columns ? static_cast<double>(columns) : 1;
    if (operand.along_vector) {
      count *= static_cast<double>(vectors);
      loads += count * parts * operand.vector_cost;
      if (operand.taps > 0) {
        // Windows of neighbouring columns share the result of a shuffle while it is in a register.
        const double given = count + static_cast<double>(vectors) * (operand.taps - 1);
        shuffles += given / operand.taps * parts;
        held += operand.taps > 1 ? given : 1;
      } else {
        held += operand.along_columns ? 1 : static_cast<double>(vectors);
      }
      if (operand.streams) {
        streamed += static_cast<double>(vectors) * problem.lanes * problem.element_bytes;
      }
      if (operand.once) from_second_cache += count * problem.lanes * problem.element_bytes;
    } else {
      broadcasts = true;
      loads += count * std::min(1.0, parts);
      from_second_cache +=
          static_cast<double>(crowded_out(target, operand.column_bytes, columns) * kLineBytes);
      // A product of bytes can take only its signed operand from memory.
      if (!target.broadcast_operand || problem.bytes) held += 1;
    }
  }
  // On an in-order core, the next step's vector is loaded while this one's is multiplied, into a register of
  // its own. Sums that are stored without an epilogue, such as Winograd's products, did not gain by it.
  if (broadcasts && problem.epilogue_loads > 0 && target.broadcast_operand && !target.out_of_order())
    held += 1;
  const Halves halves = halves_of(problem, static_cast<double>(vectors), static_cast<double>(columns));
  double step = std::max(
      hiding_latency((accumulators * parts + shuffles + halves.issue) / target.multiply_adds, target),
      loads / target.loads);
  // A panel of packed constants that is too large for the first cache comes from the second, step by step.
  if (panel_bytes > static_cast<double>(target.l1_bytes) / 2) {
    step = std::max(step, streamed / target.l2_bandwidth);
  }
  // What is read only once, and lines that did not fit the first cache, come from the second cache as well.
  // Their loads wait for sums whose latency a small tile does not hide.
  if (from_second_cache > 0) step = overlapped(step, from_second_cache / target.l2_bandwidth);
  const double each = std::max(1.0, parts);
  const double registers =
      (accumulators + std::max(held + halves.registers + problem.held, 1 + problem.epilogue_loads)) * each;
  const int available =
      problem.integers && target.integer_registers > 0 ? target.integer_registers : target.vector_registers;
  // On RISC-V of 32 bits, choose_tile() takes no tiles of scalar integers whose sums and operands do not fit,
  // and epilogues work on one lane after the other.
  const bool fits = problem.integers && target.is_riscv() && target.integer_registers > 0;
  if (registers > available && !fits) {
    step *=
        1 + calibration::kSpillPerRegister * (registers - available) / each / std::max(1.0, accumulators / 4);
  }
  const double finish =
      accumulators * parts *
      (problem.store_cost / target.stores + problem.epilogue_loads / target.loads + problem.finish +
       after_sums(problem, target, accumulators) + (is_joined(problem, vectors) ? kTakeApart : 0));
  return problem.steps * step + finish + calibration::kTileStart;
}

// A matrix times a vector: reading the matrix, from beyond the near caches, decides the time.
bool streams_alone(const TileProblem& problem) {
  return problem.columns == 1 &&
         std::any_of(problem.operands.begin(), problem.operands.end(),
                     [](const auto& operand) { return operand.once && operand.along_vector; });
}

}  // namespace

double tile_cycles(const TileProblem& problem, const Target& target, int64_t vectors, int64_t columns) {
  vectors = std::min(vectors, problem.blocks);
  columns = std::min(columns, problem.columns);
  const double panel = problem.steps * static_cast<double>(vectors) * problem.lanes * problem.element_bytes;
  const int64_t rest_vectors = problem.blocks % vectors, rest_columns = problem.columns % columns;
  const auto full_vectors = static_cast<double>(problem.blocks / vectors);
  const auto full_columns = static_cast<double>(problem.columns / columns);
  double cycles = full_vectors * full_columns * one_tile(problem, target, vectors, columns, panel);
  if (rest_columns > 0) {
    cycles += full_vectors * one_tile(problem, target, vectors, rest_columns, panel);
    // A narrow last tile waits for its panel. Tiles of nearly equal widths, which read the panel equally
    // often, are better.
    if (2 * rest_columns < columns && panel > static_cast<double>(target.l1_bytes) / 2)
      cycles *= calibration::kUnevenTile;
  }
  if (rest_vectors > 0) {
    cycles += full_columns * one_tile(problem, target, rest_vectors, columns, panel);
    if (rest_columns > 0) cycles += one_tile(problem, target, rest_vectors, rest_columns, panel);
    // The conditions of the last block cost something.
    cycles *= calibration::kUnevenTile;
  }
  const int64_t tiles = (problem.blocks - problem.partial) / vectors;
  if (tiles > 1 && problem.threads > 1 && problem.others == 1 && streams_alone(problem)) {
    // The first thread has the most tiles, the last one the incomplete one.
    const auto most = static_cast<double>((tiles + problem.threads - 1) / problem.threads);
    const auto least = static_cast<double>(tiles / problem.threads);
    const double one = one_tile(problem, target, vectors, columns, panel);
    const int64_t left = problem.blocks - tiles * vectors;
    const double rest = left > 0 ? one_tile(problem, target, left, columns, panel) : 0;
    return std::max(most * one, least * one + rest);
  }
  return cycles * problem.others;
}

bool in_memory(const Target& target, double size) {
  return size > calibration::kConstantInThird * static_cast<double>(target.l3_bytes);
}

double cycles_from_afar(const Target& target, double bytes, double size) {
  return bytes / (in_memory(target, size) ? std::min(target.l3_bandwidth, target.memory_bandwidth)
                                          : target.l3_bandwidth);
}

bool leaves_registers(const Target& target, int64_t bytes, int64_t sums) {
  if (target.out_of_order() || target.vector_bits == 0) return true;
  const int64_t group = (bytes * 8 + target.vector_bits - 1) / target.vector_bits;  // registers of one sum
  return sums * group < target.vector_registers;
}

// Whether sums of integers, one in each of a scalar target's registers, leave room for their operands and for
// addresses; one vector of them always may stay.
static bool leaves_integer_registers(const TileProblem& problem, const Target& target, int64_t sums) {
  constexpr int64_t kOperandsOfWords = 5, kOperands = 8;
  if (!problem.integers || target.integer_registers == 0 || target.vector_bits > 0) return true;
  return sums <= problem.lanes ||
         sums + (problem.halves ? kOperandsOfWords : kOperands) <= target.integer_registers;
}

std::optional<TileChoice> tile_of_pairs(const TileProblem& problem, const Target& target, int64_t results,
                                        int64_t columns) {
  // Instructions for each product: a multiplication and an addition, or, for four products, two
  // multiplications, one addition of both and three that take them apart; and once for each result, behind
  // the sums.
  constexpr double kPlain = 2, kPaired = 7.0 / 4, kBehind = 3.0 / 2;
  constexpr int64_t kVectors = 2;
  if (problem.blocks % kVectors != 0) return std::nullopt;
  TileChoice best{kVectors, 1, 0};
  while (best.columns < problem.columns &&
         leaves_integer_registers(problem, target, kVectors * problem.lanes * (best.columns + 1)))
    ++best.columns;
  const double plain = kPlain + 1 / static_cast<double>(results) + 1 / static_cast<double>(columns);
  best.cycles = kPaired + 1 / static_cast<double>(kVectors * problem.lanes) +
                1 / static_cast<double>(2 * best.columns) + kBehind / problem.steps;
  return best.cycles < plain ? std::optional(best) : std::nullopt;
}

TileChoice choose_tile(const TileProblem& problem, const Target& target) {
  TileChoice best;
  best.cycles = INFINITY;
  double preference = 1;
  for (auto [vectors, columns] : target.tiles) {
    // On scalar targets the menu counts scalars.
    int64_t blocks = target.vector_bits == 0 ? std::max<int64_t>(1, vectors / problem.lanes) : vectors;
    blocks = std::min(blocks, problem.blocks);
    const int64_t width = std::min<int64_t>(columns, problem.columns);
    double cycles = tile_cycles(problem, target, blocks, width) * preference;
    if (!leaves_registers(target, problem.lanes * problem.element_bytes, blocks * width)) cycles = INFINITY;
    if (!is_widened(problem, blocks, width) &&
        !leaves_integer_registers(problem, target, blocks * width * problem.lanes))
      cycles = INFINITY;
    if (is_joined(problem, blocks)) cycles *= calibration::kDoubledLanes;
    // Between tiles of nearly equal cost, the order of the menu decides. It was made for long sums.
    if (!is_short(problem, target)) preference *= calibration::kNextOfMenu;
    if (cycles < best.cycles) best = {blocks, width, cycles};
  }
  if (target.vector_bits == 0 || !streams_alone(problem)) return best;
  // The menu is made for tiles with several columns. Here each vector of the tile is a stream, and hardware
  // does not prefetch more streams than these in time.
  const double matrix =
      problem.steps * static_cast<double>(problem.blocks) * problem.lanes * problem.element_bytes;
  const int64_t streams =
      in_memory(target, matrix) ? calibration::kStreamsFromMemory : calibration::kStreamsFromCache;
  const int64_t most = std::min(streams, problem.blocks);
  best.cycles = INFINITY;
  for (int64_t vectors = 1; vectors <= most; ++vectors) {
    // The last tile's panel is padded to the full size, which has to be read as well.
    const auto packed = static_cast<double>((problem.blocks + vectors - 1) / vectors * vectors);
    const double cycles =
        tile_cycles(problem, target, vectors, 1) * packed / static_cast<double>(problem.blocks);
    if (cycles < best.cycles) best = {vectors, 1, cycles};
  }
  return best;
}

}  // namespace tc
