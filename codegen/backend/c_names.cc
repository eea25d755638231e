#include "codegen/backend/c_names.h"

namespace tc {

std::string file_name(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string identifier(const std::string& name) {
  std::string result;
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    const bool digit = c >= '0' && c <= '9';
    if (digit && result.empty()) result = "_";
    result += letter || digit ? c : '_';
  }
  return result.empty() ? "_" : result;
}

std::string c_name(const std::string& path) {
  const std::string file = file_name(path);
  return identifier(file.substr(0, file.rfind('.')));
}

std::string upper(std::string name) {
  for (char& c : name) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return name;
}

std::string harmless(const std::string& name) {
  std::string result;
  for (const char c : name)
    result += c >= ' ' && c <= '~' && c != '*' && c != '"' && c != '\\' && c != '?' ? c : '_';
  return result;
}

const char* c_type(DType dtype) {
  switch (dtype) {
    case DType::F32: return "float";
    case DType::F64: return "double";
    case DType::I4:
    case DType::I2:
    case DType::I8: return "int8_t";
    case DType::I16: return "int16_t";
    case DType::I32: return "int32_t";
    case DType::I64: return "int64_t";
    case DType::U32: return "uint32_t";
    case DType::U64: return "uint64_t";
    default: return size_of(dtype) == 2 ? "uint16_t" : "uint8_t";
  }
}

}  // namespace tc
