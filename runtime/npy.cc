// NumPy's .npy files: a magic string, a version, and a Python dictionary of type, order and shape.
#include "npy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "model.h"
#include "new_file.h"

namespace tc::runtime {
namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicSize = 6;
constexpr uint32_t kMaxHeader = 65536;

// In the order of tc_dtype. NumPy has no names for the types that ml_dtypes adds: they are void types with
// the same number of bytes.
constexpr const char* kDescriptions[] = {"<f4", "<f8", "<f2", "<V2", "|i1", "<i2", "<i4", "<i8",
                                         "|u1", "<u2", "<u4", "<u8", "|b1", "<V1", "<V1", "<V1",
                                         "<V1", "<V1", "<V1", "<V1", "<V1", "<V1", "<V1"};

struct Why {
  char* text;
  size_t size;
  __attribute__((format(printf, 2, 3))) bool no(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    write_text(text, size, format, arguments);
    va_end(arguments);
    return false;
  }
};

// Parses the header's text.
class Cursor {
 public:
  Cursor(const char* text, size_t size) : next_(text), end_(text + size) {}

  bool take(char wanted) {
    skip_space();
    if (next_ == end_ || *next_ != wanted) return false;
    ++next_;
    return true;
  }
  bool at_end() {
    skip_space();
    return next_ == end_;
  }
  // A quoted text of at most size - 1 characters.
  bool take_string(char* text, size_t size) {
    skip_space();
    if (next_ == end_ || (*next_ != '\'' && *next_ != '"')) return false;
    const char quote = *next_++;
    size_t length = 0;
    while (next_ != end_ && *next_ != quote) {
      if (length + 1 >= size) return false;
      text[length++] = *next_++;
    }
    text[length] = 0;
    return take(quote);
  }
  bool take_word(const char* word) {
    skip_space();
    const size_t length = strlen(word);
    if (static_cast<size_t>(end_ - next_) < length || memcmp(next_, word, length) != 0) return false;
    next_ += length;
    return true;
  }
  bool take_size(int64_t* value) {
    skip_space();
    if (next_ == end_ || *next_ < '0' || *next_ > '9') return false;
    *value = 0;
    for (; next_ != end_ && *next_ >= '0' && *next_ <= '9'; ++next_)
      if (__builtin_mul_overflow(*value, int64_t{10}, value) ||
          __builtin_add_overflow(*value, int64_t{*next_ - '0'}, value))
        return false;
    take('L');
    return true;
  }

 private:
  void skip_space() {
    while (next_ != end_ && (*next_ == ' ' || *next_ == '\n' || *next_ == '\t')) ++next_;
  }
  const char* next_;
  const char* end_;
};

bool parse_shape(Cursor& cursor, NpyArray* array, Why& why) {
  if (!cursor.take('(')) return why.no("its header's shape is damaged");
  array->rank = 0;
  while (!cursor.take(')')) {
    if (array->rank == TC_MAX_RANK) return why.no("it has more than %d dimensions", TC_MAX_RANK);
    if (!cursor.take_size(&array->dims[array->rank++])) return why.no("its header's shape is damaged");
    if (cursor.take(',')) continue;
    if (!cursor.take(')')) return why.no("its header's shape is damaged");
    break;
  }
  return true;
}

bool parse_description(const char* description, NpyArray* array, Why& why) {
  // ml_dtypes writes one of its types as "<f1".
  if (strcmp(description, "<f1") == 0) description = "<V1";
  for (size_t i = 0; i < sizeof kDescriptions / sizeof kDescriptions[0]; ++i) {
    // For types of one byte and for void types, any byte order is accepted.
    const bool any_order = kDescriptions[i][0] == '|' || kDescriptions[i][1] == 'V';
    const bool order = any_order ? strchr("|<>=", description[0]) != nullptr : description[0] == '<';
    if (!order || strcmp(kDescriptions[i] + 1, description + 1) != 0) continue;
    array->dtype = static_cast<int32_t>(i);
    return true;
  }
  if (description[0] == '>')
    return why.no("its elements ('%s') are big-endian; save it little-endian", description);
  return why.no("its element type '%s' is not one that models take", description);
}

bool parse_header(const char* text, size_t size, NpyArray* array, Why& why) {
  Cursor cursor(text, size);
  bool has_type = false, has_order = false, has_shape = false, fortran = false;
  if (!cursor.take('{')) return why.no("its header is damaged");
  while (!cursor.take('}')) {
    char key[32], description[32] = "";
    if (!cursor.take_string(key, sizeof key) || !cursor.take(':')) return why.no("its header is damaged");
    if (strcmp(key, "descr") == 0) {
      if (!cursor.take_string(description, sizeof description) || description[0] == 0)
        return why.no("its element type is not one that models take");
      if (!parse_description(description, array, why)) return false;
      has_type = true;
    } else if (strcmp(key, "fortran_order") == 0) {
      fortran = cursor.take_word("True");
      if (!fortran && !cursor.take_word("False")) return why.no("its header is damaged");
      has_order = true;
    } else if (strcmp(key, "shape") == 0) {
      if (!parse_shape(cursor, array, why)) return false;
      has_shape = true;
    } else {
      return why.no("its header has the unknown key '%s'", key);
    }
    if (cursor.take(',')) continue;
    if (!cursor.take('}')) return why.no("its header is damaged");
    break;
  }
  if (!cursor.at_end() || !has_type || !has_order || !has_shape) return why.no("its header is damaged");
  if (fortran && array->rank > 1) return why.no("it is in Fortran order; save numpy.ascontiguousarray(x)");
  return true;
}

bool read_data(FILE* file, uint64_t data_offset, uint64_t file_size, NpyArray* array, Why& why) {
  const int64_t bytes = byte_count(array->dims, array->rank, array->dtype);
  if (bytes < 0) return why.no("its shape is too large");
  const uint64_t there = file_size - data_offset;
  if (static_cast<uint64_t>(bytes) != there)
    return why.no("its header promises %lld bytes of elements, %llu are there", static_cast<long long>(bytes),
                  static_cast<unsigned long long>(there));
  array->bytes = there;
  if (there == 0) return true;
  array->data = malloc(there);
  if (array->data == nullptr)
    return why.no("no memory for its %llu bytes", static_cast<unsigned long long>(there));
  if (fread(array->data, 1, there, file) != there) {
    free(array->data);
    array->data = nullptr;
    return why.no("it cannot be read: %s", strerror(errno));
  }
  return true;
}

bool read_open(FILE* file, NpyArray* array, Why& why) {
  struct stat state;
  if (fstat(fileno(file), &state) != 0) return why.no("it cannot be read: %s", strerror(errno));
  if (!S_ISREG(state.st_mode))
    return why.no("it is no regular file; write what comes out of it to one, and give that");
  const uint64_t file_size = static_cast<uint64_t>(state.st_size);
  unsigned char start[12];
  if (fread(start, 1, 10, file) != 10 || memcmp(start, kMagic, kMagicSize) != 0)
    return why.no("it is no .npy file");
  const int version = start[6];
  if (version < 1 || version > 3) return why.no("its format version %d is unknown", version);
  uint32_t header_size = start[8] | static_cast<uint32_t>(start[9]) << 8;
  uint64_t data_offset = 10;
  if (version > 1) {
    if (fread(start + 10, 1, 2, file) != 2) return why.no("it is cut short");
    header_size |= static_cast<uint32_t>(start[10]) << 16 | static_cast<uint32_t>(start[11]) << 24;
    data_offset = 12;
  }
  data_offset += header_size;
  if (header_size > kMaxHeader) return why.no("its header has %u bytes", header_size);
  if (data_offset > file_size) return why.no("it is cut short");
  char* header = static_cast<char*>(malloc(header_size + 1));
  if (header == nullptr) return why.no("no memory for its header");
  const bool good = fread(header, 1, header_size, file) == header_size
                        ? parse_header(header, header_size, array, why)
                        : why.no("it is cut short");
  free(header);
  return good && read_data(file, data_offset, file_size, array, why);
}

}  // namespace

bool is_npy_of(const NpyArray& array, int32_t dtype) {
  return strcmp(kDescriptions[array.dtype], kDescriptions[dtype]) == 0;
}

bool read_npy(const char* path, NpyArray* array, char* why_text, size_t why_size) {
  Why why{why_text, why_size};
  *array = {};
  // O_NONBLOCK: otherwise, opening a pipe would wait for a writer.
  const int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  FILE* file = descriptor < 0 ? nullptr : fdopen(descriptor, "rb");
  if (file == nullptr) {
    why.no("it cannot be opened: %s", strerror(errno));
    if (descriptor >= 0) close(descriptor);
    return false;
  }
  const bool good = read_open(file, array, why);
  fclose(file);
  return good;
}

bool write_npy(const char* path, const NpyArray& array, char* why_text, size_t why_size) {
  const auto& [dtype, rank, dims, data, unused_bytes] = array;
  (void)unused_bytes;
  Why why{why_text, why_size};
  const int64_t bytes = byte_count(dims, rank, dtype);
  if (bytes < 0) return why.no("its shape is too large");
  // Sizes have at most 20 digits.
  char shape[TC_MAX_RANK * 24 + 8] = "";
  size_t length = 0;
  for (int32_t i = 0; i < rank; ++i)
    length += static_cast<size_t>(snprintf(shape + length, sizeof shape - length, "%lld,%s",
                                           static_cast<long long>(dims[i]), i + 1 < rank ? " " : ""));
  if (rank > 1) shape[length - 1] = 0;  // only (n,) needs the last comma
  char header[640];
  const int used =
      snprintf(header, sizeof header - 64, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
               kDescriptions[dtype], shape);
  // The elements start at a multiple of 64 bytes; a line end closes the header.
  size_t header_size = static_cast<size_t>(used) + 1;
  header_size += 63 - (10 + header_size + 63) % 64;
  memset(header + used, ' ', header_size - static_cast<size_t>(used));
  header[header_size - 1] = '\n';
  const unsigned char start[10] = {0x93,
                                   'N',
                                   'U',
                                   'M',
                                   'P',
                                   'Y',
                                   1,
                                   0,
                                   static_cast<unsigned char>(header_size & 255),
                                   static_cast<unsigned char>(header_size >> 8)};
  NewFile file;
  if (file.open(path) && file.write(start, sizeof start) && file.write(header, header_size) &&
      file.write(data, static_cast<size_t>(bytes)) && file.finish())
    return true;
  return why.no("it cannot be written: %s", file.why());
}

}  // namespace tc::runtime
