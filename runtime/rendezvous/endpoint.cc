#include "runtime/rendezvous/endpoint.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace rz {
namespace {

bool IsLoopbackAddress(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
  }
  if (address.sa_family == AF_INET6) {
    const in6_addr& v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&v6)) return v6.s6_addr[12] == 127;
    return IN6_IS_ADDR_LOOPBACK(&v6);
  }
  return false;
}

constexpr char kScheme[] = "unix:";

absl::StatusOr<Endpoint> ParseSocketPath(const std::string& text) {
  const std::string path = text.substr(sizeof(kScheme) - 1);
  // What needs no escapes where gRPC takes the address for a URI.
  const auto plain = [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '/' || c == '.' || c == '_' || c == '-';
  };
  constexpr size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  if (!absl::StartsWith(path, "/") || path.size() > kLongest ||
      !std::all_of(path.begin(), path.end(), plain)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", absl::CHexEscape(text), "' is not unix:/PATH: an absolute path of up to ",
                     kLongest, " characters of A-Za-z0-9/._-"));
  }
  Endpoint endpoint;
  endpoint.socket_path = path;
  return endpoint;
}

}  // namespace

std::string Endpoint::ToString() const {
  if (!socket_path.empty()) return absl::StrCat(kScheme, socket_path);
  const bool v6 = host.find(':') != std::string::npos;
  return v6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

absl::StatusOr<Endpoint> ParseEndpoint(const std::string& text) {
  if (absl::StartsWith(text, kScheme)) return ParseSocketPath(text);
  const auto malformed = [&](const char* why) {
    return absl::InvalidArgumentError(absl::StrCat("'", absl::CHexEscape(text),
                                                   "' is not HOST:PORT", why,
                                                   " (e.g. 127.0.0.1:29400, [::1]:29400)"));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return malformed(": the port is missing");
  Endpoint endpoint;
  endpoint.host = text.substr(0, colon);
  const std::string port = text.substr(colon + 1);
  if (port.empty() || port.find_first_not_of("0123456789") != std::string::npos ||
      !absl::SimpleAtoi(port, &endpoint.port) || endpoint.port > 65535) {
    return malformed(": the port must be within 0 to 65535");
  }
  std::string& host = endpoint.host;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    return malformed(": an IPv6 address needs brackets");
  }
  if (host.empty()) return malformed(": the host is missing");
  if (host.find_first_of(" /[]\t\r\n") != std::string::npos) {
    return malformed(": the host has a character it cannot have");
  }
  return endpoint;
}

absl::StatusOr<bool> IsLoopback(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("host '", host, "' does not resolve: ", gai_strerror(error)));
  }
  const absl::Cleanup release = [found] { freeaddrinfo(found); };
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (!IsLoopbackAddress(*entry->ai_addr)) return false;
  }
  return true;
}

}  // namespace rz
