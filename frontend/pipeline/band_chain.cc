// Consecutive kernels that are run band of rows by band of rows, with few rows of what is between them in
// memory.
#include "frontend/pipeline/band_chain.h"

#include <algorithm>
#include <set>
#include <utility>

#include "ir/error.h"

namespace tc {
namespace {

// The values of a kernel's arguments, by buffer.
std::map<std::string, ValueId> values_of(const KernelPart& part) {
  std::map<std::string, ValueId> values;
  for_each_argument(part.kernel, [&](const Buffer& buffer, size_t argument) {
    values[buffer.name] = part.arguments.at(argument);
  });
  return values;
}

// Rows that move from one place in a buffer to another.
struct RowMove {
  int64_t from = 0, to = 0, count = 0;
};

// Copies rows inside a buffer of rows; both arguments are the same value.
Kernel moving_kernel(const std::string& name, const Buffer& buffer, const RowBuffer& rows,
                     const RowMove& move) {
  Kernel kernel;
  kernel.name = name;
  Buffer from = buffer, to = buffer;
  from.name = "in0";
  from.scope = Scope::Input;
  to.name = "out0";
  to.scope = Scope::Output;
  from.shape[rows.axis] = to.shape[rows.axis] = rows.rows;
  Statement statement;
  statement.name = "move";
  std::vector<Affine> element;
  for (size_t d = 0; d < from.shape.size(); ++d) {
    const std::string iterator = text("i", d);
    statement.iterators.push_back({iterator, d == rows.axis ? Affine(move.count) : from.shape[d]});
    element.push_back(Affine::variable(iterator));
  }
  const auto moved_to = [&](int64_t row) {
    std::vector<Affine> index = element;
    index[rows.axis] = index[rows.axis] + Affine(row);
    return index;
  };
  statement.value = load(from.dtype, 0, moved_to(move.from));
  statement.write.buffer = 1;
  for (const Affine& index : moved_to(move.to)) statement.write.index.push_back({index, nullptr});
  kernel.buffers = {from, to};
  kernel.statements = {statement};
  return kernel;
}

}  // namespace

// Goes through the bands, and keeps which rows are in memory.
class BandPlanner {
 public:
  BandPlanner(const Graph& graph, const std::vector<KernelPart>& kernels, const std::vector<ValueId>& results)
      : graph_(graph), kernels_(kernels), results_(results) {
    for (size_t k = 0; k + 1 < results.size(); ++k) maker_[results[k]] = k;
  }

  std::optional<BandChain> plan(size_t axis, int64_t bands) {
    const Shape& shape = *graph_[results_.back()].shape;
    const int64_t rows = shape.at(axis).constant(), height = (rows + bands - 1) / bands;
    for (int64_t begin = 0; begin < rows; begin += height) {
      if (!add_band({axis, begin, std::min(begin + height, rows)})) return std::nullopt;
    }
    for (const auto& [id, buffer] : memory_) {
      chain_.buffers_[id] = {buffer.axis, buffer.rows};
      chain_.axes_[id] = buffer.axis;
    }
    return std::move(chain_);
  }

 private:
  // Which rows of a value are in its buffer of rows: from `base` on, up to `end`.
  struct Kept {
    size_t axis = 0;
    int64_t base = 0, end = 0, rows = 0;
  };

  bool add_band(const BufferRows& result) {
    std::map<ValueId, BufferRows> needs = {{results_.back(), result}};
    std::vector<BandChain::Event> calls;
    for (size_t k = kernels_.size(); k-- > 0;) {
      const auto need = needs.find(results_[k]);
      if (need == needs.end()) continue;
      BufferRows fresh = need->second;
      const auto kept = memory_.find(results_[k]);
      if (kept != memory_.end()) fresh.begin = std::max(fresh.begin, kept->second.end);
      if (fresh.begin >= fresh.end) continue;
      BandChain::Event call;
      call.kernel = static_cast<int>(k);
      std::optional<RowsOfBuffers> rows = rows_for(kernels_[k].kernel, fresh);
      if (!rows || !add_needs(k, *rows, needs)) return false;
      call.rows = *std::move(rows);
      calls.push_back(std::move(call));
    }
    for (const auto& [id, need] : needs) {
      if (maker_.count(id) > 0 && !keep(id, need)) return false;
    }
    for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
      for (const auto& [buffer, id] : values_of(kernels_[static_cast<size_t>(call->kernel)])) {
        const auto kept = memory_.find(id);
        if (kept != memory_.end()) call->bases[buffer] = kept->second.base;
      }
      chain_.events_.push_back(std::move(*call));
    }
    return true;
  }

  // What a call reads of results of the chain, and the dimensions that count rows.
  bool add_needs(size_t kernel, const RowsOfBuffers& rows, std::map<ValueId, BufferRows>& needs) {
    for (const auto& [buffer, id] : values_of(kernels_[kernel])) {
      const auto found = rows.find(buffer);
      const auto made = maker_.find(id);
      if (found == rows.end()) {
        if (made != maker_.end()) return false;
        continue;
      }
      if (!has_shape_of_value(kernels_[kernel].kernel, buffer, id)) return false;
      const auto [axis, first] = chain_.axes_.try_emplace(id, found->second.axis);
      if (axis->second != found->second.axis) return false;
      if (made == maker_.end() || made->second == kernel) continue;
      if (made->second > kernel) return false;
      const auto [need, fresh] = needs.try_emplace(id, found->second);
      need->second.begin = std::min(need->second.begin, found->second.begin);
      need->second.end = std::max(need->second.end, found->second.end);
    }
    return true;
  }

  // Rows of the buffer are rows of the value where both have the same dimensions.
  bool has_shape_of_value(const Kernel& kernel, const std::string& buffer, ValueId id) const {
    const std::vector<Affine>& own = kernel.buffers[static_cast<size_t>(kernel.buffer_index(buffer))].shape;
    const Shape& shape = *graph_[id].shape;
    return std::equal(own.begin(), own.end(), shape.begin(), shape.end(), [](const Affine& a, const Dim& b) {
      return a.is_constant() && b.is_constant() && a.constant() == b.constant();
    });
  }

  // Moves the rows that this band still reads to the beginning of the buffer, and makes room for those that
  // it computes.
  bool keep(ValueId id, const BufferRows& need) {
    const auto [found, fresh] = memory_.try_emplace(id, Kept{need.axis, need.begin, need.begin, 0});
    Kept& kept = found->second;
    if (need.axis != kept.axis || need.begin < kept.base) return false;
    const int64_t shift = need.begin - kept.base;
    // Rows that are written by one move are not read by it.
    for (int64_t row = need.begin; shift > 0 && row < kept.end; row += shift) {
      BandChain::Event move;
      move.moved = id;
      move.from = row - kept.base;
      move.to = move.from - shift;
      move.count = std::min(shift, kept.end - row);
      chain_.events_.push_back(std::move(move));
    }
    kept.base = need.begin;
    kept.end = std::max({kept.end, need.end});
    kept.rows = std::max(kept.rows, kept.end - kept.base);
    return true;
  }

  const Graph& graph_;
  const std::vector<KernelPart>& kernels_;
  const std::vector<ValueId>& results_;
  std::map<ValueId, size_t> maker_;  // of results that only the chain reads
  std::map<ValueId, Kept> memory_;
  BandChain chain_;
};

std::optional<BandChain> BandChain::of(const Graph& graph, const std::vector<KernelPart>& kernels,
                                       const std::vector<ValueId>& results, size_t axis, int64_t bands) {
  return BandPlanner(graph, kernels, results).plan(axis, bands);
}

std::vector<BandCall> BandChain::steps(const std::vector<KernelPart>& kernels) const {
  std::map<ValueId, const Buffer*> made;
  std::map<ValueId, std::string> labels;
  for (const KernelPart& part : kernels) {
    for_each_argument(part.kernel, [&](const Buffer& buffer, size_t argument) {
      if (buffer.scope != Scope::Output) return;
      made[part.arguments.at(argument)] = &buffer;
      labels[part.arguments.at(argument)] = part.kernel.name;
    });
  }
  std::vector<BandCall> result;
  for (const Event& event : events_) {
    BandCall call;
    if (event.kernel < 0) {
      const RowBuffer& rows = buffers_.at(event.moved);
      call.part = {moving_kernel(labels.at(event.moved), *made.at(event.moved), rows,
                                 {event.from, event.to, event.count}),
                   {event.moved, event.moved}};
      call.first_rows = {{"in0", {rows.axis, 0}}, {"out0", {rows.axis, 0}}};
      result.push_back(std::move(call));
      continue;
    }
    const KernelPart& part = kernels[static_cast<size_t>(event.kernel)];
    std::map<std::string, StoredRows> stored;
    for (const auto& [buffer, id] : values_of(part)) {
      const auto found = event.rows.find(buffer);
      if (found == event.rows.end()) continue;
      const BufferRows& rows = found->second;
      const std::vector<Affine>& shape =
          part.kernel.buffers[static_cast<size_t>(part.kernel.buffer_index(buffer))].shape;
      const auto own = buffers_.find(id);
      StoredRows memory = {shape[rows.axis].constant(), 0};
      if (own != buffers_.end()) memory = {own->second.rows, event.bases.at(buffer)};
      // The argument begins at its first row, so that the kernels of several bands are equal; but not where
      // code would take elements behind the memory for those of the buffer. A tile that does not divide the
      // band reads fewer rows behind it than the band has.
      const bool is_near_end = rows.end + (rows.end - rows.begin) - 1 > memory.first + memory.rows;
      const bool exact = rows.beyond || is_near_end || rows.axis + 1 == shape.size();
      call.first_rows[buffer] = {rows.axis, exact ? 0 : rows.begin - memory.first};
      stored[buffer] = {memory.rows, exact ? memory.first : rows.begin};
    }
    call.part = {band_kernel(part.kernel, event.rows, stored), part.arguments};
    result.push_back(std::move(call));
  }
  return result;
}

}  // namespace tc
