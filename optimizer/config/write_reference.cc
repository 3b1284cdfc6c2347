// bazel run //optimizer/config:write_reference: docs/configuration.md, in the source tree.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "optimizer/config/reference.h"

int main() {
  const char* const workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  if (workspace == nullptr) {
    std::fputs("write_reference: run it with bazel run\n", stderr);
    return 2;
  }
  const std::string path = std::string(workspace) + "/docs/configuration.md";
  std::ofstream file(path);
  file << rz::ConfigReference();
  if (!file.flush()) {
    std::fprintf(stderr, "write_reference: %s cannot be written\n", path.c_str());
    return 1;
  }
  return 0;
}
