// A QEMU plugin that counts the instructions a riscv64 guest executes, by class, and models cycles.
//
// Use: qemu-riscv64 -plugin libcount_plugin.so,out=PATH[,NAME=VALUE]... GUEST
//
//   out=PATH         the file for the counts, written as one JSON object when the guest exits (required);
//                    out=map:NUMBER is a descriptor of shared memory that the process inherits. It is closed
//                    before the guest starts, so that no system call of the guest can reach it
//   range=START-END  count only instructions at addresses START <= address < END, in hexadecimal;
//                    may be given several times; without it every address counts
//   cycles=on        add "simulated_cycles": the time of cycle_model.h's core for the counted instructions;
//                    with several threads, that of the slowest
//   cache=on         the same with the model's caches, fed with every access (slow), and their
//                    misses as "first_level_misses" and "second_level_misses" of all threads
//   replies=on       start to count at the guest's first write to its standard output, and record the cycles
//                    of all threads so far at each further one. This measures what a candidate does between
//                    two replies (runtime/serve.h), and does not depend on what it says. With out=map: one
//                    page of 64-bit numbers, the first of which is the number of the others
//                    replies=twice is for a guest whose first command is to do nothing and whose second is to
//                    run once. That run is recorded and timed twice: as it comes, in empty caches, and once
//                    more in those that it has left, as if the guest had run twice. The second number less
//                    the first is what the second time took. Where the guest has several threads, or its
//                    run is too long for a recording, the last number of the page is 1, and a third command,
//                    which is to run once more, is timed as it comes
//   longest=CYCLES   with replies: the process ends as soon as a thread has taken more cycles since its last
//                    reply, or since counting began
//   guest=BYTES      size of the guest's memory, as qemu reserves it (-R): the process ends when the guest
//                    accesses an address beyond it (guest_walls.h)
//   profile=PATH     with cycles: write a line for each counted instruction that executed: its address in
//                    hexadecimal, how often it executed, and the cycles from the issue of the instruction
//                    before it to its own issue, summed over all threads
//   core=NAME        the core whose time is modelled: a row of ir/target/riscv_cores.h (default generic)
//   vlen=BITS        the guest core's vector length, for cycles (a plugin cannot ask; default: that of the
//                    core's row)
//   dlen=BITS        the model's vector datapath (default: that of the core's row)
//
// Instructions are decoded once, when QEMU translates a block. Each execution of a block then costs one
// increment of a counter of that block and thread, so that any number of guest threads is counted exactly.
// With cycles, a block is timed when the next one starts, since only then are its memory accesses and the
// direction of its branch known. A block that a synchronous fault leaves in the middle is counted as a whole.
// Counts are written when the guest exits by exit or exit_group; a guest killed by a signal leaves no file.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/qemu/block_timer.h"
#include "runtime/qemu/cycle_model.h"
#include "runtime/qemu/guest_walls.h"
#include "runtime/qemu/plugin_api.h"
#include "runtime/qemu/plugin_options.h"
#include "runtime/qemu/recording.h"
#include "runtime/qemu/riscv_decode.h"

extern "C" {
__attribute__((visibility("default"))) int qemu_plugin_version = 1;
__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info,
                                                               int argument_count, char** arguments);
}

namespace tc::qemu {
namespace {

constexpr uint64_t kLineBytes = uint64_t{1} << kLineBytesLog2;
constexpr uint64_t kMaxAccess = 16;  // bytes that an access has at most where it is not looked up how many

// A translated block, with the number of its counted instructions in each class. The same code at the same
// address is one block, however often QEMU translates it, so that memory is bounded by the guest's code.
struct Block {
  size_t number = 0;
  uint64_t start = 0;
  uint64_t end = 0;  // the address after its last instruction
  std::array<uint32_t, kClassCount> histogram = {};
  std::vector<Instruction> instructions;  // with cycles only
  std::vector<bool> is_counted;           // of each instruction
  bool are_all_counted = true;
  std::vector<uint64_t> addresses;    // with a profile only
  std::vector<bool> is_vector_other;  // of each instruction
};

// The accesses of a block. put() has nothing to call, and so costs little where it is called for each one.
class Accesses {
 public:
  bool is_full() const { return count_ == lines_.size(); }
  void put(LineAccess access) { lines_[count_++] = access; }
  // The same where it may be full, and for an access that may be the last one once more.
  void add(LineAccess access) {
    if (is_full()) lines_.resize(2 * lines_.size());
    const bool is_known = count_ > 0 && lines_[count_ - 1].instruction == access.instruction &&
                          lines_[count_ - 1].line == access.line;
    if (!is_known) put(access);
  }
  std::span<const LineAccess> all() const { return {lines_.data(), count_}; }
  void clear() { count_ = 0; }

 private:
  std::vector<LineAccess> lines_ = std::vector<LineAccess>(512);
  size_t count_ = 0;
};

// What one guest thread has executed; only that thread writes it.
struct ThreadState {
  explicit ThreadState(const CycleOptions& options) : timer(options) {}

  std::vector<uint64_t> executions;           // by block number
  std::vector<std::vector<uint64_t>> cycles;  // by block number, then by instruction; with a profile only
  BlockTimer timer;
  const Block* running = nullptr;  // the block that has started and is not timed yet
  Accesses accesses;               // of the running block
  uint64_t command_begin = 0;      // timer.cycles() at this thread's last reply
  // timer.cycles() after the last block that was timed; other threads read it.
  std::atomic<uint64_t> timed_cycles = 0;

  // With replies=twice: whether what executes is timed, and whether it is recorded.
  bool is_timed = true, is_recorded = false;
  bool is_over = false;  // nothing is timed any more
  uint64_t untimed_instructions = 0;
  // The last access of the running block was by this instruction, in the line that begins at this address,
  // and of this kind. Such accesses fit into a line where they begin in its first `room` bytes; 0: none is
  // known.
  static constexpr uint64_t kNoLine = uint64_t{1} << 63;
  uint64_t near_line = kNoLine, room = 0;
  void* near_instruction = nullptr;
  qemu_plugin_meminfo_t near_info = 0;
  uint64_t guest_lines = 0;  // those below are in the guest's memory

  // Times the running block; the guest continued at address `next`.
  void finish_block(uint64_t next);
  // Ends the process where the command takes too long.
  void check_length(uint64_t done) const;

 private:
  void time_instructions(uint64_t next);
};

struct Plugin {
  Options options;
  std::atomic<bool> is_active = true;  // with replies=on, false before the first reply
  pid_t process = 0;
  uint64_t* page = nullptr;  // the shared page of out=map:
  std::mutex mutex;          // guards the members below
  std::map<std::pair<uint64_t, std::string>, std::unique_ptr<Block>> blocks;
  std::vector<const Block*> blocks_by_number;
  std::vector<std::unique_ptr<ThreadState>> threads;
  Recording* recording = nullptr;           // with replies=twice
  std::atomic<bool> is_unrecorded = false;  // where that is not possible
};

// Never destroyed: QEMU's last callback comes from its exit path, and destructors of the plugin's globals
// must not run before it.
Plugin* const instance = new Plugin;
Plugin& plugin() { return *instance; }

// QEMU loads the plugin as it starts, so that there is room for the variable in each thread's own block,
// where it is reached without a call.
__attribute__((tls_model("initial-exec"))) thread_local ThreadState* current_thread = nullptr;

// Makes system calls directly: buffers and handlers of the C library are in memory that the guest may just
// have overwritten.
[[noreturn]] void end_process(const char* begin, const char* what, int code) {
  for (const char* text : {begin, what, "\n"}) syscall(SYS_write, STDERR_FILENO, text, std::strlen(text));
  for (;;) syscall(SYS_exit_group, code);
}

// From now on runs are timed as they come.
void give_up_recording() {
  Plugin& state = plugin();
  if (state.recording != nullptr) state.recording->forget();
  state.is_unrecorded = true;
}

[[gnu::noinline]] ThreadState& new_thread() {
  std::lock_guard lock(plugin().mutex);
  if (plugin().options.times_twice && !plugin().threads.empty()) give_up_recording();
  plugin().threads.push_back(std::make_unique<ThreadState>(plugin().options.model));
  current_thread = plugin().threads.back().get();
  const uint64_t guest_bytes = plugin().options.guest_bytes;
  current_thread->guest_lines = (guest_bytes == 0 ? UINT64_MAX : guest_bytes) / kLineBytes;
  return *current_thread;
}

inline ThreadState& this_thread() { return current_thread != nullptr ? *current_thread : new_thread(); }

void ThreadState::time_instructions(uint64_t next) {
  std::span<const LineAccess> rest = accesses.all();
  if (running->are_all_counted && running->addresses.empty()) {
    timer.execute(running->number, running->instructions, accesses.all(), next != running->end);
    return;
  }
  Core& core = timer.core();
  std::vector<uint64_t>* spent = nullptr;
  if (!running->addresses.empty()) {
    if (running->number >= cycles.size()) cycles.resize(2 * running->number + 64);
    spent = &cycles[running->number];
    spent->resize(running->addresses.size());
  }
  for (size_t i = 0; i < running->instructions.size(); ++i) {
    size_t count = 0;
    while (count < rest.size() && rest[count].instruction == i) ++count;
    if (running->is_counted[i]) {
      const uint64_t before = core.last_issue();
      core.execute(running->instructions[i], rest.first(count), next != running->end);
      if (spent != nullptr) (*spent)[i] += core.last_issue() - before;
    } else {
      core.skip(running->instructions[i]);
    }
    rest = rest.subspan(count);
  }
}

void ThreadState::check_length(uint64_t done) const {
  const uint64_t longest = plugin().options.longest_cycles;
  if (longest != 0 && done > longest)
    end_process("it takes more simulated cycles than it may", "", kTooLongCode);
}

void ThreadState::finish_block(uint64_t next) {
  if (running == nullptr) return;
  if (is_recorded && !plugin().recording->add(running->number, next != running->end, accesses.all())) {
    give_up_recording();
    is_recorded = false;
    is_timed = true;
  }
  if (is_timed) {
    time_instructions(next);
    timed_cycles.store(timer.cycles(), std::memory_order_relaxed);
    check_length(timer.last_issue() - std::min(command_begin, timer.last_issue()));
  } else {
    check_length(untimed_instructions += running->instructions.size());
  }
  running = nullptr;
  accesses.clear();
  near_line = kNoLine;
}

[[noreturn]] void end_guest(const char* what) {
  end_process("the guest reaches for the emulator's memory: it ", what, 1);
}

void check_bounds(qemu_plugin_meminfo_t info, uint64_t address, uint64_t bytes) {
  const uint64_t guest_bytes = plugin().options.guest_bytes;
  if (guest_bytes != 0 && is_outside(address, bytes, guest_bytes))
    end_guest(qemu_plugin_mem_is_store(info) ? "writes there" : "reads there");
}

bool is_active() { return plugin().is_active.load(std::memory_order_relaxed); }

void on_block_timed(unsigned, void* data) {
  if (!is_active()) return;
  const Block& block = *static_cast<const Block*>(data);
  ThreadState& thread = this_thread();
  thread.finish_block(block.start);
  thread.running = &block;
}

// Notes the access, after the checks that are left out for accesses like the last one.
[[gnu::noinline]] void note_access(qemu_plugin_meminfo_t info, uint64_t address, void* data) {
  const uint64_t bytes = uint64_t{1} << qemu_plugin_mem_size_shift(info);
  check_bounds(info, address, bytes);
  if (!plugin().options.model.has_cache || !is_active()) return;
  ThreadState& thread = this_thread();
  const auto instruction = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(data));
  const uint64_t last = address + bytes - 1;
  for (uint64_t line = address >> kLineBytesLog2; line <= last >> kLineBytesLog2; ++line)
    thread.accesses.add({instruction, line});
  thread.near_line = last - last % kLineBytes;
  const bool is_known = bytes <= kLineBytes && thread.near_line / kLineBytes < thread.guest_lines;
  thread.room = is_known ? kLineBytes - bytes + 1 : 0;
  thread.near_instruction = data;
  thread.near_info = info;
}

// `data` is the index of the accessing instruction in its block. The elements of a vector arrive one by one;
// consecutive elements in one line count as one access. Most accesses are of the same kind as the last one.
void on_memory_accessed(unsigned, qemu_plugin_meminfo_t info, uint64_t address, void* data) {
  ThreadState* known = current_thread;
  if (known == nullptr) return note_access(info, address, data);
  const uint64_t offset = address % kLineBytes, line = address >> kLineBytesLog2;
  if (known->is_over && line < known->guest_lines && offset <= kLineBytes - kMaxAccess) return;
  if (info != known->near_info) return note_access(info, address, data);
  if (address - known->near_line < known->room && data == known->near_instruction) return;
  if (offset >= known->room || line >= known->guest_lines || known->accesses.is_full())
    return note_access(info, address, data);
  known->accesses.put({static_cast<uint32_t>(reinterpret_cast<uintptr_t>(data)), line});
  known->near_line = address - offset;
  known->near_instruction = data;
}

void on_block_executed(unsigned, void* data) {
  if (!is_active()) return;
  const Block& block = *static_cast<const Block*>(data);
  ThreadState& thread = this_thread();
  if (block.number >= thread.executions.size()) thread.executions.resize(2 * block.number + 64);
  ++thread.executions[block.number];
}

// QEMU's translated code for vector instructions may leave the upper halves of the host's AVX registers in
// use. Each float operation of the guest calls SSE code, which then costs the host dozens of cycles: clearing
// the upper halves makes a convolution eight times as fast. Calls may clobber them, so that this is safe.
#if defined(__x86_64__)
const bool kHostHasAvx = __builtin_cpu_supports("avx");
__attribute__((target("avx"))) void clear_upper_halves(unsigned, void*) { __builtin_ia32_vzeroupper(); }
#else
constexpr bool kHostHasAvx = false;
void clear_upper_halves(unsigned, void*) {}
#endif

// The numbers of read(2) and write(2) on riscv64; how many 64-bit numbers of replies fit into the page after
// the first, which is their count; and the place of the last number (replies=twice).
constexpr int64_t kRead = 63, kWrite = 64;
constexpr uint64_t kMaxReplies = 510, kRunsAgain = 511;

// Cycles of the thread that took most. Only used at the end of the process, when no guest thread runs.
uint64_t slowest_cycles() {
  uint64_t cycles = 0;
  for (const auto& thread : plugin().threads) {
    if (thread->running != nullptr) thread->finish_block(thread->running->end);
    cycles = std::max(cycles, thread->timer.cycles());
  }
  return cycles;
}

// Cycles of all threads together, since the threads of a candidate share the board's one core. Threads other
// than the calling one run on meanwhile, so the blocks that they are executing are not counted yet. The
// caller holds the plugin's mutex.
uint64_t all_cycles() {
  uint64_t cycles = 0;
  for (const auto& thread : plugin().threads) cycles += thread->timed_cycles.load(std::memory_order_relaxed);
  return cycles;
}

// With replies=twice, the guest waits for its next command. In the first time of its run, what comes before
// that command is what the guest did before the empty one, and behind that it is the run.
void on_command(ThreadState& thread) {
  if (thread.running != nullptr) thread.finish_block(thread.running->end);
  thread.is_timed = thread.is_recorded || plugin().is_unrecorded;
}

// With replies=twice, after the command of that number. After the empty one recording begins; after the run,
// it is timed for the second time. After that nothing is timed any more.
void time_again(ThreadState& thread, uint64_t command) {
  thread.is_timed = plugin().is_unrecorded;
  thread.is_recorded = command == 0 && !thread.is_timed;
  thread.untimed_instructions = 0;
  if (command != 1) return;
  plugin().page[kRunsAgain] = plugin().is_unrecorded ? 1 : 0;
  if (plugin().is_unrecorded) return;
  plugin().is_active = false;
  thread.is_over = true;
  thread.room = 0;
  const uint64_t begin = thread.timer.cycles();
  plugin().page[1] = begin;
  plugin().recording->replay([&](size_t number, bool is_taken, std::span<const LineAccess> lines) {
    thread.timer.execute(number, plugin().blocks_by_number[number]->instructions, lines, is_taken);
    thread.check_length(thread.timer.last_issue() - std::min(begin, thread.timer.last_issue()));
  });
  thread.timed_cycles.store(thread.timer.cycles(), std::memory_order_relaxed);
}

// `arguments` are the eight arguments of the guest's system call.
template <class... Arguments>
void on_system_call(qemu_plugin_id_t, unsigned, int64_t call, Arguments... arguments) {
  const std::array<uint64_t, sizeof...(arguments)> given = {arguments...};
  const uint64_t descriptor = given[0], bytes = given[2];
  if (plugin().options.guest_bytes != 0)
    if (const char* what = reach_of(call, given, plugin().options.guest_bytes)) end_guest(what);
  Plugin& state = plugin();
  if (!state.options.has_replies || bytes == 0) return;
  if (state.options.times_twice && call == kRead && descriptor == STDIN_FILENO && state.is_active)
    on_command(this_thread());
  if (call != kWrite || descriptor != STDOUT_FILENO) return;
  ThreadState& caller = this_thread();
  if (!state.is_active && state.page[0] == 0) {
    state.is_active = true;
    return;
  }
  if (caller.running != nullptr) caller.finish_block(caller.running->end);
  if (state.options.times_twice) time_again(caller, state.page[0]);
  caller.command_begin = caller.timer.cycles();
  std::lock_guard lock(state.mutex);
  const uint64_t count = state.page[0];
  if (count >= kMaxReplies) return;
  state.page[1 + count] = all_cycles();
  state.page[0] = count + 1;
}

// Ends a guest that asks for more memory than it has, as the agent does with candidates whose system calls it
// sees.
void on_system_call_returned(qemu_plugin_id_t, unsigned, int64_t call, int64_t result) {
  constexpr int64_t kMremap = 216, kMmap = 222, kNoMemory = -12;
  if ((call == kMmap || call == kMremap) && result == kNoMemory)
    end_process("the guest asked for more memory than there is for it", "", kOutOfMemoryCode);
}

void on_block_translated(qemu_plugin_id_t, qemu_plugin_tb* translated) {
  Plugin& state = plugin();
  std::string code;
  bool is_counted = false;
  const size_t count = qemu_plugin_tb_n_insns(translated);
  for (size_t i = 0; i < count; ++i) {
    const qemu_plugin_insn* instruction = qemu_plugin_tb_get_insn(translated, i);
    code.append(static_cast<const char*>(qemu_plugin_insn_data(instruction)),
                qemu_plugin_insn_size(instruction));
    is_counted |= state.options.contains(qemu_plugin_insn_vaddr(instruction));
  }
  // The model needs all blocks: the address of the next one shows the direction of a branch, and any block
  // may set the vector type.
  if (!is_counted && !state.options.has_cycles && state.options.guest_bytes == 0) return;

  std::lock_guard lock(state.mutex);
  std::unique_ptr<Block>& block = state.blocks[{qemu_plugin_tb_vaddr(translated), code}];
  if (block == nullptr) {
    block = std::make_unique<Block>();
    block->number = state.blocks.size() - 1;
    state.blocks_by_number.push_back(block.get());
    block->start = qemu_plugin_tb_vaddr(translated);
    block->end = block->start + code.size();
    for (size_t i = 0; i < count; ++i) {
      const qemu_plugin_insn* instruction = qemu_plugin_tb_get_insn(translated, i);
      const bool counts = state.options.contains(qemu_plugin_insn_vaddr(instruction));
      const size_t length = qemu_plugin_insn_size(instruction);
      uint32_t word = 0;
      std::memcpy(&word, qemu_plugin_insn_data(instruction), length < 4 ? length : 4);
      const Instruction decoded = decode(word, static_cast<int>(length));
      block->is_vector_other.push_back(decoded.kind == Class::kVectorOther);
      if (counts) ++block->histogram[static_cast<size_t>(decoded.kind)];
      if (state.options.has_cycles) {
        block->instructions.push_back(decoded);
        block->is_counted.push_back(counts);
        block->are_all_counted &= counts;
        if (!state.options.profile.empty()) block->addresses.push_back(qemu_plugin_insn_vaddr(instruction));
      }
    }
  }
  if (state.options.has_cycles) {
    qemu_plugin_register_vcpu_tb_exec_cb(translated, on_block_timed, QEMU_PLUGIN_CB_NO_REGS, block.get());
  }
  for (size_t i = 0; (state.options.model.has_cache || state.options.guest_bytes != 0) && i < count; ++i) {
    if (state.options.guest_bytes == 0 && !block->is_counted[i]) continue;
    qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(translated, i), on_memory_accessed,
                                     QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
                                     reinterpret_cast<void*>(static_cast<uintptr_t>(i)));
  }
  if (!is_counted) return;
  for (size_t i = 0; kHostHasAvx && i < count; ++i) {
    if (i > 0 && !block->is_vector_other[i - 1]) continue;
    qemu_plugin_register_vcpu_insn_exec_cb(qemu_plugin_tb_get_insn(translated, i), clear_upper_halves,
                                           QEMU_PLUGIN_CB_NO_REGS, nullptr);
  }
  if (state.options.has_replies) return;  // nobody asks for the counts
  qemu_plugin_register_vcpu_tb_exec_cb(translated, on_block_executed, QEMU_PLUGIN_CB_NO_REGS, block.get());
}

void write_cycles(std::FILE* file) {
  const uint64_t cycles = slowest_cycles();
  uint64_t first_level_misses = 0;
  uint64_t second_level_misses = 0;
  for (const auto& thread : plugin().threads) {
    first_level_misses += thread->timer.first_level_misses();
    second_level_misses += thread->timer.second_level_misses();
  }
  std::fprintf(file, ", \"simulated_cycles\": %llu", static_cast<unsigned long long>(cycles));
  if (!plugin().options.model.has_cache) return;
  std::fprintf(file, ", \"first_level_misses\": %llu, \"second_level_misses\": %llu",
               static_cast<unsigned long long>(first_level_misses),
               static_cast<unsigned long long>(second_level_misses));
}

void write_counts(std::FILE* file) {
  Plugin& state = plugin();
  std::array<uint64_t, kClassCount> counts = {};
  for (const auto& [key, block] : state.blocks) {
    for (const auto& thread : state.threads) {
      if (block->number >= thread->executions.size()) continue;
      const uint64_t executions = thread->executions[block->number];
      for (size_t i = 0; i < counts.size(); ++i) counts[i] += executions * block->histogram[i];
    }
  }
  uint64_t total = 0;
  for (uint64_t value : counts) total += value;
  std::fprintf(file, "{\"total\": %llu", static_cast<unsigned long long>(total));
  for (size_t i = 0; i < counts.size(); ++i) {
    std::fprintf(file, ", \"%s\": %llu", kClassNames[i], static_cast<unsigned long long>(counts[i]));
  }
  std::fprintf(file, ", \"threads\": %zu", state.threads.size());
  if (state.options.has_cycles) write_cycles(file);
  std::fprintf(file, "}\n");
}

void write_report() {
  const std::string& path = plugin().options.output;
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) {
    std::fprintf(stderr, "count_plugin: cannot write the counts to '%s': %s\n", path.c_str(),
                 std::strerror(errno));
    return;
  }
  write_counts(file);
  std::fclose(file);
}

void write_profile() {
  const Plugin& state = plugin();
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> rows;  // executions and cycles by address
  for (const auto& [key, block] : state.blocks) {
    for (const auto& thread : state.threads) {
      if (block->number >= thread->cycles.size() || thread->cycles[block->number].empty()) continue;
      for (size_t i = 0; i < block->addresses.size(); ++i) {
        if (!block->is_counted[i]) continue;
        auto& [executions, cycles] = rows[block->addresses[i]];
        executions += block->number < thread->executions.size() ? thread->executions[block->number] : 0;
        cycles += thread->cycles[block->number][i];
      }
    }
  }
  const std::string& path = state.options.profile;
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) {
    std::fprintf(stderr, "count_plugin: cannot write the profile to '%s': %s\n", path.c_str(),
                 std::strerror(errno));
    return;
  }
  for (const auto& [address, row] : rows)
    std::fprintf(file, "%llx %llu %llu\n", static_cast<unsigned long long>(address),
                 static_cast<unsigned long long>(row.first), static_cast<unsigned long long>(row.second));
  std::fclose(file);
}

void on_exit(qemu_plugin_id_t, void*) {
  // A process that the guest forked starts with its parent's counts, so only the parent writes a report.
  if (getpid() != plugin().process || plugin().options.has_replies) return;
  write_report();
  if (!plugin().options.profile.empty()) write_profile();
}

// Maps the memory of the descriptor and closes the descriptor, so that the guest cannot reach the memory by
// it.
std::optional<std::string> map_page() {
  Plugin& state = plugin();
  if (!state.options.has_replies) return std::nullopt;
  const int descriptor = std::atoi(state.options.output.c_str() + 4);
  void* memory =
      mmap(nullptr, (2 + kMaxReplies) * sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) return "descriptor " + std::to_string(descriptor) + " cannot be mapped";
  close(descriptor);
  state.page = static_cast<uint64_t*>(memory);
  return std::nullopt;
}

}  // namespace
}  // namespace tc::qemu

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info, int argument_count, char** arguments) {
  using namespace tc::qemu;
  if (std::strcmp(info->target_name, "riscv64") != 0) {
    std::fprintf(stderr, "count_plugin: the guest is %s; only riscv64 is decoded\n", info->target_name);
    return 1;
  }
  if (auto problem = parse_options(argument_count, arguments, plugin().options)) {
    std::fprintf(stderr, "count_plugin: %s\n", problem->c_str());
    return 1;
  }
  if (auto problem = map_page()) {
    std::fprintf(stderr, "count_plugin: %s\n", problem->c_str());
    return 1;
  }
  if (plugin().options.times_twice && (plugin().recording = Recording::make()) == nullptr)
    give_up_recording();
  plugin().process = getpid();
  plugin().is_active = !plugin().options.has_replies;
  if (plugin().options.has_replies || plugin().options.guest_bytes != 0)
    qemu_plugin_register_vcpu_syscall_cb(id, on_system_call);
  if (plugin().options.guest_bytes != 0)
    qemu_plugin_register_vcpu_syscall_ret_cb(id, on_system_call_returned);
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_block_translated);
  qemu_plugin_register_atexit_cb(id, on_exit, nullptr);
  return 0;
}
