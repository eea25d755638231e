// The constants of a plan, each stored once.
#include "frontend/pipeline/constant_store.h"

#include <string_view>

#include "ir/error.h"

namespace tc {
namespace {

// Tensors of up to so many bytes are packed here and compared with all others byte by byte. Forms of larger
// ones are told apart by how they are made, since they are packed only when they are written, by all threads
// and a small part at a time.
constexpr int64_t kSmall = 64 << 10;

size_t hash_of(const Tensor& tensor) {
  return std::hash<std::string_view>()(
      std::string_view(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()));
}

bool only_moves(const Packing& packing) {
  return packing.combinations.empty() && packing.terms.empty() && packing.words.empty() &&
         packing.scales_of.empty();
}

}  // namespace

int ConstantStore::index_of(const TensorPtr& tensor) {
  const auto [known, fresh] = known_.try_emplace({tensor.get(), ""}, -1);
  if (!fresh) return known->second;
  kept_.push_back(tensor);
  const int content = content_of(tensor);
  return known->second =
             stored(content, "", [&] { return PlanConstant(contents_[static_cast<size_t>(content)]); });
}

int ConstantStore::index_of(const TensorPtr& tensor, const Packing& packing, const Kernel& kernel) {
  if (keeps_order(packing, kernel)) return index_of(tensor);
  const std::string how = recipe(packing, kernel);
  const auto [known, fresh] = known_.try_emplace({tensor.get(), how}, -1);
  if (!fresh) return known->second;
  kept_.push_back(tensor);
  const PlanConstant packed(tensor, kernel, packing.buffer);
  if (static_cast<int64_t>(tensor->bytes.size()) <= kSmall && packed.byte_count() <= kSmall) {
    return known->second = index_of(packed.make());
  }
  const std::string from = text(name_of(tensor->dtype), str(shape_of(tensor->shape)), " as ", how);
  const int content = content_of(tensor);
  if (only_moves(packing)) {
    const Buffer& buffer = kernel.buffers.at(static_cast<size_t>(kernel.buffer_index(packing.buffer)));
    moved_.try_emplace(content, StoredForm{buffer.dtype, packing, buffer.shape});
  }
  return known->second = stored(content, from, [&] { return packed; });
}

std::optional<StoredForm> ConstantStore::moved_form(const TensorPtr& tensor) const {
  const auto found = moved_.find(known_content(*tensor));
  return found == moved_.end() ? std::nullopt : std::optional(found->second);
}

int ConstantStore::known_content(const Tensor& tensor) const {
  const auto alike = by_hash_.find(hash_of(tensor));
  if (alike == by_hash_.end()) return -1;
  for (const int number : alike->second) {
    if (contents_[static_cast<size_t>(number)]->bytes == tensor.bytes) return number;
  }
  return -1;
}

// The position in contents_ of a tensor with the same bytes; the tensor is added where there is none.
int ConstantStore::content_of(const TensorPtr& tensor) {
  const int known = known_content(*tensor);
  if (known >= 0) return known;
  by_hash_[hash_of(*tensor)].push_back(static_cast<int>(contents_.size()));
  contents_.push_back(tensor);
  return static_cast<int>(contents_.size()) - 1;
}

int ConstantStore::stored(int content, const std::string& how, const std::function<PlanConstant()>& make) {
  const auto [found, fresh] = stored_.try_emplace({content, how}, static_cast<int>(constants_.size()));
  if (fresh) constants_.push_back(make());
  return found->second;
}

}  // namespace tc
