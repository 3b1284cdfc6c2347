// JSON (RFC 8259) read as a flat map from paths to scalars, for reports of earlier runs:
//
//   {"a": {"b": 1}, "c": ["x", true]}   ->   "a.b": "1", "c.0": "x", "c.1": "true"
//
// Numbers, true, false and null keep their text; strings are unescaped (\u only below 0x80).
#ifndef RINGZERO_TOOLS_TRAIN_FLAT_JSON_H_
#define RINGZERO_TOOLS_TRAIN_FLAT_JSON_H_

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace rz {

using FlatJson = std::map<std::string, std::string>;

//   InvalidArgument  not JSON, a name that stands twice, or nested deeper than 16; the message says
//                    at which byte and what was expected
absl::StatusOr<FlatJson> ParseFlatJson(std::string_view text);

// `text` as a JSON string, with its quotes.
std::string JsonString(std::string_view text);

}  // namespace rz

#endif  // RINGZERO_TOOLS_TRAIN_FLAT_JSON_H_
