// tc-builder: a worker that builds candidates, of the tuner's pool or of a node of a cluster.
#include <unistd.h>

#include "frontend/pipeline/model_program.h"
#include "tuner/process_builder.h"

int main() {
  // Answers go to the original standard output; whatever a library prints goes to standard error, so that it
  // cannot mix with them.
  const int out = dup(STDOUT_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  return tc::serve_builds(STDIN_FILENO, out, tc::build_model_program);
}
