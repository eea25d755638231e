// Inputs from seeds, and the comparison of outputs with what is expected of them.
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

// A port with its sizes; throws std::runtime_error where dtype is no name of a type, a size is
// negative, the rank is above 16 or the tensor is larger than 2 GiB.
Port make_port(const std::string& name, const std::string& dtype, std::vector<int64_t> shape);

// Elements of input `index` under `seed` (runtime/rpc/sample_data.h), rounded to the type to nearest
// even.
void fill_sample(const Port& port, uint64_t seed, uint64_t index, void* data);

// The byte that fills outputs before a run: in floats a NaN or a huge number that no run leaves by
// chance. Data sets take turns at two, for the sake of integers.
uint8_t poison(int data_set);

struct Comparison {
  bool good = false;
  double worst = 0;  // |got - expected| / largest |expected|
  std::string text;  // where not good: the element, what it is and what it should be
};
// Float outputs within the tolerance, with equal infinities and NaN at the same places; all others
// equal. Poison is never right in a float output. A float whose bits are all set is not compared: it
// stands for padding that the model does not define.
Comparison compare(const Port& port, const void* got, const void* expected, double tolerance, uint8_t poison);

// How many elements are not as expected, by the same rule; of outputs that another program gave, not the
// reference: what that left poisoned is not compared.
int64_t count_differences(const Port& port, const void* got, const void* expected, double tolerance,
                          uint8_t poison);

// Marks as not compared what `reference` marks so.
void copy_undefined(const Port& port, const void* reference, void* data);

bool is_float(int32_t dtype);
// An element of any type as a number, rounded where that has no room for it.
double value_at(const Port& port, const void* data, int64_t element);
// Whether all bytes of an element are that byte.
bool is_filled(const Port& port, const void* data, int64_t element, uint8_t byte);

}  // namespace tc::agent
