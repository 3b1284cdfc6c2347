// EndingReporter: tells the rendezvous which processes of a launcher have ended, so that nobody
// waits for them, and keeps what the job has failed of.
#ifndef RINGZERO_TOOLS_LAUNCH_ENDING_REPORTER_H_
#define RINGZERO_TOOLS_LAUNCH_ENDING_REPORTER_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "runtime/base/sync.h"
#include "runtime/rendezvous/membership_types.h"
#include "runtime/rendezvous/service.h"

namespace rz {

// Thread-safe. Start no earlier than the last fork of the process.
class EndingReporter {
 public:
  // Reports to `service`, which outlives this, or where it is null to the server at `address`: from
  // a thread, since a server elsewhere may take its time.
  EndingReporter(RendezvousService* service, std::string address, std::string token_file,
                 std::string job);
  ~EndingReporter();

  // By which the rendezvous tells this launcher's processes from others (their RZ_LAUNCH).
  LaunchId launch() const { return launch_; }

  // The process of `rank` has ended; `detail` says how, `well` that its exit status was 0.
  void Report(Rank rank, bool well, const std::string& detail);

  // What the job has failed of as far as the answers told; waits for those that are still to come.
  std::optional<Verdict> Finish();

 private:
  void ReportElsewhere();
  void Keep(const std::optional<Verdict>& verdict);

  RendezvousService* const service_;
  const std::string address_;
  const std::string token_file_;
  const std::string job_;
  const LaunchId launch_;
  std::thread thread_;

  Mutex mutex_;
  CondVar changed_;  // outgoing_ or finishing_
  std::deque<FailureReport> outgoing_ ABSL_GUARDED_BY(mutex_);
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<Verdict> verdict_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rz

#endif  // RINGZERO_TOOLS_LAUNCH_ENDING_REPORTER_H_
