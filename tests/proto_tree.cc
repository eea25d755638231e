// Reading of .proto files and of the wire format.
#include "tests/proto_tree.h"

#include <cctype>
#include <cstring>
#include <stdexcept>

namespace tc {
namespace {

std::vector<std::string> tokens_of(const std::string& proto) {
  std::vector<std::string> tokens;
  for (size_t i = 0; i < proto.size();) {
    const auto word = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '"';
    };
    if (proto.compare(i, 2, "//") == 0) {
      i = std::min(proto.find('\n', i), proto.size());
    } else if (word(proto[i])) {
      const size_t first = i;
      while (i < proto.size() && word(proto[i])) ++i;
      tokens.push_back(proto.substr(first, i - first));
    } else {
      if (!std::isspace(static_cast<unsigned char>(proto[i]))) tokens.push_back(std::string(1, proto[i]));
      ++i;
    }
  }
  return tokens;
}

class SchemaParser {
 public:
  explicit SchemaParser(const std::string& proto) : tokens_(tokens_of(proto)) {}

  ProtoSchema run() {
    while (at_ < tokens_.size()) {
      if (tokens_[at_] == "message") message();
      else if (tokens_[at_] == "enum") enumeration();
      else ++at_;
    }
    return std::move(schema_);
  }

 private:
  std::string take() { return tokens_.at(at_++); }

  void message() {
    take();
    auto& fields = schema_.messages[take()];
    take();
    while (tokens_.at(at_) != "}") {
      if (tokens_[at_] == "message") message();
      else if (tokens_[at_] == "enum") enumeration();
      else field(fields);
    }
    take();
  }

  void field(std::map<int, ProtoField>& fields) {
    ProtoField field;
    const std::string& label = tokens_.at(at_);  // proto3 has none but "repeated"
    field.repeated = label == "repeated";
    if (field.repeated || label == "optional" || label == "required") take();
    field.type = take();
    field.name = take();
    take();
    fields[std::stoi(take())] = field;
    while (take() != ";") {}
  }

  void enumeration() {
    take();
    auto& values = schema_.enums[take()];
    take();
    while (tokens_.at(at_) != "}") {
      take();
      take();
      values.push_back(std::stoll(take()));
      take();
    }
    take();
  }

  std::vector<std::string> tokens_;
  size_t at_ = 0;
  ProtoSchema schema_;
};

enum class Wire { Varint = 0, Fixed64 = 1, Length = 2, Fixed32 = 5 };

Wire wire_of(const ProtoSchema& schema, const std::string& type) {
  if (schema.is_message(type) || type == "string" || type == "bytes") return Wire::Length;
  return type == "float" ? Wire::Fixed32 : type == "double" ? Wire::Fixed64 : Wire::Varint;
}

class Reader {
 public:
  Reader(const ProtoSchema& schema, const char* begin, size_t size)
      : schema_(schema), at_(begin), end_(begin + size) {}

  ProtoMessage message(const std::string& type) {
    ProtoMessage result{type, {}};
    while (at_ != end_) {
      const uint64_t tag = varint();
      const int number = static_cast<int>(tag >> 3);
      const Wire wire = static_cast<Wire>(tag & 7);
      const auto& fields = schema_.messages.at(type);
      const auto found = fields.find(number);
      if (found == fields.end()) {
        skip(wire);
        continue;
      }
      const Wire own = wire_of(schema_, found->second.type);
      if (wire == own) {
        result.fields.push_back(value(number, found->second.type));
      } else if (wire == Wire::Length) {
        Reader packed = part();
        while (packed.at_ != packed.end_) result.fields.push_back(packed.value(number, found->second.type));
      } else {
        throw std::runtime_error("a field of another wire type");
      }
    }
    return result;
  }

 private:
  uint64_t varint() {
    uint64_t result = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      need(1);
      const uint64_t byte = static_cast<unsigned char>(*at_++);
      result |= (byte & 0x7f) << shift;
      if (byte < 0x80) return result;
    }
    throw std::runtime_error("a number that is too long");
  }
  void need(uint64_t count) const {
    if (count > static_cast<uint64_t>(end_ - at_)) throw std::runtime_error("bytes are missing");
  }
  uint64_t fixed(size_t count) {
    need(count);
    uint64_t result = 0;
    std::memcpy(&result, at_, count);
    at_ += count;
    return result;
  }
  Reader part() {
    const uint64_t size = varint();
    need(size);
    at_ += size;
    return Reader(schema_, at_ - size, size);
  }
  void skip(Wire wire) {
    switch (wire) {
      case Wire::Varint: varint(); return;
      case Wire::Fixed64: fixed(8); return;
      case Wire::Length: part(); return;
      case Wire::Fixed32: fixed(4); return;
    }
    throw std::runtime_error("an unknown wire type");
  }
  ProtoValue value(int number, const std::string& type) {
    ProtoValue result;
    result.number = number;
    switch (wire_of(schema_, type)) {
      case Wire::Varint: result.bits = varint(); break;
      case Wire::Fixed64: result.bits = fixed(8); break;
      case Wire::Fixed32: result.bits = fixed(4); break;
      case Wire::Length: {
        Reader inside = part();
        if (schema_.is_message(type)) result.message = inside.message(type);
        else result.bytes.assign(inside.at_, inside.end_);
      }
    }
    return result;
  }

  const ProtoSchema& schema_;
  const char* at_;
  const char* end_;
};

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

}  // namespace

ProtoSchema parse_schema(const std::string& proto) { return SchemaParser(proto).run(); }

ProtoMessage decode(const ProtoSchema& schema, const std::string& type, const std::string& bytes) {
  return Reader(schema, bytes.data(), bytes.size()).message(type);
}

std::string encode(const ProtoSchema& schema, const ProtoMessage& message) {
  std::string out;
  for (const ProtoValue& value : message.fields) {
    const std::string& type = schema.field(message.type, value.number).type;
    const Wire wire = wire_of(schema, type);
    put_varint(out, static_cast<uint64_t>(value.number) << 3 | static_cast<uint64_t>(wire));
    if (wire == Wire::Varint) {
      put_varint(out, value.bits);
    } else if (wire == Wire::Length) {
      const std::string inside = schema.is_message(type) ? encode(schema, value.message) : value.bytes;
      put_varint(out, inside.size());
      out += inside;
    } else {
      out.append(reinterpret_cast<const char*>(&value.bits), wire == Wire::Fixed32 ? 4 : 8);
    }
  }
  return out;
}

}  // namespace tc
