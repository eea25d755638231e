// Running a compiled library in this process, on data made from a seed: this gives the expected outputs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/backend/backend.h"
#include "ir/plan.h"
#include "ir/tensor.h"

namespace tc {

// A file of this process, removed when the object is destroyed. Throws a Device error where none can be made.
class TemporaryFile {
 public:
  // In temporary_folder() where no folder is given.
  explicit TemporaryFile(const std::string& folder = "");
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The sizes of a port, whose shape has to consist of numbers.
std::vector<int64_t> sizes_of(const PortInfo& port);

// The data that port `port` holds under the seed, as runtime/rpc/sample_data.h defines it.
Tensor sample_data(DType dtype, const std::vector<int64_t>& shape, uint64_t seed, uint64_t port);

// Runs the model of the shared library on one thread, on the inputs that the seed makes, and returns its
// outputs. Bytes of float outputs that the model does not write (padding of blocked layouts) are 0xff.
std::vector<Bytes> run_on_samples(const std::string& library, const std::vector<PortInfo>& inputs,
                                  const std::vector<PortInfo>& outputs, uint64_t seed);

}  // namespace tc
