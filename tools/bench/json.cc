#include "tools/bench/json.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace rz {
namespace {

using ::google::protobuf::Struct;
using ::google::protobuf::Value;

// The reader refuses deeper nesting than a stack could not take.
void Flatten(const std::string& path, const Value& value, JsonScalars* scalars) {
  switch (value.kind_case()) {
    case Value::kStructValue:
      for (const auto& [name, field] : value.struct_value().fields()) {
        Flatten(absl::StrCat(path, path.empty() ? "" : ".", name), field, scalars);
      }
      return;
    case Value::kListValue:
      for (int i = 0; i < value.list_value().values_size(); ++i) {
        Flatten(absl::StrCat(path, path.empty() ? "" : ".", i), value.list_value().values(i),
                scalars);
      }
      return;
    case Value::kStringValue:
      (*scalars)[path] = value.string_value();
      return;
    case Value::kNumberValue:
      (*scalars)[path] = absl::StrFormat("%.17g", value.number_value());
      return;
    case Value::kBoolValue:
      (*scalars)[path] = value.bool_value() ? "true" : "false";
      return;
    case Value::kNullValue:
    case Value::KIND_NOT_SET:
      (*scalars)[path] = "null";
      return;
  }
}

}  // namespace

std::string QuoteJson(std::string_view text) {
  Value value;
  value.set_string_value(std::string(text));
  std::string json;
  // Fails where the text is not UTF-8, which no name or message of ours is without a reason.
  if (!google::protobuf::util::MessageToJsonString(value, &json).ok()) return "\"\"";
  return json;
}

absl::StatusOr<JsonScalars> ReadJson(const std::string& text) {
  Value value;
  *value.mutable_struct_value() = Struct();
  const auto status =
      google::protobuf::util::JsonStringToMessage(text, value.mutable_struct_value());
  if (!status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("no JSON object: ", status.ToString()));
  }
  JsonScalars scalars;
  Flatten("", value, &scalars);
  return scalars;
}

}  // namespace rz
