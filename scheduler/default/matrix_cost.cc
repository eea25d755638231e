#include "scheduler/default/matrix_cost.h"

#include <algorithm>
#include <cmath>

namespace tc {
double MatrixCost::least_cycles() const {
  const double products = 0.5 * problem_.algorithm().terms * (problem_.algorithm().terms + 1);
  const double together =
      static_cast<double>(problem_.unit().rows * problem_.unit().columns * problem_.depth());
  return turns_of_products() * problem_.algorithm().slower * products * problem_.format().cycles *
         problem_.rows() * problem_.features() * problem_.steps() / together;
}

double MatrixCost::direct_cycles() const {
  TileProblem problem;
  problem.operands = {{true, false, 1, true}, {false, true, 1, false}};
  problem.steps = problem_.steps();
  problem.lanes = problem_.target().block;
  problem.blocks = parts(static_cast<int64_t>(problem_.features()), problem.lanes);
  problem.columns = static_cast<int64_t>(problem_.rows());
  return overlapped(choose_tile(problem, problem_.target()).cycles, direct_stream());
}

double MatrixCost::direct_stream() const {
  const double weights = 4 * problem_.steps() * problem_.features();
  return far(std::clamp(weights / caches() - calibration::kBandAndPanel, 0.0, 1.0) * weights, weights);
}

double MatrixCost::caches() const {
  const auto one = static_cast<double>(problem_.target().l2_bytes);
  return problem_.unit().vectors && problem_.is_row() ? one * problem_.builder().threads() : one;
}

double MatrixCost::pair_bytes(const MatrixUnitPlan& plan, const MatrixUnitSizes& sizes) const {
  const int64_t of_a_step = plan.blocks * problem_.unit().columns * problem_.depth() *
                            problem_.algorithm().terms * size_of(problem_.algorithm().operand);
  return static_cast<double>(of_a_step) * sizes.sums;
}

bool MatrixCost::stays_near(const MatrixUnitSizes& sizes) const {
  const double element_bytes =
      problem_.algorithm().terms * static_cast<double>(size_of(problem_.algorithm().operand));
  return sizes.sums * problem_.depth() * problem_.unit().columns * element_bytes <=
         static_cast<double>(problem_.target().l1_bytes);
}

bool MatrixCost::pays_in_pairs(const MatrixUnitSizes& sizes) const {
  return sizes.sums <= calibration::kFewSums || (sizes.taps > 1 && !stays_near(sizes));
}

double MatrixCost::cycles(const MatrixUnitPlan& plan) const {
  const auto sizes = problem_.try_plan(plan);
  if (!sizes) return INFINITY;
  const auto pairs = static_cast<double>(sizes->panels * sizes->pairs);
  const double lines = static_cast<double>(sizes->lines * sizes->tiles);
  const auto chunks = static_cast<double>(sizes->images * sizes->bands);
  // Accumulators at a time. All terms of each operand are loaded for them.
  const double together = static_cast<double>(plan.blocks * plan.tiles);
  const double products =
      problem_.algorithm().terms * (sizes->digits_are_rows ? 1 : 0.5 * (problem_.algorithm().terms + 1));
  // The cycles of a tile are proportional to its rows.
  const double row_share =
      problem_.unit().vectors ? 1 : static_cast<double>(sizes->rows) / problem_.unit().rows;
  const double element_bytes =
      problem_.algorithm().terms * static_cast<double>(size_of(problem_.algorithm().operand));
  const double operand_bytes =
      element_bytes * problem_.depth() *
      static_cast<double>(plan.blocks * problem_.unit().columns + plan.tiles * sizes->rows);
  double step = std::max(turns_of_products() * problem_.algorithm().slower * products * together *
                             problem_.format().cycles * row_share,
                         operand_bytes / problem_.target().l2_bandwidth);
  // All terms of a group are added to the sum of the last order, one after the other.
  if (problem_.unit().vectors) {
    step = std::max(step, static_cast<double>(problem_.format().groups * problem_.algorithm().terms *
                                              problem_.target().latency));
    const int64_t loads = (is_encoded() ? plan.blocks * problem_.unit().parts : plan.blocks) + plan.tiles;
    step = std::max(
        step, problem_.format().groups * static_cast<double>(loads) * calibration::kLoadVector * turns());
    // Products of a cycle each do not hide that the rows come from the second cache.
    const double row_bytes = element_bytes * problem_.depth() * static_cast<double>(plan.tiles * sizes->rows);
    if (is_encoded() && sizes->input * element_bytes + pair_bytes(plan, *sizes) >
                            static_cast<double>(problem_.target().l1_bytes))
      step += 0.5 * problem_.target().l2_latency * row_bytes / kLineBytes;
  }
  if (problem_.algorithm().sums() > 1 && plan.tiles > 1)
    step *= stays_near(*sizes) ? calibration::kPairNear : calibration::kPairFar;
  const double steps = pairs * lines / static_cast<double>(plan.tiles) * sizes->sums;
  const auto of_an_accumulator = static_cast<double>(sizes->rows * problem_.unit().columns);
  const double results = pairs * static_cast<double>(plan.blocks) * lines * of_an_accumulator;
  const double store = turns() * calibration::kStoreVector * problem_.algorithm().sums() * vectors(results);
  const double input = vectors(sizes->input);
  const double of_a_vector =
      problem_.algorithm().divide + problem_.algorithm().terms * calibration::kZeroVector;
  const double divide = turns() * static_cast<double>(sizes->panels) * input * of_a_vector;
  const auto cache = static_cast<double>(problem_.target().l2_bytes);
  const double pair = pair_bytes(plan, *sizes), weights = pairs * pair;
  // Bytes that are read again and so have to fit the cache.
  const double near = sizes->input * element_bytes + (reads_weights_once(*sizes) ? 0 : pair);
  if (near > cache) return INFINITY;
  // Microcontrollers have little memory for a copy of the input.
  constexpr double kMostOfInput = 4096;
  if (problem_.target().constants == ConstantMemory::Flash && sizes->input * element_bytes > kMostOfInput)
    return INFINITY;
  const double missing = std::clamp((weights + near) / caches() - calibration::kBandAndPanel, 0.0, 1.0);
  const double compute = steps * step + store + calibration::kBandStart * static_cast<double>(sizes->panels);
  const double stream =
      far(missing * weights, weights) + (near > calibration::kBandAndPanel * cache ? far(near, near) : 0);
  const double one = overlapped(compute, stream) + divide;
  const double parts = std::max(1.0, chunks * static_cast<double>(sizes->panels));
  const double threads =
      std::ceil(parts / problem_.builder().threads()) * problem_.builder().threads() / parts;
  return one * chunks * threads;
}

}  // namespace tc
