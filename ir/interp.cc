// The reference meaning of kernels: runs them slowly and exactly; counts flops.
#include <algorithm>
#include <set>

#include "ir/error.h"
#include "ir/interp_engine.h"
#include "ir/loop.h"

namespace tc {
namespace {

// Domains with constraints are counted by enumeration up to this size; larger ones by their box.
constexpr double kLargestEnumeration = 1e7;

bool is_counted(const Expr& expr) {
  if (expr.kind == Expr::Kind::Unary) return is_float(expr.operands[0]->dtype);
  if (expr.kind == Expr::Kind::Binary) return is_float(expr.operands[0]->dtype);
  return false;
}

// Float operations of one evaluation; shared subexpressions count once.
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
    interp::StatementProgram program(
        kernel, memory,
        {statement.name, statement.write, statement.reduction, statement.value, statement.constraints},
        std::move(loops), outer);
    program.run();
  }
  memory.finish(kernel, buffers);
}

double instance_count(const Statement& statement, const std::map<std::string, int64_t>& parameters) {
  return InstanceCounter(statement, parameters).count();
}

double flop_count(const Kernel& kernel, const std::map<std::string, int64_t>& parameters) {
  double total = 0;
  for (const Statement& statement : kernel.statements) {
    std::set<const Expr*> seen;
    int64_t operations = float_operations(statement.value, seen);
    operations += statement.reduction != Reduction::None && is_float(statement.value->dtype);
    if (operations == 0) continue;
    total += static_cast<double>(operations) * instance_count(statement, parameters);
  }
  return total;
}

}  // namespace tc
