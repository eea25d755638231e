// Golden tests of the passes over code: tests/golden/code_passes/*.ll, and *.mir of the passes over machine
// instructions, hold the name of a pass and of a target, code, and the code after the pass, which
// `./check --update` (or TC_UPDATE) rewrites.
#include <gtest/gtest.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/CodeGen/MIRParser/MIRParser.h>
#include <llvm/CodeGen/MIRPrinter.h>
#include <llvm/CodeGen/MachineFunctionPass.h>
#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "codegen/llvm/module_compiler.h"
#include "codegen/llvm/kernel_code.h"
#include "codegen/llvm/passes/pass.h"
#include "tests/golden_file.h"

namespace tc {
namespace {

namespace fs = std::filesystem;
using Stage = CodePass::Stage;

const char* const kFolder = "tests/golden/code_passes";

std::vector<fs::path> golden_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kFolder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// The parts of a golden file.
struct Case {
  explicit Case(const fs::path& path) {
    std::ifstream in(path);
    const std::string all(std::istreambuf_iterator<char>(in), {});
    const size_t line = all.find('\n'), bar = all.find("\n----\n");
    if (bar == std::string::npos) throw std::runtime_error(path.string() + " has no line \"----\"");
    head = all.substr(0, line + 1);
    before = all.substr(line + 1, bar - line);
    std::istringstream words(head);
    std::string word;
    words >> word >> pass >> word >> target;
  }
  std::string head, pass, target, before;
};

std::string text_of(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (llvm::verifyModule(module, &stream)) throw std::runtime_error(text);
  for (const llvm::GlobalVariable& each : module.globals()) stream << each << "\n";
  for (const llvm::Function& each : module) {
    if (!each.isDeclaration()) each.print(stream);
  }
  return text;
}

struct Code {
  std::string before, after;
};

// The code of LLVM IR, printed before and after the pass.
Code over_ir(const Case& given, const CodePass& pass) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic error;
  const auto module = llvm::parseAssemblyString(given.before, error, context);
  if (module == nullptr)
    throw std::runtime_error("line " + std::to_string(error.getLineNo()) + ": " + error.getMessage().str());
  Code result;
  result.before = text_of(*module);
  const Target target = parse_target(given.target);
  for (llvm::Function& each : *module) {
    PassContext shared{target};
    if (!each.isDeclaration()) pass.run(each, shared);
  }
  result.after = text_of(*module);
  return result;
}

// Appends each machine function that it visits to a text: its name and its instructions.
class Print : public llvm::MachineFunctionPass {
 public:
  static char ID;
  explicit Print(llvm::raw_ostream& out) : MachineFunctionPass(ID), out_(out) {}
  bool runOnMachineFunction(llvm::MachineFunction& function) override {
    std::string text;
    llvm::raw_string_ostream stream(text);
    llvm::printMIR(stream, function);
    out_ << "---\nname: " << function.getName() << "\n" << llvm::StringRef(text).substr(text.find("body:"));
    return false;
  }

 private:
  llvm::raw_ostream& out_;
};
char Print::ID = 0;

// The same of machine instructions.
Code over_machine_code(const Case& given, const CodePass& pass) {
  const Target target = parse_target(given.target);
  const ModuleCompiler initialises_llvm(target, "machine");
  std::string problem;
  const llvm::Target* llvm_target = llvm::TargetRegistry::lookupTarget(target.triple, problem);
  const std::unique_ptr<llvm::TargetMachine> machine(
      llvm_target->createTargetMachine(target.triple, target.cpu, target.features, {}, llvm::Reloc::PIC_));
  llvm::LLVMContext context;
  const auto parser =
      llvm::createMIRParser(llvm::MemoryBuffer::getMemBuffer(given.before, "golden"), context);
  const std::unique_ptr<llvm::Module> module = parser->parseIRModule();
  if (module == nullptr) throw std::runtime_error("LLVM cannot read the module of the machine code");
  module->setDataLayout(machine->createDataLayout());
  auto& llvm_machine = static_cast<llvm::LLVMTargetMachine&>(*machine);
  auto* functions = new llvm::MachineModuleInfoWrapperPass(&llvm_machine);
  llvm::legacy::PassManager passes;
  passes.add(llvm_machine.createPassConfig(passes));
  passes.add(functions);
  if (parser->parseMachineFunctions(*module, functions->getMMI()))
    throw std::runtime_error("LLVM cannot read the machine code");
  Code result;
  llvm::raw_string_ostream before(result.before), after(result.after);
  passes.add(new Print(before));
  passes.add(pass.create(target));
  passes.add(llvm::createMachineVerifierPass("the pass"));
  passes.add(new Print(after));
  passes.run(*module);
  return result;
}

class Golden : public testing::TestWithParam<fs::path> {};

TEST_P(Golden, ThePassMakesTheCodeBelow) {
  const Case given(GetParam());
  const CodePass& pass = code_pass(given.pass);
  EXPECT_TRUE(GetParam().stem().string().starts_with(pass.name));
  EXPECT_EQ(GetParam().extension(), pass.stage == Stage::Machine ? ".mir" : ".ll");
  EXPECT_TRUE(pass.runs(parse_target(given.target)));
  const Code code = pass.stage == Stage::Machine ? over_machine_code(given, pass) : over_ir(given, pass);
  EXPECT_NE(code.before, code.after) << "the pass leaves the code as it is";
  expect_golden(GetParam(), given.head + given.before + "----\n" + code.after);
}

INSTANTIATE_TEST_SUITE_P(CodePasses, Golden, testing::ValuesIn(golden_files()),
                         [](const testing::TestParamInfo<fs::path>& info) {
                           return info.param.stem().string();
                         });

TEST(CodePasses, EveryPassHasAGolden) {
  std::set<std::string> stems;
  for (const fs::path& each : golden_files()) stems.insert(each.stem().string());
  for (const CodePass& each : code_pass_table())
    EXPECT_TRUE(stems.contains(each.name)) << "write " << kFolder << "/" << each.name << ".ll or .mir";
}

}  // namespace
}  // namespace tc
