// A kernel as isl sees it.
#include "scheduler/legality/model.h"

#include <atomic>
#include <list>

#include "ir/error.h"

namespace tc {
namespace {

uint64_t next_number() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

std::string affine_text(const Affine& affine) {
  std::string result = "(" + std::to_string(affine.constant());
  for (const auto& [name, coefficient] : affine.terms()) {
    result += " + " + std::to_string(coefficient) + isl_name(name);
  }
  return result + ")";
}

std::string box_text(const Kernel& kernel) {
  std::string result = parameter_prefix(kernel) + "{ : ";
  bool first = true;
  for (const Parameter& parameter : kernel.parameters) {
    result += text(first ? "" : " and ", parameter.minimum, " <= ", isl_name(parameter.name),
                   " <= ", parameter.maximum);
    first = false;
  }
  return result + " }";
}

std::string access_text(const Kernel& kernel, const Statement& statement, const Access& access) {
  std::string result = tuple_text(statement) + " -> b" + std::to_string(access.buffer) + "[";
  std::string conditions;
  const Buffer& buffer = kernel.buffers[static_cast<size_t>(access.buffer)];
  for (size_t i = 0; i < access.index.size(); ++i) {
    if (i > 0) result += ", ";
    if (access.index[i].dynamic) {
      std::string name = "any" + std::to_string(i) + "_";
      result += name;
      conditions +=
          (conditions.empty() ? " : 0 <= " : " and 0 <= ") + name + " < " + affine_text(buffer.shape.at(i));
    } else {
      result += affine_text(access.index[i].affine);
    }
  }
  return result + "]" + conditions;
}

// The original order: statement after statement, each in the order of its iterators.
isl::multi_union_pw_aff original_order(const Kernel& kernel) {
  size_t depth = 0;
  for (const Statement& statement : kernel.statements) {
    depth = std::max(depth, statement.iterators.size());
  }
  std::string all = parameter_prefix(kernel) + "[";
  for (size_t level = 0; level <= depth; ++level) {
    all += level ? ", { " : "{ ";
    for (size_t i = 0; i < kernel.statements.size(); ++i) {
      const Statement& statement = kernel.statements[i];
      std::string value = "0";
      if (level == 0) value = std::to_string(i);
      else if (level <= statement.iterators.size()) {
        value = isl_name(statement.iterators[level - 1].name);
      }
      all += text(i ? "; " : "", tuple_text(statement), " -> [(", value, ")]");
    }
    all += "}";
  }
  return isl::multi_union_pw_aff(isl::ctx(isl_context()), all + "]");
}

}  // namespace

KernelVersion::KernelVersion(Kernel k) : kernel(std::move(k)), number(next_number()) {}

std::string parameter_prefix(const Kernel& kernel) {
  if (kernel.parameters.empty()) return "";
  std::string result = "[";
  for (const Parameter& parameter : kernel.parameters) {
    result += (result.size() > 1 ? ", " : "") + isl_name(parameter.name);
  }
  return result + "] -> ";
}

std::string tuple_text(const Statement& statement) {
  std::string result = isl_name(statement.name) + "[";
  for (size_t i = 0; i < statement.iterators.size(); ++i) {
    result += (i ? ", " : "") + isl_name(statement.iterators[i].name);
  }
  return result + "]";
}

std::string domain_text(const Kernel& kernel, const Statement& statement) {
  std::string result = parameter_prefix(kernel) + "{ " + tuple_text(statement);
  const char* separator = " : ";
  for (const Iterator& iterator : statement.iterators) {
    result += separator + text("0 <= ", isl_name(iterator.name), " < ", affine_text(iterator.extent));
    separator = " and ";
  }
  for (const Affine& constraint : statement.constraints) {
    result += separator + affine_text(constraint) + " >= 0";
    separator = " and ";
  }
  return result + " }";
}

bool is_relaxed(const Statement& statement) {
  if (statement.reduction == Reduction::None) return false;
  bool reads_itself = false;
  for_each_load(statement.value, [&](const Expr& load) {
    reads_itself = reads_itself || load.access.buffer == statement.write.buffer;
  });
  return !reads_itself;
}

namespace {

// What one statement accesses: maps from its instances to elements, by buffer.
struct Touches {
  std::map<int, isl::map> writes;  // a reduction reads there too
  std::map<int, isl::map> reads;   // by loads
};

Touches touches_of(const Kernel& kernel, const Statement& statement, const isl::set& domain) {
  Touches result;
  std::map<int, std::set<std::string>> loads;
  auto add_loads = [&](const ExprPtr& expr) {
    for_each_load(expr, [&](const Expr& load) {
      loads[load.access.buffer].insert(access_text(kernel, statement, load.access));
    });
  };
  add_loads(statement.value);
  for (const Subscript& subscript : statement.write.index) add_loads(subscript.dynamic);
  auto read = [&](const std::string& access) {
    return isl::map(isl::ctx(isl_context()), parameter_prefix(kernel) + "{ " + access + " }")
        .intersect_domain(domain);
  };
  const int target = statement.write.buffer;
  result.writes[target] = read(access_text(kernel, statement, statement.write));
  for (const auto& [memory, texts] : loads) {
    isl::map all;
    for (const std::string& each : texts) {
      isl::map one = read(each);
      all = all.is_null() ? one : all.unite(one);
    }
    result.reads[memory] = all;
  }
  return result;
}

// True where different instances certainly write different elements: each iterator is alone in a subscript.
bool writes_once(const Statement& statement) {
  for (const Iterator& iterator : statement.iterators) {
    bool found = iterator.extent.is_constant() && iterator.extent.constant() <= 1;
    for (const Subscript& subscript : statement.write.index) {
      found = found || (!subscript.dynamic && subscript.affine.terms().size() == 1 &&
                        subscript.affine.coefficient(iterator.name) != 0);
    }
    if (!found) return false;
  }
  return true;
}

}  // namespace

isl::union_map originally_ordered(const Kernel& kernel, const isl::union_map& pairs) {
  return owned(isl_union_map_lex_lt_at_multi_union_pw_aff(pairs.copy(), original_order(kernel).release()));
}

KernelModel::KernelModel(const Kernel& kernel) {
  IslBudget budget(kIslOperations);
  isl::ctx ctx(isl_context());
  parameters = isl::set(ctx, box_text(kernel));
  domain = isl::union_set::empty(ctx);
  dependences = isl::union_map::empty(ctx);
  reductions = isl::union_map::empty(ctx);
  std::vector<Touches> touches;
  isl::union_map self = isl::union_map::empty(ctx);
  for (const Statement& statement : kernel.statements) {
    isl::set set = isl::set(ctx, domain_text(kernel, statement)).intersect_params(parameters);
    domains.push_back(set);
    domain = domain.unite(isl::union_set(set));
    touches.push_back(touches_of(kernel, statement, set));
    const Touches& own = touches.back();
    const auto& [memory, write] = *own.writes.begin();
    const bool relaxed = is_relaxed(statement);
    if (relaxed) {
      reductions = reductions.unite(isl::union_map(write.apply_range(write.reverse())));
    } else if (!writes_once(statement) || statement.reduction != Reduction::None) {
      self = self.unite(isl::union_map(write.apply_range(write.reverse())));
    }
    auto read = own.reads.find(memory);
    if (read != own.reads.end()) {
      isl::map conflict = write.apply_range(read->second.reverse());
      self = self.unite(isl::union_map(conflict)).unite(isl::union_map(conflict.reverse()));
    }
  }
  if (!self.is_empty()) dependences = originally_ordered(kernel, self).coalesce();
  auto add = [&](const std::map<int, isl::map>& from, const std::map<int, isl::map>& to) {
    for (const auto& [memory, access] : from) {
      auto found = to.find(memory);
      if (found == to.end()) continue;
      isl::map pairs = access.apply_range(found->second.reverse());
      dependences = dependences.unite(isl::union_map(pairs));
    }
  };
  for (size_t j = 0; j < touches.size(); ++j) {
    for (size_t i = 0; i < j; ++i) {
      add(touches[i].writes, touches[j].writes);
      add(touches[i].writes, touches[j].reads);
      add(touches[i].reads, touches[j].writes);
    }
  }
  dependences = dependences.coalesce();
}

const KernelModel& model_of(const KernelPtr& kernel) {
  struct Entry {
    uint64_t number;
    std::string text;
    std::unique_ptr<KernelModel> model;
  };
  // The context must outlive the models: it is made first, so it is destroyed last.
  isl_context();
  thread_local std::list<Entry> recent;
  auto use = [&](std::list<Entry>::iterator entry) -> const KernelModel& {
    recent.splice(recent.begin(), recent, entry);
    return *recent.front().model;
  };
  for (auto entry = recent.begin(); entry != recent.end(); ++entry) {
    if (entry->number == kernel->number) return use(entry);
  }
  // Schedules of one kernel that begin with the same rewrites share the model.
  std::string text = str(kernel->kernel);
  for (auto entry = recent.begin(); entry != recent.end(); ++entry) {
    if (entry->text != text) continue;
    entry->number = kernel->number;
    return use(entry);
  }
  recent.push_front({kernel->number, std::move(text), std::make_unique<KernelModel>(kernel->kernel)});
  constexpr size_t kKept = 16;
  if (recent.size() > kKept) recent.pop_back();
  return *recent.front().model;
}

isl::multi_union_pw_aff loop_function(const KernelModel& model, const Kernel& kernel, const TreeNode& loop) {
  isl_ctx* ctx = isl_context();
  isl::union_pw_aff all;
  for (const auto& [statement, part] : loop.iterator_parts) {
    const Statement& what = kernel.statements[static_cast<size_t>(statement)];
    unsigned position = 0;
    while (what.iterators[position].name != part.iterator) ++position;
    const isl::set& domain = model.domains[static_cast<size_t>(statement)];
    isl_local_space* space = isl_local_space_from_space(isl_set_get_space(domain.get()));
    isl_aff* value = isl_aff_var_on_domain(space, isl_dim_set, position);
    for (const LoopPart::Step& step : part.steps) {
      isl_val* size = isl_val_int_from_si(ctx, step.size);
      value = step.modulo ? isl_aff_mod_val(value, size) : isl_aff_floor(isl_aff_scale_down_val(value, size));
    }
    isl::union_pw_aff one = owned(isl_union_pw_aff_from_aff(value));
    all = all.is_null() ? one : owned(isl_union_pw_aff_union_add(all.release(), one.release()));
  }
  return owned(isl_multi_union_pw_aff_from_union_pw_aff(all.release()));
}

isl::union_set universe_of(const KernelModel& model, const std::vector<int>& statements) {
  isl::union_set result = isl::union_set::empty(isl::ctx(isl_context()));
  for (int statement : statements) {
    const isl::set& domain = model.domains[static_cast<size_t>(statement)];
    result = result.unite(isl::union_set(owned(isl_set_universe(isl_set_get_space(domain.get())))));
  }
  return result;
}

}  // namespace tc
