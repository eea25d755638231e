// A QEMU plugin that counts how often each instruction of a program executes between two addresses.
//
// Use: qemu-system-arm -plugin address_counts.so,out=PATH,begin=HEX,end=HEX ...
//
// Counting begins when the instruction at `begin` executes and stops at the one at `end`. A line of the file
// is an address in hexadecimal and a count.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "runtime/qemu/plugin_api.h"

extern "C" {
__attribute__((visibility("default"))) int qemu_plugin_version = 1;
__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info,
                                                               int argument_count, char** arguments);
}

namespace {

struct Counter {
  uint64_t now = 0, before = 0;  // `before`: when counting began
};

// Counters stay where they are, since translated code adds to them.
std::map<uint64_t, Counter> counters;
std::string path;
uint64_t begin_address = 0, end_address = 0;

void at_begin(unsigned, void*) {
  for (auto& [address, counter] : counters) counter.before = counter.now;
}

void at_end(unsigned, void*) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return;
  for (const auto& [address, counter] : counters) {
    if (counter.now > counter.before)
      std::fprintf(file, "%llx %llu\n", static_cast<unsigned long long>(address),
                   static_cast<unsigned long long>(counter.now - counter.before));
  }
  std::fclose(file);
}

void on_block(qemu_plugin_id_t, qemu_plugin_tb* block) {
  for (size_t i = 0; i < qemu_plugin_tb_n_insns(block); ++i) {
    qemu_plugin_insn* instruction = qemu_plugin_tb_get_insn(block, i);
    const uint64_t address = qemu_plugin_insn_vaddr(instruction);
    if (address == begin_address)
      qemu_plugin_register_vcpu_insn_exec_cb(instruction, at_begin, QEMU_PLUGIN_CB_NO_REGS, nullptr);
    if (address == end_address)
      qemu_plugin_register_vcpu_insn_exec_cb(instruction, at_end, QEMU_PLUGIN_CB_NO_REGS, nullptr);
    qemu_plugin_register_vcpu_insn_exec_inline(instruction, QEMU_PLUGIN_INLINE_ADD_U64,
                                               &counters[address].now, 1);
  }
}

}  // namespace

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t*, int argument_count, char** arguments) {
  for (int i = 0; i < argument_count; ++i) {
    const std::string argument = arguments[i];
    const size_t equals = argument.find('=');
    if (equals == std::string::npos) return 1;
    const std::string name = argument.substr(0, equals), value = argument.substr(equals + 1);
    if (name == "out") path = value;
    else if (name == "begin") begin_address = std::strtoull(value.c_str(), nullptr, 16);
    else if (name == "end") end_address = std::strtoull(value.c_str(), nullptr, 16);
    else return 1;
  }
  if (path.empty() || begin_address == 0 || end_address == 0) return 1;
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_block);
  return 0;
}
