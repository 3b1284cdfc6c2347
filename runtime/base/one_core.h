// For tests of what threads do that share a core.
#ifndef RINGZERO_RUNTIME_BASE_ONE_CORE_H_
#define RINGZERO_RUNTIME_BASE_ONE_CORE_H_

#include <sched.h>

#include <functional>
#include <thread>

#include "gtest/gtest.h"

namespace rz::testing {

// Runs `body` in a thread that is bound to one core, and waits for its end.
inline void OnOneCore(const std::function<void()>& body) {
  std::thread([&body] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    body();
  }).join();
}

}  // namespace rz::testing

#endif  // RINGZERO_RUNTIME_BASE_ONE_CORE_H_
