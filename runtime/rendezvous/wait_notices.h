// WaitNotices: says what a rank waits for, so that nobody sits before a silent terminal.
#ifndef RINGZERO_RUNTIME_RENDEZVOUS_WAIT_NOTICES_H_
#define RINGZERO_RUNTIME_RENDEZVOUS_WAIT_NOTICES_H_

#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "runtime/base/sync.h"

namespace rz {

class WaitNotices {
 public:
  // What is waited for, after `waited`; called from this object's thread, and may block.
  using Describe = std::function<std::string(absl::Duration waited)>;
  using Say = std::function<void(const std::string&)>;

  // Says `describe(waited)` after `first`, then each time that as long again has passed as before
  // (5, 10, 20, 40 s, ...), until it is destroyed.
  WaitNotices(absl::Duration first, Describe describe, Say say);
  ~WaitNotices();

 private:
  void Run(absl::Duration first);

  const Describe describe_;
  const Say say_;
  Mutex mutex_;
  CondVar over_changed_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace rz

#endif  // RINGZERO_RUNTIME_RENDEZVOUS_WAIT_NOTICES_H_
