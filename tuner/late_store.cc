// A log in a file that does not exist yet, and is made when something is written to it.
#include "tuner/late_store.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "ir/error.h"
#include "tuner/stores.h"

namespace tc {
namespace {

class LateStore final : public RecordStore {
 public:
  explicit LateStore(const std::string& url) : RecordStore(shown_store(url), Mode::Write), url_(url) {}

  std::string usual_device(const std::string& target, int threads) const override {
    return store_ ? store_->usual_device(target, threads) : "";
  }
  double seconds_spent(const std::string& session) const override {
    return store_ ? store_->seconds_spent(session) : 0;
  }
  StoreStats stats() const override { return store_ ? store_->stats() : StoreStats(); }
  int64_t number_before_last(size_t most) const override {
    return store_ ? store_->number_before_last(most) : 0;
  }
  std::string integrity() const override { return store_ ? store_->integrity() : "ok"; }

 private:
  void read(const RecordFilter& filter, const Take& take) const override {
    if (!store_) return;
    // The file's own store has refused what is to be refused, so that nobody is told of a record's number.
    for (Record& record : store_->records(filter)) take(std::move(record), 0);
  }
  void write(const std::vector<Record>& records) override { made().add(records); }
  void mark(const std::vector<Record>& chosen) override { made().choose(chosen); }
  void remove(const std::vector<Record>&) override {
    fail(ErrorKind::Log, name(), ": has no records to remove; open it again");
  }
  void spend(const std::string& session, double seconds) override {
    made().add_seconds_spent(session, seconds);
  }

  // Opens the file, which another process may have made meanwhile.
  RecordStore& made() {
    if (!store_) store_ = open_store(url_, Mode::Write);
    return *store_;
  }

  const std::string url_;
  std::unique_ptr<RecordStore> store_;  // null until something is written
};

}  // namespace

std::unique_ptr<RecordStore> open_store_late(const std::string& url) {
  const std::string path = file_of_store(url);
  std::error_code code;
  if (path.empty() || std::filesystem::exists(std::filesystem::symlink_status(path, code)))
    return open_store(url, RecordStore::Mode::Write);
  const std::filesystem::path folder = std::filesystem::absolute(path, code).parent_path();
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    fail(ErrorKind::Log, path, ": cannot be made (", strerror(errno),
         "); check that the folder exists and may be written");
  return std::make_unique<LateStore>(url);
}

}  // namespace tc
