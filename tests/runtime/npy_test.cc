// .npy files: what NumPy writes is read, what we write is NumPy's bytes, damage is refused.
#include "runtime/npy.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

namespace tc::runtime {
namespace {

// numpy.save of numpy.arange(6, dtype='<f4').reshape(2, 3), by NumPy 2.
std::string numpy_file() {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  header.resize(117, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00\x76\x00", 10);
  bytes += header;
  for (float value : {0.f, 1.f, 2.f, 3.f, 4.f, 5.f}) bytes.append(reinterpret_cast<const char*>(&value), 4);
  return bytes;
}

std::string with_header(const std::string& header, const std::string& data = "") {
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 255);
  bytes += static_cast<char>(header.size() >> 8);
  return bytes + header + data;
}

std::string write_bytes(const std::string& bytes) {
  const std::string path = testing::TempDir() + "/array.npy";
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

// The reason why the bytes are refused; "" where they are read.
std::string refusal(const std::string& bytes) {
  NpyArray array;
  char why[512] = "";
  if (!read_npy(write_bytes(bytes).c_str(), &array, why, sizeof why)) {
    EXPECT_EQ(array.data, nullptr);
    return why;
  }
  free(array.data);
  return "";
}

TEST(Npy, ReadsAndWritesNumpysBytes) {
  const std::string path = write_bytes(numpy_file());
  NpyArray array;
  char why[512] = "";
  ASSERT_TRUE(read_npy(path.c_str(), &array, why, sizeof why)) << why;
  EXPECT_EQ(array.dtype, TC_F32);
  ASSERT_EQ(array.rank, 2);
  EXPECT_EQ(array.dims[0], 2);
  EXPECT_EQ(array.dims[1], 3);
  ASSERT_EQ(array.bytes, 24u);
  EXPECT_EQ(static_cast<float*>(array.data)[5], 5.f);
  ASSERT_TRUE(write_npy(path.c_str(), array, why, sizeof why));
  free(array.data);
  std::ifstream file(path, std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), numpy_file());
}

TEST(Npy, EveryTypeAndRankComesBack) {
  const std::string path = testing::TempDir() + "/round.npy";
  const int64_t dims[] = {2, 1, 3};
  char data[48], why[512] = "";
  for (int i = 0; i < 48; ++i) data[i] = static_cast<char>(i);
  for (int32_t dtype = TC_F32; dtype <= TC_BOOL; ++dtype)
    for (int32_t rank = 0; rank <= 3; ++rank) {
      NpyArray written;
      written.dtype = dtype;
      written.rank = rank;
      std::copy(std::begin(dims), std::end(dims), written.dims);
      written.data = data;
      ASSERT_TRUE(write_npy(path.c_str(), written, why, sizeof why)) << why;
      NpyArray array;
      ASSERT_TRUE(read_npy(path.c_str(), &array, why, sizeof why)) << why;
      EXPECT_EQ(array.dtype, dtype);
      ASSERT_EQ(array.rank, rank);
      for (int i = 0; i < rank; ++i) EXPECT_EQ(array.dims[i], dims[i]);
      EXPECT_EQ(memcmp(array.data, data, array.bytes), 0);
      free(array.data);
    }
}

TEST(Npy, EmptyArray) {
  EXPECT_EQ(refusal(with_header("{'descr': '<i8', 'fortran_order': False, 'shape': (0, 9), }")), "");
}

TEST(Npy, SaysWhatIsWrong) {
  const std::string data(24, 'x');
  const auto of = [&](const std::string& type, const std::string& order, const std::string& shape) {
    return refusal(with_header(
        "{'descr': " + type + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n", data));
  };
  EXPECT_EQ(of("'<f4'", "False", "(6,)"), "");
  EXPECT_EQ(of("'<f4'", "True", "(6,)"), "");
  EXPECT_EQ(of("\"<f4\"", "False", "(2L, 3L)"), "");
  EXPECT_EQ(of("'<f4'", "False", "(7,)"), "its header promises 28 bytes of elements, 24 are there");
  EXPECT_EQ(of("'<f4'", "False", "()"), "its header promises 4 bytes of elements, 24 are there");
  EXPECT_EQ(of("'<f4'", "True", "(2, 3)"), "it is in Fortran order; save numpy.ascontiguousarray(x)");
  EXPECT_EQ(of("'>f4'", "False", "(6,)"), "its elements ('>f4') are big-endian; save it little-endian");
  EXPECT_EQ(of("'<c8'", "False", "(3,)"), "its element type '<c8' is not one that models take");
  EXPECT_EQ(of("[('a', '<f4')]", "False", "(6,)"), "its element type is not one that models take");
  EXPECT_EQ(of("'<f4'", "Maybe", "(6,)"), "its header is damaged");
  EXPECT_EQ(of("'<f4'", "False", "(-6,)"), "its header's shape is damaged");
  EXPECT_EQ(of("'<f4'", "False", "(99999999999999999999,)"), "its header's shape is damaged");
  EXPECT_EQ(of("'<f4'", "False", "(4294967296, 4294967296)"), "its shape is too large");
  EXPECT_EQ(of("'<f4'", "False", "(4294967296, 4294967296, 0)"),
            "its header promises 0 bytes of elements, 24 are there");
  EXPECT_EQ(of("'<f4'", "False", "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,6)"), "it has more than 16 dimensions");
  EXPECT_EQ(refusal(with_header("{'shape': (6,), }", data)), "its header is damaged");
  EXPECT_EQ(refusal(with_header("{'colour': 'red'}", data)), "its header has the unknown key 'colour'");
  EXPECT_EQ(refusal("not numpy at all"), "it is no .npy file");
  EXPECT_EQ(refusal(""), "it is no .npy file");
  std::string future = numpy_file();
  future[6] = 9;
  EXPECT_EQ(refusal(future), "its format version 9 is unknown");
  future[6] = 2;
  future[10] = future[11] = 0x7f;
  EXPECT_EQ(refusal(future), "its header has 2139029622 bytes");
  NpyArray array;
  char why[512];
  EXPECT_FALSE(read_npy("/nonexistent.npy", &array, why, sizeof why));
  EXPECT_STREQ(why, "it cannot be opened: No such file or directory");
  EXPECT_FALSE(read_npy("/tmp", &array, why, sizeof why));
}

TEST(Npy, EveryTruncationIsRefused) {
  const std::string bytes = numpy_file();
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_NE(refusal(bytes.substr(0, size)), "") << size;
}

TEST(Npy, SurvivesRandomDamage) {
  std::mt19937 random(7);
  int read = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = numpy_file();
    for (int edits = 1 + static_cast<int>(random() % 4); edits > 0; --edits) {
      const size_t at = random() % (random() % 2 ? bytes.size() : 80);
      switch (random() % 3) {
        case 0: bytes[at] = static_cast<char>(random()); break;
        case 1: bytes.erase(at, 1 + random() % 8); break;
        default: bytes.insert(at, 1 + random() % 8, static_cast<char>("0(,'{)}"[random() % 7]));
      }
    }
    read += refusal(bytes).empty();
  }
  EXPECT_GT(read, 0);
  EXPECT_LT(read, 3000);
}

TEST(Npy, WaitsForNoPipe) {
  const std::string path = testing::TempDir() + "/pipe.npy";
  unlink(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  NpyArray array;
  char why[512] = "";
  for (const char* each : {path.c_str(), "/dev/zero"}) {
    EXPECT_FALSE(read_npy(each, &array, why, sizeof why));
    EXPECT_STREQ(why, "it is no regular file; write what comes out of it to one, and give that");
  }
}

TEST(Npy, ReasonsHaveNothingThatCannotBeSeen) {
  EXPECT_EQ(refusal(with_header("{'\x1b[2J\n': 1, }")), R"(its header has the unknown key '\x1b[2J\n')");
  EXPECT_EQ(refusal(with_header("{'descr': '\xff\x1b', 'fortran_order': False, 'shape': (), }")),
            R"(its element type '\xff\x1b' is not one that models take)");
}

}  // namespace
}  // namespace tc::runtime
