// Tensors of an ONNX file, with their data inside it or in a file beside it.
#include "frontend/import/onnx/tensor_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "ir/error.h"

namespace tc {
namespace {

constexpr int kLargestRank = 16;

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() { reset(-1); }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  void reset(int fd) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

int64_t parse_size(const std::string& text_value, const std::string& where) {
  int64_t value = -1;
  const char* end = text_value.data() + text_value.size();
  auto [rest, error] = std::from_chars(text_value.data(), end, value);
  if (error != std::errc() || rest != end || value < 0) {
    fail(ErrorKind::Model, where, ": '", text_value, "' is not a size in bytes");
  }
  return value;
}

// Opens `location` below `folder`, component by component, following no link.
void open_below(FileDescriptor& file, const std::string& folder, const std::string& location,
                const std::string& where) {
  auto refuse = [&](const std::string& why) {
    fail(ErrorKind::Model, where, ": its external data '", location, "' ", why,
         "; external data must be a plain file inside the model's folder");
  };
  if (folder.empty()) refuse("cannot be found, because the model was given as bytes, without a folder");
  if (location.empty() || location[0] == '/') refuse("is not a relative path");
  file.reset(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file.get() < 0) refuse("lies in a folder that cannot be opened");
  size_t begin = 0;
  while (begin <= location.size()) {
    size_t slash = location.find('/', begin);
    const bool last = slash == std::string::npos;
    const std::string part = location.substr(begin, last ? std::string::npos : slash - begin);
    if (part.empty() || part == "." || part == "..") refuse("leaves the model's folder or names no file");
    const int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (last ? 0 : O_DIRECTORY);
    const int next = openat(file.get(), part.c_str(), flags);
    if (next < 0) refuse(errno == ELOOP ? "goes through a symbolic link" : "cannot be opened");
    file.reset(next);
    if (last) break;
    begin = slash + 1;
  }
  struct stat info;
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) refuse("is not a regular file");
  if (info.st_nlink != 1) refuse("has more than one hard link");
}

// Whether the file is what Git LFS leaves where the large file itself was not fetched.
bool is_lfs_pointer(const FileDescriptor& file) {
  constexpr std::string_view kBegin = "version https://git-lfs.github.com/spec/";
  char begin[kBegin.size()];
  return pread(file.get(), begin, sizeof begin, 0) == static_cast<ssize_t>(sizeof begin) && std::string_view(begin, sizeof begin) == kBegin;
}

void read_external(const tc_onnx::TensorProto& proto, const std::string& folder, const std::string& where,
                   int64_t needed, std::vector<uint8_t>& bytes) {
  std::string location;
  int64_t offset = 0, length = -1;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = parse_size(entry.value(), where);
    if (entry.key() == "length") length = parse_size(entry.value(), where);
  }
  if (length >= 0 && length != needed) {
    fail(ErrorKind::Model, where, ": its shape needs ", needed, " bytes but its external data has ", length);
  }
  FileDescriptor file(-1);
  open_below(file, folder, location, where);
  struct stat info;
  fstat(file.get(), &info);
  if (is_lfs_pointer(file))
    fail(ErrorKind::Model, where, ": its external data '", location, "' is a pointer of Git LFS, not the data; fetch it with `git lfs pull`");
  if (offset > info.st_size || needed > info.st_size - offset) {
    fail(ErrorKind::Model, where, ": its external data '", location, "' has ", info.st_size,
         " bytes; ", needed, " at offset ", offset, " are needed");
  }
  bytes.resize(static_cast<size_t>(needed));
  int64_t done = 0;
  while (done < needed) {
    const ssize_t got = pread(file.get(), bytes.data() + done, static_cast<size_t>(needed - done), offset + done);
    if (got <= 0) fail(ErrorKind::Model, where, ": its external data '", location, "' cannot be read");
    done += got;
  }
}

// The format's numbers of element types (TensorProto.DataType).
struct NumberedType {
  int32_t number;
  DType dtype;
};
constexpr NumberedType kNumberedTypes[] = {
    {1, DType::F32},       {2, DType::U8},          {3, DType::I8},      {4, DType::U16},         {5, DType::I16},
    {6, DType::I32},       {7, DType::I64},         {9, DType::Bool},    {10, DType::F16},        {11, DType::F64},
    {12, DType::U32},      {13, DType::U64},        {16, DType::BF16},   {17, DType::F8E4M3FN},   {18, DType::F8E4M3FNUZ},
    {19, DType::F8E5M2},   {20, DType::F8E5M2FNUZ}, {21, DType::U4},     {22, DType::I4},         {23, DType::F4E2M1},
    {24, DType::F8E8M0},   {25, DType::U2},         {26, DType::I2}};

}  // namespace

DType dtype_of_onnx(int32_t number, const std::string& what) {
  for (const NumberedType& type : kNumberedTypes) {
    if (type.number == number) return type.dtype;
  }
  static const char* const names[] = {"undefined", "", "", "", "", "", "", "", "string", "", "", "", "", "",
                                      "complex64", "complex128"};
  const bool known = number >= 0 && number < static_cast<int32_t>(std::size(names));
  fail(ErrorKind::Unsupported, what, " has element type ", known ? names[number] : "unknown", " (number ", number,
       "), which is not supported; supported are the floats of 4 to 64 bits, the integers of 2 to 64 bits "
       "and bool");
}

int32_t onnx_number_of(DType dtype) {
  for (const NumberedType& type : kNumberedTypes) {
    if (type.dtype == dtype) return type.number;
  }
  fail(ErrorKind::Internal, "element type ", name_of(dtype), " has no number in the format");
}

namespace {

// Elements of fewer than 8 bits, packed with the first in the lowest bits, to a byte each.
void unpack(Tensor& tensor, int64_t count) {
  const std::vector<uint8_t> packed = std::move(tensor.bytes);
  const int64_t bits = bits_of(tensor.dtype), each = 8 / bits;
  tensor.bytes.resize(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const int byte = packed[static_cast<size_t>(i / each)] >> (i % each * bits) & ((1 << bits) - 1);
    // As the tensor stores it: integers with their sign.
    if (is_float(tensor.dtype)) tensor.bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(byte);
    else tensor.set_int(i, byte);
  }
}

// How many elements a tensor has, and how many of its type's storage hold them: elements of fewer than 8 bits share bytes.
struct Extent {
  DType dtype;
  int64_t count, stored;
};

Extent extent_of(const tc_onnx::TensorProto& proto, const std::string& where) {
  const DType dtype = dtype_of_onnx(proto.data_type(), where);
  if (proto.dims_size() > kLargestRank) {
    fail(ErrorKind::Model, where, " has ", proto.dims_size(), " dimensions; at most ", kLargestRank, " are allowed");
  }
  try {
    const int64_t count = checked_count({proto.dims().begin(), proto.dims().end()});
    return {dtype, count, bits_of(dtype) < 8 ? (count * bits_of(dtype) + 7) / 8 : count};
  } catch (const Error& error) {
    fail(ErrorKind::Model, where, ": ", error.what());
  }
}

// Of small integers, which the file may keep as numbers of 32 bits: the least and the largest that may stand there. Those of fewer
// than 8 bits are packed into bytes, which some write with a sign.
std::optional<std::pair<int32_t, int32_t>> range_of(DType type) {
  const bool integer = is_integer(type) && bits_of(type) <= 16;
  if (!integer) return std::nullopt;
  if (bits_of(type) < 8) return std::pair(-128, 255);
  const int32_t size = 1 << bits_of(type);
  return is_signed(type) ? std::pair(-size / 2, size / 2 - 1) : std::pair(0, size - 1);
}

void check_range(const tc_onnx::TensorProto& proto, DType type, const std::string& where) {
  const auto range = range_of(type);
  if (!range) return;
  for (int i = 0; i < proto.int32_data_size(); ++i) {
    const int32_t number = proto.int32_data(i);
    if (number >= range->first && number <= range->second) continue;
    fail(ErrorKind::Model, where, ": int32_data holds ", number, " as element ", i, ", which is no ", name_of(type));
  }
}

// The numbers of a field for one type; `data_of` checks how many there are.
void read_fields(const tc_onnx::TensorProto& proto, int64_t stored, Tensor& tensor, const std::function<void(int64_t, const char*)>& data_of) {
  switch (tensor.dtype) {
    case DType::F32: data_of(proto.float_data_size(), "float_data"); break;
    case DType::F64: data_of(proto.double_data_size(), "double_data"); break;
    case DType::I64: data_of(proto.int64_data_size(), "int64_data"); break;
    case DType::U32:
    case DType::U64: data_of(proto.uint64_data_size(), "uint64_data"); break;
    default: data_of(proto.int32_data_size(), "int32_data"); break;
  }
  tensor.bytes.resize(static_cast<size_t>(stored * size_of(tensor.dtype)));
  for (int i = 0; i < static_cast<int>(stored); ++i) {
    switch (tensor.dtype) {
      case DType::F32: tensor.data<float>()[i] = proto.float_data(i); break;
      case DType::F64: tensor.data<double>()[i] = proto.double_data(i); break;
      case DType::I64: tensor.data<int64_t>()[i] = proto.int64_data(i); break;
      case DType::U64: tensor.data<uint64_t>()[i] = proto.uint64_data(i); break;
      case DType::U32: tensor.data<uint32_t>()[i] = static_cast<uint32_t>(proto.uint64_data(i)); break;
      case DType::I32: tensor.data<int32_t>()[i] = proto.int32_data(i); break;
      case DType::I16:
      case DType::U16:
      case DType::F16:
      case DType::BF16: tensor.data<uint16_t>()[i] = static_cast<uint16_t>(proto.int32_data(i)); break;
      case DType::Bool: tensor.data<uint8_t>()[i] = proto.int32_data(i) != 0; break;
      default: tensor.data<uint8_t>()[i] = static_cast<uint8_t>(proto.int32_data(i)); break;
    }
  }
}

}  // namespace

TensorPtr read_tensor(const tc_onnx::TensorProto& proto, const std::string& folder, const std::string& file_name) {
  const std::string where = text("tensor '", proto.name(), "' of ", file_name);
  const Extent extent = extent_of(proto, where);
  const int64_t stored = extent.stored, bytes = stored * size_of(extent.dtype);
  auto data_of = [&](int64_t have, const char* field) {
    if (have != stored) {
      fail(ErrorKind::Model, where, ": its shape needs ", stored, " elements but ", field, " holds ", have);
    }
  };
  auto tensor = std::make_shared<Tensor>();
  tensor->dtype = extent.dtype;
  tensor->shape.assign(proto.dims().begin(), proto.dims().end());
  const bool external = proto.data_location() == tc_onnx::TensorProto::EXTERNAL;
  // What is in the file bounds what is allocated; external data is bounded by its file.
  if (!external && proto.has_raw_data()) {
    if (static_cast<int64_t>(proto.raw_data().size()) != bytes) {
      fail(ErrorKind::Model, where, ": its shape needs ", bytes, " bytes but its raw data has ", proto.raw_data().size());
    }
    // By pointers to bytes, which are copied as a whole; characters would be converted one by one.
    const auto* raw = reinterpret_cast<const uint8_t*>(proto.raw_data().data());
    tensor->bytes.assign(raw, raw + bytes);
    if (extent.dtype == DType::Bool) {
      for (uint8_t& byte : tensor->bytes) byte = byte != 0;
    }
  } else if (external) {
    read_external(proto, folder, where, bytes, tensor->bytes);
  } else {
    check_range(proto, extent.dtype, where);
    read_fields(proto, stored, *tensor, data_of);
  }
  if (bits_of(extent.dtype) < 8) unpack(*tensor, extent.count);
  return tensor;
}

void take_in(tc_onnx::TensorProto& proto, const std::string& folder, const std::string& file_name) {
  if (proto.data_location() != tc_onnx::TensorProto::EXTERNAL) return;
  const std::string where = text("tensor '", proto.name(), "' of ", file_name);
  const Extent extent = extent_of(proto, where);
  std::vector<uint8_t> bytes;
  read_external(proto, folder, where, extent.stored * size_of(extent.dtype), bytes);
  proto.clear_external_data();
  proto.clear_data_location();
  proto.set_raw_data(bytes.data(), bytes.size());
}

}  // namespace tc
