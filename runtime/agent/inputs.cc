#include "runtime/agent/inputs.h"

#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace tc::agent {
namespace {

// No more of an input is changed at a time: the candidate has to fetch the changed bytes into its caches,
// which takes time.
constexpr int64_t kMaxChanged = int64_t{64} << 10;
// Size of the pieces from which new inputs are assembled.
constexpr int64_t kPiece = int64_t{16} << 10;

}  // namespace

uint64_t secret_bits() {
  uint64_t bits = 0;
  if (getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits))
    throw std::runtime_error("this system gives no random numbers");
  return bits;
}

Inputs::Inputs(const Batch& batch) : batch_(batch) {
  for (const Port& port : batch.inputs) {
    memory_.emplace_back("tc-input", port.bytes);
    reading_.push_back(memory_.back().open_for_reading());
  }
  for (const Batch::DataSet& set : batch.data_sets) {
    auto& tensors = values_.emplace_back();
    for (size_t i = 0; i < batch.inputs.size(); ++i) {
      tensors.emplace_back(static_cast<size_t>(batch.inputs[i].bytes));
      fill_sample(batch.inputs[i], set.seed, i, tensors.back().data());
    }
  }
}

bool Inputs::empty() const {
  return std::all_of(batch_.inputs.begin(), batch_.inputs.end(),
                     [](const Port& port) { return port.bytes == 0; });
}

void Inputs::hide() {
  for (SharedMemory& memory : memory_)
    if (memory.bytes() > 0) std::memset(memory.data(), 0, static_cast<size_t>(memory.bytes()));
}

void Inputs::show_set(int data_set) {
  for (size_t i = 0; i < memory_.size(); ++i) {
    const auto& value = values_[static_cast<size_t>(data_set)][i];
    if (!value.empty()) std::memcpy(memory_[i].data(), value.data(), value.size());
  }
}

void Inputs::apply(uint8_t* data, const Change& change) const {
  if (!change.values.empty()) std::memcpy(data + change.offset, change.values.data(), change.values.size());
}

void Inputs::show_own() {
  for (size_t i = 0; i < memory_.size(); ++i)
    if (!own_[i].empty()) std::memcpy(memory_[i].data(), own_[i].data(), own_[i].size());
}

void Inputs::change() {
  for (size_t i = 0; i < memory_.size(); ++i) apply(memory_[i].data(), changes_[i]);
}

void Inputs::show_changed() {
  show_own();
  change();
}

// Draws the agent's own inputs: a data set rotated by a secret number of elements, which is as good as new
// data and quick to make.
void Inputs::draw_own() {
  const auto& values = values_[secret_bits() % values_.size()];
  for (size_t i = 0; i < batch_.inputs.size(); ++i) {
    const Port& port = batch_.inputs[i];
    own_.push_back(values[i]);
    if (port.elements < 2) continue;
    const int64_t turn = static_cast<int64_t>(secret_bits() % static_cast<uint64_t>(port.elements));
    std::rotate(own_[i].begin(), own_[i].begin() + turn * (port.bytes / port.elements), own_[i].end());
  }
}

std::vector<Inputs::Change> Inputs::drawn() const {
  std::vector<Change> changes;
  for (const Port& port : batch_.inputs) {
    Change& change = changes.emplace_back();
    if (port.bytes == 0) continue;
    const int64_t size = port.bytes / port.elements;
    Port part = port;
    part.elements = std::min(port.elements, kMaxChanged / size);
    part.bytes = part.elements * size;
    change.values.resize(static_cast<size_t>(part.bytes));
    fill_sample(part, secret_bits(), 0, change.values.data());
    const auto places = static_cast<uint64_t>(port.elements - part.elements + 1);
    change.offset = static_cast<int64_t>(secret_bits() % places) * size;
  }
  return changes;
}

void Inputs::draw_change() {
  if (own_.empty()) draw_own();
  for (size_t i = 0; i < changes_.size(); ++i) apply(own_[i].data(), changes_[i]);
  changes_ = drawn();
}

void Inputs::draw_spare() {
  std::vector<Change> changes = drawn();
  spares_.resize(batch_.inputs.size());
  for (size_t i = 0; i < spares_.size(); ++i) {
    const Port& port = batch_.inputs[i];
    spares_[i].swap(changes[i].values);
    if (spares_[i].size() == static_cast<size_t>(port.bytes)) continue;
    // The rest is assembled from pieces of the data sets, each from a secret place.
    const int64_t size = port.bytes / port.elements, piece = kPiece / size * size;
    spares_[i].resize(static_cast<size_t>(port.bytes));
    for (int64_t at = 0; at < port.bytes; at += piece) {
      const int64_t count = std::min(piece, port.bytes - at);
      const auto& values = values_[secret_bits() % values_.size()][i];
      const auto places = static_cast<uint64_t>((port.bytes - count) / size + 1);
      const int64_t place = static_cast<int64_t>(secret_bits() % places) * size;
      std::memcpy(spares_[i].data() + at, values.data() + place, static_cast<size_t>(count));
    }
  }
}

void Inputs::show_spare() {
  for (size_t i = 0; i < memory_.size(); ++i)
    if (!spares_[i].empty()) std::memcpy(memory_[i].data(), spares_[i].data(), spares_[i].size());
}

bool Inputs::change_all() const {
  return std::all_of(batch_.inputs.begin(), batch_.inputs.end(),
                     [](const Port& port) { return port.bytes <= kMaxChanged; });
}

}  // namespace tc::agent
