// Tensors of an ONNX file, with their data inside of it or in a separate file.
#include "frontend/import/onnx/tensor_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "frontend/import/onnx/model_file.h"
#include "ir/error.h"
#include "ir/held_constants.h"

namespace tc {

// The tensors that were read for one model. Those that nothing refers to any more are read again.
class ReadTensors {
 public:
  // Where bytes are stored: the file's device and inode number, and the offset in it.
  using Place = std::tuple<uint64_t, uint64_t, int64_t>;

  // Counts a range that is about to be read from a file of `file_bytes` bytes. False where the ranges
  // together are too much for the files' sizes.
  bool may_read(const Place& place, int64_t bytes, int64_t file_bytes) {
    if (files_.emplace(std::get<0>(place), std::get<1>(place)).second) {
      files_bytes_ += file_bytes;
      note_bytes_read(file_bytes);
    }
    read_bytes_ += bytes;
    return read_bytes_ <= kMinRead + 2 * files_bytes_;
  }

  TensorPtr at(const Place& place, const Tensor& like) const {
    const auto found = by_place_.find({place, like.dtype, like.shape});
    return found == by_place_.end() ? nullptr : found->second.lock();
  }

  void note(const Place& place, const TensorPtr& tensor) {
    by_place_[{place, tensor->dtype, tensor->shape}] = tensor;
  }

  // The tensor, or an equal one that was read before. It takes `bytes` bytes in its file.
  TensorPtr one_of_equals(TensorPtr tensor, int64_t bytes, const std::string& name) {
    const std::string_view content(reinterpret_cast<const char*>(tensor->bytes.data()), tensor->bytes.size());
    if (content.size() < kSmall) return tensor;
    std::weak_ptr<const Tensor>& known = by_hash_[std::hash<std::string_view>()(content)];
    const TensorPtr before = known.lock();
    if (before && before->dtype == tensor->dtype && before->shape == tensor->shape &&
        before->bytes == tensor->bytes)
      return before;
    // Elements of few bits take more bytes in memory than in the file.
    note_bytes_read(static_cast<int64_t>(content.size()) - bytes);
    tensor = held(std::move(tensor), name);
    known = tensor;
    return tensor;
  }

 private:
  static constexpr int64_t kMinRead = 64 << 20;
  static constexpr size_t kSmall = 4096;

  std::set<std::pair<uint64_t, uint64_t>> files_;
  int64_t files_bytes_ = 0, read_bytes_ = 0;
  std::map<std::tuple<Place, DType, std::vector<int64_t>>, std::weak_ptr<const Tensor>> by_place_;
  std::unordered_map<size_t, std::weak_ptr<const Tensor>> by_hash_;
};

DataFolders::DataFolders(std::string folder, std::vector<std::string> others)
    : model(std::move(folder)), more(std::move(others)), read(std::make_shared<ReadTensors>()) {}

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

// Finds and opens the file with the external data of one tensor.
class DataFile {
 public:
  DataFile(FileDescriptor& file, const DataFolders& folders, const std::string& location,
           const std::string& where)
      : file_(file), folders_(folders), location_(location), where_(where) {}

  void open_it() {
    if (folders_.model.empty())
      refuse("cannot be found, because the model was given as bytes, without a folder");
    if (location_.empty() || location_[0] == '/') refuse("is not a relative path");
    const int failed = open_below(folders_.model, location_);
    // The path contains a symbolic link: the file that it leads to has to be in one of the allowed folders.
    if (failed == ELOOP || failed == ENOTDIR) open_linked();
    else if (failed != 0) refuse("cannot be opened");
    struct stat info;
    if (fstat(file_.get(), &info) != 0 || !S_ISREG(info.st_mode)) refuse("is not a regular file");
    if (info.st_nlink != 1) refuse("has more than one hard link");
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    fail(ErrorKind::Model, where_, ": its external data '", location_, "' ", why,
         "; external data must be a plain file inside the model's folder");
  }

  // Opens the path component by component, following no symbolic link. Returns 0, or the number of the error.
  int open_below(const std::string& folder, const std::string& path) {
    file_.reset(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (file_.get() < 0) refuse("lies in a folder that cannot be opened");
    size_t begin = 0;
    while (begin <= path.size()) {
      const size_t slash = path.find('/', begin);
      const bool last = slash == std::string::npos;
      const std::string part = path.substr(begin, last ? std::string::npos : slash - begin);
      begin = last ? path.size() + 1 : slash + 1;
      if (part == "." && !last) continue;
      if (part.empty() || part == "." || part == "..") refuse("leaves the model's folder or names no file");
      const int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (last ? 0 : O_DIRECTORY);
      const int next = openat(file_.get(), part.c_str(), flags);
      if (next < 0) return errno;
      file_.reset(next);
    }
    return 0;
  }

  void open_linked() {
    std::error_code code;
    const std::filesystem::path target =
        std::filesystem::canonical(std::filesystem::path(folders_.model) / location_, code);
    if (code) refuse("goes through a symbolic link to nothing that can be opened");
    for (const std::filesystem::path& folder : allowed()) {
      const auto [rest, part] = std::mismatch(folder.begin(), folder.end(), target.begin(), target.end());
      if (rest != folder.end() || part == target.end()) continue;
      // The canonical path has no links, unless somebody changes it at this moment, which is refused.
      const int failed = open_below(folder.string(), target.lexically_relative(folder).string());
      if (failed != 0) refuse("cannot be opened");
      return;
    }
    refuse(
        "goes through a symbolic link to a file outside of the folders that may hold it (data_folders names more)");
  }

  // The folders into which links may lead, as canonical paths.
  std::vector<std::filesystem::path> allowed() const {
    std::vector<std::filesystem::path> result;
    std::error_code code;
    for (const std::string& each : folders_.more) {
      const std::filesystem::path folder = std::filesystem::canonical(each, code);
      if (code || !std::filesystem::is_directory(folder)) {
        fail(ErrorKind::Model, where_, ": '", each, "' of data_folders is no folder that can be opened");
      }
      result.push_back(folder);
    }
    const std::filesystem::path model = std::filesystem::canonical(folders_.model, code);
    if (code) return result;
    result.push_back(model);
    for (std::filesystem::path inner = model; inner.has_relative_path(); inner = inner.parent_path()) {
      const std::filesystem::path snapshots = inner.parent_path(), blobs = snapshots.parent_path() / "blobs";
      if (snapshots.filename() != "snapshots" || !std::filesystem::is_directory(blobs, code) ||
          std::filesystem::is_symlink(blobs, code))
        continue;
      result.push_back(blobs);
      break;
    }
    return result;
  }

  FileDescriptor& file_;
  const DataFolders& folders_;
  const std::string& location_;
  const std::string& where_;
};

// Whether the file is a pointer that Git LFS leaves where the large file itself was not fetched.
bool is_lfs_pointer(const FileDescriptor& file) {
  constexpr std::string_view kBegin = "version https://git-lfs.github.com/spec/";
  char begin[kBegin.size()];
  return pread(file.get(), begin, sizeof begin, 0) == static_cast<ssize_t>(sizeof begin) &&
         std::string_view(begin, sizeof begin) == kBegin;
}

// The bytes of a tensor in a file, where elements of fewer than 8 bits share bytes.
int64_t bytes_stored(const Tensor& tensor) {
  const int64_t count = checked_count(tensor.shape), bits = bits_of(tensor.dtype);
  return bits < 8 ? (count * bits + 7) / 8 : count * size_of(tensor.dtype);
}

// Fills the tensor, whose type and shape are set, and stores in `place` where its bytes are. Where the same
// place was read before, returns that tensor instead; else null.
TensorPtr read_external(const tc_onnx::TensorProto& proto, const DataFolders& folders,
                        const std::string& where, Tensor& tensor, ReadTensors::Place& place) {
  std::string location;
  int64_t offset = 0, length = -1;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = parse_size(entry.value(), where);
    if (entry.key() == "length") length = parse_size(entry.value(), where);
  }
  const int64_t needed = bytes_stored(tensor);
  if (length >= 0 && length != needed) {
    fail(ErrorKind::Model, where, ": its shape needs ", needed, " bytes but its external data has ", length);
  }
  FileDescriptor file(-1);
  DataFile(file, folders, location, where).open_it();
  struct stat info;
  fstat(file.get(), &info);
  if (is_lfs_pointer(file))
    fail(ErrorKind::Model, where, ": its external data '", location,
         "' is a pointer of Git LFS, not the data; fetch it with `git lfs pull`");
  if (offset > info.st_size || needed > info.st_size - offset) {
    fail(ErrorKind::Model, where, ": its external data '", location, "' has ", info.st_size, " bytes; ",
         needed, " at offset ", offset, " are needed");
  }
  place = {info.st_dev, info.st_ino, offset};
  if (TensorPtr before = folders.read->at(place, tensor)) return before;
  if (!folders.read->may_read(place, needed, info.st_size)) {
    fail(
        ErrorKind::Model, where, ": so many tensors overlap in its external data '", location,
        "', which has ", info.st_size,
        " bytes, that far more would be read than there is; export the model again, each tensor in a place of its own");
  }
  std::vector<uint8_t>& bytes = tensor.bytes;
  bytes.resize(static_cast<size_t>(needed));
  int64_t done = 0;
  while (done < needed) {
    const ssize_t got =
        pread(file.get(), bytes.data() + done, static_cast<size_t>(needed - done), offset + done);
    if (got <= 0) fail(ErrorKind::Model, where, ": its external data '", location, "' cannot be read");
    done += got;
  }
  return nullptr;
}

// The format's numbers of element types (TensorProto.DataType).
struct NumberedType {
  int32_t number;
  DType dtype;
};
constexpr NumberedType kNumberedTypes[] = {
    {1, DType::F32},         {2, DType::U8},        {3, DType::I8},          {4, DType::U16},
    {5, DType::I16},         {6, DType::I32},       {7, DType::I64},         {9, DType::Bool},
    {10, DType::F16},        {11, DType::F64},      {12, DType::U32},        {13, DType::U64},
    {16, DType::BF16},       {17, DType::F8E4M3FN}, {18, DType::F8E4M3FNUZ}, {19, DType::F8E5M2},
    {20, DType::F8E5M2FNUZ}, {21, DType::U4},       {22, DType::I4},         {23, DType::F4E2M1},
    {24, DType::F8E8M0},     {25, DType::U2},       {26, DType::I2}};

}  // namespace

DType dtype_of_onnx(int32_t number, const std::string& what) {
  for (const NumberedType& type : kNumberedTypes) {
    if (type.number == number) return type.dtype;
  }
  static const char* const names[] = {"undefined", "", "", "", "", "", "",          "",
                                      "string",    "", "", "", "", "", "complex64", "complex128"};
  const bool known = number >= 0 && number < static_cast<int32_t>(std::size(names));
  fail(ErrorKind::Unsupported, what, " has element type ", known ? names[number] : "unknown", " (number ",
       number,
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

// Unpacks elements of fewer than 8 bits, of which the first is in the lowest bits, to one byte each.
void unpack(Tensor& tensor, int64_t count) {
  const std::vector<uint8_t> packed = std::move(tensor.bytes);
  const int64_t bits = bits_of(tensor.dtype), each = 8 / bits;
  tensor.bytes.resize(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const int byte = packed[static_cast<size_t>(i / each)] >> (i % each * bits) & ((1 << bits) - 1);
    // In the tensor integers are stored with their sign extended.
    if (is_float(tensor.dtype)) tensor.bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(byte);
    else tensor.set_int(i, byte);
  }
}

// How many elements a tensor has, and how many units of storage they take in the file: elements of fewer than
// 8 bits share bytes.
struct Extent {
  DType dtype;
  int64_t count, stored;
};

Extent extent_of(const tc_onnx::TensorProto& proto, const std::string& where) {
  const DType dtype = dtype_of_onnx(proto.data_type(), where);
  if (proto.dims_size() > kLargestRank) {
    fail(ErrorKind::Model, where, " has ", proto.dims_size(), " dimensions; at most ", kLargestRank,
         " are allowed");
  }
  try {
    const int64_t count = checked_count({proto.dims().begin(), proto.dims().end()});
    return {dtype, count, bits_of(dtype) < 8 ? (count * bits_of(dtype) + 7) / 8 : count};
  } catch (const Error& error) {
    fail(ErrorKind::Model, where, ": ", error.what());
  }
}

// The least and the largest number allowed where the file stores small integers as numbers of 32 bits.
// Integers of fewer than 8 bits are packed into bytes, which some writers store as signed.
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
    fail(ErrorKind::Model, where, ": int32_data holds ", number, " as element ", i, ", which is no ",
         name_of(type));
  }
}

// Reads the numbers from the message's field for the tensor's type; `data_of` checks how many there are.
void read_fields(const tc_onnx::TensorProto& proto, int64_t stored, Tensor& tensor,
                 const std::function<void(int64_t, const char*)>& data_of) {
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

TensorPtr read_tensor(const tc_onnx::TensorProto& proto, const DataFolders& folders,
                      const std::string& file_name) {
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
  ReadTensors::Place place;
  // Checked before allocating: the file's own bytes bound the tensor's. External data is bounded by its file.
  if (!external && proto.has_raw_data()) {
    if (static_cast<int64_t>(proto.raw_data().size()) != bytes) {
      fail(ErrorKind::Model, where, ": its shape needs ", bytes, " bytes but its raw data has ",
           proto.raw_data().size());
    }
    // Bytes are copied as one block through this pointer type; characters would be converted one by one.
    const auto* raw = reinterpret_cast<const uint8_t*>(proto.raw_data().data());
    tensor->bytes.assign(raw, raw + bytes);
    if (extent.dtype == DType::Bool) {
      for (uint8_t& byte : tensor->bytes) byte = byte != 0;
    }
  } else if (external) {
    if (TensorPtr before = read_external(proto, folders, where, *tensor, place)) return before;
  } else {
    check_range(proto, extent.dtype, where);
    read_fields(proto, stored, *tensor, data_of);
  }
  if (bits_of(extent.dtype) < 8) unpack(*tensor, extent.count);
  const bool packed = external || proto.has_raw_data();
  const TensorPtr result = folders.read->one_of_equals(tensor, packed ? bytes : 0, proto.name());
  if (external) folders.read->note(place, result);
  return result;
}

std::optional<Attribute> attribute_value(const tc_onnx::AttributeProto& proto, const DataFolders& folders,
                                         const std::string& file_name) {
  using Type = tc_onnx::AttributeProto;
  switch (kind_of(proto)) {
    case Type::INT: return static_cast<int64_t>(proto.i());
    case Type::FLOAT: return static_cast<double>(proto.f());
    case Type::STRING: return proto.s();
    case Type::INTS: return std::vector<int64_t>(proto.ints().begin(), proto.ints().end());
    case Type::FLOATS: return std::vector<double>(proto.floats().begin(), proto.floats().end());
    case Type::STRINGS: return std::vector<std::string>(proto.strings().begin(), proto.strings().end());
    case Type::TENSOR: return read_tensor(proto.t(), folders, file_name);
    default: return std::nullopt;
  }
}

void take_in(tc_onnx::TensorProto& proto, const DataFolders& folders, const std::string& file_name) {
  if (proto.data_location() != tc_onnx::TensorProto::EXTERNAL) return;
  const std::string where = text("tensor '", proto.name(), "' of ", file_name);
  Tensor tensor;
  tensor.dtype = extent_of(proto, where).dtype;
  tensor.shape.assign(proto.dims().begin(), proto.dims().end());
  ReadTensors::Place place;
  read_external(proto, folders, where, tensor, place);
  proto.clear_external_data();
  proto.clear_data_location();
  proto.set_raw_data(tensor.bytes.data(), tensor.bytes.size());
}

}  // namespace tc
