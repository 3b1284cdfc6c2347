#include "tools/plan/amount.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace rz {
namespace {

constexpr double kGiga = 1e9, kMega = 1e6;
constexpr double kGibi = 1 << 30, kMebi = 1 << 20;

}  // namespace

std::string Digits(double value) {
  std::string text = absl::StrFormat(value < 1000 ? "%.2f" : "%.1f", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string Unit::Of(const ByteShare& share) const {
  return bytes == 1 ? share.ToString() : Digits(share.bytes() / bytes);
}

Unit ChooseUnit(std::string_view name, double largest) {
  if (name == "auto") name = largest < kGiga ? "MB" : "GB";
  for (const auto& [known, bytes] : {std::pair<std::string_view, double>{"GB", kGiga},
                                     {"MB", kMega},
                                     {"GiB", kGibi},
                                     {"MiB", kMebi}}) {
    if (name == known) return {std::string(name), bytes};
  }
  return {"bytes", 1};
}

std::string InBestUnit(double bytes) {
  for (const auto& [name, unit] :
       {std::pair<const char*, double>{"GB", kGiga}, {"MB", kMega}, {"kB", 1e3}}) {
    if (bytes >= unit) return absl::StrCat(Digits(bytes / unit), " ", name);
  }
  return absl::StrCat(Digits(bytes), " bytes");
}

std::string InBestCount(int64_t count) {
  const auto value = static_cast<double>(count);
  if (value >= 1e9) return absl::StrCat(Digits(value / 1e9), "e9");
  if (value >= 1e6) return absl::StrCat(Digits(value / 1e6), "e6");
  return absl::StrCat(count);
}

}  // namespace rz
