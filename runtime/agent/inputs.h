// The inputs of candidates: the data sets of the client that asked for the measurement, and the agent's own
// inputs, which are drawn at random and which nobody else knows.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/agent/file.h"
#include "runtime/agent/runner.h"

namespace tc::agent {

// Random bits that nobody can predict.
uint64_t secret_bits();

// All candidates of a batch see the same memory. It is written only while they are stopped, with the
// exception of change(), which is called while one runs.
class Inputs {
 public:
  explicit Inputs(const Batch& batch);

  void hide();  // clears the memory, so that nothing hints at later inputs
  void show_set(int data_set);
  // Show the agent's own inputs, as they are before the next change, or after it.
  void show_own();
  void show_changed();
  // Changes the memory from the former to the latter, in a very short time.
  void change();
  // Makes the change part of the agent's own inputs, and draws another one.
  void draw_change();
  // Draws the spare inputs. No element can be expected to keep its value in them, so that a candidate gains
  // nothing by keeping earlier results.
  void draw_spare();
  void show_spare();
  // Whether the change replaces all elements, too.
  bool change_all() const;

  const std::vector<Descriptor>& descriptors() const { return reading_; }
  bool empty() const;

 private:
  // New elements for a contiguous part of one input.
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
