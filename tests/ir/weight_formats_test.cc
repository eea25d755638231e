// Formats of weights: blocks of files against the decoding that their definition gives, written here once
// more as loops over bytes.
#include "ir/ops/weight_formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <random>

#include "ir/error.h"

namespace tc {
namespace {

float half(const uint8_t* at) {
  uint16_t bits;
  std::memcpy(&bits, at, 2);
  return half_to_float(bits);
}

using Decode = void (*)(const uint8_t* block, float* values);

void decode_q4_0(const uint8_t* block, float* values) {
  for (int j = 0; j < 16; ++j) {
    values[j] = static_cast<float>((block[2 + j] & 15) - 8) * half(block);
    values[j + 16] = static_cast<float>((block[2 + j] >> 4) - 8) * half(block);
  }
}

void decode_q4_1(const uint8_t* block, float* values) {
  for (int j = 0; j < 16; ++j) {
    values[j] = static_cast<float>(block[4 + j] & 15) * half(block) + half(block + 2);
    values[j + 16] = static_cast<float>(block[4 + j] >> 4) * half(block) + half(block + 2);
  }
}

void decode_q5(const uint8_t* codes, const uint8_t* bits, float scale, float offset, float* values) {
  uint32_t high;
  std::memcpy(&high, bits, 4);
  for (int j = 0; j < 32; ++j) {
    const uint32_t low = j < 16 ? codes[j] & 15 : codes[j - 16] >> 4;
    values[j] = static_cast<float>(low | (high >> j & 1) << 4) * scale + offset;
  }
}
void decode_q5_0(const uint8_t* block, float* values) {
  decode_q5(block + 6, block + 2, half(block), -16 * half(block), values);
}
void decode_q5_1(const uint8_t* block, float* values) {
  decode_q5(block + 8, block + 4, half(block), half(block + 2), values);
}

void decode_q8_0(const uint8_t* block, float* values) {
  for (int j = 0; j < 32; ++j)
    values[j] = static_cast<float>(static_cast<int8_t>(block[2 + j])) * half(block);
}

void decode_iq4_nl(const uint8_t* block, float* values) {
  static const int table[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  for (int j = 0; j < 32; ++j)
    values[j] = static_cast<float>(table[j < 16 ? block[2 + j] & 15 : block[j - 14] >> 4]) * half(block);
}

void decode_mxfp4(const uint8_t* block, float* values) {
  static const float table[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (int j = 0; j < 32; ++j) {
    const int code = j < 16 ? block[1 + j] & 15 : block[j - 15] >> 4;
    values[j] = std::ldexp(code < 8 ? table[code] : -table[code - 8], block[0] - 127);
  }
}

void decode_q2_k(const uint8_t* block, float* values) {
  const float scale = half(block + 80), least = half(block + 82);
  const uint8_t* codes = block + 16;
  for (int group = 0, n = 0; n < 2; ++n, codes += 32) {
    for (int shift = 0; shift < 8; shift += 2) {
      for (int part = 0; part < 2; ++part, ++group) {
        for (int l = 0; l < 16; ++l) {
          const float code = static_cast<float>(codes[16 * part + l] >> shift & 3);
          *values++ = scale * static_cast<float>(block[group] & 15) * code -
                      least * static_cast<float>(block[group] >> 4);
        }
      }
    }
  }
}

// As ggml unpacks the scales: in words of 32 bits.
void decode_q3_k(const uint8_t* block, float* values) {
  constexpr uint32_t kTwo = 0x03030303, kFour = 0x0f0f0f0f;
  uint32_t words[4];
  std::memcpy(words, block + 96, 12);
  const uint32_t high = words[2];
  words[2] = (words[0] >> 4 & kFour) | (high >> 4 & kTwo) << 4;
  words[3] = (words[1] >> 4 & kFour) | (high >> 6 & kTwo) << 4;
  words[0] = (words[0] & kFour) | (high & kTwo) << 4;
  words[1] = (words[1] & kFour) | (high >> 2 & kTwo) << 4;
  int8_t scales[16];
  std::memcpy(scales, words, 16);
  const uint8_t* codes = block + 32;
  for (int group = 0, n = 0, mask = 1; n < 2; ++n, codes += 32) {
    for (int shift = 0; shift < 8; shift += 2, mask <<= 1) {
      for (int part = 0; part < 2; ++part, ++group) {
        for (int l = 16 * part; l < 16 * part + 16; ++l) {
          const int code = (codes[l] >> shift & 3) - ((block[l] & mask) != 0 ? 0 : 4);
          *values++ = half(block + 108) * static_cast<float>(scales[group] - 32) * static_cast<float>(code);
        }
      }
    }
  }
}

void scale_and_offset(const uint8_t* packed, int j, int& scale, int& offset) {
  scale = j < 4 ? packed[j] & 63 : (packed[j + 4] & 15) | packed[j - 4] >> 6 << 4;
  offset = j < 4 ? packed[j + 4] & 63 : packed[j + 4] >> 4 | packed[j] >> 6 << 4;
}

void decode_q45_k(const uint8_t* block, const uint8_t* bits, const uint8_t* codes, float* values) {
  for (int group = 0; group < 8; ++group) {
    int scale, offset;
    scale_and_offset(block + 4, group, scale, offset);
    for (int l = 0; l < 32; ++l) {
      const int byte = codes[group / 2 * 32 + l], low = group % 2 == 0 ? byte & 15 : byte >> 4;
      const int code = low + (bits != nullptr && (bits[l] >> group & 1) != 0 ? 16 : 0);
      *values++ = half(block) * static_cast<float>(scale) * static_cast<float>(code) -
                  half(block + 2) * static_cast<float>(offset);
    }
  }
}
void decode_q4_k(const uint8_t* block, float* values) { decode_q45_k(block, nullptr, block + 16, values); }
void decode_q5_k(const uint8_t* block, float* values) { decode_q45_k(block, block + 16, block + 48, values); }

void decode_q6_k(const uint8_t* block, float* values) {
  const uint8_t *low = block, *high = block + 128;
  const auto* scales = reinterpret_cast<const int8_t*>(block + 192);
  for (int n = 0; n < 2; ++n, values += 128, low += 64, high += 32, scales += 8) {
    for (int l = 0; l < 32; ++l) {
      const int codes[4] = {(low[l] & 15) | (high[l] & 3) << 4, (low[l + 32] & 15) | (high[l] >> 2 & 3) << 4,
                            low[l] >> 4 | (high[l] >> 4 & 3) << 4, low[l + 32] >> 4 | (high[l] >> 6) << 4};
      for (int q = 0; q < 4; ++q) {
        values[32 * q + l] = half(block + 208) * static_cast<float>(scales[l / 16 + 2 * q]) *
                             static_cast<float>(codes[q] - 32);
      }
    }
  }
}

void decode_f32(const uint8_t* block, float* values) { std::memcpy(values, block, 4); }
void decode_f16(const uint8_t* block, float* values) { *values = half(block); }
void decode_bf16(const uint8_t* block, float* values) {
  uint16_t bits;
  std::memcpy(&bits, block, 2);
  *values = bfloat_to_float(bits);
}

const std::map<std::string, Decode>& definitions() {
  static const std::map<std::string, Decode> all = {
      {"f32", decode_f32},       {"f16", decode_f16},     {"bf16", decode_bf16}, {"q4_0", decode_q4_0},
      {"q4_1", decode_q4_1},     {"q5_0", decode_q5_0},   {"q5_1", decode_q5_1}, {"q8_0", decode_q8_0},
      {"iq4_nl", decode_iq4_nl}, {"mxfp4", decode_mxfp4}, {"q2_k", decode_q2_k}, {"q3_k", decode_q3_k},
      {"q4_k", decode_q4_k},     {"q5_k", decode_q5_k},   {"q6_k", decode_q6_k}};
  return all;
}

// Random bytes in which each half is a small finite number, wherever blocks have them.
std::vector<uint8_t> random_blocks(const WeightFormat& format, int64_t blocks, std::mt19937& random) {
  std::vector<uint8_t> bytes(static_cast<size_t>(blocks * format.bytes));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  const std::map<std::string, std::vector<int64_t>> halves = {
      {"q4_0", {0}},    {"q4_1", {0, 2}}, {"q5_0", {0}},      {"q5_1", {0, 2}},
      {"q8_0", {0}},    {"iq4_nl", {0}},  {"q2_k", {80, 82}}, {"q3_k", {108}},
      {"q4_k", {0, 2}}, {"q5_k", {0, 2}}, {"q6_k", {208}},    {"f16", {0}}};
  for (int64_t block = 0; block < blocks; ++block) {
    uint8_t* at = bytes.data() + block * format.bytes;
    if (format.name == "mxfp4") at[0] = static_cast<uint8_t>(100 + at[0] % 50);
    if (format.name == "f32" || format.name == "bf16")
      at[format.bytes - 1] = static_cast<uint8_t>(at[format.bytes - 1] & 0xbf);
    const auto found = halves.find(format.name);
    for (const int64_t offset : found == halves.end() ? std::vector<int64_t>{} : found->second)
      at[offset + 1] = static_cast<uint8_t>(at[offset + 1] & 0xbb);
  }
  return bytes;
}

// A kernel that decodes a matrix: its planes in, floats out.
Kernel decoding(const WeightFormat& format, int64_t rows, int64_t columns) {
  Kernel kernel;
  const Affine blocks(columns / format.block);
  for (const WeightPlane& plane : format.planes) {
    kernel.buffers.push_back(
        {plane.name, plane.dtype, {Affine(rows), blocks, Affine(plane.elements)}, Scope::Constant, ""});
  }
  kernel.buffers.push_back({"y", DType::F32, {Affine(rows), Affine(columns)}, Scope::Output, ""});
  Statement statement;
  statement.name = "decode";
  statement.iterators = {{"n", Affine(rows)}, {"b", blocks}};
  statement.iterators.insert(statement.iterators.end(), format.loops.begin(), format.loops.end());
  statement.value = format.value([&](size_t plane, const Affine& element) {
    const std::vector<Affine> index = {Affine::variable("n"), Affine::variable("b"), element};
    return cast(is_integer(format.planes[plane].dtype) ? DType::I32 : DType::F32,
                load(format.planes[plane].dtype, static_cast<int>(plane), index));
  });
  statement.write = {
      static_cast<int>(format.planes.size()),
      {{Affine::variable("n"), nullptr}, {Affine::variable("b", format.block) + format.place, nullptr}}};
  kernel.statements.push_back(statement);
  return kernel;
}

TEST(WeightFormats, DecodeTheirBlocks) {
  std::mt19937 random(1);
  for (const WeightFormat& format : weight_formats()) {
    SCOPED_TRACE(format.name);
    const int64_t rows = 3, columns = 2 * format.block;
    const std::vector<uint8_t> bytes = random_blocks(format, 2 * rows, random);
    std::vector<float> expected(static_cast<size_t>(rows * columns));
    for (int64_t block = 0; block < 2 * rows; ++block) {
      definitions().at(format.name)(bytes.data() + block * format.bytes,
                                    expected.data() + block * format.block);
    }
    const Kernel kernel = decoding(format, rows, columns);
    verify(kernel);
    std::map<std::string, Tensor> buffers;
    const std::vector<Tensor> planes = split_blocks(format, bytes.data(), bytes.size(), rows, columns);
    for (size_t i = 0; i < planes.size(); ++i) buffers[format.planes[i].name] = planes[i];
    interpret(kernel, {}, buffers);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(buffers.at("y").as_double(static_cast<int64_t>(i)), expected[i],
                  1e-6 * std::abs(expected[i]))
          << "weight " << i;
    }
  }
}

// A file's blocks take no more bytes as planes, but for scales of 6 bits.
TEST(WeightFormats, PlanesHoldTheBytesOfTheFile) {
  for (const WeightFormat& format : weight_formats()) {
    const bool widens = format.name == "q3_k" || format.name == "q4_k" || format.name == "q5_k";
    EXPECT_EQ(format.bytes_in_planes(), format.bytes + (widens ? 4 : 0)) << format.name;
  }
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

TEST(WeightFormats, WhatIsNoMatrixOfBlocksIsRefused) {
  const std::vector<uint8_t> bytes(36);
  const WeightFormat& format = weight_format("q4_0");
  const auto split = [&](size_t size, int64_t rows, int64_t columns) {
    return refusal([&] { split_blocks(format, bytes.data(), size, rows, columns); });
  };
  EXPECT_EQ(split(36, 2, 32), "nothing");
  EXPECT_EQ(split(36, 1, 48), "a matrix of 1 x 48 weights is no whole number of blocks of 32 (q4_0)");
  EXPECT_EQ(split(35, 2, 32), "a matrix of 2 x 32 weights of format q4_0 takes 36 bytes, not 35");
  EXPECT_NE(split(36, int64_t{1} << 40, int64_t{1} << 40), "nothing");
  EXPECT_EQ(refusal([&] { split_blocks(weight_format("u4:32:f32"), bytes.data(), 36, 2, 32); }),
            "weights of format u4:32:f32 are not stored block by block");
  EXPECT_EQ(
      refusal([] { weight_format("q9_9"); }),
      "weights of format 'q9_9' are unknown; known are f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, iq4_nl, mxfp4, q2_k, q3_k, q4_k, q5_k, "
      "q6_k, u4:32:f32 and the like");
}

}  // namespace
}  // namespace tc
