#include "collectives/testing/collective_case.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "collectives/algorithm.h"
#include "collectives/chunk_layout.h"
#include "collectives/hierarchy/host_map.h"
#include "collectives/kernels/convert.h"
#include "collectives/kernels/reduce_kernel.h"
#include "collectives/selection.h"
#include "runtime/base/status_macros.h"

namespace rz::testing {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr std::byte kGuard{0x5a};
constexpr uint64_t kRanks = 64;  // seeds of one call's inputs

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  int64_t Below(int64_t bound) { return static_cast<int64_t>(random_() % bound); }
  bool OneIn(int n) { return Below(n) == 0; }
  template <typename T>
  T Of(std::initializer_list<T> values) {
    return *(values.begin() + Below(static_cast<int64_t>(values.size())));
  }

  int64_t Count(int world, int64_t largest) {
    switch (Below(6)) {
      case 0:
        return 0;
      case 1:
        return 1;
      case 2:
        return Below(world);
      case 3:
        return Of<int64_t>({97, 211, 499});
      default:
        return Below(largest);
    }
  }

 private:
  std::mt19937_64 random_;
};

void DrawCounts(Draw& draw, int world, int64_t largest, CollectiveCase& call) {
  const size_t rows = call.collective == Collective::kAllToAll ? static_cast<size_t>(world) : 1;
  const bool few = draw.OneIn(4);  // most ranks have nothing
  for (size_t row = 0; row < rows; ++row) {
    call.counts.emplace_back();
    for (int r = 0; r < world; ++r) {
      const bool none = few ? !draw.OneIn(4) : draw.OneIn(5);
      call.counts.back().push_back(none ? 0 : draw.Count(world, largest / world + 1));
    }
  }
}

CollectiveCase DrawCall(Draw& draw, int world, NumericMode mode, int64_t largest) {
  CollectiveCase call;
  call.collective = kAllCollectives[draw.Below(kCollectiveCount)];
  call.has_counts = HasVariant(call.collective) && draw.OneIn(2);
  call.dtype = kAllDTypes[draw.Below(std::size(kAllDTypes))];
  do {
    call.op = kAllReduceOps[draw.Below(std::size(kAllReduceOps))];
  } while (call.op == ReduceOp::kAvg && !IsFloating(call.dtype));
  call.count = draw.Count(world, largest);
  if (call.collective == Collective::kAllToAll) call.count = call.count / world + draw.Below(2);
  call.root = static_cast<int>(draw.Below(world));
  call.mode = draw.OneIn(4) ? NumericMode::kDeterministic : mode;
  call.premul = {draw.Of({0.5, 2.0, 3.0}), draw.Of<int64_t>({2, 3, -5})};
  call.misalignment = static_cast<size_t>(draw.Below(8));
  call.seed = static_cast<uint64_t>(draw.Below(int64_t{1} << 40));
  const bool tiles = !call.has_counts && draw.OneIn(3);
  if (call.has_counts) DrawCounts(draw, world, largest, call);
  if (tiles) call.tile_chunk = 1 + draw.Below(40);
  const bool one_tile = ChunkLayout(call.count, world, call.tile_chunk).tile_count() <= 1;
  const bool whole =
      call.collective == Collective::kAllReduce || call.collective == Collective::kReduce;
  call.by_function = IsReduction(call.collective) && call.op != ReduceOp::kAvg &&
                     call.op != ReduceOp::kPremulSum && draw.OneIn(3);
  call.in_place = draw.OneIn(2) && (one_tile || whole) && call.collective != Collective::kAllToAll;
  return call;
}

// Algorithms for some of the collectives, such that the mode's promise is kept. Those of v variants
// must take any counts.
std::string DrawAlgorithms(Draw& draw, const JobCase& job) {
  std::vector<std::string> tokens;
  for (const CollectiveCase& call : job.calls) {
    const std::string name(NameOf(call.collective));
    const auto is_named = [&](const std::string& token) {
      return token.compare(0, name.size() + 1, name + ":") == 0;
    };
    if (draw.OneIn(4) || std::any_of(tokens.begin(), tokens.end(), is_named)) continue;
    std::vector<Algorithm> possible;
    for (const AlgorithmTraits& traits : AllAlgorithms()) {
      if (traits.collective != call.collective) continue;
      bool can = true;
      for (const CollectiveCase& other : job.calls) {
        if (other.collective != call.collective) continue;
        can &= traits.canonical || other.mode == NumericMode::kFast;
        can &= !traits.equal_blocks || !other.has_counts;
      }
      can &= traits.canonical || job.options.numeric_mode == NumericMode::kFast;
      if (can) possible.push_back(traits.algorithm);
    }
    const Algorithm algorithm = possible[draw.Below(static_cast<int64_t>(possible.size()))];
    tokens.push_back(absl::StrCat(name, ":", std::string(NameOf(algorithm))));
  }
  return absl::StrJoin(tokens, ",");
}

// Combines with the kernels, whose bits test others.
class KernelFunction final : public ReduceFunction {
 public:
  explicit KernelFunction(ReduceOp op) : op_(op) {}

  bool Combine(void* result, const void* a, const void* b, int64_t count, DType dtype) override {
    (*GetReduceKernel(dtype, op_))->combine(result, a, b, static_cast<size_t>(count));
    return true;
  }
  uint32_t number() const override { return static_cast<uint32_t>(op_) + 1; }
  bool any_order() const override { return op_ == ReduceOp::kMin || op_ == ReduceOp::kMax; }

 private:
  const ReduceOp op_;
};

ReduceOp OpOf(const CollectiveCase& call) {
  return call.by_function ? ReduceOp::kFunction : call.op;
}

// Where the sums of a call round, and in what order.
enum class Sums { kOnce, kEveryHop, kAnyOrder };

Request RequestOf(const CollectiveCase& call) {
  Request request;
  request.collective = call.collective;
  request.dtype = call.dtype;
  request.op = OpOf(call);
  request.any_order = call.by_function && FunctionOf(call.op)->any_order();
  request.count = call.count;
  request.tile_chunk = call.tile_chunk;
  request.mode = call.mode;
  request.has_counts = call.has_counts;
  if (call.has_counts && call.collective != Collective::kAllToAll) {
    request.count = 0;
    for (int64_t count : call.counts[0]) request.count += count;
    request.largest_count = *std::max_element(call.counts[0].begin(), call.counts[0].end());
  }
  return request;
}

Sums SumsOf(const CollectiveCase& call, int world, const CommunicatorOptions& options,
            const Sharing& sharing) {
  const Algorithm algorithm = AlgorithmOf(call, world, options, sharing);
  const bool ring = algorithm == Algorithm::kRing || algorithm == Algorithm::kRingWire;
  if (!TraitsOf(call.collective, algorithm).canonical && !ring) return Sums::kAnyOrder;
  const bool rounds = PartialsOf(algorithm, call.dtype, call.mode) == Format::kWire;
  return (ring && rounds) || call.by_function ? Sums::kEveryHop : Sums::kOnce;
}

// Inputs whose sums and products are exact in every dtype, in any order and with any rounding on
// the way: few ranks have more than nothing to give.
Bytes ExactElements(DType dtype, ReduceOp op, int64_t count, int rank, int world, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(count));
  std::mt19937_64 random(seed * kRanks + static_cast<uint64_t>(rank));
  for (int64_t i = 0; i < count; ++i) {
    const bool gives = (i + rank) % world < 2;
    const bool negative = random() % 2 == 0;
    const float size = op == ReduceOp::kProd ? (gives ? 2.0f : 1.0f) : (gives ? 1.0f : 0.0f);
    values[i] = negative && size != 0 ? -size : size;
  }
  Bytes bytes(values.size() * SizeOf(dtype));
  if (dtype == DType::kFloat64) {
    const std::vector<double> wide(values.begin(), values.end());
    std::copy_n(reinterpret_cast<const std::byte*>(wide.data()), bytes.size(), bytes.begin());
  } else if (!values.empty()) {
    ConvertFromFloat(dtype, bytes.data(), values.data(), values.size());
  }
  return bytes;
}

Bytes InputOf(const CollectiveCase& call, int64_t count, int rank, int world, Sums sums) {
  if (sums == Sums::kAnyOrder && OrderMatters(call.dtype, call.op)) {
    return ExactElements(call.dtype, call.op, count, rank, world, call.seed);
  }
  return RandomElements(call.dtype, count, call.seed * kRanks + static_cast<uint64_t>(rank));
}

Bytes Piece(const Bytes& from, int64_t offset, int64_t count, DType dtype) {
  const auto size = static_cast<ptrdiff_t>(SizeOf(dtype));
  return {from.begin() + offset * size, from.begin() + (offset + count) * size};
}

void Append(Bytes& to, const Bytes& from) { to.insert(to.end(), from.begin(), from.end()); }

// The reduction of blocks of any lengths, block r being rank r's: each as the chunk of its owner in
// an even split whose other chunks are nobody's concern.
Bytes ReduceBlocks(const std::vector<Bytes>& inputs, const CollectiveCase& call,
                   Rounding rounding) {
  const auto world = static_cast<int64_t>(inputs.size());
  const size_t size = SizeOf(call.dtype);
  Bytes result;
  int64_t offset = 0;
  for (int64_t owner = 0; owner < world; ++owner) {
    const int64_t count = call.counts[0][owner];
    std::vector<Bytes> padded;
    for (const Bytes& input : inputs) {
      padded.emplace_back(static_cast<size_t>(count * world) * size);
      const Bytes block = Piece(input, offset, count, call.dtype);
      std::copy(block.begin(), block.end(),
                padded.back().begin() +
                    static_cast<ptrdiff_t>(owner * count) * static_cast<ptrdiff_t>(size));
    }
    const Bytes reduced = ReduceAll(padded, ChunkLayout(count * world, static_cast<int>(world), 0),
                                    call.dtype, call.op, rounding, call.premul);
    Append(result, Piece(reduced, owner * count, count, call.dtype));
    offset += count;
  }
  return result;
}

// What each rank gives and gets.
struct Transaction {
  std::vector<Bytes> send;
  std::vector<Bytes> recv;
};

Transaction Reduction(const CollectiveCase& call, int world, const CommunicatorOptions& options,
                      const Sharing& sharing) {
  const Sums sums = SumsOf(call, world, options, sharing);
  const Rounding rounding = sums == Sums::kEveryHop ? Rounding::kEveryHop : Rounding::kOnce;
  const int64_t count = call.has_counts ? RequestOf(call).count : call.count;
  const ChunkLayout layout(count, world, call.tile_chunk);
  Transaction t;
  for (int r = 0; r < world; ++r) t.send.push_back(InputOf(call, count, r, world, sums));
  const Bytes reduced = call.has_counts
                            ? ReduceBlocks(t.send, call, rounding)
                            : ReduceAll(t.send, layout, call.dtype, call.op, rounding, call.premul);
  int64_t offset = 0;
  for (int r = 0; r < world; ++r) {
    if (call.collective == Collective::kAllReduce) {
      t.recv.push_back(reduced);
    } else if (call.collective == Collective::kReduce) {
      t.recv.push_back(r == call.root ? reduced : Bytes());
    } else if (call.has_counts) {
      t.recv.push_back(Piece(reduced, offset, call.counts[0][r], call.dtype));
      offset += call.counts[0][r];
    } else {
      t.recv.push_back(ShardOf(reduced, layout, Rank(r), call.dtype));
    }
  }
  return t;
}

// All_gather, gather, scatter, broadcast: parts of one buffer.
Transaction Movement(const CollectiveCase& call, int world) {
  const int64_t count = call.has_counts ? RequestOf(call).count : call.count;
  const ChunkLayout layout(count, world, call.tile_chunk);
  const Bytes whole = RandomElements(call.dtype, count, call.seed);
  Transaction t;
  int64_t offset = 0;
  for (int r = 0; r < world; ++r) {
    const Bytes shard = call.has_counts ? Piece(whole, offset, call.counts[0][r], call.dtype)
                                        : ShardOf(whole, layout, Rank(r), call.dtype);
    if (call.has_counts) offset += call.counts[0][r];
    const Bytes at_root = r == call.root ? whole : Bytes();
    switch (call.collective) {
      case Collective::kBroadcast:
        t.send.push_back(at_root);
        t.recv.push_back(whole);
        break;
      case Collective::kScatter:
        t.send.push_back(at_root);
        t.recv.push_back(shard);
        break;
      case Collective::kGather:
        t.send.push_back(shard);
        t.recv.push_back(at_root);
        break;
      default:
        t.send.push_back(shard);
        t.recv.push_back(whole);
    }
  }
  return t;
}

Transaction Exchange(const CollectiveCase& call, int world) {
  Transaction t;
  t.send.resize(static_cast<size_t>(world));
  t.recv.resize(static_cast<size_t>(world));
  for (int source = 0; source < world; ++source) {
    for (int destination = 0; destination < world; ++destination) {
      const int64_t count = call.has_counts ? call.counts[source][destination] : call.count;
      const Bytes block =
          RandomElements(call.dtype, count,
                         (call.seed * kRanks + static_cast<uint64_t>(source)) * kRanks +
                             static_cast<uint64_t>(destination));
      Append(t.send[source], block);
      Append(t.recv[destination], block);
    }
  }
  return t;
}

}  // namespace

ReduceFunction* FunctionOf(ReduceOp op) {
  static KernelFunction functions[] = {
      KernelFunction(ReduceOp::kSum), KernelFunction(ReduceOp::kMin),
      KernelFunction(ReduceOp::kMax), KernelFunction(ReduceOp::kAvg),
      KernelFunction(ReduceOp::kProd)};
  return &functions[static_cast<size_t>(op)];
}

std::string CollectiveCase::ToString() const {
  std::string text = absl::StrCat(
      std::string(NameOf(collective)), has_counts ? "_v" : "", " of ", count, " ",
      std::string(NameOf(dtype)), " ", std::string(NameOf(op)), by_function ? " by a function" : "",
      ", tile_chunk ", tile_chunk, ", root ", root, ", ", std::string(NameOf(mode)),
      in_place ? ", in place" : "", ", misaligned by ", misalignment);
  for (const auto& row : counts) absl::StrAppend(&text, " {", absl::StrJoin(row, " "), "}");
  return text;
}

std::string JobCase::ToString() const {
  std::string text =
      absl::StrCat("seed ", seed, ", world ", world, ", ",
                   std::string(NameOf(options.numeric_mode)), ", algorithms '", options.algorithms,
                   "', slice ", options.slice_bytes, ", lanes ", options.lanes_in_flight);
  for (const CollectiveCase& call : calls) absl::StrAppend(&text, "; ", call.ToString());
  return text;
}

JobCase DrawJobCase(uint64_t seed, int world, int64_t largest_count) {
  Draw draw(seed);
  JobCase job;
  job.seed = seed;
  job.world = world;
  job.options.numeric_mode = draw.Of({NumericMode::kDeterministic, NumericMode::kFast});
  job.options.slice_bytes = draw.Of<size_t>({64, 136, 1024, 256 << 10});
  job.options.lanes_in_flight = static_cast<int>(1 + draw.Below(5));
  job.options.link = draw.Of({LinkKind::kSharedMemory, LinkKind::kNetwork});
  const int64_t calls = 1 + draw.Below(3);
  for (int64_t i = 0; i < calls; ++i) {
    job.calls.push_back(DrawCall(draw, world, job.options.numeric_mode, largest_count));
  }
  job.options.algorithms = DrawAlgorithms(draw, job);
  return job;
}

Algorithm AlgorithmOf(const CollectiveCase& call, int world, const CommunicatorOptions& options,
                      const Sharing& sharing) {
  Selector selector(world, options.slice_bytes, options.link,
                    *ParseAlgorithms(options.algorithms, options.numeric_mode));
  if (sharing.by_all) selector.ShareMemory();
  if (!sharing.hosts.empty()) {
    const HostMap hosts(sharing.hosts);
    selector.CrossNetwork();
    selector.UseHosts({hosts.hosts(), hosts.columns(), hosts.largest_host()});
  }
  return *selector.Choose(RequestOf(call));
}

RankCall::RankCall(const CollectiveCase& call, int world, int rank, Bytes send, Bytes expected)
    : call_(call), rank_(rank), send_(std::move(send)), expected_(std::move(expected)) {
  if (call.has_counts) {
    const bool exchanges = call.collective == Collective::kAllToAll;
    counts_ = call.counts[exchanges ? rank : 0];
    for (int r = 0; exchanges && r < world; ++r) recv_counts_.push_back(call.counts[r][rank]);
  }
  int64_t own = 0;
  if (call.has_counts) {
    for (int r = 0; r < rank; ++r) own += counts_[r];
  } else {
    const ChunkLayout layout(call.count, world, call.tile_chunk);
    if (layout.tile_count() > 0) own = layout.Chunk(0, Rank(rank)).offset;
  }
  const size_t own_bytes = static_cast<size_t>(own) * SizeOf(call.dtype);
  const bool at_root = !HasRoot(call.collective) || rank == call.root;
  const bool broadcast = call.collective == Collective::kBroadcast;
  shares_memory_ = broadcast || (call.in_place && at_root);

  // In place, the smaller buffer lies inside the larger one.
  send_at_ = recv_at_ = kGuardBytes + call.misalignment;
  if (!shares_memory_) {
    recv_at_ += send_.size() + kGuardBytes;
  } else if (call.collective == Collective::kReduceScatter ||
             call.collective == Collective::kScatter) {
    recv_at_ += own_bytes;
  } else if (call.collective == Collective::kAllGather || call.collective == Collective::kGather) {
    send_at_ += own_bytes;
  }
  const size_t end = std::max(send_at_ + send_.size(), recv_at_ + expected_.size());
  memory_.assign(end + kGuardBytes, kGuard);
  std::copy(send_.begin(), send_.end(), memory_.begin() + static_cast<ptrdiff_t>(send_at_));
}

absl::Status RankCall::UseBufferOf(Communicator& comm) {
  RZ_ASSIGN_OR_RETURN(buffer_, comm.AllocateBuffer(memory_.size()));
  std::copy(memory_.begin(), memory_.end(), buffer_.data());
  return absl::OkStatus();
}

void RankCall::TakeBack() {
  if (buffer_.size() == 0) return;
  std::copy_n(buffer_.data(), memory_.size(), memory_.begin());
  buffer_ = {};
}

absl::StatusOr<Operation> RankCall::Start(Communicator& comm) {
  std::byte* const memory = buffer_.size() == 0 ? memory_.data() : buffer_.data();
  const void* send = memory + send_at_;
  void* recv = memory + recv_at_;
  const CollectiveCase& c = call_;
  const CallOptions options{c.tile_chunk, c.mode, c.premul,
                            c.by_function ? FunctionOf(c.op) : nullptr};
  const ReduceOp op = OpOf(c);
  const Rank root(c.root);
  switch (c.collective) {
    case Collective::kAllReduce:
      return comm.StartAllReduce(send, recv, c.count, c.dtype, op, options);
    case Collective::kReduceScatter:
      return c.has_counts ? comm.StartReduceScatterV(send, recv, counts_, c.dtype, op, options)
                          : comm.StartReduceScatter(send, recv, c.count, c.dtype, op, options);
    case Collective::kAllGather:
      return c.has_counts ? comm.StartAllGatherV(send, recv, counts_, c.dtype, options)
                          : comm.StartAllGather(send, recv, c.count, c.dtype, options);
    case Collective::kBroadcast:
      return comm.StartBroadcast(recv, c.count, c.dtype, root);
    case Collective::kReduce:
      return comm.StartReduce(send, recv, c.count, c.dtype, op, root, options);
    case Collective::kAllToAll:
      return c.has_counts
                 ? comm.StartAllToAllV(send, counts_, recv, recv_counts_, c.dtype, options)
                 : comm.StartAllToAll(send, recv, c.count, c.dtype, {.numeric_mode = c.mode});
    case Collective::kGather:
      return comm.StartGather(send, recv, c.count, c.dtype, root, options);
    case Collective::kScatter:
      return comm.StartScatter(send, recv, c.count, c.dtype, root, options);
    case Collective::kBarrier:
      return comm.StartBarrier();
  }
  return absl::InternalError("unknown collective");
}

Bytes RankCall::Result() const {
  const auto recv = memory_.begin() + static_cast<ptrdiff_t>(recv_at_);
  return {recv, recv + static_cast<ptrdiff_t>(expected_.size())};
}

std::string RankCall::Check() const {
  const auto recv = memory_.begin() + static_cast<ptrdiff_t>(recv_at_);
  const auto recv_end = recv + static_cast<ptrdiff_t>(expected_.size());
  const auto wrong = std::mismatch(expected_.begin(), expected_.end(), recv);
  if (wrong.first != expected_.end()) {
    return absl::StrCat("byte ", wrong.first - expected_.begin(), " of ", expected_.size(),
                        " is wrong");
  }
  const auto send = memory_.begin() + static_cast<ptrdiff_t>(send_at_);
  if (!shares_memory_ && !std::equal(send_.begin(), send_.end(), send)) {
    return "the input was changed";
  }
  const auto is_guard = [](std::byte b) { return b == kGuard; };
  const auto first = memory_.begin() + static_cast<ptrdiff_t>(std::min(send_at_, recv_at_));
  const auto last = memory_.end() - static_cast<ptrdiff_t>(kGuardBytes);
  if (!std::all_of(memory_.begin(), first, is_guard) ||
      !std::all_of(std::max(recv_end, last), memory_.end(), is_guard)) {
    return "memory outside the buffers was written";
  }
  return "";
}

std::vector<std::unique_ptr<RankCall>> MakeRankCalls(const CollectiveCase& call, int world,
                                                     const CommunicatorOptions& options,
                                                     const Sharing& sharing) {
  Transaction transaction;
  if (IsReduction(call.collective)) {
    transaction = Reduction(call, world, options, sharing);
  } else if (call.collective == Collective::kAllToAll) {
    transaction = Exchange(call, world);
  } else if (call.collective == Collective::kBarrier) {
    transaction.send.resize(static_cast<size_t>(world));
    transaction.recv.resize(static_cast<size_t>(world));
  } else {
    transaction = Movement(call, world);
  }
  std::vector<std::unique_ptr<RankCall>> calls;
  for (int r = 0; r < world; ++r) {
    calls.push_back(std::make_unique<RankCall>(call, world, r, std::move(transaction.send[r]),
                                               std::move(transaction.recv[r])));
  }
  return calls;
}

}  // namespace rz::testing
