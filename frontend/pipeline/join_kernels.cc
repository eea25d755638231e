// Kernels that run one after the other, as one.
#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "frontend/pipeline/attention.h"
#include "ir/error.h"

namespace tc {
namespace {

template <class Taken>
std::string fresh(const std::string& stem, const Taken& taken) {
  std::string name = stem;
  for (int number = 1; taken(name); ++number) name = text(stem, "_", number);
  return name;
}

class Join {
 public:
  explicit Join(const std::vector<KernelPart>& parts) : parts_(parts), places_(parts.size()) {}

  KernelPart run() {
    for (size_t part = 0; part < parts_.size(); ++part) add_arguments(part);
    for (size_t part = 0; part < parts_.size(); ++part) add_private(part);
    for (size_t part = 0; part < parts_.size(); ++part) add_statements(part);
    return std::move(result_);
  }

 private:
  int add(Buffer buffer) {
    std::vector<Buffer>& buffers = result_.kernel.buffers;
    buffer.name =
        fresh(buffer.name, [&](const std::string& name) { return result_.kernel.buffer_index(name) >= 0; });
    buffers.push_back(std::move(buffer));
    return static_cast<int>(buffers.size()) - 1;
  }

  bool is_passed_on(size_t part, const Buffer& buffer) const {
    return buffer.scope == Scope::Output && part + 1 < parts_.size();
  }

  void add_arguments(size_t part) {
    const Kernel& kernel = parts_[part].kernel;
    TC_CHECK(kernel.parameters.empty() && kernel.packings.empty(), "kernel ", kernel.name,
             " as lowered, of sizes that are numbers");
    for_each_argument(kernel, [&](const Buffer& buffer, size_t number) {
      const ValueId id = parts_[part].arguments.at(number);
      if (is_passed_on(part, buffer)) {
        passed_on_[id] = -1;
        return;
      }
      if (passed_on_.count(id) > 0 || arguments_.count(id) > 0) return;
      arguments_[id] = add(buffer);
      result_.arguments.push_back(id);
    });
  }

  // Adds the part's intermediate results, after the arguments of all parts, and finds where each buffer of
  // the part is in the joined kernel.
  void add_private(size_t part) {
    const Kernel& kernel = parts_[part].kernel;
    size_t number = 0;
    for (const Buffer& buffer : kernel.buffers) {
      Buffer own = buffer;
      own.scope = Scope::Local;
      if (!is_argument(buffer)) {
        places_[part].push_back(add(own));
        continue;
      }
      const ValueId id = parts_[part].arguments.at(number++);
      if (is_passed_on(part, buffer)) passed_on_[id] = add(own);
      const auto found = passed_on_.find(id);
      places_[part].push_back(found != passed_on_.end() ? found->second : arguments_.at(id));
    }
  }

  Access moved(size_t part, Access access) const {
    access.buffer = places_[part].at(static_cast<size_t>(access.buffer));
    for (Subscript& subscript : access.index) subscript.dynamic = moved(part, subscript.dynamic);
    return access;
  }
  ExprPtr moved(size_t part, const ExprPtr& expr) const {
    if (!expr) return expr;
    return rewrite(expr, [&](const ExprPtr& node) -> ExprPtr {
      if (node->kind != Expr::Kind::Load) return nullptr;
      const Access access = moved(part, node->access);
      return load(node->dtype, access.buffer, access.index);
    });
  }

  void add_statements(size_t part) {
    Kernel& kernel = result_.kernel;
    for (Statement statement : parts_[part].kernel.statements) {
      statement.name =
          fresh(statement.name, [&](const std::string& name) { return kernel.find(name) != nullptr; });
      statement.write = moved(part, statement.write);
      statement.value = moved(part, statement.value);
      kernel.statements.push_back(std::move(statement));
    }
    for (const std::string& origin : parts_[part].kernel.origins) {
      if (std::find(kernel.origins.begin(), kernel.origins.end(), origin) == kernel.origins.end())
        kernel.origins.push_back(origin);
    }
  }

  const std::vector<KernelPart>& parts_;
  KernelPart result_;
  std::vector<std::vector<int>> places_;          // positions of each part's buffers in the result
  std::map<ValueId, int> arguments_, passed_on_;  // positions in the result
};

}  // namespace

KernelPart join_kernels(const std::vector<KernelPart>& parts) { return Join(parts).run(); }

}  // namespace tc
