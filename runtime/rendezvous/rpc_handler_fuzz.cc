// Bytes from a peer, through every message and the handler into Membership, with time passing: no
// bytes may crash it, and every call is answered once at the latest when the service shuts down.
// libFuzzer calls the entry; rpc_handler_fuzz_test replays random and mutated bytes through it.
//
// The input is a sequence of {operation 1 byte, length 2 bytes little-endian, message}.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/rendezvous/rpc_handler.h"

namespace rz {
namespace {

class Calls {
 public:
  template <typename Request, typename Response>
  void Make(Ticket (RpcHandler::*method)(const Request&, RpcHandler::Done<Response>),
            const std::string& bytes) {
    Request request;
    if (!request.ParseFromString(bytes)) return;
    ++made_;
    tickets_.push_back(
        (handler_.*method)(request, [this](const absl::Status&, const Response&) { ++answered_; }));
  }

  void Run(uint8_t operation, const std::string& bytes) {
    switch (operation % 9) {
      case 0:
        return Make(&RpcHandler::Join, bytes);
      case 1:
        return Make(&RpcHandler::Peers, bytes);
      case 2:
        return Make(&RpcHandler::Watch, bytes);
      case 3:
        return Make(&RpcHandler::Barrier, bytes);
      case 4:
        return Make(&RpcHandler::ReportFailure, bytes);
      case 5:
        return Make(&RpcHandler::Leave, bytes);
      case 6:
        if (!tickets_.empty()) handler_.Cancel(tickets_[operation / 9 % tickets_.size()]);
        return;
      case 7:
        return Make(&RpcHandler::Gathering, bytes);
      default:
        clock_.Advance(absl::Seconds(operation));
        service_.Expire();
        return;
    }
  }

  void Finish() {
    service_.Shutdown();
    if (answered_ != made_) std::abort();
  }

 private:
  ManualClock clock_;
  RendezvousService service_{&clock_};
  RpcHandler handler_{&service_};
  std::vector<Ticket> tickets_;
  int made_ = 0;
  int answered_ = 0;
};

}  // namespace
}  // namespace rz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rz::Calls calls;
  while (size >= 3) {
    const uint8_t operation = data[0];
    size_t length = data[1] | (data[2] << 8);
    data += 3;
    size -= 3;
    if (length > size) length = size;
    calls.Run(operation, std::string(reinterpret_cast<const char*>(data), length));
    data += length;
    size -= length;
  }
  calls.Finish();
  return 0;
}
