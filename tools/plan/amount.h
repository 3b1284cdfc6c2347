// Amounts for people: bytes in a unit that suits them, parameters, plain numbers.
#ifndef RINGZERO_TOOLS_PLAN_AMOUNT_H_
#define RINGZERO_TOOLS_PLAN_AMOUNT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "optimizer/memory_report.h"

namespace rz {

// Two digits behind the point, from 1000 on one, and no zeros at the end: "31.41", "4011.7", "120".
std::string Digits(double value);

struct Unit {
  std::string name;  // "GB"
  double bytes = 1;

  // Exact where the unit is a byte.
  std::string Of(const ByteShare& share) const;
};

// "GB", "MB", "GiB", "MiB" and "bytes"; "auto" is GB where `largest` bytes are one at least,
// otherwise MB.
Unit ChooseUnit(std::string_view name, double largest);

// "80 GB", "7.5 MB"; the largest of GB, MB, kB and bytes that gives 1 at least.
std::string InBestUnit(double bytes);

// "7.64e9", "247766": parameters.
std::string InBestCount(int64_t count);

}  // namespace rz

#endif  // RINGZERO_TOOLS_PLAN_AMOUNT_H_
