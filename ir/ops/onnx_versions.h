// The versions of ONNX's operators that are known here: what a newer operator set means by one of them nobody
// can tell.
#pragma once

#include <string>
#include <vector>

#include "ir/error.h"

namespace tc {

// An operator and the newest operator set that changed it. All versions up to that one are known: forms of
// rows (ir/ops/op.h) and the importer's own operators have their meanings, or the operator has neither and is
// refused at every version.
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

// Why an operator of this operator set is refused, where that is newer than those that are known; else
// nothing. Operators of other domains have no versions.
std::string unknown_version(const std::string& domain, const std::string& type, int opset);

}  // namespace tc
