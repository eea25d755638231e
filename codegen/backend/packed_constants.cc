// Constants as a file.
#include "codegen/backend/packed_constants.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "codegen/backend/workers.h"
#include "ir/error.h"
#include "ir/scratch.h"
#include "ir/temporary_folder.h"

namespace tc {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kPiece = int64_t{2} << 20;  // bytes of one read
// The most bytes of the constants that are being packed at the same time; a larger one is packed alone.
constexpr int64_t kMaxInPacking = 64 << 20;

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
      descriptor_(fcntl(other.descriptor_, F_DUPFD_CLOEXEC, 0)) {
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

std::shared_ptr<const ConstantsFile> packed_constants(const Plan& plan, const std::string& symbol,
                                                      int threads) {
  auto file = std::make_shared<ConstantsFile>(symbol, constant_offsets(plan.constants).back());
  ConstantWriter writer(plan.constants, *file);
  work_in_parallel(plan.constants.size(), threads, "packing constants",
                   [&](size_t index) { writer.write(index); });
  return file;
}

}  // namespace tc
