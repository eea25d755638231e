// One function for several kernels that are equal but for integers, as layers of one kind are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tc::c {

// A kernel's function: what precedes it, its arguments and its lines, of which `operations` says how many
// there are (code_size).
struct FunctionText {
  std::string name, comment, arguments, body;
  double operations = 0;
};
// The definition; with `head` before the name.
std::string str(const FunctionText& function, const std::string& head);

// How a kernel is called: the function, and the integers that it takes before all other arguments.
struct KernelCall {
  size_t function = 0;
  std::vector<int64_t> numbers;
};

// Makes one function of those that differ in integers alone, where the integers take less code than more
// functions do. `functions` has one for each kernel, and afterwards those that are left; `steps` says how
// often each kernel is called. Returns the call of each kernel.
std::vector<KernelCall> share_functions(std::vector<FunctionText>& functions, const std::vector<int>& steps);

}  // namespace tc::c
