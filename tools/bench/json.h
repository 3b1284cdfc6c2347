// JSON for files of results, on protobuf's reader and writer.
#ifndef RINGZERO_TOOLS_BENCH_JSON_H_
#define RINGZERO_TOOLS_BENCH_JSON_H_

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace rz {

// `text` as a JSON string, with its quotes.
std::string QuoteJson(std::string_view text);

// The scalars of an object by path: {"a": {"b": 1}, "c": ["x", true]} gives "a.b": "1", "c.0": "x",
// "c.1": "true". Numbers have as many digits as they need.
using JsonScalars = std::map<std::string, std::string>;

//   InvalidArgument  no JSON object; the message is the reader's
absl::StatusOr<JsonScalars> ReadJson(const std::string& text);

}  // namespace rz

#endif  // RINGZERO_TOOLS_BENCH_JSON_H_
