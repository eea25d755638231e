// A model as Python hands it over.
#pragma once

#include <string>

namespace tc {

// A model where it lies: bytes, its name in error texts, and the folder of its external data.
struct Source {
  std::string bytes, name, folder;
};

}  // namespace tc
