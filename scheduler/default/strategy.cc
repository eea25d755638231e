// The table of strategies.
#include "scheduler/default/strategy.h"

#include <algorithm>
#include <cmath>

#include "scheduler/default/accelerator_elements.h"
#include "scheduler/default/channel_windows.h"
#include "scheduler/default/group_sums.h"

namespace tc {
namespace {

const char* name_of(ReductionClass which) {
  switch (which) {
    case ReductionClass::Direct: return "direct convolution";
    case ReductionClass::Depthwise: return "depthwise convolution";
    case ReductionClass::Grouped: return "grouped convolution";
    case ReductionClass::Pooling: return "pooling";
    case ReductionClass::MatrixVector: return "matrix x vector";
    case ReductionClass::MatrixProduct: return "matrix product";
    case ReductionClass::OneOperand: return "reduction of one operand";
  }
  return "";
}

Candidate candidate_of(const PreparedReduction& reduction) {
  const ReductionChoice& cheapest = reduction.cheapest();
  return {{cheapest.choice.tile.cycles, INFINITY, 1, 1, "", 0},
          in_words(with_tile(reduction.facts(), cheapest))};
}

// For the strategies with lanes along an output.
template <ReductionClass which>
Candidate examine_tile(const StrategyInput& input) {
  const PreparedReduction& reduction = input.reduction();
  if (reduction.cheapest().choice.over_reduction)
    throw NotApplicable{"lanes along the reduction are predicted to be cheaper"};
  const ReductionClass found = reduction.facts().reduction_class();
  if (found != which) throw NotApplicable{text("the kernel is of another class: ", name_of(found))};
  return candidate_of(reduction);
}

Candidate examine_partial_sums(const StrategyInput& input) {
  const PreparedReduction& reduction = input.reduction();
  if (!reduction.cheapest().choice.over_reduction)
    throw NotApplicable{"lanes along an output are predicted to be cheaper"};
  return candidate_of(reduction);
}

TraceBuilder apply_reduction(const StrategyInput& input, StrategyKnobs& knobs,
                             std::vector<std::string>* refused) {
  return input.reduction().apply(knobs.reduction, refused);
}

Candidate examine_winograd(const StrategyInput& input) {
  return {input.winograd().prediction, input.winograd().plan};
}

TraceBuilder apply_winograd(const StrategyInput& input, StrategyKnobs& knobs, std::vector<std::string>*) {
  return input.winograd().apply(knobs.winograd);
}

Candidate examine_matrix(const StrategyInput& input) {
  return {input.matrix().prediction, input.matrix().plan};
}

TraceBuilder apply_matrix(const StrategyInput& input, StrategyKnobs& knobs, std::vector<std::string>*) {
  return input.matrix().apply(knobs.matrix);
}

Candidate examine_bands(const StrategyInput& input) {
  return {{input.bands().cycles, INFINITY, 1, 1, "", 0}, input.bands().plan};
}

TraceBuilder apply_bands(const StrategyInput& input, StrategyKnobs&, std::vector<std::string>*) {
  return schedule_bands(input.builder(), input.bands(), input.tolerance() <= 0);
}

Candidate examine_groups(const StrategyInput& input) {
  const GroupSums plan = find_group_sums(input.builder());
  return {{plan.cycles, INFINITY, 1, 1, "", 0}, plan.in_words()};
}

TraceBuilder apply_groups(const StrategyInput& input, StrategyKnobs&, std::vector<std::string>*) {
  return schedule_group_sums(input.builder(), find_group_sums(input.builder()));
}

Candidate examine_windows(const StrategyInput& input) {
  // What it is compared with, the tile of all channels of a word, takes 1.5 to 1.8 times the cycles that are
  // predicted for it on a Cortex-M4; these windows take what is predicted.
  constexpr double kFactor = 0.65;
  if (gathers_windows(input.builder().target())) {
    const ChannelWindows plan = find_gathered_windows(input.builder());
    return {{plan.cycles, INFINITY, 1, kFactor, "", 0}, plan.in_words()};
  }
  const ChannelWindows plan = find_channel_windows(input.builder());
  return {{plan.cycles, INFINITY, 1, kFactor, "", 0}, plan.in_words()};
}

TraceBuilder apply_windows(const StrategyInput& input, StrategyKnobs&, std::vector<std::string>*) {
  if (gathers_windows(input.builder().target()))
    return schedule_gathered_windows(input.builder(), find_gathered_windows(input.builder()));
  return schedule_channel_windows(input.builder(), find_channel_windows(input.builder()));
}

constexpr const char* kAcceleratorStrategy = "accelerator";

bool sums_up(const Kernel& kernel) {
  return std::any_of(kernel.statements.begin(), kernel.statements.end(),
                     [](const Statement& each) { return each.reduction != Reduction::None; });
}

Candidate examine_accelerator(const StrategyInput& input) {
  if (input.placement() == Placement::Core) throw NotApplicable{"the kernel is placed on the core"};
  const bool is_placed = input.placement() == Placement::Accelerator;
  if (!sums_up(input.kernel())) {
    const ElementsChoice choice = choose_elements(input.builder());
    return {{choice.cycles, is_placed ? INFINITY : choice.on_core, 1, is_placed ? 0.0 : 1.0, "", 0},
            choice.in_words()};
  }
  const AcceleratorChoice& choice = input.accelerator();
  // A report tells no cycles of what cannot be scheduled.
  if (input.all()) schedule_for_accelerator(choice);
  Prediction prediction{choice.cycles(), INFINITY, 1, 1, "", choice.on_core()};
  if (is_placed) {
    prediction.factor = 0;  // it comes before other algorithms
    return {prediction, choice.in_words()};
  }
  // The core executes what it has done before the copies are there.
  try {
    prediction.plain = input.reduction().cheapest().choice.tile.cycles + choice.after_sum;
  } catch (const NotApplicable&) {
    // It has no strategy for reductions that could be compared.
  }
  return {prediction, choice.in_words()};
}

TraceBuilder apply_accelerator(const StrategyInput& input, StrategyKnobs&, std::vector<std::string>*) {
  if (!sums_up(input.kernel())) return schedule_elements(choose_elements(input.builder()));
  return schedule_for_accelerator(input.accelerator());
}

Candidate examine_plain_loops(const StrategyInput& input) {
  if (!input.target().least_code) throw NotApplicable{"it is for code that has to be small"};
  only_reduction(input.kernel());
  return {{0, INFINITY, 1, 1, "", 0}, "one element at a time"};
}

TraceBuilder apply_plain_loops(const StrategyInput& input, StrategyKnobs&, std::vector<std::string>*) {
  return schedule_plain_loops(input.builder());
}

// Predicted cycles of all statements: one for each load and store of a vector.
double cycles_of_statements(const StrategyInput& input) {
  double cycles = 0;
  for (const Statement& statement : input.kernel().statements) {
    double instances = 1;
    for (const Iterator& iterator : statement.iterators) {
      instances *= static_cast<double>(extent_or(statement, iterator.name, kAssumedSymbolic));
    }
    const double lanes = std::max(1, input.target().lanes(DType::F32));
    cycles += instances / lanes * (1 + static_cast<double>(loads_of(statement).size()));
  }
  return std::max(1.0, cycles);
}

std::string count_of_statements(const StrategyInput& input) {
  const size_t count = input.kernel().statements.size();
  return text(count, count == 1 ? " statement" : " statements");
}

Candidate examine_rows(const StrategyInput& input) {
  const std::vector<Statement>& statements = input.kernel().statements;
  if (statements.size() < 2) throw NotApplicable{"one statement"};
  // The latency of its steps is hidden by many recurrences at a time, as lanes.
  if (std::any_of(statements.begin(), statements.end(), continues_itself))
    throw NotApplicable{"a statement goes on from its own results"};
  return {{cycles_of_statements(input), INFINITY, 1, 1, "", 0},
          count_of_statements(input) + " in common loops"};
}

TraceBuilder apply_rows(const StrategyInput& input, StrategyKnobs& knobs, std::vector<std::string>*) {
  TraceBuilder builder = input.builder();
  schedule_rows(builder, knobs.rows);
  return builder;
}

Candidate examine_separately(const StrategyInput& input) {
  // What one statement writes has left the first cache when the next one reads it.
  const double factor = input.kernel().statements.size() < 2 ? 1 : calibration::kFromAfar;
  return {{factor * cycles_of_statements(input), INFINITY, 1, 1, "", 0},
          count_of_statements(input) + " in loops of their own"};
}

TraceBuilder apply_separately(const StrategyInput& input, StrategyKnobs& knobs, std::vector<std::string>*) {
  TraceBuilder builder = input.builder();
  schedule_separately(builder, knobs.rows);
  return builder;
}

Candidate examine_scalar(const StrategyInput& input) {
  const double lanes = std::max(1, input.target().lanes(DType::F32));
  const double factor = lanes * (input.kernel().statements.size() < 2 ? 1 : calibration::kFromAfar);
  return {{factor * cycles_of_statements(input), INFINITY, 1, 1, "", 0},
          count_of_statements(input) + " without vectors"};
}

TraceBuilder apply_scalar(const StrategyInput& input, StrategyKnobs&, std::vector<std::string>*) {
  return input.builder();
}

template <class Knobs, size_t count>
std::vector<std::string> names(const KnobName<Knobs> (&table)[count]) {
  std::vector<std::string> result;
  for (const KnobName<Knobs>& each : table) result.push_back(each.name);
  return result;
}

std::vector<std::string> names_of_rows(bool together) {
  std::vector<std::string> result;
  for (const KnobName<RowKnobs>& each : kRowKnobNames) {
    if (together || each.knob != &RowKnobs::rows) result.push_back(each.name);
  }
  for (const std::string& name : names(kStatementKnobNames)) result.push_back(name + " of each statement");
  return result;
}

template <ReductionClass which>
Strategy tile_row(const char* doc) {
  return {name_of(which),       StrategyKind::RegisterTile, doc,
          KnobGroup::Reduction, names(kReductionKnobNames), &examine_tile<which>,
          &apply_reduction};
}

// How a strategy that was not taken compares with the one that was.
std::string dearer_than(const Strategy& own, const Strategy& taken) {
  if (own.kind == taken.kind) return text("predicted to take longer than ", taken.name);
  if (taken.kind == StrategyKind::Algorithm) return text(taken.name, " gains over sums in f32");
  return text("schedules any kernel; ", taken.name, " is made for this one");
}

std::string no_gain(const Prediction& prediction) {
  if (!prediction.unless.empty()) return prediction.unless;
  const double share = std::round(100 * prediction.cycles / prediction.plain);
  return text("predicted ", share, " % of the cycles of the plain sums; it has to stay within ",
              100 * prediction.gain, " %");
}

}  // namespace

const std::vector<Strategy>& strategies() {
  static const std::vector<Strategy> rows = {
      {"matrix unit", StrategyKind::Algorithm,
       "Sums of products of an input and a constant, from products of shorter numbers on the target's matrix unit.",
       KnobGroup::Matrix, names(kMatrixKnobNames), &examine_matrix, &apply_matrix},
      {"Winograd", StrategyKind::Algorithm,
       "A convolution of 3 x 3 or 5 x 5 taps and stride 1: transforms of tiles, a product of matrices for each point.",
       KnobGroup::Winograd, names(kWinogradKnobNames), &examine_winograd, &apply_winograd},
      tile_row<ReductionClass::Direct>(
          "A convolution: lanes along features, columns along the map, weights packed in panels."),
      tile_row<ReductionClass::MatrixProduct>(
          "A product of matrices, also a convolution of one tap: lanes along one output, columns along another, panels."),
      tile_row<ReductionClass::MatrixVector>(
          "A product with one row: the matrix is read once, in as many streams as there are vectors in the tile."),
      tile_row<ReductionClass::Depthwise>(
          "A convolution of each channel with its own weights: lanes along channels, a tile that just hides the latency."),
      tile_row<ReductionClass::Grouped>(
          "A convolution of groups of channels: lanes along a group's features, or of several groups that share a block."),
      tile_row<ReductionClass::Pooling>(
          "A sum or maximum over windows of one operand: lanes along channels, as depthwise."),
      tile_row<ReductionClass::OneOperand>(
          "A sum, product or maximum along outer dimensions: lanes along an output."),
      {"partial sums", StrategyKind::RegisterTile,
       "A reduction whose lanes run along what is reduced: a partial result per lane, put together at the end.",
       KnobGroup::Reduction, names(kReductionKnobNames), &examine_partial_sums, &apply_reduction},
      {"bands of rows",
       StrategyKind::RegisterTile,
       "Two products with a row program between them, as of an attention: all three for a band of rows, then for the next.",
       KnobGroup::None,
       {},
       &examine_bands,
       &apply_bands},
      {"sums of groups",
       StrategyKind::RegisterTile,
       "A product by weights of few bits: whole numbers are summed up group by group, scaled and added up; lanes along results.",
       KnobGroup::None,
       {},
       &examine_groups,
       &apply_groups},
      {"plain loops",
       StrategyKind::RegisterTile,
       "A reduction, an element of its result at a time: the fewest bytes of code.",
       KnobGroup::None,
       {},
       &examine_plain_loops,
       &apply_plain_loops},
      {"rows", StrategyKind::General,
       "Statements that share outer iterators, as of a softmax: all statements of a row, or of four, before the next.",
       KnobGroup::Rows, names_of_rows(true), &examine_rows, &apply_rows},
      {"statement by statement", StrategyKind::General,
       "Each statement in loops of its own: lanes along what is contiguous, or along what registers transpose.",
       KnobGroup::Rows, names_of_rows(false), &examine_separately, &apply_separately},
      {"scalar",
       StrategyKind::General,
       "The loops as the statements have them, an element at a time: what every other schedule has to beat.",
       KnobGroup::None,
       {},
       &examine_scalar,
       &apply_scalar},
      {kAcceleratorStrategy,
       StrategyKind::Algorithm,
       "A sum of products by the instructions of the target's accelerator, tile by tile, with copies to and from its memories.",
       KnobGroup::None,
       {},
       &examine_accelerator,
       &apply_accelerator},
      {"windows of channels",
       StrategyKind::RegisterTile,
       "A depthwise convolution of bytes, one channel at a time, over rows that are widened to 16 bits beforehand, or over a copy of its map.",
       KnobGroup::None,
       {},
       &examine_windows,
       &apply_windows}};
  return rows;
}

const Strategy& strategy(int64_t number) { return strategies().at(static_cast<size_t>(number - 1)); }

StrategyInput::StrategyInput(const ScheduleState& start, int threads, double tolerance, bool all,
                             Placement placement)
    : start_(start), threads_(threads), tolerance_(tolerance), all_(all), placement_(placement) {
  if (start.ordered) {
    fail(ErrorKind::Schedule, "schedule of kernel '", start.kernel->kernel.name,
         "' has lines of order already; the "
         "default follows on rewrites only");
  }
}

template <class Value>
template <class Make>
const Value& StrategyInput::Once<Value>::get(const Make& make) {
  if (refusal) throw NotApplicable{*refusal};
  if (value) return *value;
  try {
    value.emplace(make());
  } catch (const NotApplicable& thrown) {
    refusal = thrown.why;
    throw;
  }
  return *value;
}

const PreparedReduction& StrategyInput::reduction() const {
  return reduction_.get([&] { return PreparedReduction(builder(), tolerance_ <= 0, tolerance_); });
}

const AlgorithmChoices<WinogradKnobs>& StrategyInput::winograd() const {
  return winograd_.get([&] {
    if (tolerance_ <= 0) throw NotApplicable{"a tolerance of 0 allows no other algorithm"};
    return winograd_choices(builder(), tolerance_);
  });
}

const AlgorithmChoices<MatrixKnobs>& StrategyInput::matrix() const {
  return matrix_.get([&] {
    // Sums of bytes are exact in any order.
    if (tolerance_ <= 0 && target().matrix.format(DType::U8) == nullptr)
      throw NotApplicable{"a tolerance of 0 allows no other algorithm"};
    return matrix_choices(builder(), tolerance_, all_);
  });
}

const BandChoice& StrategyInput::bands() const {
  return bands_.get([&] { return choose_bands(builder(), tolerance_ <= 0); });
}

const AcceleratorChoice& StrategyInput::accelerator() const {
  return accelerator_.get([&] { return choose_for_accelerator(builder()); });
}

TraceBuilder apply_strategy(const Strategy& which, const StrategyInput& input, StrategyKnobs& knobs,
                            std::vector<std::string>* refused) {
  TraceBuilder result = which.apply(input, knobs, refused);
  if (auto illegal = check_state(result.state())) throw NotApplicable{*illegal};
  return result;
}

namespace {

// Examines the strategies of one kind; returns those that apply and pay, the cheapest first.
std::vector<size_t> examine_kind(const StrategyInput& input, StrategyKind kind, Decision& decision) {
  std::vector<std::pair<double, size_t>> found;
  for (size_t i = 0; i < strategies().size(); ++i) {
    if (strategies()[i].kind != kind) continue;
    StrategyReport& report = decision.reports[i];
    try {
      const Candidate candidate = strategies()[i].examine(input);
      const Prediction& prediction = candidate.prediction;
      report.cycles = prediction.cycles;
      report.plain = prediction.plain < INFINITY ? prediction.plain : 0;
      report.on_core = prediction.on_core;
      report.plan = candidate.plan;
      if (prediction.pays()) found.emplace_back(prediction.compared(), i);
      else report.rejected = no_gain(prediction);
    } catch (const NotApplicable& refusal) {
      report.rejected = refusal.why;
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<size_t> result;
  for (const auto& [cycles, i] : found) result.push_back(i);
  return result;
}

}  // namespace

Decision decide(const StrategyInput& input) {
  Decision decision;
  for (const Strategy& each : strategies()) decision.reports.push_back({each.name, false, 0, 0, "", "", 0});
  for (const StrategyKind kind :
       {StrategyKind::Algorithm, StrategyKind::RegisterTile, StrategyKind::General}) {
    if (decision.taken > 0 && !input.all()) break;
    for (const size_t i : examine_kind(input, kind, decision)) {
      StrategyReport& report = decision.reports[i];
      if (decision.taken > 0) {
        report.rejected = dearer_than(strategies()[i], strategy(decision.taken));
        continue;
      }
      StrategyKnobs knobs;
      std::vector<std::string> refused;
      try {
        decision.result = apply_strategy(strategies()[i], input, knobs, &refused);
        decision.taken = static_cast<int64_t>(i) + 1;
        decision.knobs = knobs;
        report.taken = true;
        if (!refused.empty()) {
          const PreparedReduction& reduction = input.reduction();
          const ReductionChoice& choice =
              reduction.choices()[static_cast<size_t>(knobs.reduction.choice - 1)];
          report.cycles = choice.choice.tile.cycles;
          report.plan = in_words(with_tile(reduction.facts(), choice));
        }
        for (const std::string& each : refused) report.plan += "; refused before: " + each;
      } catch (const NotApplicable& refusal) {
        report.rejected = refusal.why;
      }
    }
  }
  return decision;
}

bool is_for_accelerator(const Decision& decision) {
  return decision.taken > 0 && strategy(decision.taken).name == std::string(kAcceleratorStrategy);
}

std::string why_not_for_accelerator(const Decision& decision) {
  for (const StrategyReport& each : decision.reports) {
    if (each.name == kAcceleratorStrategy) return each.rejected;
  }
  return "";
}

}  // namespace tc
