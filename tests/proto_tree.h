// Protobuf messages as trees of fields, by the types that a .proto file declares: what a test needs to change
// any field of any message without naming it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tc {

// A field as the .proto file declares it.
struct ProtoField {
  std::string name, type;  // "int64", "string", … or the name of a message or an enum
  bool repeated = false;
};

struct ProtoSchema {
  std::map<std::string, std::map<int, ProtoField>> messages;  // by name, by number of the field
  std::map<std::string, std::vector<int64_t>> enums;

  const ProtoField& field(const std::string& message, int number) const {
    return messages.at(message).at(number);
  }
  bool is_message(const std::string& type) const { return messages.count(type) > 0; }
};

// Messages and enums nested in others are known by their last name.
ProtoSchema parse_schema(const std::string& proto);

struct ProtoValue;
struct ProtoMessage {
  std::string type;
  std::vector<ProtoValue> fields;  // in the order of the bytes; repeated fields once per element
};

// One of them counts: `message` for messages, `bytes` for strings and bytes, `bits` for numbers (of floats
// and doubles the bits, of integers the value).
struct ProtoValue {
  int number = 0;
  uint64_t bits = 0;
  std::string bytes;
  ProtoMessage message;
};

// Fields that the schema lacks are skipped. Throws std::runtime_error for what is no such message.
ProtoMessage decode(const ProtoSchema& schema, const std::string& type, const std::string& bytes);
std::string encode(const ProtoSchema& schema, const ProtoMessage& message);

}  // namespace tc
