#include "tests/layering.h"

#include <algorithm>
#include <fstream>
#include <regex>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace rz::testing {
namespace {

// A room and its floor; the longest prefix that matches a path decides. Rooms with a name in
// `siblings` and the same floor never see each other.
struct Room {
  std::string_view prefix;
  int floor;
  std::string_view sibling;
};

constexpr Room kRooms[] = {
    {"proto/", 0, ""},
    {"runtime/base/", 0, ""},
    {"runtime/memory/", 1, ""},
    {"runtime/transport/", 1, ""},
    {"runtime/rendezvous/membership", 1, ""},
    {"runtime/rendezvous/limits", 1, ""},
    {"collectives/schedule/", 1, ""},
    {"collectives/chunk_layout", 1, ""},
    {"optimizer/layout/", 1, ""},
    {"runtime/transport/ucx/", 2, "ucx"},
    {"runtime/transport/sim/", 2, "sim"},
    {"runtime/rendezvous/", 2, "rendezvous"},
    {"collectives/kernels/", 2, "reduce kernels"},
    {"optimizer/kernels/", 2, "optimizer kernels"},
    {"runtime/BUILD", 3, ""},
    {"runtime/job", 3, ""},
    {"runtime/launch/", 3, ""},
    {"runtime/c_api", 3, ""},
    {"collectives/", 3, ""},
    {"optimizer/", 4, ""},
    {"ringzero.h", 5, ""},
    {"BUILD", 6, ""},  // of the root
    {"library/", 5, ""},
    {"tools/", 6, ""},
    {"python/", 6, ""},
    {"examples/", 6, ""},
    {"tests/", 6, ""},
    {"tests/data/", 0, ""},  // no code
};

// A foreign header (by prefix) and the places that may include it.
struct Border {
  std::string_view header;
  std::vector<std::string_view> allowed;
};

const std::vector<Border>& Borders() {
  static const auto* borders = new std::vector<Border>{
      {"ucp/", {"runtime/transport/ucx/"}},
      {"ucs/", {"runtime/transport/ucx/"}},
      {"uct/", {"runtime/transport/ucx/"}},
      {"grpcpp/", {"runtime/rendezvous/", "proto/"}},
      {"grpc/", {"runtime/rendezvous/", "proto/"}},
      {"google/protobuf/",
       {"runtime/rendezvous/", "proto/", "optimizer/checkpoint/", "optimizer/config",
        "collectives/flight", "tools/", "tests/library/other_protobuf"}},
      {"cuda", {"runtime/memory/cuda", "collectives/kernels/cuda", "optimizer/kernels/cuda"}},
      {"nccl", {}},
      {"mpi.h", {"tools/bench/peers/"}},
      {"proto/", {"runtime/rendezvous/", "optimizer/", "collectives/flight", "tools/"}},
      {"isa-l", {"runtime/base/crc32c"}},
  };
  return *borders;
}

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

// Test support has a folder or a suffix of its own.
bool IsTest(std::string_view path) {
  for (std::string_view part : {"_test.", "_test_", "_benchmark.", "_fuzz.", "test_", "testing"}) {
    if (path.find(part) != std::string_view::npos) return true;
  }
  return false;
}

const Room* RoomOf(std::string_view path) {
  const Room* best = nullptr;
  for (const Room& room : kRooms) {
    if (StartsWith(path, room.prefix) &&
        (best == nullptr || room.prefix.size() > best->prefix.size())) {
      best = &room;
    }
  }
  return best;
}

// "//a/b:c" -> "a/b/c", "//a/b" -> "a/b/b"; anything else unchanged.
std::string PathOf(const std::string& to) {
  if (!absl::StartsWith(to, "//")) return to;
  std::string path = to.substr(2);
  if (!absl::StrContains(path, ":")) absl::StrAppend(&path, ":", path.substr(path.rfind('/') + 1));
  std::replace(path.begin(), path.end(), ':', '/');
  return path;
}

std::string Text(std::string_view view) { return std::string(view); }

}  // namespace

std::optional<std::string> ForbiddenBecause(const std::string& from, const std::string& to,
                                            bool for_test) {
  const std::string target = PathOf(to);
  for (const Border& border : Borders()) {
    if (!StartsWith(target, border.header)) continue;
    const bool allowed =
        StartsWith(from, border.header) ||
        std::any_of(border.allowed.begin(), border.allowed.end(),
                    [&](std::string_view place) { return StartsWith(from, place); });
    if (!allowed) return absl::StrCat(Text(border.header), "* is not to be used here");
  }
  const Room* const here = RoomOf(from);
  const Room* const there = RoomOf(target);
  if (there == nullptr) return std::nullopt;  // a foreign header without a border
  if (here == nullptr) return "this place is no room of the house (tests/layering.cc lists them)";
  // A test may use whatever is below the tools to drive its unit.
  const bool test = for_test || IsTest(from);
  const int floor = test ? std::max(here->floor, 5) : here->floor;
  if (there->floor > floor) {
    return absl::StrCat(Text(there->prefix), " is on floor ", there->floor, ", above ",
                        Text(here->prefix), " on floor ", here->floor);
  }
  if (!test && !here->sibling.empty() && !there->sibling.empty() &&
      here->sibling != there->sibling) {
    return absl::StrCat(Text(here->prefix), " and ", Text(there->prefix),
                        " are siblings and never see each other");
  }
  return std::nullopt;
}

namespace {

void ReadIncludes(const std::string& from, std::ifstream& file, std::vector<Edge>& edges) {
  static const std::regex include(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"])");
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::smatch match;
    if (std::regex_search(line, match, include)) edges.push_back({from, number, match[1].str()});
  }
}

// One rule after another: whether it is for tests is known at its end.
void ReadLabels(const std::string& from, std::ifstream& file, std::vector<Edge>& edges) {
  static const std::regex label(R"re("(//[A-Za-z0-9_/.-]+(:[A-Za-z0-9_.-]+)?)")re");
  std::string line;
  size_t rule_begin = edges.size();
  bool for_test = false;
  for (int number = 1; std::getline(file, line); ++number) {
    if (absl::StartsWith(line, "cc_test(") || absl::StrContains(line, "testonly = True")) {
      for_test = true;
    }
    if (absl::StartsWith(line, ")")) {
      for (size_t i = rule_begin; i < edges.size(); ++i) edges[i].for_test = for_test;
      rule_begin = edges.size();
      for_test = false;
    }
    // Opening a door is the lower floor's business: visibility names those above.
    if (absl::StrContains(line, "__subpackages__") || absl::StrContains(line, "__pkg__") ||
        absl::StrContains(line, "visibility")) {
      continue;
    }
    std::smatch match;
    if (std::regex_search(line, match, label)) edges.push_back({from, number, match[1].str()});
  }
}

}  // namespace

std::vector<Edge> ReadEdges(const std::filesystem::path& root) {
  std::vector<Edge> edges;
  for (auto it = std::filesystem::recursive_directory_iterator(root);
       it != std::filesystem::recursive_directory_iterator(); ++it) {
    const std::string name = it->path().filename().string();
    if (it->is_symlink() || absl::StartsWith(name, ".") || name == "third_party") {
      it.disable_recursion_pending();
      continue;
    }
    const std::string extension = it->path().extension().string();
    std::ifstream file(it->path());
    const std::string from = std::filesystem::relative(it->path(), root).string();
    if (name == "BUILD") {
      ReadLabels(from, file, edges);
    } else if (extension == ".h" || extension == ".cc" || extension == ".cu") {
      ReadIncludes(from, file, edges);
    }
  }
  return edges;
}

}  // namespace rz::testing
