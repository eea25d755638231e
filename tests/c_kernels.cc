// Kernels as C source, compiled.
#include "tests/c_kernels.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "codegen/c/model_source.h"
#include "ir/error.h"

namespace tc::testing {

std::string c_compiler() {
  const char* compiler = std::getenv("TC_C_COMPILER");
  return compiler == nullptr ? "" : compiler;
}

void compile_as_c(const std::vector<ScheduledKernel>& kernels, const std::string& compiler,
                  const std::string& folder) {
  std::string files;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const std::string file = text(folder, "/kernel", i, ".c");
    std::ofstream(file)
        << "/* no header declares the function */\n#if defined(__GNUC__)\n#pragma GCC diagnostic ignored \"-Wmissing-prototypes\"\n#endif\n"
        << c_kernel_source(kernels[i], text("kernel", i));
    files += " " + file;
  }
  const std::string log = folder + "/compiler.txt";
  const std::string command =
      text(compiler, " -std=c99 -pedantic -Wall -Wextra -Werror -ffp-contract=fast -shared -fPIC -o ", folder,
           "/kernels.so", files, " -lm > ", log, " 2>&1");
  if (std::system(command.c_str()) == 0) return;
  std::stringstream told;
  told << std::ifstream(log).rdbuf();
  if (const char* kept = std::getenv("TC_KEEP_SOURCE"))
    std::filesystem::copy(folder, kept, std::filesystem::copy_options::overwrite_existing);
  fail(ErrorKind::Internal, command, "\n", told.str().substr(0, 4000));
}

}  // namespace tc::testing
