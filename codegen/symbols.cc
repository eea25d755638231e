// Objects under the name of the artefact that they become.
#include "codegen/symbols.h"

#include <llvm/ObjCopy/ConfigManager.h>
#include <llvm/ObjCopy/ObjCopy.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/MemoryBuffer.h>

#include <list>

#include "codegen/constants.h"
#include "codegen/plan_emitter.h"
#include "runtime/abi.h"

namespace tc {
namespace {

// The object with other names for the symbols for which `rename` gives one.
template <class Rename>
Bytes with_names(const Bytes& object, const Rename& rename) {
  namespace objcopy = llvm::objcopy;
  const std::string what = "an object";
  const llvm::StringRef bytes(reinterpret_cast<const char*>(object.data()), object.size());
  const auto file = must(llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(bytes, what)), what);
  objcopy::ConfigManager config;
  std::list<std::string> names;   // the configuration refers to its texts
  for (const llvm::object::SymbolRef& symbol : file->symbols()) {
    const std::string old = must(symbol.getName(), what).str();
    const std::string name = rename(old);
    if (name != old) config.Common.SymbolsToRename[old] = names.emplace_back(name);
  }
  if (names.empty()) return object;
  llvm::SmallVector<char, 0> result;
  llvm::raw_svector_ostream stream(result);
  must(objcopy::executeObjcopyOnBinary(config, *file, stream), what);
  return Bytes(result.begin(), result.end());
}

}  // namespace

ModelObjects renamed(const ModelObjects& objects, const std::string& name, Renamed which) {
  const std::string alias = TC_DESCRIPTOR_SYMBOL;
  TC_CHECK(objects.prefix != alias && !objects.prefix.empty());
  const auto rename = [&](const std::string& old) {
    // A file that is called as the alias is: the descriptor itself has that name then.
    if (old == alias && name == alias) return name + "_alias";
    if (old == objects.prefix) return name;
    const bool begins_so = old.rfind(objects.prefix, 0) == 0;
    return which == Renamed::All && begins_so ? name + old.substr(objects.prefix.size()) : old;
  };
  ModelObjects result{{}, objects.constants, {}, which == Renamed::All ? name : objects.prefix, {}};
  for (const Bytes& code : objects.code) result.code.push_back(with_names(code, rename));
  for (const std::string& function : objects.by_length) result.by_length.push_back(rename(function));
  for (const auto& [function, frame] : objects.frames) result.frames[rename(function)] = frame;
  return result;
}

}  // namespace tc
