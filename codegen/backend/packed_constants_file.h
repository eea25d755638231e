// The packed constants of a model in a file, so that hundreds of megabytes do not pass through memory.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "codegen/backend/backend.h"
#include "ir/constant.h"
#include "ir/plan.h"

namespace tc {

// A part of the block of constants: bytes from `begin` to before `end`.
struct ConstantRange {
  int64_t begin, end;
};

// A file without a name in the temporary folder, written at offsets by several threads at once. A Device
// error where the folder has no room.
class ConstantsFile {
 public:
  // A block of `bytes` bytes, all 0, that code finds under `symbol`.
  ConstantsFile(std::string symbol, int64_t bytes);
  ~ConstantsFile();
  // The same block of the same file under another symbol.
  ConstantsFile(const ConstantsFile& other, std::string symbol);
  ConstantsFile(const ConstantsFile&) = delete;
  ConstantsFile& operator=(const ConstantsFile&) = delete;

  const std::string& symbol() const { return symbol_; }
  int64_t byte_count() const { return byte_count_; }
  void write(int64_t offset, const Bytes& bytes);
  // The parts, in order, of which a run reads a few small rows that data chooses, such as an embedding.
  const std::vector<ConstantRange>& tables() const { return tables_; }
  void set_tables(std::vector<ConstantRange> tables) { tables_ = std::move(tables); }
  // Calls take(data, size) with the bytes from first to last, in pieces.
  void read(const std::function<void(const uint8_t*, size_t)>& take) const;

 private:
  std::string symbol_;
  int64_t byte_count_;
  int descriptor_;
  std::vector<ConstantRange> tables_;
};

// Writes a plan's constants to their places in the file, in the order of constant_offsets().
class ConstantWriter {
 public:
  ConstantWriter(const std::vector<PlanConstant>& constants, ConstantsFile& file);
  // Packs one. Threads that call this at the same time wait for each other rather than fill the memory.
  void write(size_t index);

 private:
  struct Share {
    Share(ConstantWriter& writer, int64_t bytes);
    ~Share();
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    ConstantWriter& writer;
    const int64_t bytes;
  };

  const std::vector<PlanConstant>& constants_;
  const std::vector<int64_t> offsets_;
  ConstantsFile& file_;
  std::mutex mutex_;
  std::condition_variable left_;
  int64_t in_packing_ = 0;
};

// The parts of the block of which runs of the plan read a few small rows, in order.
std::vector<ConstantRange> tables_of(const Plan& plan);

// A file with all constants of the plan.
std::shared_ptr<const ConstantsFile> packed_constants(const Plan& plan, const std::string& symbol,
                                                      int threads);

// Reads or writes all of the data at an offset of a file; false with errno where that fails.
bool read_at(int descriptor, uint8_t* data, size_t size, int64_t offset);
bool write_at(int descriptor, const uint8_t* data, size_t size, int64_t offset);
// Throws a Device error with the reason that errno gives.
[[noreturn]] void cannot_write(const std::string& what);

}  // namespace tc
