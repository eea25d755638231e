// isl's headers and what all users of isl need: the context of a thread, conversion of results, operation
// budget.
#pragma once

#include <isl/ctx.h>
#include <isl/cpp.h>
#include <isl/options.h>

#include <string>

namespace tc {

// The isl context of the calling thread; lives as long as the thread.
isl_ctx* isl_context();

// Takes ownership of what a C function returned; throws isl's last error where it is null.
template <class Object>
auto owned(Object* object) {
  if (object == nullptr) isl::exception::throw_last_error(isl::ctx(isl_context()));
  return isl::manage(object);
}

// While alive, isl work of this thread beyond `operations` throws isl::exception_quota. Within a
// ReplayBudget, the limit of the ReplayBudget holds instead.
class IslBudget {
 public:
  explicit IslBudget(unsigned long operations);
  ~IslBudget();
  IslBudget(const IslBudget&) = delete;
  IslBudget& operator=(const IslBudget&) = delete;

 private:
  unsigned long previous_;
};

// Operations that one question to isl may take: far above what kernels of the zoo need.
inline constexpr unsigned long kIslOperations = 40'000'000;

// A name that isl's parser takes as an identifier.
std::string isl_name(const std::string& name);

}  // namespace tc
