// Declares the part of QEMU's plugin interface, version 1 (QEMU 6.2 to 8.2), that the plugin uses.
//
// Debian's qemu-user package ships no plugin header, so the functions that qemu-riscv64 exports are
// declared here, from their documented signatures. QEMU checks `qemu_plugin_version` against the
// range that it supports and refuses to load a plugin outside it.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

using qemu_plugin_id_t = uint64_t;
using qemu_plugin_meminfo_t = uint32_t;

struct qemu_plugin_tb;
struct qemu_plugin_insn;

// What QEMU tells a plugin when it loads it; only valid during that call.
struct qemu_info_t {
  const char* target_name;
  struct {
    int min;
    int cur;
  } version;
  bool system_emulation;
  struct {
    int smp_vcpus;
    int max_vcpus;
  } system;
};

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_CB_R_REGS, QEMU_PLUGIN_CB_RW_REGS };

enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_R = 1, QEMU_PLUGIN_MEM_W, QEMU_PLUGIN_MEM_RW };

using qemu_plugin_udata_cb_t = void (*)(qemu_plugin_id_t id, void* userdata);
using qemu_plugin_vcpu_udata_cb_t = void (*)(unsigned vcpu_index, void* userdata);
using qemu_plugin_vcpu_tb_trans_cb_t = void (*)(qemu_plugin_id_t id, qemu_plugin_tb* block);
using qemu_plugin_vcpu_mem_cb_t = void (*)(unsigned vcpu_index, qemu_plugin_meminfo_t info, uint64_t address,
                                           void* userdata);

using qemu_plugin_vcpu_syscall_cb_t = void (*)(qemu_plugin_id_t id, unsigned vcpu_index, int64_t call,
                                               uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4,
                                               uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8);

// Called for every block of guest code that QEMU translates, before it first runs.
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_tb_trans_cb_t cb);

// Called each time the translated block is entered, before its first instruction.
void qemu_plugin_register_vcpu_tb_exec_cb(qemu_plugin_tb* block, qemu_plugin_vcpu_udata_cb_t cb,
                                          qemu_plugin_cb_flags flags, void* userdata);

// Called each time the instruction is about to run.
void qemu_plugin_register_vcpu_insn_exec_cb(qemu_plugin_insn* instruction, qemu_plugin_vcpu_udata_cb_t cb,
                                            qemu_plugin_cb_flags flags, void* userdata);

enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };

// Adds a number to the counter at `place` each time the instruction is about to run.
void qemu_plugin_register_vcpu_insn_exec_inline(qemu_plugin_insn* instruction, qemu_plugin_op operation,
                                                void* place, uint64_t number);

// Called for each memory access of the instruction; a vector access calls once per element.
void qemu_plugin_register_vcpu_mem_cb(qemu_plugin_insn* instruction, qemu_plugin_vcpu_mem_cb_t cb,
                                      qemu_plugin_cb_flags flags, qemu_plugin_mem_rw rw, void* userdata);

// Called before the guest makes a system call; `call` is its number on the guest's architecture.
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_syscall_cb_t cb);

// Called when a system call of the guest has returned `result`, negative for an error.
using qemu_plugin_vcpu_syscall_ret_cb_t = void (*)(qemu_plugin_id_t id, unsigned vcpu_index, int64_t call,
                                                   int64_t result);
void qemu_plugin_register_vcpu_syscall_ret_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_syscall_ret_cb_t cb);

// Called when the guest process ends, with all of its threads stopped.
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, qemu_plugin_udata_cb_t cb, void* userdata);

size_t qemu_plugin_tb_n_insns(const qemu_plugin_tb* block);
uint64_t qemu_plugin_tb_vaddr(const qemu_plugin_tb* block);
qemu_plugin_insn* qemu_plugin_tb_get_insn(const qemu_plugin_tb* block, size_t index);
const void* qemu_plugin_insn_data(const qemu_plugin_insn* instruction);
size_t qemu_plugin_insn_size(const qemu_plugin_insn* instruction);
uint64_t qemu_plugin_insn_vaddr(const qemu_plugin_insn* instruction);
unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);

}  // extern "C"
