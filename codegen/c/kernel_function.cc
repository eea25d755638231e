#include "codegen/c/kernel_function.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>

#include "codegen/c/commands.h"
#include "codegen/c/kernel_context.h"
#include "codegen/c/tile_writer.h"
#include "codegen/backend/c_names.h"
#include "ir/error.h"
#include "ir/scratch.h"
#include "ir/tile.h"

namespace tc::c {
namespace {

using Kind = LoopNode::Kind;

class KernelWriter {
 public:
  KernelWriter(const ScheduledKernel& scheduled, Functions& functions)
      : context_{scheduled, scheduled.kernel, functions, {}, {}, {}, {}, {}} {}

  FunctionText function(const std::string& name) {
    const Kernel& kernel = context_.kernel;
    TC_CHECK(context_.scheduled.root != nullptr, "in kernel '", kernel.name, "'");
    context_.buffers.resize(kernel.buffers.size());
    for (size_t i = 0; i < kernel.buffers.size(); ++i)
      context_.buffers[i].name = context_.names.fresh(kernel.buffers[i].name);
    declare_parameters();
    for (size_t i = 0; i < kernel.buffers.size(); ++i) find_strides(i);
    declare_scratch();
    copies_.emplace(context_);
    std::string loops = copies_->declarations() + body(*context_.scheduled.root);
    if (context_.scheduled.accelerator != nullptr) loops += wait();
    const std::string needed = needed_declarations(loops), inside = needed + loops;
    std::string unused;
    for (const Buffer& buffer : kernel.buffers) {
      const std::string& argument =
          context_.buffers[static_cast<size_t>(kernel.buffer_index(buffer.name))].name;
      if (is_argument(buffer) && !mentions_word(inside, argument)) unused += text("(void)", argument, ";\n");
    }
    for (const char* argument : {"parameters", "scratch"}) {
      if (!mentions_word(inside, argument)) unused += text("(void)", argument, ";\n");
    }
    return {name, comment(), arguments(), indented(unused + inside, 1), code_size(context_.scheduled)};
  }

 private:
  static bool mentions_word(const std::string& code, const std::string& word) {
    const auto in_word = [&](size_t at) {
      return at < code.size() && (std::isalnum(static_cast<unsigned char>(code[at])) || code[at] == '_');
    };
    for (size_t at = code.find(word); at != std::string::npos; at = code.find(word, at + 1)) {
      if (!in_word(at + word.size()) && (at == 0 || !in_word(at - 1))) return true;
    }
    return false;
  }

  // The declarations whose names the loops, or a declaration that they need, mention.
  std::string needed_declarations(const std::string& loops) const {
    std::string needed;
    for (auto declaration = declarations_.rbegin(); declaration != declarations_.rend(); ++declaration) {
      if (mentions_word(needed + loops, declaration->first)) needed = declaration->second + needed;
    }
    return needed;
  }

  void declare(const std::string& name, const std::string& line) {
    declarations_.emplace_back(name, line + "\n");
  }

  std::string shape_text(const Buffer& buffer) const {
    std::string result;
    for (const Affine& extent : buffer.shape) result += (result.empty() ? "" : ", ") + extent.str();
    return text(name_of(buffer.dtype), "[", result, "]");
  }

  std::string comment() const {
    const Kernel& kernel = context_.kernel;
    std::string result = "/* " + in_comment(kernel.name);
    constexpr size_t kMaxOrigins = 4;
    for (size_t i = 0; i < kernel.origins.size() && i < kMaxOrigins; ++i)
      result += (i == 0 ? ": " : ", ") + in_comment(kernel.origins[i]);
    if (kernel.origins.size() > kMaxOrigins)
      result += text(" and ", kernel.origins.size() - kMaxOrigins, " more");
    for (size_t i = 0; i < kernel.buffers.size(); ++i) {
      const Buffer& buffer = kernel.buffers[i];
      const std::string logical = buffer.logical.empty() ? "" : " (" + in_comment(buffer.logical) + ")";
      result += text("\n * ", name_of(buffer.scope), " ", context_.buffers[i].name, ": ",
                     in_comment(shape_text(buffer)), logical);
    }
    return result + " */\n";
  }

  std::string arguments() const {
    std::string result;
    for (size_t i = 0; i < context_.kernel.buffers.size(); ++i) {
      const Buffer& buffer = context_.kernel.buffers[i];
      if (!is_argument(buffer)) continue;
      result += text(buffer.scope == Scope::Output ? "" : "const ", c_type(buffer.dtype), " *restrict ",
                     context_.buffers[i].name, ", ");
    }
    return result + "const int64_t *parameters, uint8_t *scratch";
  }

  void declare_parameters() {
    const Kernel& kernel = context_.kernel;
    size_t number = 0;
    for (const Parameter& parameter : kernel.parameters) {
      const std::string name = context_.names.fresh(parameter.name);
      context_.variables[parameter.name] = name;
      context_.ranges[parameter.name] = {parameter.minimum, parameter.maximum};
      declare(name, text("const ptrdiff_t ", name, " = (ptrdiff_t)parameters[", number++, "]; /* ",
                         in_comment(parameter.value.str()), " */"));
    }
    if (alternates(context_.scheduled)) {
      context_.backwards = context_.names.fresh("backwards");
      declare(context_.backwards,
              text("const int ", context_.backwards, " = (int)(parameters[", number, "] & 1);"));
    }
  }

  void find_strides(size_t index) {
    const Buffer& buffer = context_.kernel.buffers[index];
    BufferNames& slot = context_.buffers[index];
    TC_CHECK(buffer.scope != Scope::Local, "for buffer '", buffer.name, "' of kernel '", context_.kernel.name,
             "': the scheduler decides between Stack and Register");
    slot.stride.assign(buffer.shape.size(), 0);
    slot.symbolic_stride.assign(buffer.shape.size(), "");
    int64_t constant = 1;
    std::string symbolic;
    for (size_t d = buffer.shape.size(); d-- > 0;) {
      if (symbolic.empty()) slot.stride[d] = constant;
      else slot.symbolic_stride[d] = symbolic;
      if (d == 0) break;
      const Affine& extent = buffer.shape[d];
      if (symbolic.empty() && extent.is_constant()) {
        constant *= std::max<int64_t>(1, extent.constant());
        continue;
      }
      if (buffer.scope == Scope::Register) continue;  // its elements are variables
      const std::string name = context_.names.fresh(buffer.name + "_stride");
      declare(name, text("const ptrdiff_t ", name, " = ", symbolic.empty() ? text(constant) : symbolic,
                         " * (", context_.value_of(extent), ");"));
      symbolic = name;
    }
  }

  void declare_scratch() {
    const Kernel& kernel = context_.kernel;
    const std::map<int, int64_t> offsets = scratch_layout(kernel);
    std::string next = "scratch";  // the next free address, where sizes decide
    for (size_t i = 0; i < kernel.buffers.size(); ++i) {
      const Buffer& buffer = kernel.buffers[i];
      if (buffer.scope != Scope::Stack || !buffer.memory.empty()) continue;
      const std::string place =
          context_.scheduled.scratch_by_sizes ? next : text("scratch + ", offsets.at(static_cast<int>(i)));
      const std::string& name = context_.buffers[i].name;
      declare(name, text(c_type(buffer.dtype), " *restrict const ", name, " = (", c_type(buffer.dtype),
                         " *)(void *)(", place, ");"));
      if (!context_.scheduled.scratch_by_sizes) continue;
      std::string bytes = text(size_of(buffer.dtype));
      context_.functions.use_integers();
      for (const Affine& extent : buffer.shape)
        bytes += text(" * tc_maximum(", context_.value_of(extent), ", 0)");
      const std::string end = context_.names.fresh(buffer.name + "_end");
      declare(end, text("uint8_t *const ", end, " = ", next, " + (", bytes, " + 63) / 64 * 64;"));
      next = end;
    }
  }

  std::string body(const LoopNode& node) {
    switch (node.kind) {
      case Kind::Block: {
        std::string result = copies_->lines_at(node);
        for (const LoopNodePtr& child : node.children) result += body(*child);
        return result;
      }
      case Kind::If: {
        const Interval truth = range_of(*node.condition, context_.ranges);
        if (truth.high <= 0) return "";
        if (truth.low > 0) return body(*node.children.at(0));
        return text("if ", bracketed(context_.value_of(*node.condition)), " {\n",
                    indented(body(*node.children.at(0)), 1), "}\n");
      }
      case Kind::For: return loop(node);
      case Kind::Leaf: return leaf(node);
    }
    return "";
  }

  static std::string bracketed(const std::string& expression) {
    return expression[0] == '(' && closes_at_end(expression) ? expression : "(" + expression + ")";
  }

  // Whether the bracket at the beginning is closed by the last one.
  static bool closes_at_end(const std::string& expression) {
    int depth = 0;
    for (size_t i = 0; i < expression.size(); ++i) {
      depth += expression[i] == '(' ? 1 : expression[i] == ')' ? -1 : 0;
      if (depth == 0) return i + 1 == expression.size();
    }
    return false;
  }

  static std::string without_brackets(const std::string& expression) {
    return expression.size() > 2 && expression[0] == '(' && closes_at_end(expression)
               ? expression.substr(1, expression.size() - 2)
               : expression;
  }

  static bool has_command(const LoopNode& node) {
    return !node.command.empty() || std::any_of(node.children.begin(), node.children.end(),
                                                [](const LoopNodePtr& child) { return has_command(*child); });
  }

  // A loop in which the accelerator is given no command waits for it once.
  std::string loop(const LoopNode& node) {
    if (context_.scheduled.accelerator == nullptr || waited_ || has_command(node)) return plain_loop(node);
    waited_ = true;
    const std::string lines = plain_loop(node);
    waited_ = false;
    return lines.empty() ? lines : wait() + lines;
  }

  std::string plain_loop(const LoopNode& node) {
    const Interval low = range_of(*node.lower, context_.ranges),
                   high = range_of(*node.upper, context_.ranges);
    if (low.low > high.high) return "";
    TC_CHECK(context_.variables.count(node.variable) == 0, "for loop variable '", node.variable,
             "' of kernel '", context_.kernel.name, "': names differ");
    const auto inside = [&](const std::string& name, Interval range) {
      context_.variables[node.variable] = name;
      context_.ranges[node.variable] = range;
      std::string result = body(*node.children.at(0));
      context_.variables.erase(node.variable);
      context_.ranges.erase(node.variable);
      return result;
    };
    if (low.low == low.high && high.low == high.high && low.low == high.low)
      return inside(text(low.low), low);
    const std::string lower = without_brackets(context_.value_of(*node.lower)),
                      upper = without_brackets(context_.value_of(*node.upper));
    const std::string name = context_.names.fresh(node.variable);
    const Interval range{low.low, high.high};
    if (node.mark("alternate") == nullptr) {
      return text("for (ptrdiff_t ", name, " = ", lower, "; ", name, " <= ", upper, "; ++", name, ") {\n",
                  indented(inside(name, range), 1), "}\n");
    }
    const std::string trip = context_.names.fresh(node.variable + "_trip");
    const std::string place = text("const ptrdiff_t ", name, " = ", context_.backwards, " ? (", lower,
                                   ") + (", upper, ") - ", trip, " : ", trip, ";\n");
    return text("for (ptrdiff_t ", trip, " = ", lower, "; ", trip, " <= ", upper, "; ++", trip, ") {\n",
                indented(place + inside(name, range), 1), "}\n");
  }

  std::string leaf(const LoopNode& node) {
    if (!node.command.empty()) return command_text(context_, *copies_, node);
    return (context_.scheduled.accelerator == nullptr || waited_ ? "" : wait()) + host_leaf(node);
  }

  // The host goes on when all commands are executed.
  std::string wait() const { return context_.scheduled.accelerator->name + "_wait();\n"; }

  // A leaf with guards on copies or lanes is written twice: without the guards, for where all of them hold,
  // and with them.
  std::string host_leaf(const LoopNode& node) {
    std::set<std::string> outer;
    for (const auto& [name, value] : context_.variables) outer.insert(name);
    std::vector<Affine> conditions;
    bool possible = true;
    for (const TileStatement& tile : node.statements) {
      for (const Affine& constraint : tile.constraints) {
        const auto worst = worst_case(constraint, tile, outer);
        if (!worst || proves_nonnegative(*worst, context_.ranges, conditions)) continue;
        possible &= !refutes_nonnegative(*worst, context_.ranges);
        conditions.push_back(*worst);
      }
    }
    if (conditions.empty() || !possible) return tile_text(context_, node, {});
    std::string all;
    for (const Affine& condition : conditions)
      all += (all.empty() ? "" : " && ") + context_.condition(condition);
    const std::string whole = tile_text(context_, node, conditions), partial = tile_text(context_, node, {});
    return text("if (", all, ") {\n", indented(whole, 1), "} else {\n", indented(partial, 1), "}\n");
  }

  KernelContext context_;
  std::optional<TileCopies> copies_;
  bool waited_ = false;  // whether the accelerator has no command left here
  std::vector<std::pair<std::string, std::string>> declarations_;  // names, and lines
};

}  // namespace

FunctionText kernel_function(const ScheduledKernel& scheduled, const std::string& name,
                             Functions& functions) {
  return KernelWriter(scheduled, functions).function(name);
}

}  // namespace tc::c
