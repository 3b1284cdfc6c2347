#include "optimizer/config/reference.h"

#include <google/protobuf/descriptor.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/config.pb.h"

namespace rz {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr char kHead[] =
    R"(# Configuration

<!-- Written by `bazel run //optimizer/config:write_reference`; reference_test compares. Edit proto/config.proto. -->

A configuration is a JSON object with DeepSpeed's keys. A number is an integer where it is whole, however it is written (`5e8`). `null` and
`"auto"` stand for the default or for what is worked out. A key that is unknown, and one that is known and not supported, is an error; nothing
is ignored. `rz_train --config FILE --print-config` shows every key with its value and where that came from.
Without `--config`, `rz_train` has the demo's defaults instead of these (bf16, stage 1, a learning rate of 0.0015, weight decay 0.01, no clipping):
see `rz_train --help`.
)";

// Names as links would be too long: "zero_optimization.stage" under its own heading is "stage".
std::string Type(const FieldDescriptor& field, const proto::Rule& rule) {
  if (field.is_repeated()) return "[number, number]";
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true, false";
    case FieldDescriptor::CPPTYPE_INT64:
      return "integer";
    case FieldDescriptor::CPPTYPE_STRING:
      return rule.choices().empty() ? "text" : absl::StrJoin(rule.choices(), ", ");
    default:
      return "number";
  }
}

std::string Fallback(const proto::Rule& rule) {
  if (!rule.fallback().empty()) return absl::StrCat("`", rule.fallback(), "`");
  return rule.worked_out();
}

std::string Help(const proto::Rule& rule) {
  std::string help = rule.help();
  if (!rule.of().empty()) absl::StrAppend(&help, " For ", absl::StrJoin(rule.of(), ", "), ".");
  if (!rule.aliases().empty()) {
    absl::StrAppend(&help, " Also `", absl::StrJoin(rule.aliases(), "`, `"), "`.");
  }
  return help;
}

void Append(const Descriptor& descriptor, const std::string& path, std::string* page) {
  std::string rows, unsupported;
  std::vector<const FieldDescriptor*> inner;
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    const proto::Rule& rule = field.options().GetExtension(proto::rule);
    if (!rule.unsupported().empty()) {
      absl::StrAppend(&unsupported, "| `", field.name(), "` | ", rule.unsupported(), " | ",
                      rule.only().empty() ? "" : absl::StrCat("`", rule.only(), "`"), " |\n");
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      inner.push_back(&field);
    } else {
      absl::StrAppend(&rows, "| `", field.name(), "` | ", Type(field, rule), " | ", Fallback(rule),
                      " | ", Help(rule), " |\n");
    }
  }
  if (!rows.empty()) {
    absl::StrAppend(page, "\n| key | value | default | what it does |\n|---|---|---|---|\n", rows);
  }
  if (!unsupported.empty()) {
    absl::StrAppend(page, "\n| not supported | because | accepted all the same |\n|---|---|---|\n",
                    unsupported);
  }
  for (const FieldDescriptor* field : inner) {
    const std::string key = path + field->name() + (field->is_repeated() ? "[]" : "");
    const std::string help = Help(field->options().GetExtension(proto::rule));
    absl::StrAppend(page, "\n## ", key, "\n", help.empty() ? "" : absl::StrCat("\n", help, "\n"));
    Append(*field->message_type(), key + ".", page);
  }
}

}  // namespace

std::string ConfigReference() {
  std::string page = kHead;
  Append(*proto::Config::descriptor(), "", &page);
  return page;
}

}  // namespace rz
