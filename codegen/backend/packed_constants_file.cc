// Constants as a file.
#include "codegen/backend/packed_constants_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "codegen/backend/parallel_for.h"
#include "ir/error.h"
#include "ir/scratch.h"
#include "ir/temporary_folder.h"

namespace tc {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kPiece = int64_t{2} << 20;  // bytes of one read
// The most bytes of the constants that are being packed at the same time; a larger one is packed alone.
constexpr int64_t kMaxInPacking = 64 << 20;

// A row of a table is not longer, and a table not smaller.
constexpr int64_t kMaxRow = 16 << 10, kMinTable = 1 << 20;

// Whether data chooses the rows of the constant that the kernel reads, and these are short.
bool reads_rows(const Kernel& kernel, int constant) {
  const Buffer& buffer = kernel.buffers[static_cast<size_t>(constant)];
  int64_t row = size_of(buffer.dtype);
  for (size_t d = 1; d < buffer.shape.size(); ++d)
    row *= buffer.shape[d].is_constant() ? buffer.shape[d].constant() : kMaxRow;
  bool rows = !buffer.shape.empty() && row <= kMaxRow;
  for (const Statement& statement : kernel.statements) {
    for_each_load(statement.value, [&](const Expr& load) {
      if (load.access.buffer == constant) rows = rows && load.access.index[0].dynamic != nullptr;
    });
  }
  return rows;
}

// Clears `tables` for the constants that a step reads in another way.
void find_tables(const Plan& plan, const PlanSteps& steps, std::vector<bool>& tables) {
  for (const PlanStep& step : steps) {
    find_tables(plan, step.body, tables);
    find_tables(plan, step.otherwise, tables);
    if (step.kind != PlanStep::Kind::Call) {
      for (const Location& location : step.locations) {
        if (location.kind == Location::Kind::Constant) tables[static_cast<size_t>(location.index)] = false;
      }
      continue;
    }
    const Kernel& kernel = plan.kernels[static_cast<size_t>(step.kernel)].kernel;
    for_each_argument(kernel, [&](const Buffer& buffer, size_t number) {
      const Location& location = step.locations[number];
      if (location.kind != Location::Kind::Constant) return;
      const bool rows =
          buffer.scope == Scope::Constant && reads_rows(kernel, kernel.buffer_index(buffer.name));
      if (!rows) tables[static_cast<size_t>(location.index)] = false;
    });
  }
}

// Reads or writes all of it at an offset, with pread() or pwrite(); false with errno where that fails.
template <class Call, class Data>
bool transfer(Call call, int descriptor, Data* data, size_t size, int64_t offset) {
  for (size_t done = 0; done < size;) {
    const off_t at = static_cast<off_t>(offset + static_cast<int64_t>(done));
    const ssize_t now = call(descriptor, data + done, size - done, at);
    if (now < 0 && errno == EINTR) continue;
    if (now == 0) errno = EIO;
    if (now <= 0) return false;
    done += static_cast<size_t>(now);
  }
  return true;
}

}  // namespace

bool read_at(int descriptor, uint8_t* data, size_t size, int64_t offset) {
  return transfer(pread, descriptor, data, size, offset);
}
bool write_at(int descriptor, const uint8_t* data, size_t size, int64_t offset) {
  return transfer(pwrite, descriptor, data, size, offset);
}

void cannot_write(const std::string& what) {
  fail(ErrorKind::Device, "cannot write ", what, ": ", std::strerror(errno), "; is the disk full?");
}

// Never empty, so that the symbol has an address inside a section.
ConstantsFile::ConstantsFile(std::string symbol, int64_t bytes)
    : symbol_(std::move(symbol)), byte_count_(std::max(bytes, kAlignment)) {
  std::string path = temporary_folder() + "/tc-constants-XXXXXX";
  descriptor_ = mkostemp(path.data(), O_CLOEXEC);
  if (descriptor_ < 0) cannot_write(path);
  unlink(path.c_str());
  if (ftruncate(descriptor_, static_cast<off_t>(byte_count_)) == 0) return;
  const int code = errno;
  close(descriptor_);
  errno = code;
  cannot_write("the model's constants to the temporary folder");
}

ConstantsFile::ConstantsFile(const ConstantsFile& other, std::string symbol)
    : symbol_(std::move(symbol)),
      byte_count_(other.byte_count_),
      descriptor_(fcntl(other.descriptor_, F_DUPFD_CLOEXEC, 0)),
      tables_(other.tables_) {
  if (descriptor_ < 0) cannot_write("the model's constants to the temporary folder");
}

ConstantsFile::~ConstantsFile() { close(descriptor_); }

void ConstantsFile::write(int64_t offset, const Bytes& bytes) {
  if (!write_at(descriptor_, bytes.data(), bytes.size(), offset)) {
    cannot_write("the model's constants to the temporary folder");
  }
}

void ConstantsFile::read(const std::function<void(const uint8_t*, size_t)>& take) const {
  Bytes piece(static_cast<size_t>(std::min(kPiece, byte_count_)));
  for (int64_t at = 0; at < byte_count_;) {
    const size_t size = std::min(piece.size(), static_cast<size_t>(byte_count_ - at));
    TC_CHECK(read_at(descriptor_, piece.data(), size, at),
             "of the file of constants: ", std::strerror(errno));
    take(piece.data(), size);
    at += static_cast<int64_t>(size);
  }
}

ConstantWriter::ConstantWriter(const std::vector<PlanConstant>& constants, ConstantsFile& file)
    : constants_(constants), offsets_(constant_offsets(constants)), file_(file) {}

ConstantWriter::Share::Share(ConstantWriter& writer, int64_t bytes) : writer(writer), bytes(bytes) {
  std::unique_lock<std::mutex> lock(writer.mutex_);
  writer.left_.wait(lock,
                    [&] { return writer.in_packing_ == 0 || writer.in_packing_ + bytes <= kMaxInPacking; });
  writer.in_packing_ += bytes;
}

ConstantWriter::Share::~Share() {
  const std::lock_guard<std::mutex> lock(writer.mutex_);
  writer.in_packing_ -= bytes;
  writer.left_.notify_all();
}

void ConstantWriter::write(size_t index) {
  const PlanConstant& constant = constants_[index];
  const Share share(*this, constant.byte_count());
  file_.write(offsets_[index], constant.make()->bytes);
}

std::vector<ConstantRange> tables_of(const Plan& plan) {
  std::vector<bool> tables(plan.constants.size(), true);
  find_tables(plan, plan.steps, tables);
  const std::vector<int64_t> offsets = constant_offsets(plan.constants);
  std::vector<ConstantRange> ranges;
  for (size_t i = 0; i < tables.size(); ++i) {
    const int64_t size = plan.constants[i].byte_count();
    if (tables[i] && size >= kMinTable) ranges.push_back({offsets[i], offsets[i] + size});
  }
  return ranges;
}

std::shared_ptr<const ConstantsFile> packed_constants(const Plan& plan, const std::string& symbol,
                                                      int threads) {
  auto file = std::make_shared<ConstantsFile>(symbol, constant_offsets(plan.constants).back());
  file->set_tables(tables_of(plan));
  ConstantWriter writer(plan.constants, *file);
  work_in_parallel(plan.constants.size(), threads, "packing constants",
                   [&](size_t index) { writer.write(index); });
  return file;
}

}  // namespace tc
