// tc-builder: a worker of the tuner's build pool.
#include <unistd.h>

#include "tuner/process_builder.h"

int main() {
  // Nothing that a library prints may get between the answers.
  const int out = dup(STDOUT_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  return tc::serve_builds(STDIN_FILENO, out);
}
