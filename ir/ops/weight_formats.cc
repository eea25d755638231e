// Formats of weights. Those with names are ggml's (ggml-common.h and ggml-quants.c, where
// `dequantize_row_NAME` defines what a block means); MXFP4 is that of the Open Compute Project's Microscaling
// Formats, version 1.0.
#include "ir/ops/weight_formats.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>

#include "ir/error.h"

namespace tc {
namespace {

Affine var(const char* name, int64_t factor = 1) { return Affine::variable(name, factor); }
ExprPtr number(int64_t value) { return int_constant(DType::I32, value); }

// The bits of an i32 from bit `first` on, as many as the mask has.
ExprPtr bits_from(ExprPtr value, const Affine& first, int64_t mask) {
  if (!first.is_constant() || first.constant() != 0) {
    value = binary(BinaryOp::Shr, std::move(value), cast(DType::I32, index_value(first)));
  }
  return binary(BinaryOp::And, std::move(value), number(mask));
}

// The bits of `high`, shifted above those of `low`.
ExprPtr above(ExprPtr low, ExprPtr high, int64_t shift) {
  return binary(BinaryOp::Or, std::move(low), binary(BinaryOp::Shl, std::move(high), number(shift)));
}

ExprPtr product(ExprPtr a, ExprPtr b) { return binary(BinaryOp::Mul, std::move(a), std::move(b)); }
ExprPtr as_float(ExprPtr code) { return cast(DType::F32, std::move(code)); }

// table[code], as a tree of selects by the code's bits, which vectors compute without gathers.
ExprPtr choice(const ExprPtr& code, const std::vector<int64_t>& table, size_t first, size_t count) {
  if (count == 1) return number(table[first]);
  const size_t half = count / 2;
  const ExprPtr is_low = binary(BinaryOp::Lt, code, number(static_cast<int64_t>(first + half)));
  return select(is_low, choice(code, table, first, half), choice(code, table, first + half, half));
}

// Copies consecutive parts of a block to the planes: part i to plane `order[i]`.
std::function<void(const uint8_t*, const std::vector<uint8_t*>&)> copies(
    std::vector<std::pair<size_t, size_t>> parts) {
  return [parts = std::move(parts)](const uint8_t* block, const std::vector<uint8_t*>& planes) {
    for (const auto& [plane, bytes] : parts) {
      std::memcpy(planes[plane], block, bytes);
      block += bytes;
    }
  };
}

// A byte in two's complement that was read as unsigned, converted to a code with bias 128.
ExprPtr from_signed(ExprPtr byte) { return binary(BinaryOp::Xor, std::move(byte), number(128)); }

// The values of a table as codes with the given bias. Sums of products with the bias have to be subtracted
// again, so the bias is no larger than needed.
ExprPtr choice_of(const ExprPtr& number, std::vector<int64_t> table, int64_t bias) {
  for (int64_t& value : table) value += bias;
  return choice(number, table, 0, table.size());
}

// --- floats --------------------------------------------------------------------------------------------

WeightFormat plain(const std::string& name, DType dtype) {
  WeightFormat format;
  format.name = name;
  format.doc = "a number of its own for each weight";
  format.bytes = size_of(dtype);
  format.planes = {{"w", dtype, 1}};
  format.decode = [](const ReadPlane& read) { return DecodedWeight{read(0, 0), 0, nullptr}; };
  format.split = copies({{0, static_cast<size_t>(size_of(dtype))}});
  return format;
}

// --- blocks of 32 --------------------------------------------------------------------------------------

// 32 codes of 4 bits: the first 16 are the lower halves of the bytes, the others the upper ones.
WeightFormat nibbles(const std::string& name, const std::string& doc) {
  WeightFormat format;
  format.name = name;
  format.doc = doc;
  format.block = 32;
  format.loops = {{"h", 2}, {"l", 16}};
  format.group_loops = 2;
  format.place = var("h", 16) + var("l");
  return format;
}

ExprPtr nibble(const ReadPlane& read, size_t plane, const Affine& byte) {
  return bits_from(read(plane, byte), var("h", 4), 15);
}

WeightFormat q4_0() {
  WeightFormat format = nibbles("q4_0", "4 bits, and a scale for 32 weights");
  format.bytes = 18;
  format.planes = {{"d", DType::F16, 1}, {"q", DType::U8, 16}};
  format.decode = [](const ReadPlane& read) {
    return DecodedWeight{nibble(read, 1, var("l")), 8, read(0, 0)};
  };
  format.split = copies({{0, 2}, {1, 16}});
  return format;
}

WeightFormat q4_1() {
  WeightFormat format = nibbles("q4_1", "4 bits, and a scale and an offset for 32 weights");
  format.bytes = 20;
  format.planes = {{"d", DType::F16, 1}, {"m", DType::F16, 1}, {"q", DType::U8, 16}};
  format.decode = [](const ReadPlane& read) {
    return DecodedWeight{nibble(read, 2, var("l")), 0, read(0, 0), read(1, 0)};
  };
  format.split = copies({{0, 2}, {1, 2}, {2, 16}});
  return format;
}

// A fifth bit for each weight: bit i of byte r is that of weight 4 i + r.
ExprPtr fifth_bit(const ReadPlane& read, size_t low, size_t high) {
  return above(nibble(read, low, var("t", 4) + var("l")),
               bits_from(read(high, var("l")), var("h", 4) + var("t"), 1), 4);
}

// Files store the bit of weight j as bit j of 32.
void split_fifth_bits(const uint8_t* bits, uint8_t* plane) {
  std::fill_n(plane, 4, 0);
  for (size_t j = 0; j < 32; ++j)
    plane[j % 4] = static_cast<uint8_t>(plane[j % 4] | (bits[j / 8] >> j % 8 & 1) << j / 4);
}

WeightFormat with_fifth_bits(WeightFormat format) {
  format.loops = {{"h", 2}, {"t", 4}, {"l", 4}};
  format.group_loops = 3;
  format.place = var("h", 16) + var("t", 4) + var("l");
  return format;
}

WeightFormat q5_0() {
  WeightFormat format = with_fifth_bits(nibbles("q5_0", "5 bits, and a scale for 32 weights"));
  format.bytes = 22;
  format.planes = {{"d", DType::F16, 1}, {"h", DType::U8, 4}, {"q", DType::U8, 16}};
  format.decode = [](const ReadPlane& read) { return DecodedWeight{fifth_bit(read, 2, 1), 16, read(0, 0)}; };
  format.split = [](const uint8_t* block, const std::vector<uint8_t*>& planes) {
    std::memcpy(planes[0], block, 2);
    split_fifth_bits(block + 2, planes[1]);
    std::memcpy(planes[2], block + 6, 16);
  };
  return format;
}

WeightFormat q5_1() {
  WeightFormat format = with_fifth_bits(nibbles("q5_1", "5 bits, and a scale and an offset for 32 weights"));
  format.bytes = 24;
  format.planes = {{"d", DType::F16, 1}, {"m", DType::F16, 1}, {"h", DType::U8, 4}, {"q", DType::U8, 16}};
  format.decode = [](const ReadPlane& read) {
    return DecodedWeight{fifth_bit(read, 3, 2), 0, read(0, 0), read(1, 0)};
  };
  format.split = [](const uint8_t* block, const std::vector<uint8_t*>& planes) {
    std::memcpy(planes[0], block, 2);
    std::memcpy(planes[1], block + 2, 2);
    split_fifth_bits(block + 4, planes[2]);
    std::memcpy(planes[3], block + 8, 16);
  };
  return format;
}

WeightFormat q8_0() {
  WeightFormat format;
  format.name = "q8_0";
  format.doc = "8 bits, and a scale for 32 weights";
  format.block = 32;
  format.bytes = 34;
  format.planes = {{"d", DType::F16, 1}, {"q", DType::U8, 32}};
  format.loops = {{"l", 32}};
  format.group_loops = 1;
  format.place = var("l");
  format.decode = [](const ReadPlane& read) {
    return DecodedWeight{from_signed(read(1, var("l"))), 128, read(0, 0)};
  };
  format.split = copies({{0, 2}, {1, 32}});
  return format;
}

// Codes are indices into a table of values.
WeightFormat iq4_nl() {
  WeightFormat format =
      nibbles("iq4_nl", "4 bits that number 16 unevenly spaced values, and a scale for 32 weights");
  format.bytes = 18;
  format.planes = {{"d", DType::F16, 1}, {"q", DType::U8, 16}};
  format.decode = [](const ReadPlane& read) {
    static const std::vector<int64_t> values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                1,    13,   25,  38,  53,  69,  89,  113};
    return DecodedWeight{choice_of(nibble(read, 1, var("l")), values, 128), 128, read(0, 0)};
  };
  format.split = copies({{0, 2}, {1, 16}});
  return format;
}

// Floats of 4 bits (e2m1), as twice their values, and an exponent for 32 of them.
WeightFormat mxfp4() {
  WeightFormat format = nibbles("mxfp4", "floats of 4 bits (e2m1), and a power of two for 32 weights");
  format.bytes = 17;
  format.planes = {{"e", DType::F8E8M0, 1}, {"q", DType::U8, 16}};
  format.decode = [](const ReadPlane& read) {
    static const std::vector<int64_t> values = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    return DecodedWeight{choice_of(nibble(read, 1, var("l")), values, 12), 12,
                         product(read(0, 0), constant(DType::F32, 0.5))};
  };
  format.split = copies({{0, 1}, {1, 16}});
  return format;
}

// --- blocks of 256 -------------------------------------------------------------------------------------

WeightFormat blocks_of_256(const std::string& name, const std::string& doc, int64_t bytes) {
  WeightFormat format;
  format.name = name;
  format.doc = doc;
  format.block = 256;
  format.bytes = bytes;
  format.group_loops = 1;
  return format;
}

WeightFormat q2_k() {
  WeightFormat format =
      blocks_of_256("q2_k", "2 bits; a scale and an offset of 4 bits for 16 weights, in units for 256", 84);
  format.planes = {{"d", DType::F16, 1}, {"m", DType::F16, 1}, {"s", DType::U8, 16}, {"q", DType::U8, 64}};
  format.loops = {{"c", 2}, {"h", 4}, {"t", 2}, {"l", 16}};
  format.place = var("c", 128) + var("h", 32) + var("t", 16) + var("l");
  format.decode = [](const ReadPlane& read) {
    const ExprPtr pair = read(2, var("c", 8) + var("h", 2) + var("t"));
    const ExprPtr scale = product(read(0, 0), as_float(bits_from(pair, 0, 15)));
    const ExprPtr offset = product(unary(UnaryOp::Neg, read(1, 0)), as_float(bits_from(pair, 4, 15)));
    return DecodedWeight{bits_from(read(3, var("c", 32) + var("t", 16) + var("l")), var("h", 2), 3), 0, scale,
                         offset};
  };
  format.split = copies({{2, 16}, {3, 64}, {0, 2}, {1, 2}});
  return format;
}

WeightFormat q3_k() {
  WeightFormat format =
      blocks_of_256("q3_k", "3 bits; a scale of 6 bits for 16 weights, in units for 256", 110);
  format.planes = {{"d", DType::F16, 1}, {"s", DType::I8, 16}, {"h", DType::U8, 32}, {"q", DType::U8, 64}};
  format.loops = {{"c", 2}, {"h", 4}, {"t", 2}, {"l", 16}};
  format.place = var("c", 128) + var("h", 32) + var("t", 16) + var("l");
  format.decode = [](const ReadPlane& read) {
    const ExprPtr low = bits_from(read(3, var("c", 32) + var("t", 16) + var("l")), var("h", 2), 3);
    const ExprPtr high = bits_from(read(2, var("t", 16) + var("l")), var("c", 4) + var("h"), 1);
    const ExprPtr scale = product(read(0, 0), as_float(read(1, var("c", 8) + var("h", 2) + var("t"))));
    return DecodedWeight{above(low, high, 2), 4, scale};
  };
  format.split = [](const uint8_t* block, const std::vector<uint8_t*>& planes) {
    std::memcpy(planes[2], block, 32);
    std::memcpy(planes[3], block + 32, 64);
    const uint8_t* packed = block + 96;  // the low 4 bits of 16 scales, then their high 2 bits
    for (size_t i = 0; i < 16; ++i) {
      const int low = i < 8 ? packed[i] & 15 : packed[i - 8] >> 4,
                high = packed[8 + i % 4] >> (2 * (i / 4)) & 3;
      planes[1][i] = static_cast<uint8_t>((low | high << 4) - 32);
    }
    std::memcpy(planes[0], block + 108, 2);
  };
  return format;
}

// Eight scales and eight offsets of 6 bits in 12 bytes: 4 bytes with the first four scales, 4 with the first
// four offsets, and 4 with the rest.
void split_pairs_of_6_bits(const uint8_t* packed, uint8_t* scales, uint8_t* offsets) {
  for (size_t i = 0; i < 4; ++i) {
    scales[i] = packed[i] & 63;
    offsets[i] = packed[i + 4] & 63;
    scales[i + 4] = static_cast<uint8_t>((packed[i + 8] & 15) | packed[i] >> 6 << 4);
    offsets[i + 4] = static_cast<uint8_t>(packed[i + 8] >> 4 | packed[i + 4] >> 6 << 4);
  }
}

// What Q4_K and Q5_K share; `codes` is the plane of the lower 4 bits.
WeightFormat pairs_for_32(WeightFormat format, std::function<ExprPtr(const ReadPlane&)> code) {
  format.loops = {{"c", 4}, {"h", 2}, {"l", 32}};
  format.place = var("c", 64) + var("h", 32) + var("l");
  format.decode = [code = std::move(code)](const ReadPlane& read) {
    const Affine pair = var("c", 2) + var("h");
    const ExprPtr scale = product(read(0, 0), as_float(read(2, pair)));
    return DecodedWeight{code(read), 0, scale,
                         product(unary(UnaryOp::Neg, read(1, 0)), as_float(read(3, pair)))};
  };
  return format;
}

WeightFormat q4_k() {
  WeightFormat format =
      blocks_of_256("q4_k", "4 bits; a scale and an offset of 6 bits for 32 weights, in units for 256", 144);
  format.planes = {{"d", DType::F16, 1},
                   {"m", DType::F16, 1},
                   {"s", DType::U8, 8},
                   {"o", DType::U8, 8},
                   {"q", DType::U8, 128}};
  format.split = [](const uint8_t* block, const std::vector<uint8_t*>& planes) {
    std::memcpy(planes[0], block, 2);
    std::memcpy(planes[1], block + 2, 2);
    split_pairs_of_6_bits(block + 4, planes[2], planes[3]);
    std::memcpy(planes[4], block + 16, 128);
  };
  return pairs_for_32(std::move(format),
                      [](const ReadPlane& read) { return nibble(read, 4, var("c", 32) + var("l")); });
}

WeightFormat q5_k() {
  WeightFormat format =
      blocks_of_256("q5_k", "5 bits; a scale and an offset of 6 bits for 32 weights, in units for 256", 176);
  format.planes = {{"d", DType::F16, 1}, {"m", DType::F16, 1}, {"s", DType::U8, 8},
                   {"o", DType::U8, 8},  {"h", DType::U8, 32}, {"q", DType::U8, 128}};
  format.split = [](const uint8_t* block, const std::vector<uint8_t*>& planes) {
    std::memcpy(planes[0], block, 2);
    std::memcpy(planes[1], block + 2, 2);
    split_pairs_of_6_bits(block + 4, planes[2], planes[3]);
    std::memcpy(planes[4], block + 16, 32);
    std::memcpy(planes[5], block + 48, 128);
  };
  return pairs_for_32(std::move(format), [](const ReadPlane& read) {
    return above(nibble(read, 5, var("c", 32) + var("l")),
                 bits_from(read(4, var("l")), var("c", 2) + var("h"), 1), 4);
  });
}

WeightFormat q6_k() {
  WeightFormat format =
      blocks_of_256("q6_k", "6 bits; a scale of 8 bits for 16 weights, in units for 256", 210);
  format.planes = {{"d", DType::F16, 1}, {"s", DType::I8, 16}, {"h", DType::U8, 64}, {"q", DType::U8, 128}};
  format.loops = {{"c", 2}, {"h", 2}, {"g", 2}, {"t", 2}, {"l", 16}};
  format.place = var("c", 128) + var("h", 64) + var("g", 32) + var("t", 16) + var("l");
  format.decode = [](const ReadPlane& read) {
    const ExprPtr low = nibble(read, 3, var("c", 64) + var("g", 32) + var("t", 16) + var("l"));
    const ExprPtr high =
        bits_from(read(2, var("c", 32) + var("t", 16) + var("l")), var("h", 4) + var("g", 2), 3);
    const ExprPtr scale =
        product(read(0, 0), as_float(read(1, var("c", 8) + var("h", 4) + var("g", 2) + var("t"))));
    return DecodedWeight{above(low, high, 4), 32, scale};
  };
  format.split = copies({{3, 128}, {2, 64}, {1, 16}, {0, 2}});
  return format;
}

// --- ONNX's blocks -------------------------------------------------------------------------------------

WeightFormat code_blocks(const CodeBlocks& blocks) {
  const int64_t per_byte = 8 / blocks.bits, mask = (int64_t{1} << blocks.bits) - 1;
  WeightFormat format;
  format.name = name_of(blocks);
  format.doc = "unsigned codes of 2, 4 or 8 bits, and a scale for each block";
  format.block = blocks.block;
  format.planes = {{"q", DType::U8, blocks.block / per_byte}, {"d", blocks.scale, 1}};
  if (blocks.has_zero) format.planes.push_back({"z", blocks.zero, 1});
  const int64_t apart = blocks.block / per_byte;
  if (per_byte > 1) format.loops.push_back({"h", per_byte});
  format.loops.push_back({"l", apart});
  format.group_loops = format.loops.size();
  format.place = per_byte > 1 ? var("h", apart) + var("l") : var("l");
  format.decode = [blocks, mask](const ReadPlane& read) {
    ExprPtr code = read(0, var("l"));
    if (blocks.bits < 8) code = bits_from(code, var("h", blocks.bits), mask);
    if (!blocks.has_zero) return DecodedWeight{code, int64_t{1} << (blocks.bits - 1), read(1, 0)};
    ExprPtr zero = read(2, 0);
    if (is_integer(zero->dtype)) zero = as_float(zero);
    return DecodedWeight{code, 0, read(1, 0), product(unary(UnaryOp::Neg, zero), read(1, 0))};
  };
  return format;
}

// Parses a name of code_blocks; false if it is not one.
bool parse(const std::string& name, CodeBlocks& blocks) {
  std::vector<std::string> parts(1);
  for (const char c : name) {
    if (c == ':') parts.emplace_back();
    else parts.back() += c;
  }
  if (parts.size() < 3 || parts.size() > 4 || parts[1].empty() || parts[1].size() > 7) return false;
  if (parts[1].find_first_not_of("0123456789") != std::string::npos) return false;
  if (parts[0] != "u2" && parts[0] != "u4" && parts[0] != "u8") return false;
  blocks.bits = parts[0][1] - '0';
  blocks.block = std::stoll(parts[1]);
  if (blocks.block < 8 / blocks.bits || blocks.block % (8 / blocks.bits) != 0) return false;
  blocks.scale = dtype_from_name(parts[2]);
  blocks.has_zero = parts.size() == 4;
  if (blocks.has_zero) blocks.zero = dtype_from_name(parts[3]);
  return is_float(blocks.scale);
}

}  // namespace

ExprPtr WeightFormat::value(const ReadPlane& read) const {
  const DecodedWeight weight = decode(read);
  ExprPtr result = weight.code->dtype == DType::F32 ? weight.code : as_float(weight.code);
  if (weight.bias != 0)
    result = binary(BinaryOp::Sub, result, constant(DType::F32, static_cast<double>(weight.bias)));
  if (weight.scale) result = product(weight.scale, result);
  if (weight.offset) result = binary(BinaryOp::Add, result, weight.offset);
  return result;
}

int64_t WeightFormat::bytes_in_planes() const {
  int64_t bytes = 0;
  for (const WeightPlane& plane : planes) bytes += plane.elements * size_of(plane.dtype);
  return bytes;
}

int64_t WeightFormat::group() const {
  int64_t weights = 1;
  for (size_t i = loops.size() - group_loops; i < loops.size(); ++i) weights *= loops[i].extent.constant();
  return weights;
}

const std::vector<WeightFormat>& weight_formats() {
  static const std::vector<WeightFormat> rows = {plain("f32", DType::F32),
                                                 plain("f16", DType::F16),
                                                 plain("bf16", DType::BF16),
                                                 q4_0(),
                                                 q4_1(),
                                                 q5_0(),
                                                 q5_1(),
                                                 q8_0(),
                                                 iq4_nl(),
                                                 mxfp4(),
                                                 q2_k(),
                                                 q3_k(),
                                                 q4_k(),
                                                 q5_k(),
                                                 q6_k()};
  return rows;
}

std::string name_of(const CodeBlocks& blocks) {
  std::string name = text("u", blocks.bits, ":", blocks.block, ":", name_of(blocks.scale));
  if (blocks.has_zero) name += text(":", name_of(blocks.zero));
  return name;
}

const WeightFormat& weight_format(const std::string& name) {
  for (const WeightFormat& row : weight_formats()) {
    if (row.name == name) return row;
  }
  CodeBlocks blocks;
  if (!parse(name, blocks)) {
    std::string known;
    for (const WeightFormat& row : weight_formats()) known += row.name + ", ";
    fail(ErrorKind::Model, "weights of format '", name, "' are unknown; known are ", known,
         "u4:32:f32 and the like");
  }
  static std::mutex mutex;
  static std::map<std::string, WeightFormat> made;  // a map's nodes do not move
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = made.find(name);
  return found != made.end() ? found->second : made.emplace(name, code_blocks(blocks)).first->second;
}

std::vector<Tensor> split_blocks(const WeightFormat& format, const uint8_t* bytes, size_t size, int64_t rows,
                                 int64_t columns) {
  if (!format.split)
    fail(ErrorKind::Model, "weights of format ", format.name, " are not stored block by block");
  if (rows < 1 || columns < 1 || columns % format.block != 0) {
    fail(ErrorKind::Model, "a matrix of ", rows, " x ", columns, " weights is no whole number of blocks of ",
         format.block, " (", format.name, ")");
  }
  const int64_t blocks = checked_count({rows, columns / format.block});
  if (checked_count({blocks, format.bytes}) != static_cast<int64_t>(size)) {
    fail(ErrorKind::Model, "a matrix of ", rows, " x ", columns, " weights of format ", format.name,
         " takes ", blocks * format.bytes, " bytes, not ", size);
  }
  std::vector<Tensor> result;
  std::vector<uint8_t*> at;
  for (const WeightPlane& plane : format.planes) {
    result.emplace_back(plane.dtype, std::vector<int64_t>{rows, columns / format.block, plane.elements});
    at.push_back(result.back().bytes.data());
  }
  for (int64_t block = 0; block < blocks; ++block, bytes += format.bytes) {
    format.split(bytes, at);
    for (size_t i = 0; i < at.size(); ++i)
      at[i] += format.planes[i].elements * size_of(format.planes[i].dtype);
  }
  return result;
}

}  // namespace tc
