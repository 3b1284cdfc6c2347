// One rank of a case in a world of threads or processes.
#ifndef RINGZERO_RUNTIME_TRANSPORT_CONFORMANCE_RANK_MAIN_H_
#define RINGZERO_RUNTIME_TRANSPORT_CONFORMANCE_RANK_MAIN_H_

#include <functional>
#include <string>
#include <vector>

#include "runtime/transport/conformance/worlds.h"

namespace rz::conformance {

// Gives this rank's address to the others and gets everybody's, in order of rank; empty where that
// failed.
using Exchange = std::function<std::vector<std::string>(const std::string& address)>;

// Makes a transport, runs the script, destroys the transport; returns what went wrong.
std::vector<std::string> RankMain(const Case& c, Capabilities capabilities, Rank rank,
                                  const TransportFactory& factory, const Exchange& exchange,
                                  const std::function<void()>& die);

}  // namespace rz::conformance

#endif  // RINGZERO_RUNTIME_TRANSPORT_CONFORMANCE_RANK_MAIN_H_
