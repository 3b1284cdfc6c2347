// Reads a JSON object into the messages of proto/config.proto, strictly, by what the schema says of
// each key.
//
//   - an unknown key is an error with the nearest name; a key that is known and not honoured, an
//     error that names it, unless its value asks for what is done anyway
//   - a number is an integer where it is whole, however it is written (5e8)
//   - null and "auto" stand for the default or what is worked out
//   - texts are those of the schema's choices, in any case; a number written like one is taken too;
//     without choices any text that is not empty
//   - of the objects in a list, what they leave out and has no default is no setting
#ifndef RINGZERO_OPTIMIZER_CONFIG_SCHEMA_READER_H_
#define RINGZERO_OPTIMIZER_CONFIG_SCHEMA_READER_H_

#include <google/protobuf/message.h>
#include <google/protobuf/struct.pb.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rz {

// A key, its value as JSON, and where that came from: "file", "default", or how it was worked out.
struct Setting {
  std::string key;  // "zero_optimization.stage"
  std::string value;
  std::string origin;
  bool worked_out = false;  // from other settings
};

// A line a setting: `zero_optimization.stage = 2  (file)`.
std::string PrintSettings(const std::vector<Setting>& settings);

// "0.1" for 0.1: the shortest text that reads back as `number`.
std::string NumberText(double number);

// Fills `message` from `object` and the schema's defaults. A setting for each key that applies, in
// the schema's order; the value of those that are to be worked out is empty.
//   InvalidArgument  a key that is unknown, given twice or not for this type; a value of the wrong
//                    type; the message has the whole key
//   Unimplemented    a key that is known and not honoured
absl::StatusOr<std::vector<Setting>> ReadObject(const google::protobuf::Struct& object,
                                                google::protobuf::Message* message);

}  // namespace rz

#endif  // RINGZERO_OPTIMIZER_CONFIG_SCHEMA_READER_H_
