// Makes inputs from seeds, and compares outputs with expected ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tc::agent {

struct Port {
  std::string name;
  int32_t dtype = 0;  // tc_dtype
  std::vector<int64_t> shape;
  int64_t elements = 0;
  int64_t bytes = 0;
};

// A port with its sizes. Throws a std::runtime_error where `dtype` is not the name of a type, a size is
// negative, the rank is above 16, or the tensor is larger than 2 GiB.
Port make_port(const std::string& name, const std::string& dtype, std::vector<int64_t> shape);

// Writes the elements of input `index` under `seed` (runtime/rpc/sample_data.h), rounded to the type (to
// nearest, ties to even).
void fill_sample(const Port& port, uint64_t seed, uint64_t index, void* data);

// The byte with which outputs are filled before a run. As a float it gives a NaN or a huge number that no run
// writes by chance. Data sets alternate between two bytes, since an integer may have either of them by
// chance.
uint8_t poison(int data_set);

struct Comparison {
  bool good = false;
  double worst = 0;  // |got - expected| / largest |expected|
  std::string text;  // where not good: the element, its value and the expected one
};
// Float outputs have to be within the tolerance, with equal infinities and with NaN at the same places; all
// other outputs have to be equal. A float output may never contain poison. Where all bits of the expected
// float are set, nothing is compared: it stands for padding that the model does not define.
Comparison compare(const Port& port, const void* got, const void* expected, double tolerance, uint8_t poison);

// The number of elements that differ from the expected ones, by the same rule. Here the expected outputs come
// from another program and not from a reference: elements that it left poisoned are not compared.
int64_t count_differences(const Port& port, const void* got, const void* expected, double tolerance,
                          uint8_t poison);

// Marks the elements of `data` as not to be compared that `reference` marks so.
void copy_undefined(const Port& port, const void* reference, void* data);

bool is_float(int32_t dtype);
// An element of any type as a double, rounded where a double cannot represent it.
double value_at(const Port& port, const void* data, int64_t element);
// Whether all bytes of an element are that byte.
bool is_filled(const Port& port, const void* data, int64_t element, uint8_t byte);

}  // namespace tc::agent
