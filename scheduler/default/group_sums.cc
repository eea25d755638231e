// Lanes run along the results, and each lane sums up the products of four elements at a time, or, where an
// instruction adds single products of bytes to sums of 16 bits (RISC-V), of one. Weights are packed in the
// order in which they are read: blocks of results, groups, elements (by fours), lanes. The sums of a group
// stay in registers. Results do so, too, where there are many registers; else they are accumulated in memory
// that stays in a near cache.
#include "scheduler/default/group_sums.h"

#include <algorithm>
#include <map>
#include <vector>

#include "ir/target/narrow_product.h"
#include "scheduler/default/facts.h"

namespace tc {
namespace {

// Registers that hold sums, on targets with 16 and with 32 registers: operands and scales take the others.
constexpr int64_t kSumsOfFew = 9, kSumsOfMany = 24;
constexpr int64_t kMaxRows = 8;
// Steps over single elements that are unrolled: about as many products of codes of 4 bits as a sum of 16 bits
// holds.
constexpr int64_t kSingleSteps = 16;

bool has_many_registers(const Target& target) { return target.vector_registers >= 32; }

// Registers of a group (LMUL) that a vector of sums of 32 bits takes on RISC-V. With fewer, an in-order core
// waits for the digits in scalar registers, of which there is one for each product.
constexpr int64_t kGroup = 4;

// Registers or groups that hold sums. A sum of 16 bits takes half of a group, and there may be two for each
// sum.
int64_t most_sums(const Target& target) {
  if (digit_products(target) == 1) return target.vector_registers / 2 / kGroup;
  return has_many_registers(target) ? kSumsOfMany : kSumsOfFew;
}

// Whether weights are packed as streams that go on from tile to tile, one for each vector of a tile of one
// row.
bool has_streams(const Target& target) { return digit_products(target) > 1 && target.out_of_order(); }

// Whether results stay in registers from group to group.
bool holds_results(const Target& target) { return digit_products(target) > 1 && has_many_registers(target); }

// The results of a vector, unless most of it would be empty.
int64_t lanes_of(const Target& target, int64_t results) {
  int64_t lanes = target.vector_bits / 32;
  if (digit_products(target) != 1) return target.lanes(DType::I32);
  for (int64_t group = 1; group < kGroup && lanes < results; group *= 2) lanes *= 2;
  return lanes;
}

// Whether the statement sums up products of whole numbers, or of a float and a whole number.
bool is_local_sum_of_codes(const Kernel& kernel, const Statement& statement) {
  const Buffer& written = kernel.buffers[static_cast<size_t>(statement.write.buffer)];
  if (statement.reduction != Reduction::Sum || written.scope != Scope::Local) return false;
  const Expr& value = *statement.value;
  if (value.dtype != DType::F32) return value.dtype == DType::I32;
  if (value.kind != Expr::Kind::Binary || value.binary != BinaryOp::Mul) return false;
  const Expr& code = *value.operands[1];
  return code.kind == Expr::Kind::Cast && code.operands[0]->dtype == DType::I32;
}

bool reads(const Statement& statement, int buffer) {
  const std::vector<Access> loads = loads_of(statement);
  return std::any_of(loads.begin(), loads.end(), [&](const Access& load) { return load.buffer == buffer; });
}

bool is_constant(const Kernel& kernel, const Access& load) {
  return kernel.buffers[static_cast<size_t>(load.buffer)].scope == Scope::Constant;
}

// Whether the iterator moves the access itself; it may also choose by data which of several matrices is read.
bool moves(const Access& load, const std::string& iterator) {
  return std::any_of(load.index.begin(), load.index.end(),
                     [&](const Subscript& subscript) { return subscript.affine.coefficient(iterator) != 0; });
}

// Whether what is read is no operand, but the number of a matrix.
bool chooses(const Kernel& kernel, const Access& load) {
  const DType type = kernel.buffers[static_cast<size_t>(load.buffer)].dtype;
  return type == DType::I64 || type == DType::I32;
}

// Whether the expression chooses between numbers, as the code of a table does.
bool chooses_numbers(const ExprPtr& expr) {
  return expr->kind == Expr::Kind::Select ||
         std::any_of(expr->operands.begin(), expr->operands.end(), chooses_numbers);
}

// The iterators of the sums by the role that they have in the tile.
struct Roles {
  std::vector<std::string> rows, groups, digits, inside;
};

class Grouper {
 public:
  Grouper(TraceBuilder& builder, const GroupSums& plan) : b_(builder), plan_(plan), width_(plan.width) {}

  void run() {
    find_roles();
    for (size_t i = 0; i < b_.kernel().statements.size(); ++i)
      names_.push_back(b_.kernel().statements[i].name);
    for (const std::string& name : names_) strip_lanes(name);
    strip_elements();
    pack();
    for (const std::string& name : names_) order(name);
    fuse_loops();
    b_.apply("register_tile ", "group_", roles_.groups.size() - 1);
    // In tiles of which all rows exist: a condition would come between load and store.
    if (plan_.holds) {
      b_.apply("hold group_0");
      b_.attempt("isolate row_", roles_.rows.size() - 1);
    }
    for (const std::string& name : names_) mark(name);
    prefetch_groups();
    b_.parallelise();
  }

 private:
  const Statement& dot() const { return b_.statement(plan_.dot); }

  void find_roles() {
    const Statement& sum = dot();
    const Statement& add = b_.statement(plan_.add);
    for (const Iterator& each : sum.iterators) {
      const std::string& name = each.name;
      if (name == plan_.lanes) continue;
      if (!depends_on(sum.write, name)) roles_.inside.push_back(name);
      else if (depends_on(add.write, name)) roles_.rows.push_back(name);
      else if (std::any_of(add.iterators.begin(), add.iterators.end(),
                           [&](const Iterator& own) { return own.name == name; }))
        roles_.groups.push_back(name);
      else roles_.digits.push_back(name);
    }
    if (roles_.groups.empty()) throw NotApplicable{"one group"};
    for (const std::string& name : roles_.inside) {
      const std::vector<Access> loads = loads_of(sum);
      const bool beside = std::all_of(loads.begin(), loads.end(), [&](const Access& load) {
        return chooses(b_.kernel(), load) || element_stride(b_.kernel(), load, name) == 1;
      });
      if (beside && extent_or(sum, name, 0) % step_ == 0) elements_ = name;
    }
    if (elements_.empty()) throw NotApplicable{"elements of a group that do not lie side by side"};
  }

  // Steps, and the elements of a step or the steps that are unrolled.
  void strip_elements() {
    const int64_t count = extent_or(dot(), elements_, 0);
    const int64_t inner = step_ > 1 ? step_ : std::min(count, kSingleSteps);
    if (step_ == 1 && (inner == count || count % inner != 0)) return;
    b_.apply("strip ", plan_.dot, "_", elements_, " ", inner, " as ", elements_, "_o ", elements_, "_i");
    stripped_ = true;
  }

  // The loops of the sums inside of a group, from the outermost to the one around rows, and the one inside of
  // all others. Where a step is a single element, it is the outermost: all codes of a byte are decoded
  // together.
  std::vector<std::string> outer_inside() const {
    std::vector<std::string> result;
    if (step_ > 1) {
      for (const std::string& each : roles_.inside)
        result.push_back(each == elements_ ? elements_ + "_o" : each);
      return result;
    }
    result.push_back(stripped_ ? elements_ + "_o" : elements_);
    if (stripped_) result.push_back(elements_ + "_i");
    for (const std::string& each : roles_.inside) {
      if (each != elements_) result.push_back(each);
    }
    return result;
  }

  // The iterator of another statement that counts the same as `iterator` of the sums: all statements count
  // results in the same way.
  std::string counted(const std::string& statement, const std::string& iterator) const {
    const Statement& own = b_.statement(statement);
    const bool has = std::any_of(own.iterators.begin(), own.iterators.end(),
                                 [&](const Iterator& each) { return each.name == iterator; });
    if (has) return iterator;
    const Statement& add = b_.statement(plan_.add);
    for (const Access& load : loads_of(own)) {
      if (load.buffer != add.write.buffer) continue;
      for (size_t d = 0; d < load.index.size(); ++d) {
        if (add.write.index[d].affine.coefficient(iterator) != 0 &&
            !load.index[d].affine.as_variable().empty())
          return load.index[d].affine.as_variable();
      }
    }
    throw NotApplicable{text("statement ", statement, " does not count the results of ", plan_.dot)};
  }

  void strip_lanes(const std::string& statement) {
    const std::string lanes = counted(statement, plan_.lanes);
    rows_[statement].clear();
    for (const std::string& row : roles_.rows) rows_[statement].push_back(counted(statement, row));
    b_.apply("strip ", statement, "_", lanes, " ", width_ * plan_.panels, " as n_o n_j");
    b_.apply("strip ", statement, "_n_j ", width_, " as n_j n_i");
  }

  // Packs weights and scales in the order in which the tile reads them. Each vector of a tile is a stream of
  // its own from tile to tile where loads overtake each other: hardware prefetches two streams better than
  // one (Q4_K of 2048 x 8192: 27 of 32 GB/s in place of 19). Else, with few registers, a tile of one row has
  // more vectors than a tile of several rows; then each vector has a panel of its own, so that both kinds of
  // tiles read the same panels.
  void pack() {
    const bool streams = has_streams(b_.target());
    const bool own_panels = step_ == 1 || (!streams && !has_many_registers(b_.target()));
    for (const std::string& name : {plan_.dot, plan_.add}) {
      const Statement statement = b_.statement(name);
      std::vector<std::string> order;
      if (streams) order.emplace_back("n_j");
      order.emplace_back("n_o");
      if (own_panels) order.emplace_back("n_j");
      order.insert(order.end(), roles_.groups.begin(), roles_.groups.end());
      if (name == plan_.dot) {
        const std::vector<std::string> inside = outer_inside();
        order.insert(order.end(), inside.begin(), inside.end());
      }
      if (!own_panels && !streams) order.emplace_back("n_j");
      order.emplace_back("n_i");
      if (name == plan_.dot && step_ > 1) order.push_back(elements_ + "_i");
      for (const Access& load : loads_of(statement)) {
        if (!is_constant(b_.kernel(), load)) continue;
        std::vector<std::string> used;
        for (const std::string& iterator : order) {
          if (moves(load, iterator)) used.push_back(iterator);
        }
        b_.apply("pack ", b_.kernel().buffers[static_cast<size_t>(load.buffer)].name, " :", joined(used));
      }
    }
  }

  bool has_groups(const std::string& statement) const {
    return statement == plan_.init || statement == plan_.dot || statement == plan_.add;
  }
  bool has_digits(const std::string& statement) const {
    return statement == plan_.init || statement == plan_.dot;
  }

  // The loops of a statement inside of the tile but that over lanes, outermost first: those to unroll.
  std::vector<std::string> copies(const std::string& statement) const {
    std::vector<std::string> result;
    if (statement == plan_.dot) result = outer_inside();
    if (!rows_.at(statement).empty()) result.push_back(rows_.at(statement).back() + "_i");
    if (plan_.panels == plan_.vectors) result.push_back("n_j");
    if (has_digits(statement)) result.insert(result.end(), roles_.digits.begin(), roles_.digits.end());
    if (statement == plan_.dot && step_ > 1) result.push_back(elements_ + "_i");
    return result;
  }

  void order(const std::string& statement) {
    const std::vector<std::string>& rows = rows_.at(statement);
    const auto loop = [&](const std::string& name) { return statement + "_" + name; };
    std::vector<std::string> order = {loop("n_o")};
    if (plan_.panels != plan_.vectors) order.push_back(loop("n_j"));
    for (size_t i = 0; i < rows.size(); ++i) {
      const bool last = i + 1 == rows.size();
      if (last)
        b_.apply("split ", loop(rows[i]), " ", plan_.rows, " as ", loop(rows[i]), "_o ", loop(rows[i]), "_i");
      order.push_back(last ? loop(rows[i]) + "_o" : loop(rows[i]));
    }
    if (has_groups(statement)) {
      for (const std::string& group : roles_.groups) order.push_back(loop(group));
    }
    for (const std::string& copy : copies(statement)) order.push_back(loop(copy));
    order.push_back(loop("n_i"));
    // Statements after the sums, such as those of a view, may have further loops: the plan does not apply to
    // these.
    for (const TraceBuilder::Loop& each : b_.all_loops(statement)) {
      if (std::count(order.begin(), order.end(), each.name) == 0)
        throw NotApplicable{text("statement ", statement, " has a loop ", each.name, " of its own")};
    }
    b_.apply("order", joined(order));
  }

  void fuse(const std::vector<std::string>& loops, const std::string& name) {
    if (loops.size() > 1) b_.apply("fuse", joined(loops), " as ", name);
  }

  void fuse_loops() {
    std::vector<std::string> blocks;
    for (const std::string& name : names_) blocks.push_back(name + "_n_o");
    fuse(blocks, "results");
    if (plan_.panels != plan_.vectors) {
      std::vector<std::string> panels;
      for (const std::string& name : names_) panels.push_back(name + "_n_j");
      fuse(panels, "panel");
    }
    for (size_t i = 0; i < roles_.rows.size(); ++i) {
      std::vector<std::string> rows;
      for (const std::string& name : names_) {
        rows.push_back(name + "_" + rows_.at(name)[i] + (i + 1 == roles_.rows.size() ? "_o" : ""));
      }
      fuse(rows, text("row_", i));
    }
    for (size_t i = 0; i < roles_.groups.size(); ++i) {
      const std::string& group = roles_.groups[i];
      fuse({plan_.init + "_" + group, plan_.dot + "_" + group, plan_.add + "_" + group}, text("group_", i));
    }
  }

  void mark(const std::string& statement) {
    b_.apply("vectorize ", statement, "_n_i");
    for (const std::string& copy : copies(statement)) {
      if (step_ == 1 && stripped_ && copy == elements_ + "_o") continue;
      b_.attempt("unroll ", statement, "_", copy);
    }
  }

  // A core that executes in order would wait for each line of weights: they are fetched a group ahead.
  void prefetch_groups() {
    if (step_ > 1 || b_.target().out_of_order()) return;
    for (const std::string& name : {plan_.dot, plan_.add}) {
      for (const Access& load : loads_of(b_.statement(name))) {
        const Buffer& buffer = b_.kernel().buffers[static_cast<size_t>(load.buffer)];
        if (is_constant(b_.kernel(), load))
          b_.attempt("prefetch ", buffer.name, " group_", roles_.groups.size() - 1);
      }
    }
  }

  TraceBuilder& b_;
  const GroupSums& plan_;
  const int64_t width_;
  const int64_t step_ = digit_products(b_.target());
  bool stripped_ = false;
  Roles roles_;
  std::string elements_;
  std::vector<std::string> names_;                        // all statements
  std::map<std::string, std::vector<std::string>> rows_;  // each one's iterators of rows
};

}  // namespace

std::string GroupSums::in_words() const {
  return text("tiles of ", rows, rows == 1 ? " row" : " rows", " by ", vectors,
              " vectors of results, weights packed in the order of their products");
}

GroupSums find_group_sums(const TraceBuilder& builder) {
  const Kernel& kernel = builder.kernel();
  const int64_t step = digit_products(builder.target());
  if (step == 0) throw NotApplicable{"the target has no sums of products of bytes"};
  GroupSums plan;
  int dots = -1, results = -1;
  for (const Statement& each : kernel.statements) {
    if (plan.dot.empty() && is_local_sum_of_codes(kernel, each)) {
      plan.dot = each.name;
      dots = each.write.buffer;
    } else if (!plan.dot.empty() && each.reduction != Reduction::None) {
      if (!plan.add.empty() || each.reduction != Reduction::Sum || !reads(each, dots))
        throw NotApplicable{"its reductions are no sums of groups of whole numbers"};
      plan.add = each.name;
      results = each.write.buffer;
    } else if (each.reduction != Reduction::None) {
      throw NotApplicable{"its reductions are no sums of groups of whole numbers"};
    }
  }
  if (plan.add.empty()) throw NotApplicable{"no sums of groups of whole numbers"};
  for (const Statement& each : kernel.statements) {
    if (each.reduction == Reduction::None && each.write.buffer == dots) plan.init = each.name;
    if (each.reduction == Reduction::None && each.write.buffer == results) plan.start = each.name;
  }
  const bool in_order = kernel.statements.size() >= 4 && kernel.statements[0].name == plan.start &&
                        kernel.statements[1].name == plan.init && kernel.statements[2].name == plan.dot &&
                        kernel.statements[3].name == plan.add;
  if (!in_order) throw NotApplicable{"statements before the products"};
  const Statement& dot = builder.statement(plan.dot);
  const Statement& add = builder.statement(plan.add);
  int64_t rows = 1, digits = 1;
  double products = 1;
  bool chosen = false;  // each row has weights of its own
  for (const Iterator& each : dot.iterators) {
    const int64_t extent = extent_or(dot, each.name, kAssumedSymbolic);
    products *= static_cast<double>(extent);
    if (!depends_on(dot.write, each.name)) continue;
    const bool in_add = std::any_of(add.iterators.begin(), add.iterators.end(),
                                    [&](const Iterator& own) { return own.name == each.name; });
    if (!in_add) digits *= extent;
    if (!depends_on(add.write, each.name)) continue;
    bool of_weights = false;
    for (const Access& load : loads_of(dot)) {
      if (!is_constant(kernel, load)) continue;
      of_weights = of_weights || moves(load, each.name);
      chosen = chosen || (depends_on(load, each.name) && !moves(load, each.name));
    }
    if (of_weights && !plan.lanes.empty())
      throw NotApplicable{"weights of more than one iterator of results"};
    if (of_weights) plan.lanes = each.name;
    else rows = extent;
  }
  if (plan.lanes.empty()) throw NotApplicable{"no constant weights"};
  // Each choice would read the code again: what is read where data decides is not kept.
  if (chosen && chooses_numbers(dot.value))
    throw NotApplicable{"codes that index a table, in matrices that data chooses"};
  const int64_t sums = most_sums(builder.target());
  const bool many = has_many_registers(builder.target());
  // Two vectors share what is read of the other operand, unless the second vector would often be empty.
  const int64_t count = extent_or(dot, plan.lanes, kAssumedSymbolic);
  const int64_t width = plan.width = lanes_of(builder.target(), count);
  const bool fills = count % (2 * width) == 0 || count >= 16 * width;
  plan.vectors = step > 1 && fills && (many || rows == 1) ? 2 : 1;
  plan.panels = has_streams(builder.target()) && fills ? 2 : plan.vectors;
  // Not in formats whose blocks are divided into groups with scales of their own (Q4_K): two groups share the
  // bytes of their codes, which code without held results loads once for both.
  const auto loops_over_groups =
      std::count_if(add.iterators.begin(), add.iterators.end(),
                    [&](const Iterator& each) { return !depends_on(add.write, each.name); });
  plan.holds = rows > 1 && !chosen && loops_over_groups == 1 && holds_results(builder.target());
  const int64_t of_row = plan.vectors * (digits + (plan.holds ? 1 : 0));
  const int64_t most = std::clamp(sums / of_row, int64_t{1}, kMaxRows);
  const int64_t tiles = (rows + most - 1) / most;
  plan.rows = chosen ? 1 : (rows + tiles - 1) / tiles;
  plan.cycles = products / (static_cast<double>(step) * builder.target().lanes(DType::I32) *
                            builder.target().multiply_adds);
  return plan;
}

TraceBuilder schedule_group_sums(TraceBuilder builder, const GroupSums& plan) {
  Grouper(builder, plan).run();
  return builder;
}

}  // namespace tc
