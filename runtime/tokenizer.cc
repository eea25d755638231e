// Greedy byte-pair encoding by a file of tokens and merges.
#include "tokenizer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "foreign_text.h"

namespace tc::runtime {
namespace {

constexpr char kMagic[8] = {'t', 'c', 't', 'o', 'k', 'e', 'n', '1'};
constexpr uint32_t kMaxTokens = 1 << 22, kMaxMerges = 1 << 23, kMaxRanges = 1 << 16;
constexpr uint64_t kMaxOfTexts = uint64_t{1} << 30;
constexpr size_t kMostBytes = size_t{1} << 24;  // that is divided at once
constexpr uint32_t kNone = UINT32_MAX;
constexpr uint32_t kControls = uint32_t{1} << 31;  // of a whole token: its text is not shown

enum Kind : uint32_t { kBytePairs, kPieces, kKinds };
enum Division : uint32_t { kWords, kSingleDigits, kGroups, kUndivided, kDivisions };
enum Flag : uint32_t { kWholeWords = 1, kAddsBegin = 2, kAddsSpace = 4, kFlags = 8 };
enum Class : uint32_t { kOther, kLetter, kNumber, kSpace, kClasses };

struct Header {
  char magic[8];
  uint32_t kind, division, digits, flags, begin, unknown;
  uint32_t count, sorted, merges, ends, wholes, ranges;
  uint64_t text_bytes;
  uint32_t byte[256];  // the token of each byte, or kNone
};

const Header& header_of(const Tokenizer& tokenizer) { return *static_cast<const Header*>(tokenizer.mapped); }

__attribute__((format(printf, 3, 4))) bool no(char* why, size_t size, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_text(why, size, format, arguments);
  va_end(arguments);
  return false;
}

bool all_below(const uint32_t* numbers, size_t count, uint32_t limit) {
  for (size_t i = 0; i < count; ++i)
    if (numbers[i] >= limit) return false;
  return true;
}

// --- merges --------------------------------------------------------------------------------------------

uint32_t slot_of(uint32_t left, uint32_t right) {
  const uint64_t both = (uint64_t{left} << 32 | right) * 0x9e3779b97f4a7c15ULL;
  return static_cast<uint32_t>(both >> 32);
}

// 1 + the number of the merge of two tokens, or 0.
uint32_t merge_of(const Tokenizer& tokenizer, uint32_t left, uint32_t right) {
  for (uint32_t slot = slot_of(left, right) & tokenizer.pairs_mask;;
       slot = (slot + 1) & tokenizer.pairs_mask) {
    const uint32_t found = tokenizer.pairs[slot];
    if (found == 0) return 0;
    const uint32_t* merge = tokenizer.merge + size_t{3} * (found - 1);
    if (merge[0] == left && merge[1] == right) return found;
  }
}

bool index_merges(Tokenizer* tokenizer) {
  uint32_t slots = 16;
  while (slots < 2 * tokenizer->merges) slots *= 2;
  tokenizer->pairs = static_cast<uint32_t*>(calloc(slots, sizeof(uint32_t)));
  if (tokenizer->pairs == nullptr) return false;
  tokenizer->pairs_mask = slots - 1;
  for (uint32_t i = 0; i < tokenizer->merges; ++i) {
    const uint32_t* merge = tokenizer->merge + size_t{3} * i;
    if (merge_of(*tokenizer, merge[0], merge[1]) != 0) continue;
    uint32_t slot = slot_of(merge[0], merge[1]) & tokenizer->pairs_mask;
    while (tokenizer->pairs[slot] != 0) slot = (slot + 1) & tokenizer->pairs_mask;
    tokenizer->pairs[slot] = i + 1;
  }
  return true;
}

// --- the file ------------------------------------------------------------------------------------------

bool take_header(Tokenizer* tokenizer, char* why, size_t size) {
  const auto* bytes = static_cast<const char*>(tokenizer->mapped);
  if (tokenizer->mapped_bytes < sizeof(Header) || memcmp(bytes, kMagic, sizeof kMagic) != 0)
    return no(why, size, "it is no tokenizer's file of tc; write it with python -m tc generate --export");
  const Header& header = header_of(*tokenizer);
  if (header.kind >= kKinds || header.division >= kDivisions || header.flags >= kFlags || header.digits > 3 ||
      header.count == 0 || header.count > kMaxTokens || header.sorted > header.count ||
      header.merges > kMaxMerges || header.ends > header.count || header.wholes > header.count ||
      header.ranges > kMaxRanges || header.text_bytes > kMaxOfTexts)
    return no(why, size, "it is damaged: its sizes are out of range");
  const uint64_t numbers = uint64_t{header.count} + 1 + header.sorted + 3 * uint64_t{header.merges} +
                           header.ends + header.wholes + 3 * uint64_t{header.ranges};
  if (sizeof(Header) + 4 * numbers + header.text_bytes != tokenizer->mapped_bytes)
    return no(why, size, "it is damaged: it has %llu bytes, not those that its sizes need",
              static_cast<unsigned long long>(tokenizer->mapped_bytes));
  const auto* next = reinterpret_cast<const uint32_t*>(bytes + sizeof(Header));
  const auto take = [&](size_t count) {
    const uint32_t* begin = next;
    next += count;
    return begin;
  };
  tokenizer->offsets = take(size_t{header.count} + 1);
  tokenizer->by_text = take(header.sorted);
  tokenizer->merge = take(size_t{3} * header.merges);
  tokenizer->end = take(header.ends);
  tokenizer->whole = take(header.wholes);
  tokenizer->range = take(size_t{3} * header.ranges);
  tokenizer->texts = reinterpret_cast<const char*>(next);
  tokenizer->kind = header.kind, tokenizer->division = header.division, tokenizer->digits = header.digits;
  tokenizer->flags = header.flags, tokenizer->begin = header.begin, tokenizer->count = header.count;
  tokenizer->merges = header.merges, tokenizer->ends = header.ends, tokenizer->wholes = header.wholes;
  tokenizer->ranges = header.ranges;
  return true;
}

bool check_numbers(const Tokenizer& tokenizer, char* why, size_t size) {
  const Header& header = header_of(tokenizer);
  bool good = tokenizer.offsets[0] == 0 && tokenizer.offsets[header.count] == header.text_bytes;
  for (uint32_t i = 0; good && i < header.count; ++i) good = tokenizer.offsets[i] <= tokenizer.offsets[i + 1];
  good = good && all_below(tokenizer.by_text, header.sorted, header.count) &&
         all_below(tokenizer.merge, size_t{3} * header.merges, header.count) &&
         all_below(tokenizer.end, header.ends, header.count);
  for (uint32_t i = 0; good && i < header.wholes; ++i)
    good = (tokenizer.whole[i] & ~kControls) < header.count;
  for (uint32_t i = 0; good && i < header.ranges; ++i) good = tokenizer.range[3 * i + 2] < kClasses;
  for (const uint32_t byte : header.byte) good = good && (byte == kNone || byte < header.count);
  good = good && (header.unknown == kNone || header.unknown < header.count);
  good = good && ((header.flags & kAddsBegin) == 0 || header.begin < header.count);
  return good || no(why, size, "it is damaged: a number of a token or the place of a text is out of range");
}

// --- letters and parts ---------------------------------------------------------------------------------

struct Letter {
  uint32_t code = 0, bytes = 1;
  Class kind = kOther;
};

Class class_of(const Tokenizer& tokenizer, uint32_t code) {
  uint32_t low = 0, high = tokenizer.ranges;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    const uint32_t* range = tokenizer.range + size_t{3} * middle;
    if (code < range[0]) high = middle;
    else if (code > range[1]) low = middle + 1;
    else return static_cast<Class>(range[2]);
  }
  return kOther;
}

struct Text {
  const Tokenizer& tokenizer;
  const char *at, *end;

  Letter letter(const char* place) const {
    if (place >= end) return {0, 0, kOther};
    const auto found = foreign_text::character_at(place, static_cast<size_t>(end - place));
    if (!found.valid) return {UINT32_MAX, 1, kOther};
    return {found.code, static_cast<uint32_t>(found.size), class_of(tokenizer, found.code)};
  }
  const char* run(const char* place, Class kind, uint32_t most = UINT32_MAX) const {
    for (Letter next = letter(place); next.bytes > 0 && next.kind == kind && most > 0; next = letter(place)) {
      place += next.bytes;
      --most;
    }
    return place;
  }
};

bool is_line_end(char c) { return c == '\r' || c == '\n'; }

// 's, 't, 're, 've, 'm, 'll, 'd.
const char* contraction(const Text& text, bool any_case) {
  const auto lower = [&](const char* place) {
    const char c = place < text.end ? *place : static_cast<char>(0);
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  if (*text.at != '\'') return nullptr;
  const char first = lower(text.at + 1), second = lower(text.at + 2);
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l'))
    return text.at + 3;
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return text.at + 2;
  return nullptr;
}

// Spaces: all of them at the end of the text, else all but the last, which belongs to what follows.
const char* spaces(const Text& text) {
  const char* last = text.at;
  const char* place = text.at;
  for (Letter next = text.letter(place); next.bytes > 0 && next.kind == kSpace; next = text.letter(place)) {
    last = place;
    place += next.bytes;
  }
  return place == text.end || last == text.at ? place : last;
}

// The end of the part that begins at text.at, as the pattern of GPT-2 divides texts.
const char* part_of_words(const Text& text) {
  if (const char* end = contraction(text, false)) return end;
  const char* first = text.at + (*text.at == ' ' ? 1 : 0);
  const Letter letter = text.letter(first);
  if (letter.bytes > 0 && letter.kind != kSpace) return text.run(first, letter.kind);
  return spaces(text);
}

// The same by the pattern of cl100k.
const char* part_of_groups(const Text& text) {
  if (const char* end = contraction(text, true)) return end;
  const Letter letter = text.letter(text.at);
  if (letter.kind == kLetter) return text.run(text.at, kLetter);
  if (letter.kind == kNumber) return text.run(text.at, kNumber, text.tokenizer.digits);
  const char* behind = text.at + letter.bytes;
  if (!is_line_end(*text.at) && text.letter(behind).kind == kLetter) return text.run(behind, kLetter);
  const char* first = text.at + (*text.at == ' ' ? 1 : 0);
  const Letter other = text.letter(first);
  if (other.bytes > 0 && other.kind == kOther) {
    const char* end = text.run(first, kOther);
    while (end < text.end && is_line_end(*end)) ++end;
    return end;
  }
  const char* end = nullptr;
  for (const char* place = text.at; place < text.run(text.at, kSpace); ++place)
    if (is_line_end(*place)) end = place + 1;
  return end != nullptr ? end : spaces(text);
}

// --- encoding ------------------------------------------------------------------------------------------

// The token with exactly this text, or kNone.
uint32_t token_of(const Tokenizer& tokenizer, const char* text, size_t bytes) {
  uint32_t low = 0, high = header_of(tokenizer).sorted;
  while (low < high) {
    const uint32_t middle = (low + high) / 2, token = tokenizer.by_text[middle];
    const size_t size = tokenizer.offsets[token + 1] - tokenizer.offsets[token];
    const int order = memcmp(tokenizer.texts + tokenizer.offsets[token], text, size < bytes ? size : bytes);
    if (order == 0 && size == bytes) return token;
    if (order < 0 || (order == 0 && size < bytes)) low = middle + 1;
    else high = middle;
  }
  return kNone;
}

struct Symbol {
  uint32_t token, before, after;  // neighbours; kNone at the ends and of symbols that were merged away
};

// A merge that may be made, in a heap: the earliest in the list of merges first, then the leftmost.
struct Step {
  uint32_t merge, place, left, right;
  bool before(const Step& other) const {
    return merge != other.merge ? merge < other.merge : place < other.place;
  }
};

class Merger {
 public:
  explicit Merger(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  Merger(const Merger&) = delete;
  Merger& operator=(const Merger&) = delete;
  ~Merger() {
    free(symbols_);
    free(heap_);
  }

  // Room for so many symbols. There are at most three steps for each: one at first, two for each merge.
  bool reserve(size_t count) {
    symbols_ = static_cast<Symbol*>(malloc((count + 1) * sizeof(Symbol)));
    heap_ = static_cast<Step*>(malloc((3 * count + 1) * sizeof(Step)));
    return symbols_ != nullptr && heap_ != nullptr;
  }
  void clear() { count_ = steps_ = 0; }
  void add(uint32_t token) {
    symbols_[count_] = {token, count_ > 0 ? count_ - 1 : kNone, kNone};
    if (count_ > 0) symbols_[count_ - 1].after = count_;
    ++count_;
  }
  bool merge(Tokens* tokens) {
    for (uint32_t i = 0; i + 1 < count_; ++i) offer(i);
    while (steps_ > 0) {
      const Step step = take();
      Symbol& left = symbols_[step.place];
      if (left.token != step.left || left.after == kNone || symbols_[left.after].token != step.right)
        continue;
      Symbol& right = symbols_[left.after];
      left.token = tokenizer_.merge[size_t{3} * step.merge + 2];
      left.after = right.after;
      right.token = kNone;
      if (left.after != kNone) symbols_[left.after].before = step.place;
      if (left.before != kNone) offer(left.before);
      offer(step.place);
    }
    for (uint32_t i = count_ > 0 ? 0 : kNone; i != kNone; i = symbols_[i].after)
      if (!add_token(tokens, symbols_[i].token)) return false;
    return true;
  }

 private:
  // Offers to merge a symbol with the one behind it.
  void offer(uint32_t place) {
    const Symbol& left = symbols_[place];
    if (left.after == kNone) return;
    const uint32_t right = symbols_[left.after].token, found = merge_of(tokenizer_, left.token, right);
    if (found == 0) return;
    size_t at = steps_++;
    heap_[at] = {found - 1, place, left.token, right};
    while (at > 0 && heap_[at].before(heap_[(at - 1) / 2])) {
      exchange(at, (at - 1) / 2);
      at = (at - 1) / 2;
    }
  }
  Step take() {
    const Step first = heap_[0];
    heap_[0] = heap_[--steps_];
    for (size_t at = 0;;) {
      size_t least = at;
      for (size_t child = 2 * at + 1; child <= 2 * at + 2; ++child)
        if (child < steps_ && heap_[child].before(heap_[least])) least = child;
      if (least == at) return first;
      exchange(at, least);
      at = least;
    }
  }
  void exchange(size_t a, size_t b) {
    const Step kept = heap_[a];
    heap_[a] = heap_[b];
    heap_[b] = kept;
  }

  const Tokenizer& tokenizer_;
  Symbol* symbols_ = nullptr;
  Step* heap_ = nullptr;
  uint32_t count_ = 0;
  size_t steps_ = 0;
};

// One part: its bytes, or its letters where they are tokens, are merged.
bool encode_part(const Tokenizer& tokenizer, Merger& merger, const char* text, size_t bytes, Tokens* tokens) {
  if ((tokenizer.flags & kWholeWords) != 0) {
    const uint32_t token = token_of(tokenizer, text, bytes);
    if (token != kNone) return add_token(tokens, token);
  }
  const Header& header = header_of(tokenizer);
  merger.clear();
  bool was_unknown = false;
  for (size_t at = 0; at < bytes;) {
    size_t size = 1;
    if (tokenizer.kind == kPieces) {
      size = foreign_text::character_at(text + at, bytes - at).size;
      const uint32_t token = token_of(tokenizer, text + at, size);
      if (token != kNone) {
        merger.add(token);
        at += size;
        was_unknown = false;
        continue;
      }
    }
    bool has_all = true;
    for (size_t i = 0; i < size; ++i)
      has_all = has_all && header.byte[static_cast<uint8_t>(text[at + i])] != kNone;
    for (size_t i = 0; has_all && i < size; ++i) merger.add(header.byte[static_cast<uint8_t>(text[at + i])]);
    if (!has_all && header.unknown != kNone && !was_unknown) merger.add(header.unknown);
    was_unknown = !has_all;
    at += size;
  }
  return merger.merge(tokens);
}

// Text without whole tokens.
bool encode_section(const Tokenizer& tokenizer, Merger& merger, Text text, Tokens* tokens) {
  while (text.at < text.end) {
    const char* end = text.end;
    Text part = text;
    if (tokenizer.division == kSingleDigits) {
      // Each digit is a part of its own; the text between digits is divided like a text.
      const Letter first = text.letter(text.at);
      const char* place = text.at + first.bytes;
      for (Letter next = text.letter(place); first.kind != kNumber && next.bytes > 0 && next.kind != kNumber;
           next = text.letter(place))
        place += next.bytes;
      part.end = place;
    }
    if (tokenizer.division == kGroups) end = part_of_groups(text);
    else if (tokenizer.division != kUndivided) {
      for (; part.at < part.end; part.at = end) {
        end = part_of_words(part);
        if (!encode_part(tokenizer, merger, part.at, static_cast<size_t>(end - part.at), tokens))
          return false;
      }
      text.at = part.end;
      continue;
    }
    if (!encode_part(tokenizer, merger, text.at, static_cast<size_t>(end - text.at), tokens)) return false;
    text.at = end;
  }
  return true;
}

// The whole token whose text begins here, the longest of them; or kNone.
uint32_t whole_at(const Tokenizer& tokenizer, const char* text, size_t bytes) {
  for (uint32_t i = 0; i < tokenizer.wholes; ++i) {
    const uint32_t token = tokenizer.whole[i] & ~kControls;
    const size_t size = tokenizer.offsets[token + 1] - tokenizer.offsets[token];
    if (size > 0 && size <= bytes && memcmp(tokenizer.texts + tokenizer.offsets[token], text, size) == 0)
      return token;
  }
  return kNone;
}

}  // namespace

bool open_tokenizer(const char* path, Tokenizer* tokenizer, char* why, size_t why_size) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  struct stat state;
  if (file < 0 || fstat(file, &state) != 0) {
    const int error = errno;
    if (file >= 0) close(file);
    return no(why, why_size, "%s", strerror(error));
  }
  if (!S_ISREG(state.st_mode) || state.st_size <= 0) {
    close(file);
    return no(why, why_size, "it is no tokenizer's file of tc; write it with python -m tc generate --export");
  }
  tokenizer->mapped_bytes = static_cast<size_t>(state.st_size);
  tokenizer->mapped = mmap(nullptr, tokenizer->mapped_bytes, PROT_READ, MAP_PRIVATE, file, 0);
  const int error = errno;
  close(file);
  if (tokenizer->mapped == MAP_FAILED) {
    *tokenizer = Tokenizer();
    return no(why, why_size, "%s", strerror(error));
  }
  if (take_header(tokenizer, why, why_size) && check_numbers(*tokenizer, why, why_size)) {
    if (index_merges(tokenizer)) return true;
    no(why, why_size, "out of memory");
  }
  close_tokenizer(tokenizer);
  return false;
}

void close_tokenizer(Tokenizer* tokenizer) {
  if (tokenizer->mapped != nullptr) munmap(tokenizer->mapped, tokenizer->mapped_bytes);
  free(tokenizer->pairs);
  *tokenizer = Tokenizer();
}

bool add_token(Tokens* tokens, int64_t token) {
  if (tokens->count == tokens->room) {
    const size_t room = 2 * tokens->room + 64;
    auto* data = static_cast<int64_t*>(realloc(tokens->data, room * sizeof(int64_t)));
    if (data == nullptr) return false;
    tokens->data = data;
    tokens->room = room;
  }
  tokens->data[tokens->count++] = token;
  return true;
}

bool encode(const Tokenizer& tokenizer, const char* text, size_t bytes, Tokens* tokens, char* why,
            size_t why_size) {
  if (bytes > kMostBytes)
    return no(why, why_size, "the text has %llu bytes; at most %llu are divided",
              static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(kMostBytes));
  Merger merger(tokenizer);
  auto* spaced = static_cast<char*>(malloc(bytes + 2));
  bool good = spaced != nullptr && merger.reserve(bytes + 1);
  if (good && (tokenizer.flags & kAddsBegin) != 0) good = add_token(tokens, tokenizer.begin);
  size_t begin = 0;
  for (size_t at = 0; good && at <= bytes; ++at) {
    const uint32_t whole = at < bytes ? whole_at(tokenizer, text + at, bytes - at) : kNone;
    if (whole == kNone && at < bytes) continue;
    if (at > begin) {
      const bool adds = (tokenizer.flags & kAddsSpace) != 0;
      spaced[0] = ' ';
      memcpy(spaced + 1, text + begin, at - begin);
      good = encode_section(tokenizer, merger, {tokenizer, spaced + (adds ? 0 : 1), spaced + 1 + at - begin},
                            tokens);
    }
    if (whole == kNone) break;
    good = good && add_token(tokens, whole);
    at += tokenizer.offsets[whole + 1] - tokenizer.offsets[whole] - 1;
    begin = at + 1;
  }
  free(spaced);
  return good || no(why, why_size, "out of memory");
}

bool is_end(const Tokenizer& tokenizer, int64_t token) {
  for (uint32_t i = 0; i < tokenizer.ends; ++i)
    if (tokenizer.end[i] == token) return true;
  return false;
}

const char* text_of(const Tokenizer& tokenizer, int64_t token, size_t* bytes) {
  *bytes = 0;
  if (token < 0 || token >= tokenizer.count) return tokenizer.texts;
  for (uint32_t i = 0; i < tokenizer.wholes; ++i)
    if (tokenizer.whole[i] == (static_cast<uint32_t>(token) | kControls)) return tokenizer.texts;
  *bytes = tokenizer.offsets[token + 1] - tokenizer.offsets[token];
  return tokenizer.texts + tokenizer.offsets[token];
}

}  // namespace tc::runtime
