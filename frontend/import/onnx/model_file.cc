#include "frontend/import/onnx/model_file.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>

#include "frontend/import/onnx/plain_form.h"
#include "ir/error.h"

namespace tc {

tc_onnx::ModelProto parse_model_file(const std::string& bytes, const std::string& file_name,
                                     const std::string& known_files) {
  if (bytes.empty()) fail(ErrorKind::Model, "'", file_name, "' is empty; an ONNX model is needed");
  tc_onnx::ModelProto model;
  google::protobuf::io::ArrayInputStream stream(bytes.data(),
                                                static_cast<int>(std::min<size_t>(bytes.size(), INT32_MAX)));
  google::protobuf::io::CodedInputStream coded(&stream);
  coded.SetRecursionLimit(3 * kDeepestSubgraph + 16);
  const bool read =
      bytes.size() < INT32_MAX && model.ParseFromCodedStream(&coded) && coded.ConsumedEntireMessage();
  if (!read || !model.has_graph()) {
    fail(ErrorKind::Model, "'", file_name, "' is not a complete ONNX model: ",
         read ? "it holds no graph" : "it is damaged, cut short or in another format",
         "; export it again or copy it whole", known_files.empty() ? "" : "; tc reads " + known_files);
  }
  bring_to_plain_form(model, file_name);
  return model;
}

bool is_utf8(const std::string& bytes) {
  for (size_t i = 0; i < bytes.size();) {
    const auto at = [&](size_t k) {
      return i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u;
    };
    const unsigned first = at(0);
    const size_t length = first < 0x80       ? 1
                          : first >> 5 == 6  ? 2
                          : first >> 4 == 14 ? 3
                          : first >> 3 == 30 ? 4
                                             : 0;
    if (length == 0) return false;
    unsigned code = length == 1 ? first : first & (0x7fu >> length);
    for (size_t k = 1; k < length; ++k) {
      if (at(k) >> 6 != 2) return false;
      code = code << 6 | (at(k) & 0x3f);
    }
    constexpr unsigned kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code < kSmallest[length] || code >> 11 == 0x1b || code > 0x10ffff) return false;
    i += length;
  }
  return true;
}

bool is_default_domain(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

Opsets opsets_of(const google::protobuf::RepeatedPtrField<tc_onnx::OperatorSetIdProto>& imports) {
  Opsets opsets;
  for (const auto& import : imports) {
    opsets[is_default_domain(import.domain()) ? "" : import.domain()] =
        static_cast<int>(std::clamp<int64_t>(import.version(), 0, 1 << 20));
  }
  return opsets;
}

tc_onnx::AttributeProto::AttributeType kind_of(const tc_onnx::AttributeProto& attribute) {
  using Type = tc_onnx::AttributeProto;
  if (attribute.type() != Type::UNDEFINED) return attribute.type();
  if (attribute.has_f()) return Type::FLOAT;
  if (attribute.has_i()) return Type::INT;
  if (attribute.has_s()) return Type::STRING;
  if (attribute.has_t()) return Type::TENSOR;
  if (attribute.floats_size() > 0) return Type::FLOATS;
  if (attribute.ints_size() > 0) return Type::INTS;
  return attribute.strings_size() > 0 ? Type::STRINGS : Type::UNDEFINED;
}

}  // namespace tc
