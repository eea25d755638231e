// Objects under the name of the artefact that they become.
#include "codegen/llvm/artefact/llvm_result.h"

#include <llvm/ObjCopy/ConfigManager.h>
#include <llvm/ObjCopy/ObjCopy.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/MemoryBuffer.h>

#include <list>

#include "codegen/llvm/artefact/constants.h"
#include "codegen/llvm/artefact/rename_symbols.h"
#include "runtime/abi.h"

namespace tc {
namespace {

// The object with its symbols renamed by `rename`.
template <class Rename>
Bytes with_names(const Bytes& object, const Rename& rename) {
  namespace objcopy = llvm::objcopy;
  const std::string what = "an object";
  const llvm::StringRef bytes(reinterpret_cast<const char*>(object.data()), object.size());
  const auto file =
      unwrapped(llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(bytes, what)), what);
  objcopy::ConfigManager config;
  std::list<std::string> names;  // the configuration refers to its texts
  for (const llvm::object::SymbolRef& symbol : file->symbols()) {
    const std::string old = unwrapped(symbol.getName(), what).str();
    const std::string name = rename(old);
    if (name != old) config.Common.SymbolsToRename[old] = names.emplace_back(name);
  }
  if (names.empty()) return object;
  llvm::SmallVector<char, 0> result;
  llvm::raw_svector_ostream stream(result);
  unwrapped(objcopy::executeObjcopyOnBinary(config, *file, stream), what);
  return Bytes(result.begin(), result.end());
}

}  // namespace

ModelObjects renamed(const ModelObjects& objects, const std::string& symbol, const std::string& name,
                     Renamed which) {
  const std::string alias = TC_DESCRIPTOR_SYMBOL;
  TC_CHECK(symbol != alias);
  const auto rename = [&](const std::string& old) {
    // Where the artefact is called like the alias, the descriptor itself gets that name, and the alias
    // another one.
    if (old == alias && name == alias) return name + "_alias";
    if (old == symbol) return name;
    return which == Renamed::All && old.rfind(symbol, 0) == 0 ? name + old.substr(symbol.size()) : old;
  };
  ModelObjects result;
  for (const Bytes& code : objects.code) result.code.push_back(with_names(code, rename));
  result.constants = objects.constants;
  if (objects.constants)
    result.constants =
        std::make_shared<ConstantsFile>(*objects.constants, rename(objects.constants->symbol()));
  for (const std::string& function : objects.by_length) result.by_length.push_back(rename(function));
  return result;
}

}  // namespace tc
