// A kernel that computes some rows of its result only.
#include "frontend/pipeline/band_kernel.h"

#include <algorithm>
#include <set>
#include <vector>

#include "ir/error.h"
#include "ir/ranges.h"

namespace tc {
namespace {

// The iterator that counts the rows that a statement writes, and the rows of its instances.
struct CountedRows {
  std::string iterator;
  int64_t shift = 0;  // row = iterator + shift
};

// Nothing where an instance does not write exactly one row of the axis.
std::optional<CountedRows> counted_rows(const Statement& statement, size_t axis) {
  const Subscript& row = statement.write.index.at(axis);
  if (row.dynamic || row.affine.terms().size() != 1 || row.affine.terms()[0].second != 1) return std::nullopt;
  const CountedRows counted = {row.affine.terms()[0].first, row.affine.constant()};
  for (size_t d = 0; d < statement.write.index.size(); ++d) {
    const Subscript& other = statement.write.index[d];
    if (d != axis && (other.dynamic || other.affine.coefficient(counted.iterator) != 0)) return std::nullopt;
  }
  return counted;
}

// The statement's iterator of rows in the rows of the band, and the others with their whole extents. Nothing
// where no instance writes such a row.
std::optional<Ranges> domain_of(const Statement& statement, const CountedRows& counted,
                                const BufferRows& rows) {
  Ranges domain;
  for (const Iterator& iterator : statement.iterators) {
    Interval range = {0, iterator.extent.constant() - 1};
    if (iterator.name == counted.iterator) {
      range.low = std::max(range.low, rows.begin - counted.shift);
      range.high = std::min(range.high, rows.end - 1 - counted.shift);
    }
    if (range.low > range.high) return std::nullopt;
    domain[iterator.name] = range;
  }
  return domain;
}

class RowsFinder {
 public:
  explicit RowsFinder(const Kernel& kernel) : kernel_(kernel) {}

  std::optional<RowsOfBuffers> find(const BufferRows& result) {
    if (!kernel_.parameters.empty() || !kernel_.packings.empty()) return std::nullopt;
    for (const Buffer& buffer : kernel_.buffers) {
      if (buffer.scope != Scope::Output) continue;
      if (!rows_.empty() || result.axis >= buffer.shape.size()) return std::nullopt;
      rows_[buffer.name] = result;
    }
    for (auto statement = kernel_.statements.rbegin(); statement != kernel_.statements.rend(); ++statement) {
      if (!add(*statement)) return std::nullopt;
    }
    return rows_;
  }

 private:
  const Buffer& buffer(const Access& access) const {
    return kernel_.buffers[static_cast<size_t>(access.buffer)];
  }

  bool add(const Statement& statement) {
    const auto written = rows_.find(buffer(statement.write).name);
    if (written == rows_.end()) return false;
    written_.insert(written->first);
    const std::optional<CountedRows> counted = counted_rows(statement, written->second.axis);
    if (!counted) return false;
    const std::optional<Ranges> domain = domain_of(statement, *counted, written->second);
    if (!domain) return true;
    bool known = true;
    for_each_load(statement.value,
                  [&](const Expr& load) { known = known && add(load.access, counted->iterator, *domain); });
    return known;
  }

  bool add(const Access& access, const std::string& iterator, const Ranges& domain) {
    const Buffer& read = buffer(access);
    // Which rows data chooses is not known; what chooses may itself be read by rows.
    const bool chosen = std::any_of(access.index.begin(), access.index.end(),
                                    [](const Subscript& each) { return each.dynamic != nullptr; });
    if (chosen) return false;
    if (read.scope == Scope::Constant) return true;
    std::optional<BufferRows> rows;
    for (size_t d = 0; d < access.index.size(); ++d) {
      const Subscript& subscript = access.index[d];
      const int64_t coefficient = subscript.affine.coefficient(iterator);
      if (coefficient == 0) continue;
      if (rows || coefficient < 0) return false;
      const Interval range = range_of(subscript.affine, domain);
      // What is beyond the buffer is padding, which conditions keep from being read.
      const int64_t all = read.shape[d].constant();
      rows = BufferRows{d, std::max<int64_t>(range.low, 0), std::min(range.high + 1, all), range.high >= all};
      if (rows->begin >= rows->end) return false;
    }
    if (!rows) return add_whole(read);
    return add(read.name, *rows);
  }

  // An operand that the kernel reads as a whole.
  bool add_whole(const Buffer& read) {
    wholes_.insert(read.name);
    return read.scope == Scope::Input && rows_.count(read.name) == 0;
  }

  bool add(const std::string& name, const BufferRows& rows) {
    if (wholes_.count(name) > 0) return false;
    const auto [found, fresh] = rows_.try_emplace(name, rows);
    if (fresh) return written_.count(name) == 0;
    BufferRows& known = found->second;
    if (known.axis != rows.axis) return false;
    const bool inside = known.begin <= rows.begin && rows.end <= known.end;
    // A later statement has computed the rows already, and an earlier one cannot need more of them.
    if (written_.count(name) > 0) return inside;
    known.begin = std::min(known.begin, rows.begin);
    known.end = std::max(known.end, rows.end);
    known.beyond = known.beyond || rows.beyond;
    return true;
  }

  const Kernel& kernel_;
  RowsOfBuffers rows_;
  std::set<std::string> written_, wholes_;
};

class BandWriter {
 public:
  BandWriter(const Kernel& kernel, const RowsOfBuffers& rows, const std::map<std::string, StoredRows>& stored)
      : kernel_(kernel), rows_(rows), stored_(stored) {}

  Kernel write() const {
    Kernel result = kernel_;
    result.statements.clear();
    for (Buffer& buffer : result.buffers) {
      const auto found = rows_.find(buffer.name);
      if (found == rows_.end()) continue;
      const StoredRows memory = memory_of(buffer.name);
      buffer.shape[found->second.axis] = memory.rows;
      TC_CHECK(memory.first <= found->second.begin && found->second.end <= memory.first + memory.rows,
               "rows of ", buffer.name);
    }
    for (const Statement& statement : kernel_.statements) {
      if (auto band = write(statement)) result.statements.push_back(*std::move(band));
    }
    return result;
  }

 private:
  std::optional<Statement> write(const Statement& statement) const {
    const BufferRows& rows = rows_.at(kernel_.buffers[static_cast<size_t>(statement.write.buffer)].name);
    const CountedRows counted = *counted_rows(statement, rows.axis);
    const std::optional<Ranges> domain = domain_of(statement, counted, rows);
    if (!domain) return std::nullopt;
    const Interval range = domain->at(counted.iterator);
    const std::map<std::string, Affine> moved = {
        {counted.iterator, Affine::variable(counted.iterator) + Affine(range.low)}};
    Statement result = statement;
    for (Iterator& iterator : result.iterators) {
      if (iterator.name == counted.iterator) iterator.extent = range.high - range.low + 1;
    }
    result.constraints.clear();
    for (const Affine& constraint : statement.constraints) {
      if (!proves_nonnegative(constraint, *domain, {}))
        result.constraints.push_back(constraint.substitute(moved));
    }
    result.write = from_first_row(substitute(statement.write, moved));
    result.value = rewrite(substitute(statement.value, moved), [&](const ExprPtr& node) -> ExprPtr {
      if (node->kind != Expr::Kind::Load) return nullptr;
      const Access access = from_first_row(node->access);
      return load(node->dtype, access.buffer, access.index);
    });
    return result;
  }

  Access from_first_row(Access access) const {
    const std::string& name = kernel_.buffers[static_cast<size_t>(access.buffer)].name;
    const auto found = rows_.find(name);
    if (found == rows_.end()) return access;
    Affine& row = access.index[found->second.axis].affine;
    row = row - Affine(memory_of(name).first);
    return access;
  }

  // Of the kernel's own buffers the rows that it needs.
  StoredRows memory_of(const std::string& buffer) const {
    const auto found = stored_.find(buffer);
    if (found != stored_.end()) return found->second;
    const BufferRows& rows = rows_.at(buffer);
    return {rows.end - rows.begin, rows.begin};
  }

  const Kernel& kernel_;
  const RowsOfBuffers& rows_;
  const std::map<std::string, StoredRows>& stored_;
};

}  // namespace

std::optional<RowsOfBuffers> rows_for(const Kernel& kernel, const BufferRows& result) {
  return RowsFinder(kernel).find(result);
}

Kernel band_kernel(const Kernel& kernel, const RowsOfBuffers& rows,
                   const std::map<std::string, StoredRows>& stored) {
  return BandWriter(kernel, rows, stored).write();
}

}  // namespace tc
