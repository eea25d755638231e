#include "scheduler/default/matrix_problem.h"

#include <algorithm>

#include "scheduler/default/facts.h"

namespace tc {
namespace {

constexpr int64_t kBandOfSymbolic = 128;    // rows, at most
constexpr int64_t kAll = int64_t{1} << 40;  // rows of a band, blocks of a panel

}  // namespace

MatrixProblem::MatrixProblem(TraceBuilder builder, const TermsAlgorithm& algorithm)
    : b_(std::move(builder)), algorithm_(&algorithm), format_(*b_.target().matrix.format(algorithm.operand)) {
  whole_.band = kernel().parameters.empty() ? kAll : kBandOfSymbolic;
  whole_.panel = kAll;
  find();
}

void MatrixProblem::find() {
  macc_ = only_reduction(kernel()).name;
  if (kernel().buffers[static_cast<size_t>(macc().write.buffer)].scope == Scope::Output) {
    const std::string name = kernel().buffers[static_cast<size_t>(macc().write.buffer)].name;
    b_.apply("stage ", name);
  }
  for (size_t i = macc().iterators.size(); i-- > 1;) {
    const std::string a = macc().iterators[i - 1].name, b = macc().iterators[i].name;
    b_.attempt("merge ", macc_, "_", a, " ", macc_, "_", b, " as ", b);
  }
  const Buffer& result = kernel().buffers[static_cast<size_t>(macc().write.buffer)];
  const bool blocked = std::any_of(b_.state().blocked.begin(), b_.state().blocked.end(),
                                   [&](const BlockedDim& dim) { return dim.buffer == result.name; });
  if (!blocked) b_.apply("layout ", result.name, " ", feature_dimension(), " ", unit().columns);
  double other = 1;
  for (const Iterator& iterator : macc().iterators) {
    const auto extent = static_cast<double>(extent_or(macc(), iterator.name, kAssumedSymbolic));
    if (!depends_on(macc().write, iterator.name)) steps_ *= extent;
    else if (is_feature(iterator.name)) features_ *= extent;
    else other *= extent;
  }
  all_rows_ = other;
  // With more than one row, several products on vectors for each product in f32 are more work than those in
  // f32, however few bytes they read.
  if (unit().vectors && unit().rows == 1 && algorithm_->terms > 1 && !is_row())
    throw NotApplicable{"several products of vectors for one in f32 pay for a single row only"};
  refuse_more_bytes();
  find_format();
}

// Weights of 16 bits are read once for a single row, which takes as long as their bytes do.
void MatrixProblem::refuse_more_bytes() const {
  const int64_t terms = algorithm_->terms * size_of(algorithm_->operand);
  for (const Access& load : loads_of(macc())) {
    const Buffer& buffer = kernel().buffers[static_cast<size_t>(load.buffer)];
    const bool narrow = buffer.scope == Scope::Constant && size_of(buffer.dtype) == 2;
    if (narrow && terms > size_of(buffer.dtype))
      throw NotApplicable{text("its terms take more bytes than weights in ", tc::name_of(buffer.dtype))};
  }
}

void MatrixProblem::find_format() {
  TraceBuilder trial = b_;
  trial.apply(whole_.line(macc_, *algorithm_));
  const int64_t groups = trial.statement(macc_).iterators.rbegin()[1].extent.constant();
  for (const MatrixUnit::Format& each : unit().formats) {
    if (each.operand == algorithm_->operand && each.groups == groups) format_ = each;
  }
}

bool MatrixProblem::is_feature(const std::string& iterator) const {
  for (const Access& load : loads_of(macc())) {
    const Scope scope = kernel().buffers[static_cast<size_t>(load.buffer)].scope;
    if (scope == Scope::Constant) return depends_on(load, iterator) && depends_on(macc().write, iterator);
  }
  throw NotApplicable{"no constant operand"};
}

size_t MatrixProblem::feature_dimension() const {
  for (size_t d = 0; d < macc().write.index.size(); ++d) {
    const std::string name = macc().write.index[d].affine.as_variable();
    if (!name.empty() && is_feature(name)) return d;
  }
  throw NotApplicable{"no features"};
}

std::optional<MatrixUnitSizes> MatrixProblem::try_plan(const MatrixUnitPlan& plan) const {
  TraceBuilder trial = b_;
  if (!trial.attempt(plan.line(macc_, *algorithm_))) return std::nullopt;
  MatrixUnitSizes sizes;
  const Statement& start = trial.statement(start_of(trial));
  const size_t band = band_position(start);
  auto extent = [&](size_t position) {
    return extent_or(start, start.iterators.at(position).name, kAssumedSymbolic);
  };
  for (size_t i = 0; i < band; ++i) sizes.images *= extent(i);
  const Affine& bands = start.iterators.at(band).extent;
  sizes.bands = bands.is_constant() ? bands.constant() : parts(kAssumedSymbolic, plan.band);
  sizes.panels = extent(band + 1);
  sizes.pairs = extent(band + 2);
  sizes.blocks = extent(band + 3);
  const size_t count = start.iterators.size();
  sizes.rows = extent(count - 2);
  sizes.tiles = extent(count - 3 - loops_over_orders(*algorithm_));
  for (size_t i = band + 4; i + 3 + loops_over_orders(*algorithm_) < count; ++i) sizes.lines *= extent(i);
  const Statement& sum = trial.statement(macc_);
  sizes.digits_are_rows = sizes.rows != plan.rows;
  const size_t inside = sizes.digits_are_rows ? 5 : 6;  // terms, and the unit's four
  const size_t depths = count - 2 - loops_over_orders(*algorithm_);
  for (size_t i = depths; i + inside < sum.iterators.size(); ++i) {  // the iterators over depth and taps
    const auto extent = static_cast<double>(sum.iterators[i].extent.constant());
    sizes.sums *= extent;
    if (i > depths) sizes.taps *= extent;
  }
  for (const Access& load : loads_of(sum)) {
    const Buffer& buffer = trial.kernel().buffers[static_cast<size_t>(load.buffer)];
    if (buffer.scope != Scope::Local) continue;
    sizes.input = 1;
    for (size_t d = band + 2; d < buffer.shape.size(); ++d) {
      if (d != band + 3) sizes.input *= static_cast<double>(buffer.shape[d].constant());
    }
  }
  return sizes;
}

std::string MatrixProblem::start_of(const TraceBuilder& builder) const {
  return builder.kernel().statements.at(static_cast<size_t>(builder.index_of(macc_)) - 1).name;
}

int64_t MatrixProblem::banded_extent(const MatrixUnitPlan& plan) const {
  TraceBuilder trial = b_;
  trial.apply(plan.line(macc_, *algorithm_));
  const Statement& tail = trial.kernel().statements.back();
  // After the iterators of bands, panels, pairs and blocks comes the one that bands divide; here there is one
  // band.
  return tail.iterators.at(band_position(tail) + 4).extent.constant();
}

}  // namespace tc
