#include "scheduler/default/prepare.h"

#include <algorithm>

#include "ir/error.h"

namespace tc {

std::string ReductionKernel::fresh(const std::string& base) const {
  auto taken = [&](const std::string& name) {
    for (const Iterator& iterator : statement().iterators) {
      if (iterator.name == name) return true;
    }
    return false;
  };
  std::string name = base;
  for (int number = 2; taken(name); ++number) name = base + std::to_string(number);
  return name;
}

int64_t block_of(const ReductionKernel& reduction, size_t dim) {
  const Access& write = reduction.statement().write;
  const int64_t own = reduction.builder.block_in(reduction.statement(), write.index[dim].affine);
  return own > 0 ? own : reduction.builder.block_read(write.buffer, dim);
}

namespace {

// Finds the one reduction; the statement before it initialises what it adds to, those after it are
// elementwise.
void find_statements(ReductionKernel& r) {
  const auto& statements = r.builder.kernel().statements;
  for (size_t i = 0; i < statements.size(); ++i) {
    if (statements[i].reduction == Reduction::None) continue;
    if (!r.sum.empty()) throw NotApplicable{"more than one reduction"};
    if (!is_relaxed(statements[i])) throw NotApplicable{"a reduction that reads itself"};
    r.sum = statements[i].name;
  }
  if (r.sum.empty()) throw NotApplicable{"no reduction"};
  for (const Iterator& iterator : r.statement().iterators) {
    if (extent_or(r.statement(), iterator.name, 1) == 0) throw NotApplicable{"a reduction of nothing"};
  }
  for (const Statement& statement : statements) {
    if (statement.name == r.sum) continue;
    const bool before = r.builder.index_of(statement.name) < r.builder.index_of(r.sum);
    if (before && (statement.write.buffer != r.statement().write.buffer || !r.init.empty())) {
      throw NotApplicable{"statements before the reduction"};
    }
    (before ? r.init : r.epilogue.emplace_back()) = statement.name;
  }
  if (r.init.empty()) throw NotApplicable{"a reduction without initialisation"};
}

// What the reduction writes becomes private.
void stage(ReductionKernel& r) {
  const Buffer& buffer = r.builder.kernel().buffers[static_cast<size_t>(r.statement().write.buffer)];
  if (buffer.scope != Scope::Output) return;
  const size_t count = r.builder.kernel().statements.size();
  r.builder.apply("stage ", buffer.name);
  TC_CHECK(r.builder.kernel().statements.size() == count + 1);
  r.epilogue.push_back(r.builder.kernel().statements.back().name);
}

// Joins the finest iterator of the dimension, where it is shorter than the block, with the next coarser one.
bool join_along(ReductionKernel& r, const std::string& name, size_t dim, int64_t block) {
  const Statement& statement = r.builder.statement(name);
  const Affine& index = statement.write.index[dim].affine;
  const std::string finest = outer_part(index);
  const int64_t size = finest.empty() ? 0 : extent_or(statement, finest, 0);
  if (size < 2 || size >= block || block % size != 0) return false;
  for (const auto& [group, coefficient] : index.terms()) {
    if (coefficient != size) continue;
    const int64_t groups = extent_or(statement, group, 0);
    if (groups % (block / size) != 0) return false;
    const std::string loop = name + "_" + group;
    if (groups > block / size)
      r.builder.apply("strip ", loop, " ", block / size, " as ", r.fresh(group + "b"), " ", group);
    return r.builder.attempt("join ", loop, " ", name, "_", finest, " as ", finest);
  }
  return false;
}

// Where a block of the surrounding layouts holds several groups, the iterator over groups and the one over a
// group's features become one iterator, over the lanes of the block.
void join_groups(ReductionKernel& r) {
  const Buffer target = r.builder.kernel().buffers[static_cast<size_t>(r.statement().write.buffer)];
  for (size_t d = 0; d < r.statement().write.index.size(); ++d) {
    const BlockedDim* own = nullptr;
    for (const BlockedDim& dim : r.builder.state().blocked) {
      if (dim.buffer == target.name && dim.inner == d) own = &dim;
    }
    int64_t block = own != nullptr ? own->block : block_of(r, d);
    if (block == 0) {
      // One block holds all.
      for (const BlockedDim& dim : r.builder.state().blocked) {
        if (target.shape[d] == Affine(dim.block)) block = dim.block;
      }
    }
    if (block > 1 && join_along(r, r.sum, d, block)) join_along(r, r.init, d, block);
  }
}

// An epilogue may read `64*h + d` where the reduction writes `n`: then the iterators of the reduction and its
// initialisation are divided in the same way.
void align(ReductionKernel& r) {
  for (const std::string& tail : r.epilogue) {
    for (const Access& load : loads_of(r.builder.statement(tail))) {
      if (load.buffer != r.statement().write.buffer) continue;
      for (size_t d = 0; d < load.index.size(); ++d) {
        auto terms = load.index[d].affine.terms();
        std::sort(terms.begin(), terms.end(),
                  [](const auto& x, const auto& y) { return x.second > y.second; });
        // The finest step may be that of a blocked layout, which the buffer gets later.
        const size_t parts =
            terms.size() - (r.builder.block_in(r.builder.statement(tail), load.index[d].affine) > 0);
        for (size_t i = 0; i + 1 < parts; ++i) {
          if (terms[i].second <= 1) continue;
          for (const std::string& name : {r.init, r.sum}) {
            const Affine& index = r.builder.statement(name).write.index[d].affine;
            const std::string whole = i == 0 ? index.as_variable() : outer_part(index);
            if (whole.empty()) continue;
            r.builder.attempt("strip ", name, "_", whole, " ", terms[i].second, " as ", whole, "h ", whole);
          }
        }
      }
    }
  }
}

// Iterators over contiguous dimensions become one, innermost pairs first.
void merge(ReductionKernel& r) {
  for (size_t i = r.statement().iterators.size(); i-- > 1;) {
    const std::string a = r.statement().iterators[i - 1].name, b = r.statement().iterators[i].name;
    r.builder.attempt("merge ", r.sum, "_", a, " ", r.sum, "_", b, " as ", b);
  }
}

}  // namespace

ReductionKernel prepare_reduction(const TraceBuilder& start) {
  ReductionKernel reduction{start, "", "", {}};
  find_statements(reduction);
  stage(reduction);
  join_groups(reduction);
  align(reduction);
  merge(reduction);
  return reduction;
}

}  // namespace tc
