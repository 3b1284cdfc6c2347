#include "tools/launch/ending_reporter.h"

#include <random>
#include <utility>

#include "runtime/rendezvous/client.h"

namespace rz {
namespace {

LaunchId RandomLaunch() {
  std::random_device source;
  uint64_t value = 0;
  while (value == 0) value = (uint64_t{source()} << 32) | source();
  return LaunchId(value);
}

}  // namespace

EndingReporter::EndingReporter(RendezvousService* service, std::string address,
                               std::string token_file, std::string job)
    : service_(service),
      address_(std::move(address)),
      token_file_(std::move(token_file)),
      job_(std::move(job)),
      launch_(RandomLaunch()) {
  if (service_ == nullptr) thread_ = std::thread([this] { ReportElsewhere(); });
}

EndingReporter::~EndingReporter() { Finish(); }

void EndingReporter::Keep(const std::optional<Verdict>& verdict) {
  MutexLock lock(&mutex_);
  if (!verdict_.has_value()) verdict_ = verdict;
}

void EndingReporter::Report(Rank rank, bool well, const std::string& detail) {
  FailureReport report;
  report.job = job_;
  report.rank = rank;
  report.kind = well ? FailureKind::kExited : FailureKind::kEnded;
  report.detail = detail;
  report.launch = launch_;
  if (service_ != nullptr) {
    // A launcher's word is judged at once.
    service_->ReportFailure(report, [this](const Reply& reply) { Keep(reply.verdict); });
    return;
  }
  MutexLock lock(&mutex_);
  outgoing_.push_back(std::move(report));
  changed_.NotifyAll();
}

void EndingReporter::ReportElsewhere() {
  bool reachable = true;
  while (true) {
    FailureReport report;
    {
      MutexLock lock(&mutex_);
      changed_.WaitFor(&mutex_, absl::InfiniteDuration(),
                       [this] { return finishing_ || !outgoing_.empty(); });
      if (outgoing_.empty()) return;
      report = std::move(outgoing_.front());
      outgoing_.pop_front();
    }
    // A server that was not reached is not tried again for every rank.
    if (!reachable) continue;
    const absl::StatusOr<std::optional<Verdict>> verdict =
        ReportEndedProcess(address_, token_file_, report);
    if (verdict.ok()) Keep(*verdict);
    reachable = verdict.status().code() != absl::StatusCode::kUnavailable;
  }
}

std::optional<Verdict> EndingReporter::Finish() {
  {
    MutexLock lock(&mutex_);
    finishing_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
  MutexLock lock(&mutex_);
  return verdict_;
}

}  // namespace rz
