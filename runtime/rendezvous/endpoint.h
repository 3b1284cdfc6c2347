// HOST:PORT as people write it.
#ifndef RINGZERO_RUNTIME_RENDEZVOUS_ENDPOINT_H_
#define RINGZERO_RUNTIME_RENDEZVOUS_ENDPOINT_H_

#include <string>

#include "absl/status/statusor.h"

namespace rz {

struct Endpoint {
  std::string host;  // without brackets
  int port = 0;
  std::string socket_path;  // of a socket file, which has neither host nor port

  // "host:1234"; an IPv6 address in brackets. "unix:/path".
  std::string ToString() const;
};

// "localhost:1234", "10.0.0.1:1234", "[::1]:1234", "unix:/run/user/1000/socket".
//   InvalidArgument  no host, no port, or a port outside 0 to 65535; a path that is not absolute,
//   is
//                    longer than a socket's may be, or has other characters than A-Za-z0-9/._-
absl::StatusOr<Endpoint> ParseEndpoint(const std::string& text);

// Whether everything `host` stands for is reachable from this machine only.
//   InvalidArgument  the name does not resolve
absl::StatusOr<bool> IsLoopback(const std::string& host);

}  // namespace rz

#endif  // RINGZERO_RUNTIME_RENDEZVOUS_ENDPOINT_H_
