#include "optimizer/config/schema_reader.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/config.pb.h"
#include "runtime/base/nearest_name.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Struct;
using google::protobuf::Value;

// What a double holds exactly.
constexpr double kMaxWhole = 9007199254740992;

const proto::Rule& RuleOfField(const FieldDescriptor& field) {
  return field.options().GetExtension(proto::rule);
}

std::string JsonText(const Value& value) {
  switch (value.kind_case()) {
    case Value::kNumberValue:
      return NumberText(value.number_value());
    case Value::kStringValue:
      return absl::StrCat("\"", value.string_value(), "\"");
    case Value::kBoolValue:
      return value.bool_value() ? "true" : "false";
    case Value::kStructValue:
      return "an object";
    case Value::kListValue: {
      std::vector<std::string> parts;
      for (const Value& part : value.list_value().values()) parts.push_back(JsonText(part));
      return absl::StrCat("[", absl::StrJoin(parts, ", "), "]");
    }
    default:
      return "null";
  }
}

Value JsonValue(const std::string& text) {
  Value value;
  // The schema's own texts: schema_reader_test reads them all.
  (void)google::protobuf::util::JsonStringToMessage(text, &value);
  return value;
}

absl::Status Expected(const std::string& key, std::string_view what, const Value& found) {
  return absl::InvalidArgumentError(
      absl::StrCat(key, ": expected ", std::string(what), ", found ", JsonText(found)));
}

// The choice that `value` names; empty where it names none.
std::string Choice(const proto::Rule& rule, const Value& value) {
  const std::string text = value.kind_case() == Value::kNumberValue
                               ? NumberText(value.number_value())
                               : value.string_value();
  for (const std::string& choice : rule.choices()) {
    if (absl::EqualsIgnoreCase(choice, text)) return choice;
  }
  return "";
}

class Reader {
 public:
  // `type` is that of the message whose params these are.
  absl::Status Read(const Struct& object, const std::string& path, const std::string& type,
                    Message* message) {
    RZ_RETURN_IF_ERROR(CheckKeys(object, path, *message->GetDescriptor()));
    for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
      RZ_RETURN_IF_ERROR(
          ReadField(object, path, type, *message->GetDescriptor()->field(i), message));
    }
    return absl::OkStatus();
  }

  std::vector<Setting> settings() && { return std::move(settings_); }

 private:
  static absl::Status CheckKeys(const Struct& object, const std::string& path,
                                const Descriptor& descriptor) {
    std::vector<std::string> known, given;
    for (int i = 0; i < descriptor.field_count(); ++i) {
      known.push_back(descriptor.field(i)->name());
      for (const std::string& alias : RuleOfField(*descriptor.field(i)).aliases()) {
        known.push_back(alias);
      }
    }
    for (const auto& entry : object.fields()) given.push_back(entry.first);
    std::sort(given.begin(), given.end());
    for (const std::string& key : given) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      const std::string nearest = NearestName(key, known);
      return absl::InvalidArgumentError(
          absl::StrCat("unknown key ", path, key,
                       nearest.empty() ? absl::StrCat("; there are: ", absl::StrJoin(known, ", "))
                                       : absl::StrCat("; did you mean ", path, nearest, "?")));
    }
    return absl::OkStatus();
  }

  // Under its name or an alias; null where it is left out.
  static absl::StatusOr<const Value*> Find(const Struct& object, const std::string& path,
                                           const FieldDescriptor& field) {
    const Value* found = nullptr;
    std::vector<std::string> names = {field.name()};
    for (const std::string& alias : RuleOfField(field).aliases()) names.push_back(alias);
    for (const std::string& name : names) {
      const auto entry = object.fields().find(name);
      if (entry == object.fields().end()) continue;
      if (found != nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, name, " is another name of ", path, field.name(), ": give one"));
      }
      found = &entry->second;
    }
    if (found != nullptr && found->kind_case() == Value::kNullValue) return nullptr;
    return found;
  }

  absl::Status ReadField(const Struct& object, const std::string& path, const std::string& type,
                         const FieldDescriptor& field, Message* message) {
    const proto::Rule& rule = RuleOfField(field);
    const std::string key = path + field.name();
    RZ_ASSIGN_OR_RETURN(const Value* value, Find(object, path, field));
    if (!rule.unsupported().empty()) return CheckUnsupported(rule, key, value);
    const bool applies =
        rule.of().empty() || std::find(rule.of().begin(), rule.of().end(), type) != rule.of().end();
    if (!applies) {
      if (value == nullptr) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat(
          key, " is for ", absl::StrJoin(rule.of(), ", "), "; the type here is ", type));
    }
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && field.is_repeated()) {
      return ReadList(value, key, field, message);
    }
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      return ReadMessage(value, key, field, message);
    }
    const bool is_auto = value != nullptr && value->string_value() == "auto";
    if (value != nullptr && !is_auto) return Set(*value, "file", key, field, message);
    const std::string origin = is_auto ? "auto" : "default";
    if (!rule.fallback().empty()) {
      return Set(JsonValue(rule.fallback()), origin, key, field, message);
    }
    if (!in_list_) settings_.push_back({key, "", origin});
    return absl::OkStatus();
  }

  static absl::Status CheckUnsupported(const proto::Rule& rule, const std::string& key,
                                       const Value* value) {
    if (value == nullptr || (!rule.only().empty() && JsonText(*value) == rule.only())) {
      return absl::OkStatus();
    }
    return absl::UnimplementedError(absl::StrCat(
        key, " is not supported: ", rule.unsupported(),
        rule.only().empty() ? "" : absl::StrCat("; only ", rule.only(), " is accepted")));
  }

  absl::Status ReadMessage(const Value* value, const std::string& key, const FieldDescriptor& field,
                           Message* message) {
    if (value != nullptr && value->kind_case() != Value::kStructValue) {
      return Expected(key, "an object", *value);
    }
    // A "type" stands before its "params".
    const FieldDescriptor* type = message->GetDescriptor()->FindFieldByName("type");
    return Read(value == nullptr ? Struct() : value->struct_value(), key + ".",
                type == nullptr ? "" : message->GetReflection()->GetString(*message, type),
                message->GetReflection()->MutableMessage(message, &field));
  }

  absl::Status ReadList(const Value* value, const std::string& key, const FieldDescriptor& field,
                        Message* message) {
    if (value == nullptr) return absl::OkStatus();
    if (value->kind_case() != Value::kListValue) return Expected(key, "a list of objects", *value);
    in_list_ = true;
    for (int i = 0; i < value->list_value().values_size(); ++i) {
      const Value& element = value->list_value().values(i);
      const std::string at = absl::StrCat(key, "[", i, "]");
      if (element.kind_case() != Value::kStructValue) return Expected(at, "an object", element);
      RZ_RETURN_IF_ERROR(Read(element.struct_value(), at + ".", "",
                              message->GetReflection()->AddMessage(message, &field)));
    }
    in_list_ = false;
    return absl::OkStatus();
  }

  absl::Status Set(const Value& value, const std::string& origin, const std::string& key,
                   const FieldDescriptor& field, Message* message) {
    const google::protobuf::Reflection& reflection = *message->GetReflection();
    std::string text = JsonText(value);
    if (field.is_repeated()) {
      for (const Value& part : value.list_value().values()) {
        if (part.kind_case() != Value::kNumberValue) return Expected(key, "numbers", part);
        reflection.AddDouble(message, &field, part.number_value());
      }
      if (value.list_value().values_size() != 2) return Expected(key, "[number, number]", value);
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
      if (value.kind_case() != Value::kBoolValue) return Expected(key, "true or false", value);
      reflection.SetBool(message, &field, value.bool_value());
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      const proto::Rule& rule = RuleOfField(field);
      const std::string choice =
          rule.choices().empty() ? value.string_value() : Choice(rule, value);
      if (choice.empty() && rule.choices().empty()) return Expected(key, "a text", value);
      if (choice.empty()) {
        return Expected(key, absl::StrCat("one of ", absl::StrJoin(rule.choices(), ", ")), value);
      }
      reflection.SetString(message, &field, choice);
      if (!rule.choices().empty()) text = choice;
    } else {
      const double number = value.number_value();
      const bool whole = field.cpp_type() == FieldDescriptor::CPPTYPE_INT64;
      if (value.kind_case() != Value::kNumberValue ||
          (whole && (number != std::floor(number) || std::fabs(number) > kMaxWhole))) {
        return Expected(key, whole ? "a whole number" : "a number", value);
      }
      if (whole) reflection.SetInt64(message, &field, static_cast<int64_t>(number));
      if (!whole) reflection.SetDouble(message, &field, number);
    }
    settings_.push_back({key, text, origin});
    return absl::OkStatus();
  }

  std::vector<Setting> settings_;
  bool in_list_ = false;
};

}  // namespace

std::string PrintSettings(const std::vector<Setting>& settings) {
  std::string text;
  for (const Setting& setting : settings) {
    absl::StrAppend(&text, setting.key, " = ", setting.value, "  (", setting.origin, ")\n");
  }
  return text;
}

std::string NumberText(double number) {
  if (number == std::floor(number) && std::fabs(number) <= kMaxWhole) {
    return absl::StrCat(static_cast<int64_t>(number));
  }
  char text[32];
  const std::to_chars_result end = std::to_chars(text, text + sizeof(text), number);
  return std::string(text, end.ptr);
}

absl::StatusOr<std::vector<Setting>> ReadObject(const Struct& object, Message* message) {
  Reader reader;
  RZ_RETURN_IF_ERROR(reader.Read(object, "", "", message));
  return std::move(reader).settings();
}

}  // namespace rz
