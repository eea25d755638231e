// What candidates read: the data sets of who asked for the measurement, and inputs that the agent
// draws for itself, which no one else knows.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/agent/file.h"
#include "runtime/agent/runner.h"

namespace tc::agent {

// Bits that nobody can foretell.
uint64_t secret_bits();

// All candidates of a batch see the same memory. It is written while they are stopped, but for the
// changes, which come while one runs.
class Inputs {
 public:
  explicit Inputs(const Batch& batch);

  void hide();  // nothing that tells of what comes
  void show_set(int data_set);
  // The agent's own inputs: as they are before the next change, and after.
  void show_own();
  void show_changed();
  // Changes what is shown from the former to the latter, in a moment.
  void change();
  // The change becomes part of the own inputs and another is drawn.
  void draw_change();
  // Others again, in which no element is known to stay what it is: who keeps what it computed before gains
  // nothing.
  void draw_spare();
  void show_spare();
  // Whether that holds for the change, too.
  bool change_all() const;

  const std::vector<Descriptor>& descriptors() const { return reading_; }
  bool empty() const;

 private:
  // New elements of one input, one behind the other.
  struct Change {
    int64_t offset = 0;  // in bytes
    std::vector<uint8_t> values;
  };
  void draw_own();
  std::vector<Change> drawn() const;
  void apply(uint8_t* data, const Change& change) const;

  const Batch& batch_;
  std::vector<SharedMemory> memory_;
  std::vector<Descriptor> reading_;
  std::vector<std::vector<std::vector<uint8_t>>> values_;  // by data set, by input
  std::vector<std::vector<uint8_t>> own_;                  // by input
  std::vector<Change> changes_;                            // by input
  std::vector<std::vector<uint8_t>> spares_;               // by input
};

}  // namespace tc::agent
