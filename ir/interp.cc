// The reference meaning of kernels: runs them slowly and exactly; packs constants; counts flops.
#include <algorithm>
#include <cstring>
#include <set>

#include "ir/error.h"
#include "ir/interp_engine.h"
#include "ir/loop.h"

namespace tc {
namespace {

// Domains that constraints cut are counted by enumeration up to this size, else by their box.
constexpr double kLargestEnumeration = 1e7;

bool is_counted(const Expr& expr) {
  if (expr.kind == Expr::Kind::Unary) return is_float(expr.operands[0]->dtype);
  if (expr.kind == Expr::Kind::Binary) return is_float(expr.operands[0]->dtype);
  return false;
}

// Float operations of one evaluation; what is shared counts once.
int64_t float_operations(const ExprPtr& expr, std::set<const Expr*>& seen) {
  if (!expr || !seen.insert(expr.get()).second) return 0;
  int64_t count = is_counted(*expr);
  for (const ExprPtr& operand : expr->operands) count += float_operations(operand, seen);
  for (const Subscript& subscript : expr->access.index) {
    count += float_operations(subscript.dynamic, seen);
  }
  return count;
}

// The instances of a statement. Iterators that no constraint connects count independently.
class InstanceCounter {
 public:
  InstanceCounter(const Statement& statement, const std::map<std::string, int64_t>& parameters) {
    for (const Iterator& iterator : statement.iterators) {
      names_.push_back(iterator.name);
      extents_.push_back(std::max<int64_t>(0, iterator.extent.evaluate(parameters)));
    }
    for (const Affine& constraint : statement.constraints) {
      std::map<std::string, Affine> values(parameters.begin(), parameters.end());
      constraints_.push_back(constraint.substitute(values));
    }
  }

  double count() const {
    std::vector<bool> done(names_.size(), false);
    double product = 1;
    for (const Affine& constraint : constraints_) {
      if (constraint.is_constant() && constraint.constant() < 0) return 0;
    }
    for (size_t i = 0; i < names_.size(); ++i) {
      if (!done[i]) product *= count_group(group_of(i, done));
    }
    return product;
  }

 private:
  std::vector<size_t> group_of(size_t seed, std::vector<bool>& done) const {
    std::vector<size_t> group{seed};
    done[seed] = true;
    for (size_t at = 0; at < group.size(); ++at) {
      for (const Affine& constraint : constraints_) {
        if (constraint.coefficient(names_[group[at]]) == 0) continue;
        for (size_t i = 0; i < names_.size(); ++i) {
          if (done[i] || constraint.coefficient(names_[i]) == 0) continue;
          done[i] = true;
          group.push_back(i);
        }
      }
    }
    return group;
  }

  double count_group(const std::vector<size_t>& group) const {
    double box = 1;
    for (size_t i : group) box *= static_cast<double>(extents_[i]);
    bool is_cut = group.size() > 1 || touches(group[0]);
    if (!is_cut || box == 0 || box > kLargestEnumeration) return box;
    std::vector<std::vector<int64_t>> rows;  // constant, then a coefficient per iterator
    for (const Affine& constraint : constraints_) {
      std::vector<int64_t> row{constraint.constant()};
      bool relevant = false;
      for (size_t i : group) {
        row.push_back(constraint.coefficient(names_[i]));
        relevant = relevant || row.back() != 0;
      }
      if (relevant) rows.push_back(row);
    }
    double found = 0;
    std::vector<int64_t> at(group.size(), 0);
    while (true) {
      found += std::all_of(rows.begin(), rows.end(), [&](const auto& row) {
        int64_t value = row[0];
        for (size_t i = 0; i < at.size(); ++i) value += row[i + 1] * at[i];
        return value >= 0;
      });
      size_t digit = 0;
      while (digit < at.size() && ++at[digit] == extents_[group[digit]]) at[digit++] = 0;
      if (digit == at.size()) return found;
    }
  }

  bool touches(size_t iterator) const {
    return std::any_of(constraints_.begin(), constraints_.end(), [&](const Affine& constraint) {
      return constraint.coefficient(names_[iterator]) != 0;
    });
  }

  std::vector<std::string> names_;
  std::vector<int64_t> extents_;
  std::vector<Affine> constraints_;
};

// Copies one packed constant: walks the packed elements in order, following the original's indices.
class Packer {
 public:
  Packer(const Packing& packing, const Tensor& original, Tensor& result)
      : packing_(packing), shape_(packing.combined_shape()), original_(original), result_(result),
        index_(packing.index.size()),
        element_(static_cast<size_t>(size_of(result.dtype))) {
    size_t rank = shape_.size();
    strides_.assign(rank, 1);
    for (size_t i = rank; i-- > 1;) strides_[i - 1] = strides_[i] * shape_[i];
    for (const std::string& iterator : packing.iterators) {
      std::vector<int64_t> step;
      for (const Affine& index : packing.index) step.push_back(index.coefficient(iterator));
      steps_.push_back(step);
    }
    for (size_t d = 0; d < rank; ++d) index_[d] = packing.index[d].constant();
    Tensor filled(result.dtype, {1});
    filled.set(0, packing.fill);
    fill_ = filled.bytes;
  }

  void run() {
    if (result_.count() > 0) walk(0);
  }

 private:
  void walk(size_t depth) {
    if (depth + 1 >= steps_.size()) return copy_row();
    for (int64_t i = 0; i < result_.shape[depth]; ++i) {
      walk(depth + 1);
      for (size_t d = 0; d < index_.size(); ++d) index_[d] += steps_[depth][d];
    }
    for (size_t d = 0; d < index_.size(); ++d) {
      index_[d] -= result_.shape[depth] * steps_[depth][d];
    }
  }

  // The elements along the innermost iterator: those whose indices are inside are one range.
  void copy_row() {
    int64_t extent = steps_.empty() ? 1 : result_.shape.back();
    int64_t begin = 0, end = extent, flat = 0, flat_step = 0;
    for (size_t d = 0; d < index_.size(); ++d) {
      int64_t step = steps_.empty() ? 0 : steps_.back()[d], size = shape_[d];
      flat += index_[d] * strides_[d];
      flat_step += step * strides_[d];
      auto inside = [&](int64_t i) {
        int64_t at = index_[d] + i * step;
        return at >= 0 && at < size;
      };
      while (begin < end && !inside(begin)) ++begin;
      while (begin < end && !inside(end - 1)) --end;
    }
    for (int64_t i = 0; i < begin; ++i) put(fill_.data());
    const uint8_t* source = original_.bytes.data();
    for (int64_t i = begin; i < end; ++i) {
      put(source + static_cast<size_t>(flat + i * flat_step) * element_);
    }
    for (int64_t i = end; i < extent; ++i) put(fill_.data());
  }

  void put(const uint8_t* source) {
    uint8_t* target = result_.bytes.data() + written_;
    written_ += element_;
    if (element_ == 4) {
      std::memcpy(target, source, 4);  // a plain move, for the most frequent size
    } else {
      std::memcpy(target, source, element_);
    }
  }

  const Packing& packing_;
  const std::vector<int64_t> shape_;         // of the original
  const Tensor& original_;
  Tensor& result_;
  std::vector<int64_t> index_;               // of the original, at the walk's place
  size_t element_, written_ = 0;
  std::vector<int64_t> strides_;
  std::vector<std::vector<int64_t>> steps_;  // per iterator: change of each original index
  std::vector<uint8_t> fill_;
};

// One dimension of dense data replaced by combinations of its elements; `inner` elements from one to
// the next.
void combine(const Combination& how, size_t inner, const std::vector<double>& data, std::vector<double>& result) {
  const size_t from = how.rows.at(0).size(), to = how.rows.size(), outer = data.size() / (from * inner);
  result.assign(outer * to * inner, 0);
  for (size_t o = 0; o < outer; ++o) {
    for (size_t i = 0; i < to; ++i) {
      double* target = result.data() + (o * to + i) * inner;
      for (size_t k = 0; k < from; ++k) {
        const double factor = how.rows[i][k];
        const double* source = data.data() + (o * from + k) * inner;
        for (size_t j = 0; factor != 0 && j < inner; ++j) target[j] += factor * source[j];
      }
    }
  }
}

// The original after the packing's combinations, a slice of the dimensions before them at a time.
Tensor combined(const Packing& packing, const Tensor& original) {
  Tensor result(original.dtype, packing.combined_shape());
  size_t first = packing.original_shape.size();
  for (const Combination& each : packing.combinations) first = std::min(first, each.dimension);
  int64_t slices = 1;
  for (size_t d = 0; d < first; ++d) slices *= packing.original_shape[d];
  std::vector<size_t> inner;
  std::vector<int64_t> shape = packing.original_shape;
  for (const Combination& each : packing.combinations) {
    size_t size = 1;
    for (size_t d = each.dimension + 1; d < shape.size(); ++d) size *= static_cast<size_t>(shape[d]);
    inner.push_back(size);
    shape[each.dimension] = static_cast<int64_t>(each.rows.size());
  }
  std::vector<double> data, next;
  const bool single = original.dtype == DType::F32;
  auto* numbers = reinterpret_cast<float*>(result.bytes.data());
  const auto* source = reinterpret_cast<const float*>(original.bytes.data());
  for (int64_t slice = 0, at = 0, from = 0; slice < slices; ++slice) {
    data.resize(static_cast<size_t>(original.count() / slices));
    for (double& value : data) {
      value = single ? static_cast<double>(source[from]) : original.as_double(from);
      ++from;
    }
    for (size_t i = 0; i < inner.size(); ++i) {
      combine(packing.combinations[i], inner[i], data, next);
      std::swap(data, next);
    }
    for (double value : data) {
      if (single) numbers[at] = static_cast<float>(value);
      else result.set(at, value);
      ++at;
    }
  }
  return result;
}

// Values that are equal along the iterator of their terms, each replaced by its own term.
Tensor terms_of(const Packing& packing, DType dtype, const Tensor& values) {
  Tensor result(dtype, values.shape);
  size_t dim = 0;
  while (packing.iterators[dim] != packing.terms) ++dim;
  int64_t inner = 1, outer = 1;
  for (size_t d = 0; d < values.shape.size(); ++d) (d < dim ? outer : inner) *= d == dim ? 1 : values.shape[d];
  const int64_t count = values.shape[dim];
  const auto* numbers = values.data<float>();
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      float rest = numbers[o * count * inner + i];
      for (int64_t term = 0; term < count; ++term) {
        const int64_t at = (o * count + term) * inner + i;
        if (dtype == DType::BF16) {
          const uint16_t bits = float_to_bfloat(rest);
          result.data<uint16_t>()[at] = bits;
          rest -= bfloat_to_float(bits);
        } else {
          result.set(at, static_cast<double>(rest));
          rest -= static_cast<float>(result.as_double(at));
        }
      }
    }
  }
  return result;
}

}  // namespace

void interpret(const Kernel& kernel, const std::map<std::string, int64_t>& parameters,
               std::map<std::string, Tensor>& buffers, bool round_to_storage) {
  interp::Memory memory(kernel, parameters, buffers, round_to_storage, false);
  std::map<std::string, const int64_t*> outer;
  for (const auto& [name, value] : parameters) outer[name] = &value;
  for (const Statement& statement : kernel.statements) {
    std::vector<interp::StatementProgram::Loop> loops;
    for (const Iterator& iterator : statement.iterators) {
      loops.push_back({iterator.name, iterator.extent});
    }
    interp::StatementProgram program(kernel, memory, statement.name, statement.write,
                                     statement.reduction, statement.value, statement.constraints,
                                     std::move(loops), outer);
    program.run();
  }
  memory.finish(kernel, buffers);
}

double flop_count(const Kernel& kernel, const std::map<std::string, int64_t>& parameters) {
  double total = 0;
  for (const Statement& statement : kernel.statements) {
    std::set<const Expr*> seen;
    int64_t operations = float_operations(statement.value, seen);
    operations += statement.reduction != Reduction::None && is_float(statement.value->dtype);
    if (operations == 0) continue;
    total += static_cast<double>(operations) * InstanceCounter(statement, parameters).count();
  }
  return total;
}

Tensor pack(const Packing& packing, const Kernel& kernel, const Tensor& original) {
  int index = kernel.buffer_index(packing.buffer);
  TC_CHECK(index >= 0, "a buffer named '", packing.buffer, "' to pack");
  const Buffer& buffer = kernel.buffers[static_cast<size_t>(index)];
  std::vector<int64_t> shape;
  for (const Affine& size : buffer.shape) shape.push_back(size.evaluate({}));
  TC_CHECK(original.dtype == packing.original_dtype(buffer.dtype), "for packed buffer '", packing.buffer, "'");
  TC_CHECK(original.count() == checked_count(packing.original_shape), "for packed buffer '",
           packing.buffer, "'");
  TC_CHECK(packing.iterators.size() == shape.size(), "for packed buffer '", packing.buffer, "'");
  TC_CHECK(packing.index.size() == packing.original_shape.size(), "for packed buffer '",
           packing.buffer, "'");
  Tensor result(original.dtype, shape);
  if (packing.combinations.empty()) {
    Packer(packing, original, result).run();
  } else {
    Packer(packing, combined(packing, original), result).run();
  }
  return packing.terms.empty() ? result : terms_of(packing, buffer.dtype, result);
}

}  // namespace tc
