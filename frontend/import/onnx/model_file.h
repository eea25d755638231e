// An ONNX file as a protobuf message: parsing, names and operator sets.
#pragma once

#include <map>
#include <string>

#include "frontend/import/onnx/onnx.pb.h"

namespace tc {

constexpr int kDeepestSubgraph = 32;

// The message in its plain form (plain_form.h). Where the bytes are no complete model, a Model error names
// `file_name` and, where it is not empty, tells `known_files` (see Source).
tc_onnx::ModelProto parse_model_file(const std::string& bytes, const std::string& file_name,
                                     const std::string& known_files = "");

// Whether the bytes are valid UTF-8, as names have to be: no stray bytes, overlong forms, surrogates or
// numbers beyond 0x10ffff.
bool is_utf8(const std::string& bytes);

bool is_default_domain(const std::string& domain);
// The version of each domain; "" is the default domain.
using Opsets = std::map<std::string, int>;
Opsets opsets_of(const google::protobuf::RepeatedPtrField<tc_onnx::OperatorSetIdProto>& imports);
// What an attribute holds. In the first versions of the format this follows only from the fields that are
// set.
tc_onnx::AttributeProto::AttributeType kind_of(const tc_onnx::AttributeProto& attribute);

}  // namespace tc
