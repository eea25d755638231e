// Records as lines of JSON in a text file.
//
// Writers append under a lock of the file: of two lines with the same key the later one counts. The first
// character of what is appended is '#' until all of it is on the disk, and then becomes the '{' of its first
// line, so that a reader sees all records of a call or none, also where the writer was killed. Only prune()
// writes the file anew, in another file that then takes its name.
#include "tuner/json_lines_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include "ir/error.h"
#include "tuner/json_lines.h"
#include "tuner/record_set.h"

namespace tc {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{256} << 20;
constexpr size_t kMaxLineBytes = 4 << 20;
constexpr char kUnfinished = '#';

// An open file, closed with the object.
struct Descriptor {
  explicit Descriptor(int value) : value(value) {}
  ~Descriptor() {
    if (value >= 0) close(value);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int value;
};

struct stat state_of(int file) {
  struct stat state = {};
  fstat(file, &state);
  return state;
}

class JsonLinesStore final : public RecordStore {
 public:
  JsonLinesStore(const std::string& path, Mode mode) : RecordStore(path, mode), path_(path) {
    std::error_code code;
    const bool exists = std::filesystem::exists(path, code);
    if (!exists && mode == Mode::Read)
      fail(ErrorKind::Log, path, ": no such log; tuning with log= makes one");
    if (exists && !std::filesystem::is_regular_file(path, code))
      fail(ErrorKind::Log, path, ": is no regular file");
    if (mode == Mode::Write) const Descriptor made(open_locked());
    read_new_lines();
  }

  std::string usual_device(const std::string& target, int threads) const override {
    read_new_lines();
    return records_.usual_device(target, threads);
  }

  double seconds_spent(const std::string& session) const override {
    read_new_lines();
    const auto found = seconds_.find(session);
    return found == seconds_.end() ? 0 : found->second;
  }

  StoreStats stats() const override {
    read_new_lines();
    StoreStats stats = records_.stats();
    stats.bytes = end_;
    return stats;
  }

  int64_t number_before_last(size_t most) const override {
    read_new_lines();
    return records_.number_before_last(most);
  }

  // A damaged line is told when the file is read.
  std::string integrity() const override { return "ok"; }

 private:
  void read(const RecordFilter& filter, const Take& take) const override {
    read_new_lines();
    for (NumberedRecord& each : records_.find(filter)) take(std::move(each.record), each.number);
  }

  void write(const std::vector<Record>& records) override {
    const Descriptor file(open_locked());
    read_new_lines();
    std::string lines;
    for (const Record& record : records) {
      const Record* known = records_.find_same(record);
      Record kept = record;
      kept.chosen = known && known->chosen;
      lines += json_.line_of(kept) + "\n";
    }
    append(file.value, lines);
  }

  void mark(const std::vector<Record>& chosen) override {
    const Descriptor file(open_locked());
    read_new_lines();
    std::string lines;
    for (const Record& record : chosen) {
      for (const Record& changed : records_.choose(record)) lines += json_.line_of(changed) + "\n";
    }
    append(file.value, lines);
  }

  void spend(const std::string& session, double seconds) override {
    const Descriptor file(open_locked());
    read_new_lines();
    append(file.value, json_.line_of(SessionTime{session, seconds_[session] + seconds}) + "\n");
  }

  void remove(const std::vector<Record>& records) override;

  int open_locked() const;
  void append(int file, const std::string& lines);
  void write_at(int file, const std::string& bytes, int64_t place) const;
  void read_new_lines() const;
  void take_line(const std::string& line) const;
  void forget() const;
  [[noreturn]] void fail_unwritten() const;

  const std::string path_;
  // What was read of the file: whoever reads takes the lines that were added since.
  mutable JsonLines json_;
  mutable RecordSet records_;
  mutable std::map<std::string, double> seconds_;  // by session
  mutable ino_t file_ = 0;
  mutable int64_t end_ = 0, lines_ = 0;  // bytes and lines of it
  mutable bool ends_a_line_ = true;      // those bytes end with a newline, or are none
};

void JsonLinesStore::fail_unwritten() const {
  fail(ErrorKind::Log, path_, ": cannot be written (", std::strerror(errno),
       "); check the file's and folder's permissions and the disk's space: what was recorded before is kept");
}

// The file, which is made where there is none, with a lock that ends when it is closed.
int JsonLinesStore::open_locked() const {
  while (true) {
    const int file = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) fail_unwritten();
    while (flock(file, LOCK_EX) != 0 && errno == EINTR) {}
    struct stat named = {};
    // prune() may have put another file in its place while this one was waited for.
    if (stat(path_.c_str(), &named) == 0 && named.st_ino == state_of(file).st_ino) return file;
    close(file);
  }
}

void JsonLinesStore::write_at(int file, const std::string& bytes, int64_t place) const {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count =
        pwrite(file, bytes.data() + done, bytes.size() - done, place + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail_unwritten();
    done += static_cast<size_t>(count);
  }
  if (fdatasync(file) != 0) fail_unwritten();
}

// Appends lines to the locked file, all or none, and reads them.
void JsonLinesStore::append(int file, const std::string& lines) {
  if (lines.empty()) return;
  if (end_ + static_cast<int64_t>(lines.size()) > kMaxFileBytes)
    fail(ErrorKind::Log, path_, ": a log of lines has at most ", kMaxFileBytes >> 20,
         " MB; merge it into a file of kind sqlite: python -m tc log merge log.db ", "jsonl:", path_);
  try {
    // What a killed writer left is behind the end of what counts.
    if (ftruncate(file, end_) != 0) fail_unwritten();
    if (!ends_a_line_) {  // a person's editor left it so
      write_at(file, "\n", end_++);
      ends_a_line_ = true;
    }
    write_at(file, kUnfinished + lines.substr(1), end_);
    write_at(file, lines.substr(0, 1), end_);
  } catch (...) {
    [[maybe_unused]] const int ignored = ftruncate(file, end_);
    forget();
    throw;
  }
  read_new_lines();
}

void JsonLinesStore::remove(const std::vector<Record>& records) {
  const Descriptor old(open_locked());
  read_new_lines();
  for (const Record& record : records) records_.remove(record);
  std::string lines;
  for (const auto& [session, seconds] : seconds_)
    lines += json_.line_of(SessionTime{session, seconds}) + "\n";
  for (const NumberedRecord& kept : records_.find({})) lines += json_.line_of(kept.record) + "\n";
  const std::string part = path_ + ".part";
  {
    const Descriptor file(open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (file.value < 0) fail_unwritten();
    fchmod(file.value, state_of(old.value).st_mode & 07777);
    write_at(file.value, lines, 0);
  }
  if (std::rename(part.c_str(), path_.c_str()) != 0) fail_unwritten();
  forget();
}

// Forgets what was read: the file is read from its beginning when it is needed next.
void JsonLinesStore::forget() const {
  records_ = {};
  seconds_.clear();
  end_ = lines_ = 0;
  ends_a_line_ = true;
}

void JsonLinesStore::take_line(const std::string& line) const {
  auto found = json_.read(line);
  if (auto* record = std::get_if<Record>(&found)) {
    records_.put(*record).chosen = record->chosen;
  } else if (auto* time = std::get_if<SessionTime>(&found)) {
    seconds_[time->session] = time->seconds;
  } else {
    fail(ErrorKind::Log, path_, ": line ", lines_,
         " is no record of a log, which is an object of JSON as "
         "`python -m tc log export` writes them; mend or remove the line");
  }
}

void JsonLinesStore::read_new_lines() const {
  const Descriptor file(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.value < 0)
    fail(ErrorKind::Log, path_, ": cannot be opened (", std::strerror(errno),
         "); check that the folder exists and may be read");
  const struct stat state = state_of(file.value);
  if (state.st_size > kMaxFileBytes)
    fail(ErrorKind::Log, path_, ": has ", state.st_size >> 20, " MB, and a log of lines has at most ",
         kMaxFileBytes >> 20, " MB");
  if (state.st_ino != file_ || state.st_size < end_) forget();
  file_ = state.st_ino;
  std::string rest(static_cast<size_t>(state.st_size - end_), '\0');
  const ssize_t count = pread(file.value, rest.data(), rest.size(), end_);
  rest.resize(count > 0 ? static_cast<size_t>(count) : 0);
  size_t begin = 0;
  if (!ends_a_line_ && !rest.empty()) {  // the newline that a writer put behind the last line
    ends_a_line_ = true;
    begin = rest[0] == '\n';
    end_ += static_cast<int64_t>(begin);
  }
  try {
    for (size_t end; begin < rest.size() && rest[begin] != kUnfinished; begin = end) {
      const size_t newline = rest.find('\n', begin);
      ends_a_line_ = newline != std::string::npos;
      const size_t stop = ends_a_line_ ? newline : rest.size();
      end = stop + (ends_a_line_ ? 1 : 0);
      if (stop - begin > kMaxLineBytes)
        fail(ErrorKind::Log, path_, ": line ", lines_ + 1, " has more than ", kMaxLineBytes >> 20, " MB");
      ++lines_;
      if (stop > begin) take_line(rest.substr(begin, stop - begin));
      end_ += static_cast<int64_t>(end - begin);
    }
  } catch (...) {
    forget();
    throw;
  }
}

}  // namespace

std::unique_ptr<RecordStore> open_json_lines_store(const std::string& path, RecordStore::Mode mode) {
  return std::make_unique<JsonLinesStore>(path, mode);
}

}  // namespace tc
