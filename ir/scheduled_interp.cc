// Runs a scheduled kernel loop by loop: the oracle for code generation.
#include <memory>

#include "ir/error.h"
#include "ir/interp_engine.h"
#include "ir/scheduled.h"

namespace tc {
namespace {

using interp::Memory;
using interp::StatementProgram;

class Runner {
 public:
  Runner(const Kernel& kernel, const LoopNode& root, Memory& memory,
         const std::map<std::string, int64_t>& parameters)
      : kernel_(kernel), memory_(memory), variables_(parameters) {
    declare(root);
    // Addresses of a map's elements are stable: each program reads the current values through them.
    for (const auto& [name, value] : variables_) places_[name] = &value;
    prepare(root);
  }

  void run(const LoopNode& node) {
    switch (node.kind) {
      case LoopNode::Kind::Block: return run_children(node);
      case LoopNode::Kind::If:
        if (evaluate(*node.condition, variables_)) run_children(node);
        return;
      case LoopNode::Kind::For: {
        int64_t& variable = variables_.at(node.variable);
        int64_t before = variable;
        int64_t lower = evaluate(*node.lower, variables_);
        int64_t upper = evaluate(*node.upper, variables_);
        for (int64_t value = lower; value <= upper; ++value) {
          variable = value;
          run_children(node);
        }
        variable = before;
        return;
      }
      case LoopNode::Kind::Leaf:
        ++memory_.leaf;
        for (const auto& program : programs_.at(&node)) program->run();
        return;
    }
  }

 private:
  void run_children(const LoopNode& node) {
    for (const LoopNodePtr& child : node.children) run(*child);
  }

  void declare(const LoopNode& node) {
    if (node.kind == LoopNode::Kind::For) variables_.emplace(node.variable, 0);
    for (const LoopNodePtr& child : node.children) declare(*child);
  }

  void prepare(const LoopNode& node) {
    for (const LoopNodePtr& child : node.children) prepare(*child);
    for (const TileStatement& tile : node.statements) {
      TC_CHECK(tile.statement >= 0 && tile.statement < static_cast<int>(kernel_.statements.size()),
               "in leaf '", node.name, "'");
      const Statement& statement = kernel_.statements[static_cast<size_t>(tile.statement)];
      for (const Iterator& iterator : statement.iterators) {
        TC_CHECK(tile.iterators.count(iterator.name), "a value for iterator '", iterator.name,
                 "' of statement '", statement.name, "' in leaf '", node.name, "'");
      }
      std::vector<StatementProgram::Loop> loops;
      std::vector<Affine> constraints = tile.constraints;
      for (const TileLoop& loop : tile.loops) {
        loops.push_back({loop.name, loop.extent < 0 ? loop.symbolic_extent : Affine(loop.extent)});
        // The rounded-up extent is not affine, so a constraint removes the instances of trips beyond it.
        if (loop.symbolic_divisor > 1)
          constraints.push_back(loop.symbolic_extent - 1 -
                                Affine::variable(loop.name, loop.symbolic_divisor));
      }
      const Access write = substitute(statement.write, tile.iterators);
      const ExprPtr value = substitute(statement.value, tile.iterators);
      const StatementProgram::Body body = {statement.name, write, statement.reduction, value, constraints};
      programs_[&node].push_back(
          std::make_unique<StatementProgram>(kernel_, memory_, body, std::move(loops), places_));
    }
    if (node.kind == LoopNode::Kind::Leaf) programs_[&node];
  }

  const Kernel& kernel_;
  Memory& memory_;
  std::map<std::string, int64_t> variables_;  // parameters and loop variables
  std::map<std::string, const int64_t*> places_;
  std::map<const LoopNode*, std::vector<std::unique_ptr<StatementProgram>>> programs_;
};

}  // namespace

void interpret(const ScheduledKernel& scheduled, const std::map<std::string, int64_t>& parameters,
               std::map<std::string, Tensor>& buffers, bool round_to_storage) {
  TC_CHECK(scheduled.root != nullptr, "in scheduled kernel '", scheduled.kernel.name, "'");
  // The schedule may have added parameters, which are products of the given sizes.
  std::map<std::string, int64_t> values = parameters;
  for (const Parameter& parameter : scheduled.kernel.parameters) {
    if (values.count(parameter.name) == 0) values[parameter.name] = parameter.value.evaluate(parameters);
  }
  Memory memory(scheduled.kernel, values, buffers, round_to_storage, true);
  Runner(scheduled.kernel, *scheduled.root, memory, values).run(*scheduled.root);
  memory.finish(scheduled.kernel, buffers);
}

}  // namespace tc
