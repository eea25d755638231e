// The versions of ONNX's operators that tc knows. A newer operator set may have changed an operator's
// meaning.
#pragma once

#include <string>
#include <vector>

#include "ir/error.h"

namespace tc {

// An operator and the newest operator set that changed it. All versions up to that one are known: forms of
// rows (ir/ops/op.h) or the importer's own operators implement them, or else the operator is refused at every
// version.
struct OnnxVersion {
  std::string name;
  int version = 1;
};

struct OnnxDomain {
  std::string name;  // "" is the default domain
  int newest = 1;    // operator set
  const std::vector<OnnxVersion>& operators;
};

const std::vector<OnnxDomain>& onnx_domains();

// Why an operator of this operator set is refused, if the set is newer than the known ones; else empty.
// Operators of other domains have no versions.
std::string unknown_version(const std::string& domain, const std::string& type, int opset);

}  // namespace tc
