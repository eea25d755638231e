// The canonical text of a kernel, by which the tuning log and the compiler identify it.
#include <algorithm>

#include "ir/loop.h"

namespace tc {
namespace {

std::string numbered(const char* stem, size_t number) { return stem + std::to_string(number); }

}  // namespace

std::string workload_key(const Kernel& kernel) {
  Kernel plain = kernel;
  plain.name = "k";
  plain.origins.clear();
  std::map<std::string, Affine> parameters;
  std::map<std::string, std::string> buffers;
  for (size_t i = 0; i < plain.parameters.size(); ++i) {
    Parameter& parameter = plain.parameters[i];
    std::string name = numbered("p", i);
    parameters[parameter.name] = Affine::variable(name);
    parameter.name = name;
    // What the plan passes for the parameter does not belong to the kernel's semantics.
    parameter.value = Dim();
  }
  for (size_t i = 0; i < plain.buffers.size(); ++i) {
    Buffer& buffer = plain.buffers[i];
    buffers[buffer.name] = numbered("b", i);
    buffer.name = numbered("b", i);
    buffer.logical.clear();
    for (Affine& size : buffer.shape) size = size.substitute(parameters);
  }
  for (size_t i = 0; i < plain.statements.size(); ++i) {
    Statement& statement = plain.statements[i];
    statement.name = numbered("s", i);
    std::map<std::string, Affine> names = parameters;
    for (size_t j = 0; j < statement.iterators.size(); ++j) {
      Iterator& iterator = statement.iterators[j];
      std::string name = numbered("i", j);
      iterator.extent = iterator.extent.substitute(parameters);
      names[iterator.name] = Affine::variable(name);
      iterator.name = name;
    }
    for (Affine& constraint : statement.constraints) constraint = constraint.substitute(names);
    statement.write = substitute(statement.write, names);
    statement.value = substitute(statement.value, names);
  }
  for (Packing& packing : plain.packings) {
    packing.buffer = buffers[packing.buffer];
    if (!packing.scales_of.empty()) packing.scales_of = buffers[packing.scales_of];
    std::map<std::string, Affine> names;
    for (size_t j = 0; j < packing.iterators.size(); ++j) {
      if (packing.iterators[j] == packing.terms) packing.terms = numbered("i", j);
      if (packing.iterators[j] == packing.words) packing.words = numbered("i", j);
      std::replace(packing.scaled.begin(), packing.scaled.end(), packing.iterators[j], numbered("i", j));
      names[packing.iterators[j]] = Affine::variable(numbered("i", j));
      packing.iterators[j] = numbered("i", j);
    }
    for (Affine& index : packing.index) index = index.substitute(names);
  }
  return str(plain);
}

}  // namespace tc
