// Weights in a file beside an artefact.
#include "weights.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "artefact_file.h"
#include "checksum.h"
#include "error.h"

namespace tc::runtime {
namespace {

constexpr uint64_t kHugePage = uint64_t{2} << 20;

// The file that is being looked for, and who asks for it.
struct Wanted {
  const char* artefact;  // as the user named it
  const tc_descriptor& descriptor;
  char path[PATH_MAX] = "";  // of the file

  uint64_t bytes() const { return static_cast<uint64_t>(descriptor.constant_bytes); }
};

// Opens the file in the folder of `artefact`; -1 with errno.
int open_beside(Wanted& wanted, const char* artefact) {
  const char* slash = strrchr(artefact, '/');
  const int folder = slash == nullptr ? 0 : static_cast<int>(slash - artefact) + 1;
  const int length =
      snprintf(wanted.path, sizeof wanted.path, "%.*s%s", folder, artefact, wanted.descriptor.weights_file);
  if (length >= static_cast<int>(sizeof wanted.path)) return errno = ENAMETOOLONG, -1;
  return open(wanted.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // does not wait where it is a pipe
}

tc_status find(Wanted& wanted, int* file) {
  *file = open_beside(wanted, wanted.artefact);
  if (*file < 0 && errno == ENOENT) {
    // The artefact may be a symbolic link, and the weights beside what it leads to.
    if (char* real = realpath(wanted.artefact, nullptr); real != nullptr) {
      *file = open_beside(wanted, real);
      free(real);
    }
  }
  if (*file >= 0) return TC_OK;
  return fail(
      TC_ERROR_MODEL,
      "%s: its weights are in the file '%s' beside it, which cannot be opened (%s: %s); copy that file "
      "to where the artefact is, or compile the model again",
      wanted.artefact, wanted.descriptor.weights_file, wanted.path, strerror(errno));
}

tc_status bad(const Wanted& wanted, const char* what) {
  return fail(
      TC_ERROR_MODEL,
      "%s: '%s' does not have its weights: %s; copy the file again from where it came, or compile the "
      "model again",
      wanted.artefact, wanted.path, what);
}

tc_status check(const Wanted& wanted, int file, uint32_t flags) {
  struct stat state;
  if (fstat(file, &state) != 0) return bad(wanted, strerror(errno));
  if (!S_ISREG(state.st_mode)) return bad(wanted, "it is no regular file");
  char what[160];
  const uint64_t expected = wanted.bytes() + sizeof(Seal);
  if (static_cast<uint64_t>(state.st_size) != expected) {
    snprintf(what, sizeof what, "it has %llu bytes and not %llu",
             static_cast<unsigned long long>(state.st_size), static_cast<unsigned long long>(expected));
    return bad(wanted, what);
  }
  Seal seal;
  if (!read_at(file, &seal, sizeof seal, wanted.bytes())) return bad(wanted, "it cannot be read to its end");
  if (memcmp(seal.mark, kWeightsMark, sizeof seal.mark) != 0) return bad(wanted, "tc did not write it");
  const uint64_t checksum = wanted.descriptor.weights_checksum;
  if (seal.checksum != checksum) return bad(wanted, "it has those of another model");
  if ((flags & TC_OPEN_UNCHECKED) != 0) return TC_OK;
  uint64_t computed = 0;
  if (!checksum_of(file, expected - sizeof seal.checksum, &computed))
    return bad(wanted, "it cannot be read to its end");
  return computed == checksum ? TC_OK
                              : bad(wanted, "it is damaged, for its checksum is not that of its contents");
}

// Maps the file, where it is large at an address at which the system can use huge pages. Null with errno.
void* map(int file, uint64_t bytes) {
  if (bytes < 2 * kHugePage) {
    void* data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
    return data == MAP_FAILED ? nullptr : data;
  }
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t mapped = (bytes + page - 1) / page * page, room = mapped + kHugePage;
  void* place = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  auto* begin = static_cast<char*>(place);
  const uint64_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  void* data = mmap(begin + before, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0);
  if (data == MAP_FAILED) {
    munmap(place, room);
    return nullptr;
  }
  if (before > 0) munmap(begin, before);
  if (before < kHugePage) munmap(begin + before + mapped, kHugePage - before);
  return data;
}

}  // namespace

void unmap_weights(Weights& weights) {
  if (weights.data != nullptr) munmap(weights.data, weights.bytes);
  free(weights.path);
  weights = {};
}

}  // namespace tc::runtime

tc_status tc_map_weights(const tc_descriptor* descriptor, const char* artefact, uint32_t flags,
                         tc::runtime::Weights* weights) {
  using namespace tc::runtime;
  if (!has_weights_beside(*descriptor)) return TC_OK;
  Wanted wanted{artefact, *descriptor};
  int file = -1;
  if (const tc_status status = find(wanted, &file); status != TC_OK) return status;
  tc_status status = check(wanted, file, flags);
  if (status == TC_OK) {
    *weights = {map(file, wanted.bytes()), wanted.bytes(), strdup(wanted.path)};
    if (weights->data == nullptr || weights->path == nullptr)
      status = fail(TC_ERROR_MEMORY, "%s: '%s' cannot be mapped: %s", artefact, wanted.path, strerror(errno));
  }
  close(file);
  if (status != TC_OK) unmap_weights(*weights);
  else *descriptor->weights = static_cast<const uint8_t*>(weights->data);
  return status;
}

tc_status tc_map_linked_weights(const tc_descriptor* descriptor) {
  using namespace tc::runtime;
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  char program[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length < 0)
    return fail(
        TC_ERROR_MODEL,
        "linked model: its weights are in a file beside the program, whose folder the system does not "
        "tell (/proc/self/exe: %s); mount /proc, or export the model with its weights inside",
        strerror(errno));
  program[length] = 0;
  pthread_mutex_lock(&mutex);
  Weights weights;
  const bool is_mapped = *descriptor->weights != nullptr;
  const tc_status status = is_mapped ? TC_OK : tc_map_weights(descriptor, program, 0, &weights);
  pthread_mutex_unlock(&mutex);
  free(weights.path);
  return status;
}
