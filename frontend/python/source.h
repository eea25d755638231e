// A model as Python hands it over.
#pragma once

#include <string>

namespace tc {

// A model where it lies: bytes, its name in error texts, and the folder of its external data. Who imports it
// last takes the bytes out, so that they are not kept beside what was read of them.
struct Source {
  std::string bytes, name, folder;
};

}  // namespace tc
