// The rules that hold for records in every kind of store: which are refused, which replaces which, their
// order.
#include "tuner/record_store.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>
#include <utility>

#include "ir/error.h"
#include "runtime/foreign_text.h"
#include "tuner/least_time.h"

namespace tc {
namespace {

constexpr size_t kMaxTraceLines = 500;
constexpr size_t kMaxProblems = 100;  // that are reported one by one

using Order = std::tuple<const std::string&, const std::string&, const std::string&, int, bool, bool, double,
                         const Trace&, const std::string&>;

Order order_of(const Record& record) {
  const bool failed = record.measurement.outcome != Outcome::Ok;
  // clang-format off
  return {record.workload, record.target, record.device, record.threads, failed, !record.chosen,
          failed ? 0.0 : record.measurement.ratio, record.trace, record.build};
  // clang-format on
}

bool is_plain(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c >= 32 && c <= 126; });
}

bool no_control_characters(const std::string& text) {
  return std::none_of(text.begin(), text.end(),
                      [](unsigned char c) { return (c < 32 && c != '\n' && c != '\t') || c == 127; });
}

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto character = foreign_text::character_at(text.data() + at, text.size() - at);
    if (!character.valid) return false;
    at += character.size;
  }
  return true;
}

// The beginning of a text, of whole characters.
std::string shortened(const std::string& text, size_t most) {
  size_t end = std::min(text.size(), most);
  while (end > 0 && end < text.size() && (text[end] & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

// The trace as every store returns it: without empty lines.
Trace kept_form(const Trace& trace) { return parse_trace(trace_text(trace)); }

// The record as every store keeps it.
Record kept_form(const Record& record) {
  Record kept = record;
  kept.trace = kept_form(record.trace);
  Measurement& measured = kept.measurement;
  measured.detail = shortened(measured.detail, kMaxDetailBytes);
  Timing& time = measured.time;
  for (double* number : {&time.minimum, &time.median, &time.spread, &measured.ratio, &measured.worst_error}) {
    if (std::isnan(*number)) *number = 0;
  }
  return kept;
}

}  // namespace

std::optional<std::string> check_record(const Record& record) {
  const Measurement& measured = record.measurement;
  const auto bad = [](const auto&... parts) { return std::optional(text(parts...)); };
  if (record.workload.empty() || record.workload.size() > kMaxWorkloadBytes)
    return bad("the workload has ", record.workload.size(), " bytes, not 1 to ", kMaxWorkloadBytes);
  for (const std::string* name : {&record.target, &record.device, &record.unit, &record.build}) {
    if (name->empty() || name->size() > kMaxNameBytes || !is_plain(*name))
      return bad(
          "target, device, unit or build is empty, too long or has other characters than printable ASCII");
  }
  if (!no_control_characters(record.workload)) return bad("the workload has control characters");
  if (!is_utf8(record.workload)) return bad("the workload is not UTF-8");
  if (record.unit != "seconds" && record.unit != "simulated cycles")
    return bad("the unit '", record.unit, "' is neither seconds nor simulated cycles");
  if (record.threads < 1 || record.threads > kMaxThreads) return bad(record.threads, " threads");
  if (record.language_major != kTraceLanguageMajor)
    return bad("the trace is in language ", record.language_major, ".", record.language_minor,
               " and this tc reads ", kTraceLanguageMajor, ".x; tune again");
  if (record.trace.size() > kMaxTraceLines || trace_text(record.trace).size() > kMaxTraceBytes)
    return bad("the trace has more than ", kMaxTraceLines, " lines or ", kMaxTraceBytes, " bytes");
  for (const std::string& line : record.trace) {
    if (line.find('\n') != std::string::npos || !no_control_characters(line))
      return bad("a line of the trace has control characters");
    if (!is_utf8(line)) return bad("a line of the trace is not UTF-8");
  }
  if (static_cast<int>(measured.outcome) < 0 || static_cast<int>(measured.outcome) > 8)
    return bad("the outcome ", static_cast<int>(measured.outcome), " is unknown");
  if (!no_control_characters(measured.detail)) return bad("the detail has control characters");
  if (!is_utf8(measured.detail)) return bad("the detail is not UTF-8");
  const Timing& time = measured.time;
  if (measured.outcome == Outcome::Ok) {
    const bool sane = std::isfinite(time.median) && std::isfinite(time.minimum) &&
                      std::isfinite(time.spread) && std::isfinite(measured.ratio) && time.count >= 1 &&
                      time.minimum > 0 && time.median >= time.minimum && time.spread >= 0 &&
                      measured.ratio > 0 && measured.worst_error >= 0;
    if (!sane) return bad("it is marked as measured and its times are no times (median ", time.median, ")");
    if (time.minimum < least_of_unit(record.unit))
      return bad("its time of ", time.minimum, " ", record.unit, " is below what any call takes");
  } else if (time.count != 0) {
    return bad("it failed (", name_of(measured.outcome), ") and has a time");
  }
  return std::nullopt;
}

size_t text_bytes(const Record& record) {
  size_t bytes = record.measurement.detail.size();
  for (const std::string* part :
       {&record.workload, &record.target, &record.device, &record.unit, &record.build})
    bytes += part->size();
  for (const std::string& line : record.trace) bytes += line.size();
  return bytes;
}

void RecordStore::need_writing() const {
  if (mode_ != Mode::Write)
    fail(ErrorKind::Log, name_, ": is open for reading alone; open it for writing to change it");
}

void RecordStore::add(const std::vector<Record>& records) {
  need_writing();
  if (records.empty()) return;
  for (size_t i = 0; i < records.size(); ++i) {
    if (auto why = check_record(records[i]))
      fail(ErrorKind::Log, name_, ": record ", i + 1, " of ", records.size(),
           " that were to be added is malformed: ", *why);
  }
  std::vector<Record> kept;
  for (const Record& record : records) kept.push_back(kept_form(record));
  write(kept);
}

void RecordStore::choose(const std::vector<Record>& records) {
  need_writing();
  if (records.empty()) return;
  std::vector<Record> chosen = records;
  for (Record& record : chosen) record.trace = kept_form(record.trace);
  mark(chosen);
}

void RecordStore::add_seconds_spent(const std::string& session, double seconds) {
  need_writing();
  spend(session, seconds);
}

void RecordStore::read_checked(const RecordFilter& filter, std::vector<std::string>* problems,
                               const TakeChecked& take) const {
  size_t refused = 0;
  read(filter, [&](Record&& record, int64_t number) {
    const auto why = check_record(record);
    if (why && problems && refused++ < kMaxProblems)
      problems->push_back(text(name_, ": record ", number, " is refused: ", *why));
    take(std::move(record), number, !why);
    return !why;
  });
  if (problems && refused > kMaxProblems)
    problems->push_back(text(name_, ": ", refused - kMaxProblems, " more records are refused"));
}

std::vector<Record> RecordStore::records(const RecordFilter& filter,
                                         std::vector<std::string>* problems) const {
  std::vector<Record> result;
  read_checked(filter, problems, [&](Record&& record, int64_t, bool allowed) {
    if (allowed) result.push_back(std::move(record));
  });
  std::sort(result.begin(), result.end(),
            [](const Record& a, const Record& b) { return order_of(a) < order_of(b); });
  return result;
}

std::vector<NumberedRecord> RecordStore::records_above(int64_t number, size_t most, int64_t& last,
                                                       std::vector<std::string>* problems) const {
  RecordFilter filter;
  filter.above = number;
  filter.most = most;
  last = number;
  std::vector<NumberedRecord> result;
  read_checked(filter, problems, [&](Record&& record, int64_t own, bool allowed) {
    last = std::max(last, own);
    if (allowed) result.push_back({own, std::move(record)});
  });
  return result;
}

std::vector<Record> RecordStore::best(const std::string& workload, const std::string& target,
                                      const std::string& device, int threads, const std::string& build,
                                      std::vector<std::string>* problems) const {
  RecordFilter filter;
  filter.workload = workload;
  filter.target = target;
  filter.threads = threads;
  filter.device = device.empty() ? usual_device(target, threads) : device;
  filter.verified_only = true;
  if (filter.device.empty()) return {};
  std::vector<Record> found = records(filter, problems);
  std::stable_partition(found.begin(), found.end(),
                        [&](const Record& record) { return record.build == build; });
  return found;
}

int64_t RecordStore::prune(const PruneRule& rule, bool really) {
  if (really) need_writing();
  using Group = std::tuple<std::string, std::string, std::string, int, std::string>;
  std::map<Group, int> kept;
  std::vector<Record> removed;
  for (Record& record : records({})) {  // sorted, the fastest first
    if (record.chosen) continue;
    const bool failed = record.measurement.outcome != Outcome::Ok;
    int& fastest = kept[{record.workload, record.target, record.device, record.threads, record.build}];
    const bool is_surplus = failed ? rule.failures : ++fastest > rule.keep;
    if (is_surplus && record.created < rule.before) removed.push_back(std::move(record));
  }
  if (really && !removed.empty()) remove(removed);
  return static_cast<int64_t>(removed.size());
}

int64_t RecordStore::merge(const RecordStore& other, std::vector<std::string>* problems) {
  using Key = std::tuple<std::string, std::string, std::string, int, Trace, std::string>;
  const auto key_of = [](const Record& r) {
    return Key(r.workload, r.target, r.device, r.threads, r.trace, r.build);
  };
  std::map<Key, int64_t> mine;
  for (const Record& record : records({})) mine[key_of(record)] = record.created;
  std::vector<Record> wanted;
  for (Record& record : other.records({}, problems)) {
    const auto found = mine.find(key_of(record));
    if (found == mine.end() || found->second < record.created) wanted.push_back(std::move(record));
  }
  add(wanted);
  return static_cast<int64_t>(wanted.size());
}

}  // namespace tc
