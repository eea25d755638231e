// Adds the checksum of artefacts to a library made by hand: seal FILE.
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "tests/runtime/sealed.h"

int main(int count, char** arguments) {
  if (count != 2) return std::cerr << "usage: seal FILE\n", 2;
  std::ifstream in(arguments[1], std::ios::binary);
  const std::string library{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::ofstream out(arguments[1], std::ios::binary | std::ios::trunc);
  out << tc::sealed(library);
  return in && out.flush() ? 0 : 1;
}
