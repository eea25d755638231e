// Whether one of several devices of a kind cannot be trusted: it fails where others do not, or is slower.
#pragma once

#include <map>
#include <set>
#include <string>

namespace tc {

// What devices of the same kind made of the same programs. Not for several threads.
class DeviceHealth {
 public:
  // A device has run a program, named by its content: rightly in so many seconds (the least of its samples),
  // or not at all.
  void add_run(const std::string& device, const std::string& program, double seconds);
  void add_failure(const std::string& device, const std::string& program);

  // Why the device is not to be used, as the rest of a sentence about it; empty where nothing speaks against
  // it. A failure counts against a device only if another one has run the same program rightly. A device is
  // slow if programs that others have run take it 1.2 times their median or more, by the median over the
  // programs; it has to be so at two calls in a row, each after new runs, since other work on its machine may
  // have slowed all of the first ones.
  std::string problem(const std::string& device);

 private:
  std::string failures_of(const std::string& device) const;
  std::string slowness_of(const std::string& device) const;

  std::map<std::string, std::map<std::string, double>> least_;  // by program, by device
  std::map<std::string, std::map<std::string, int>> failed_;    // by device, by program
  std::map<std::string, int> runs_;                             // by device, failures too
  std::map<std::string, int> slow_in_a_row_;                    // by device: at so many calls
};

}  // namespace tc
