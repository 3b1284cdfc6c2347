#include "tools/flight/flight_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "collectives/flight/flight_dump.h"
#include "runtime/base/status_macros.h"

namespace rz {
namespace {

absl::Status FileError(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

absl::StatusOr<std::string> ReadBounded(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  std::string text;
  std::vector<char> piece(1 << 16);
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())), file.gcount() > 0) {
    text.append(piece.data(), static_cast<size_t>(file.gcount()));
    if (static_cast<int64_t>(text.size()) > kMaxFlightFileBytes) {
      return FileError(path, absl::StrCat("more than ", kMaxFlightFileBytes,
                                          " bytes: this is no flight record"));
    }
  }
  if (file.bad()) return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
  return text;
}

absl::Status CheckTogether(const FlightRecord& first, const std::string& first_path,
                           const FlightRecord& other, const std::string& path) {
  if (first.job != other.job) {
    return FileError(path, absl::StrCat("is of job '", other.job, "', ", first_path, " of job '",
                                        first.job, "'; give the files of one job"));
  }
  if (first.communicator != other.communicator) {
    return FileError(path, absl::StrCat("is of communicator ", other.communicator, ", ", first_path,
                                        " of ", first.communicator, "; give the files of one"));
  }
  if (first.world_size != other.world_size) {
    return FileError(path,
                     absl::StrCat("is of a world of ", other.world_size, " ranks, ", first_path,
                                  " of one of ", first.world_size, "; give the files of one run"));
  }
  if (first.rank == other.rank) {
    return FileError(path, absl::StrCat("is of rank ", other.rank, ", and so is ", first_path));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<FlightRecord>> ReadFlightFiles(absl::Span<const std::string> paths) {
  if (paths.empty()) {
    return absl::InvalidArgumentError(
        "which files? Ranks write them to RZ_FLIGHT_DIR on failure and on SIGUSR2");
  }
  std::vector<FlightRecord> records;
  for (const std::string& path : paths) {
    RZ_ASSIGN_OR_RETURN(const std::string text, ReadBounded(path));
    absl::StatusOr<FlightRecord> record = ParseFlightRecord(text);
    if (!record.ok()) return FileError(path, std::string(record.status().message()));
    for (size_t i = 0; i < records.size(); ++i) {
      RZ_RETURN_IF_ERROR(CheckTogether(records[i], paths[i], *record, path));
    }
    records.push_back(*std::move(record));
  }
  std::sort(records.begin(), records.end(),
            [](const FlightRecord& a, const FlightRecord& b) { return a.rank < b.rank; });
  return records;
}

}  // namespace rz
