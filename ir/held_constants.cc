// The constants that a compilation holds.
#include "ir/held_constants.h"

#include <atomic>

#include "ir/error.h"

namespace tc {
namespace {

constexpr int64_t kMinHeld = 128 << 20;
constexpr int64_t kHeldPerByte = 3;
constexpr double kMinOperations = 1 << 27;
constexpr double kOperationsPerByte = 16;
// Tensors with no more bytes than this are not counted: a node itself takes more.
constexpr size_t kSmall = 64;

struct Account {
  explicit Account(int64_t file_bytes) : bytes_read(file_bytes) {}
  int64_t limit() const { return kMinHeld + kHeldPerByte * bytes_read; }

  std::atomic<int64_t> bytes_held{0};  // tensors may be freed by other threads
  int64_t bytes_read;
  double operations = 0;
};

thread_local std::shared_ptr<Account> account;

// Deleter of a counted tensor: it owns the original and subtracts its bytes when it is freed.
struct Counted {
  TensorPtr original;
  std::shared_ptr<Account> noted_in;

  void operator()(const Tensor*) {
    noted_in->bytes_held -= static_cast<int64_t>(original->bytes.size());
    original.reset();
  }
};

}  // namespace

HeldConstants::HeldConstants(int64_t file_bytes) : outermost_(!account) {
  if (outermost_) account = std::make_shared<Account>(file_bytes);
}

HeldConstants::~HeldConstants() {
  if (outermost_) account.reset();
}

bool constants_are_counted() { return account != nullptr; }

void note_bytes_read(int64_t bytes) {
  if (account) account->bytes_read += bytes;
}

TensorPtr held(TensorPtr tensor, const std::string& who) {
  if (!account || !tensor || tensor->bytes.size() <= kSmall) return tensor;
  const auto* counted = std::get_deleter<Counted>(tensor);
  if (counted && counted->noted_in == account) return tensor;
  const auto bytes = static_cast<int64_t>(tensor->bytes.size());
  if (!may_hold(static_cast<double>(bytes))) {
    fail(
        ErrorKind::Unsupported, "'", who, "' is a constant of ", bytes,
        " bytes, with which the constants of the model take more than ", account->limit(),
        " bytes while it is compiled (128 MB and 3 times what is read of its files); let the run compute it from an input, or make smaller constants");
  }
  account->bytes_held += bytes;
  const Tensor* place = tensor.get();
  return TensorPtr(place, Counted{std::move(tensor), account});
}

bool may_hold(double bytes) {
  return !account ||
         static_cast<double>(account->bytes_held.load()) + bytes <= static_cast<double>(account->limit());
}

bool may_compute(double operations) {
  if (!account) return true;
  const double most = kMinOperations + kOperationsPerByte * static_cast<double>(account->bytes_read);
  if (account->operations + operations > most) return false;
  account->operations += operations;
  return true;
}

}  // namespace tc
