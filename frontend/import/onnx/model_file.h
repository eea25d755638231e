// An ONNX file as a message: parsing, names and operator sets.
#pragma once

#include <map>
#include <string>

#include "frontend/import/onnx/onnx.pb.h"

namespace tc {

constexpr int kDeepestSubgraph = 32;

// The message in its plain form (plain_form.h). Model error where the bytes are no complete model, in which
// `file_name` is named, and `known_files` (Source has it too) where it is not empty.
tc_onnx::ModelProto parse_model_file(const std::string& bytes, const std::string& file_name,
                                     const std::string& known_files = "");

// Whether the bytes are UTF-8, in which names are shown and asked for: no stray bytes, long forms, surrogates
// or numbers beyond 0x10ffff.
bool is_utf8(const std::string& bytes);

bool is_default_domain(const std::string& domain);
// The version of each domain; "" is the default domain.
using Opsets = std::map<std::string, int>;
Opsets opsets_of(const google::protobuf::RepeatedPtrField<tc_onnx::OperatorSetIdProto>& imports);
// What an attribute holds; the first versions of the format leave it to be told from what is there.
tc_onnx::AttributeProto::AttributeType kind_of(const tc_onnx::AttributeProto& attribute);

}  // namespace tc
