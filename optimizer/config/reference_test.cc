#include "optimizer/config/reference.h"

#include <fstream>
#include <sstream>

#include "gmock/gmock.h"

namespace rz {
namespace {

TEST(ConfigReferenceTest, ThePageIsTheSchemas) {
  std::ifstream file("docs/configuration.md");
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_TRUE(page.str() == ConfigReference())
      << "docs/configuration.md is stale; run: bazel run //optimizer/config:write_reference";
}

}  // namespace
}  // namespace rz
