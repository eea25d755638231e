// A deterministic model of a core with a vector unit, which turns executed instructions into "simulated
// cycles".
//
// The model ranks schedules where no board is available; it is not the exact timing of any board. A row of
// ir/target/riscv_cores.h gives it a core's numbers. Below, names in brackets are the fields of such a row,
// and figures are those of the row `generic`, which stands for the class of small rv64gcv cores (two
// instructions per cycle, in order, vectors longer than the datapath). The model covers what decides between
// schedules on these: dependences, the length of vector groups, scalar overhead around them, and caches.
//
// Issue. Instructions issue in program order, up to two per cycle [issue_width]. An instruction waits for its
// source registers, for the unit that it needs, and until an older write to its destination is done before
// its own. No instruction after a waiting one issues.
//
// Cores that reorder [window]. Instructions are dispatched in program order, up to [issue_width] per cycle,
// as long as fewer than [window] older ones have not retired; they retire in program order. Each starts when
// its source registers and a unit are available, even if older ones wait: registers are renamed, and a load
// does not wait for older stores.
//
// Units (per cycle): as many integer instructions as can issue; one scalar float [float_units]; one vector
// arithmetic [vector_units, of which gathers, reductions and division use the first]; one memory port that
// scalar and vector accesses share [memory_ports, of which vectors use the first]; one divider each for
// integers and floats, not pipelined. Latencies until a dependent instruction may issue [latency]: integer 1,
// integer multiply 3, float add, multiply, multiply-add and conversion 4, float comparison and move 2,
// integer division 20, float division and square root 12 (32-bit) or 20 (64-bit), load 3 on a cache hit.
//
// Branches. A conditional branch is predicted taken if it goes backward and not taken if forward; a
// wrong prediction costs 6 cycles [misprediction]. Any taken branch or jump ends the cycle's issue group.
//
// Vectors. An instruction on a register group of LMUL m occupies its unit for
//     ceil(m * VLEN / DLEN) cycles, at least 1,
// DLEN being the datapath's bits per cycle, whatever the vector length vl: cores of this class do not stop
// early, so a schedule pays for lanes that it leaves empty. Results chain: a dependent vector instruction may
// start 4 cycles after the first part [latency.vector; of integers, comparisons and moves
// latency.vector_simple]. The exceptions, with n the count above and e the elements of the group (vl where
// vsetivli says it, else VLMAX):
//     widening and narrowing     the larger of the groups: 2n
//     division, square root      n * SEW / 4 [divider]; a core may have a unit of its own for them
//     sum and other reductions   n, result after 4 + 4 * log2(DLEN / SEW) [reduction]; or they keep the unit
//                                until the result is there
//     ordered sums               4e [reduction]
//     gather, compress           (registers of the group)^2 * VLEN / DLEN, or as [gather] says
//     smt.vmadot                 1, result after 6 [latency.matrix]
//     mask logic, vlm, vsm       ceil(VLEN / DLEN)
//     element 0 to and from scalar registers   1
//     unit-stride load, store    ceil(EMUL * VLEN / DLEN), EMUL = EEW / SEW * LMUL
//     strided, indexed, segment  one element per cycle: e * fields, or e with [whole_segments]
// The vector type is followed as vsetvli and vsetivli execute; vsetvl, whose type is in a register
// that a plugin cannot read, leaves it as it was. It starts as SEW 8, LMUL 1.
//
// Caches (only if asked for; else every access hits). Each thread has its own: 32 KB 8-way and 512 KB 8-way,
// with lines of 64 bytes, least-recently-used replacement and write-allocate, empty at the start. Load to use
// is 3 cycles in the first level, 12 in the second, 80 in memory. At most 4 lines [misses] are loaded at the
// same time: that many misses overlap, and a further one waits. Stores never wait for their line, only until
// fewer than 4 lines are being loaded (and on an out-of-order core not even for that). There is no prefetcher
// and no third level. A vector access looks up each of its lines once, and its result can be used by chaining
// after the slowest.
//
// Not modelled: instruction fetch, address translation, other threads' traffic, the kernel.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/target/riscv_cores.h"
#include "runtime/qemu/riscv_decode.h"

namespace tc::qemu {

inline constexpr int kLineBytesLog2 = 6;

struct CycleOptions {
  const CoreRow* core = &kRiscvCores[0];
  int vector_bits = 0;    // VLEN, a power of two
  int datapath_bits = 0;  // DLEN, a power of two
  bool has_cache = false;
};

// One memory line that an instruction of a block touched, in the order of execution.
struct LineAccess {
  uint32_t instruction = 0;  // index in the block
  uint64_t line = 0;         // address >> kLineBytesLog2
};

// A set-associative cache that tracks which lines it has, not their contents.
class Cache {
 public:
  Cache(int bytes, int ways);

  // Whether the line was present. Afterwards it is, as the most recently used line of its set.
  bool access(uint64_t line);
  // The same for a line that is present; for another one it changes nothing and returns false.
  bool access_present(uint64_t line);

 private:
  size_t ways_;
  uint64_t set_mask_;
  std::vector<uint64_t> lines_;  // per set, the most recently used first; kEmpty where none
};

// All units of one kind, with the times at which each is busy.
class Units {
 public:
  explicit Units(int count) : busy_(static_cast<size_t>(count)), ends_(static_cast<size_t>(count)) {}

  struct Place {
    size_t unit = 0;
    uint64_t start = 0;
  };
  // The earliest cycle from `from` in which one of the first `count` units is free for `cycles`.
  Place find(uint64_t from, uint64_t cycles, size_t count) const;
  void occupy(const Place& place, uint64_t cycles);
  // Drops spans that end before `cycle`: nothing will start earlier than that.
  void forget_before(uint64_t cycle);
  uint64_t last() const;
  size_t count() const { return busy_.size(); }

  // The same for a core whose instructions start in program order, for which a unit is free from the end of
  // its last instruction on. The two kinds of functions are not to be mixed.
  Place find_in_order(uint64_t from, size_t count) const {
    Place best{0, UINT64_MAX};
    for (size_t unit = count; unit-- > 0;) {
      const uint64_t start = from > ends_[unit] ? from : ends_[unit];
      if (start < best.start) best = {unit, start};
    }
    return best;
  }
  const std::vector<uint64_t>& ends() const { return ends_; }
  std::vector<uint64_t>& ends() { return ends_; }
  void occupy_in_order(const Place& place, uint64_t cycles) { ends_[place.unit] = place.start + cycles; }

 private:
  struct Span {
    uint64_t begin, end;
  };
  std::vector<std::vector<Span>> busy_;  // by unit, in order of time
  std::vector<uint64_t> ends_;           // by unit, on a core that executes in order
};

// The state of one core, which executes one guest thread.
class Core {
 public:
  explicit Core(const CycleOptions& options);

  // What an instruction costs: the cycles that its unit is busy, and the cycles until its result can be used.
  struct Cost {
    uint64_t busy = 1;
    uint64_t latency = 1;
    int destination_registers = 1;
    int source_registers = 1;
  };
  // Where and when an instruction starts.
  struct Start {
    Cost cost;
    Units::Place place;
  };

  // Executes one counted instruction. `lines` are the memory lines that it accessed (empty without a cache
  // model); `is_taken` only matters for a conditional branch.
  void execute(const Instruction& instruction, std::span<const LineAccess> lines, bool is_taken) {
    const Start start = issue(instruction);
    complete(instruction, start, slowest_of(lines, start.place.start), is_taken);
  }

  // The three parts of that: the instruction issues; the slowest of its accesses, which begin at that cycle,
  // takes so many cycles; and it completes with an access that slow (of an instruction without accesses: as
  // slow as a hit).
  Start issue(const Instruction& instruction);
  uint64_t slowest_of(std::span<const LineAccess> lines, uint64_t start);
  void complete(const Instruction& instruction, const Start& issued, uint64_t slowest, bool is_taken);

  // Follows the vector type through an instruction that takes no time in the model.
  void skip(const Instruction& instruction);

  // The cycle in which the last instruction issued; after a branch, the cycle in which the next one may
  // issue.
  uint64_t last_issue() const { return now_; }
  // Cycles until everything that executed is done.
  uint64_t cycles() const;
  // What decides when the next instructions execute, apart from the caches: a core at the same state takes
  // the same cycles for the same instructions, as long as they hit in the first-level cache. Only for cores
  // that execute in order: has_state() tells whether this one has such a state. restore() brings it to a
  // state that it had before, as if at cycle `now`.
  static constexpr size_t kMaxUnits = 15;
  using State = std::array<uint32_t, kRegisterCount + kMaxUnits + 5>;
  bool has_state() const;
  void save(State& state) const;
  void restore(const State& state, uint64_t now);
  static uint64_t cycles_left(const State& state);  // from `now` until everything that executed is done
  // Whether the first-level cache has all these lines, none of them still being loaded for instructions from
  // cycle `now` on. They are accessed then; else those before the first that it lacks.
  bool has_lines(std::span<const LineAccess> lines, uint64_t now);

  uint64_t first_level_misses() const { return first_level_misses_; }
  uint64_t second_level_misses() const { return second_level_misses_; }

 private:
  struct Fill {
    uint64_t line = 0;
    uint64_t ready = 0;
  };

  Cost scalar_cost(const Instruction& instruction) const;
  Cost vector_cost(const Instruction& instruction) const;
  // The same, computed once for each vector type.
  const Cost& known_vector_cost(const Instruction& instruction);
  uint64_t gather_cycles(int registers) const;
  // The cycle in which the instruction starts, not before its operands are ready, and the unit that it uses.
  Units::Place in_order(const Instruction& instruction, const Cost& cost, uint64_t ready);
  Units::Place reordered(const Instruction& instruction, const Cost& cost, uint64_t ready);
  Units::Place place(const Instruction& instruction, const Cost& cost, uint64_t from) const;
  bool is_in_order() const { return retired_.empty(); }
  void retire(uint64_t done);
  void set_vector_type(const Instruction& instruction);
  // The number of passes of the datapath over 2^registers_log2 vector registers.
  uint64_t passes(int registers_log2) const;
  uint64_t elements() const;
  uint64_t ready_of(uint8_t first, int count) const;
  // Cycles from `start` until the line's data are available; looks the line up in both levels.
  uint64_t line_latency(uint64_t line, uint64_t start);

  CycleOptions options_;
  uint64_t now_ = 0;                      // the cycle of the last issue
  int issued_ = 0;                        // instructions issued in it
  std::array<uint64_t, 256> ready_ = {};  // by register; the entry of kNoRegister stays 0
  // On a core that executes in order: when all registers are ready and all units free. None of these times
  // ever becomes an earlier one there.
  uint64_t all_done_ = 0;
  std::vector<Units> units_;  // by kind
  // For an out-of-order core: the cycle in which each instruction of the window retires, the oldest at next_.
  std::vector<uint64_t> retired_;
  size_t next_ = 0;
  int element_bits_log2_ = 3;
  int group_log2_ = 0;  // log2 of LMUL, -3 to 3
  uint64_t immediate_length_ = UINT64_MAX;
  Cache first_level_;
  Cache second_level_;
  std::vector<Fill> fills_;
  uint64_t last_fill_ = 0;  // when the last of the lines under way is loaded
  // Costs of vector instructions (known_vector_cost), each with the number of the vector type for which it
  // holds.
  struct KnownCost {
    uint64_t type = 0;
    Cost cost;
  };
  std::vector<KnownCost> known_costs_;
  uint64_t type_number_ = 1;  // grows when the vector type or the immediate length changes
  uint64_t first_level_misses_ = 0;
  uint64_t second_level_misses_ = 0;
};

}  // namespace tc::qemu
