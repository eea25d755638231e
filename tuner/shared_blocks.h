// What a file has in common with files before it, wherever it lies in them.
//
// A file is cut where its own bytes say so, so that equal contents are cut alike in two files, though they
// begin at other places: the weights behind the code of two programs, for instance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tc {

// Bytes of a file, which is named by the SHA-256 of its contents.
struct FileRange {
  std::string file;
  int64_t offset = 0, bytes = 0;
};

class SharedBlocks {
 public:
  // No block is longer; only the last one of a file may be shorter than the least.
  static constexpr size_t kMinBlock = size_t{8} << 10, kMaxBlock = size_t{128} << 10;

  // How many of the bytes the first block has. `data` has to hold at least kMaxBlock bytes, or all
  // that is left of the file.
  static size_t first_block(const char* data, size_t size);
  static uint64_t hash_of(const char* data, size_t size);

  // Where a block with that hash and size is; null where none is known. Other bytes may have the same hash,
  // though hardly by chance: compare the hash of the whole file.
  const FileRange* find(uint64_t hash, size_t size) const;
  // Remembers a file's blocks. What the files before it have beyond `most_bytes` in all is forgotten, the
  // oldest first: a device that keeps so much has dropped them.
  void add(const std::vector<std::pair<uint64_t, FileRange>>& blocks, int64_t most_bytes);
  void clear();
  // How many blocks are known.
  size_t size() const { return places_.size(); }

 private:
  struct Place {
    FileRange range;
    int64_t file = 0;  // number of the file that was added
  };
  // A file that was added, with its blocks.
  struct Sent {
    int64_t number = 0, bytes = 0;
    std::vector<uint64_t> hashes;
  };

  std::map<uint64_t, Place> places_;
  std::deque<Sent> files_;
  int64_t bytes_ = 0, next_number_ = 0;  // bytes of all of files_
};

}  // namespace tc
