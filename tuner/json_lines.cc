#include "tuner/json_lines.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "ir/error.h"

namespace tc {
namespace {

// The fields of a record in the order of their names, which is the order in a line, and those of a session.
// `->>` gives a text's characters, `->` the digits of a number as they stand in the line.
constexpr const char* kFields =
    "SELECT line ->> '$.build', line ->> '$.chosen', line -> '$.created', line ->> '$.detail', "
    "line ->> '$.device', line ->> '$.language', line -> '$.median', line -> '$.minimum', "
    "line ->> '$.outcome', line -> '$.ratio', line -> '$.samples', line -> '$.seed', line -> '$.spread', "
    "line ->> '$.target', line -> '$.threads', line ->> '$.unit', line ->> '$.workload', "
    "line -> '$.worst_error', line ->> '$.session', line -> '$.seconds' "
    "FROM (SELECT ? AS line) WHERE CASE WHEN json_valid(line) THEN json_type(line) END = 'object'";

// The shortest digits that are read as this number again. JSON has no infinity: 9e999 is read as that.
std::string digits(double value) {
  if (std::isinf(value)) return value > 0 ? "9e999" : "-9e999";
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return std::string(buffer, end);
}

template <class Number>
Number number_of(const std::string& digits) {
  Number value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if constexpr (std::is_floating_point_v<Number>) {
    if (error == std::errc::result_out_of_range)
      return digits[0] == '-' ? -std::numeric_limits<Number>::infinity()
                              : std::numeric_limits<Number>::infinity();
  }
  return error == std::errc() && end == digits.data() + digits.size() ? value : 0;
}

}  // namespace

JsonLines::JsonLines()
    : quote_(file_, "SELECT json_quote(?)"),
      fields_(file_, kFields),
      trace_(file_, "SELECT value FROM json_each(?, '$.trace') WHERE type = 'text'") {}

std::string JsonLines::quoted(const std::string& words) {
  quote_.reset();
  quote_.bind(words).step();
  return quote_.text(0);
}

std::string JsonLines::line_of(const Record& record) {
  const Measurement& measured = record.measurement;
  std::string trace;
  for (const std::string& line : record.trace) trace += (trace.empty() ? "" : ", ") + quoted(line);
  return text("{\"build\": ", quoted(record.build), ", \"chosen\": ", record.chosen ? "true" : "false",
              ", \"created\": ", record.created, ", \"detail\": ", quoted(measured.detail),
              ", \"device\": ", quoted(record.device), ", \"language\": \"", record.language_major, ".",
              record.language_minor, "\", \"median\": ", digits(measured.time.median),
              ", \"minimum\": ", digits(measured.time.minimum), ", \"outcome\": \"",
              name_of(measured.outcome), "\", \"ratio\": ", digits(measured.ratio),
              ", \"samples\": ", measured.time.count, ", \"seed\": ", record.seed,
              ", \"spread\": ", digits(measured.time.spread), ", \"target\": ", quoted(record.target),
              ", \"threads\": ", record.threads, ", \"trace\": [", trace,
              "], \"unit\": ", quoted(record.unit), ", \"workload\": ", quoted(record.workload),
              ", \"worst_error\": ", digits(measured.worst_error), "}");
}

std::string JsonLines::line_of(const SessionTime& time) {
  return text("{\"seconds\": ", digits(time.seconds), ", \"session\": ", quoted(time.session), "}");
}

std::variant<std::monostate, Record, SessionTime> JsonLines::read(const std::string& line) {
  fields_.reset();
  if (!fields_.bind(line).step()) return {};
  const Query& fields = fields_;
  if (const std::string session = fields.text(18); !session.empty())
    return SessionTime{session, number_of<double>(fields.text(19))};
  Record record;
  Measurement& measured = record.measurement;
  record.build = fields.text(0);
  record.chosen = fields.integer(1) != 0;
  record.created = number_of<int64_t>(fields.text(2));
  measured.detail = fields.text(3);
  record.device = fields.text(4);
  const std::string language = fields.text(5);
  const size_t point = std::min(language.find('.'), language.size());
  record.language_major = number_of<int>(language.substr(0, point));
  record.language_minor = number_of<int>(language.substr(std::min(point + 1, language.size())));
  measured.time.median = number_of<double>(fields.text(6));
  measured.time.minimum = number_of<double>(fields.text(7));
  measured.outcome = outcome_of(fields.text(8));
  measured.ratio = number_of<double>(fields.text(9));
  measured.time.count = number_of<int>(fields.text(10));
  record.seed = number_of<uint64_t>(fields.text(11));
  measured.time.spread = number_of<double>(fields.text(12));
  record.target = fields.text(13);
  record.threads = number_of<int>(fields.text(14));
  record.unit = fields.text(15);
  record.workload = fields.text(16);
  measured.worst_error = number_of<double>(fields.text(17));
  trace_.reset();
  trace_.bind(line);
  while (trace_.step()) record.trace.push_back(trace_.text(0));
  return record;
}

}  // namespace tc
