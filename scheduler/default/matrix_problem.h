// A sum of products for a matrix unit: the kernel as all plans find it, and what a plan's rewrite makes of
// it.
#pragma once

#include <optional>
#include <string>

#include "scheduler/default/matrix_plan.h"

namespace tc {

// What a plan's rewrite makes of the statement.
struct MatrixUnitSizes {
  int64_t images = 1, bands = 1, panels = 1, pairs = 1, blocks = 1, lines = 1, tiles = 1, rows = 1;
  bool digits_are_rows = false;  // digits of the only row are the rows of an accumulator
  double sums = 1, taps = 1;     // the unit's steps per accumulator; of these, the taps of one depth
  double input = 0;              // elements of the divided input of a band, all terms once
};

class MatrixProblem {
 public:
  // Prepares the kernel: the sum's result is in a private buffer in blocks of features, and iterators are
  // merged where possible. Throws NotApplicable with the reason where the algorithm does not fit it.
  MatrixProblem(TraceBuilder builder, const TermsAlgorithm& algorithm);

  const TraceBuilder& builder() const { return b_; }
  const Kernel& kernel() const { return b_.kernel(); }
  const Target& target() const { return b_.target(); }
  const MatrixUnit& unit() const { return b_.target().matrix; }
  const TermsAlgorithm& algorithm() const { return *algorithm_; }
  const MatrixUnit::Format& format() const { return format_; }  // of the sum's depth
  int depth() const { return format_.groups * format_.pack; }
  const std::string& sum() const { return macc_; }

  double steps() const { return steps_; }  // terms of a sum
  double features() const { return features_; }
  double rows() const { return all_rows_; }  // of results, of all images
  bool is_row() const { return all_rows_ == 1; }

  // The plan with a single band and panel, as far as sizes are known.
  const MatrixUnitPlan& whole() const { return whole_; }
  // The sizes that follow from the plan; nothing where its rewrite is refused.
  std::optional<MatrixUnitSizes> try_plan(const MatrixUnitPlan& plan) const;
  // Rows that are divided into bands.
  int64_t banded_extent(const MatrixUnitPlan& plan) const;

 private:
  const Statement& macc() const { return b_.statement(macc_); }
  void find();
  void refuse_more_bytes() const;
  void find_format();
  bool is_feature(const std::string& iterator) const;
  size_t feature_dimension() const;
  // The rewrite puts the statement that sets the accumulators to zero before the sum.
  std::string start_of(const TraceBuilder& builder) const;

  TraceBuilder b_;
  const TermsAlgorithm* algorithm_;
  MatrixUnit::Format format_;
  MatrixUnitPlan whole_;
  std::string macc_;
  double steps_ = 1, features_ = 1, all_rows_ = 1;
};

inline int64_t parts(int64_t size, int64_t part) { return (size + part - 1) / part; }

}  // namespace tc
