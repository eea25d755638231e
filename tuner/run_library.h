// Running a compiled library in this process on seeded data: where expected outputs come from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/backend/backend.h"
#include "ir/plan.h"
#include "ir/tensor.h"

namespace tc {

// A file of this process that is gone with the object. A Device error where none can be made.
class TemporaryFile {
 public:
  // In temporary_folder() where none is given.
  explicit TemporaryFile(const std::string& folder = "");
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The sizes of a port whose shape is of numbers.
std::vector<int64_t> sizes_of(const PortInfo& port);

// What runtime/rpc/sample_data.h says port `port` holds under the seed.
Tensor sample_data(DType dtype, const std::vector<int64_t>& shape, uint64_t seed, uint64_t port);

// Outputs of the model in the shared library for the inputs of the seed, on one thread. Bytes of
// float outputs that it does not write (padding of blocked layouts) are 0xff.
std::vector<Bytes> run_on_samples(const std::string& library, const std::vector<PortInfo>& inputs,
                                  const std::vector<PortInfo>& outputs, uint64_t seed);

}  // namespace tc
