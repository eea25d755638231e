#include "runtime/rpc/version.h"

#include "runtime/rpc/fields.h"

namespace tc::rpc {
namespace {

std::string version_text(const Version& version) {
  const std::string wire =
      "protocol " + std::to_string(version.major()) + "." + std::to_string(version.minor());
  return version.build().empty() ? wire : wire + " (tc " + printable(version.build(), 40) + ")";
}

}  // namespace

Version own_version() {
  Version version;
  version.set_major(kWireMajor);
  version.set_minor(kWireMinor);
  version.set_build(kBuild);
  return version;
}

std::string version_problem(const Version& theirs, const std::string& us, const std::string& them) {
  if (theirs.major() == kWireMajor) return "";
  return them + " speaks " + version_text(theirs) + ", " + us + " speaks " + version_text(own_version()) +
         ": update " + (theirs.major() < kWireMajor ? them : us);
}

}  // namespace tc::rpc
