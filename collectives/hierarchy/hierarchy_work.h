// What one call does in a hierarchy, slice by slice (a slice is a lane of the plan's layout). Three
// stages, of at most one call of a part each, in which a slice of T elements on hosts of L ranks,
// K columns among them, goes so:
//
//                    in, on each host        across, in each column   out, on each host
//   all_reduce       reduce_scatter_v to K   all_reduce               all_gather_v of K parts
//   reduce           likewise                reduce                   likewise, on the root's host
//   reduce_scatter   likewise, of the slice  reduce_scatter_v         likewise, of the host's
//   blocks
//                    in order of columns
//   all_gather       all_gather_v of the     all_gather_v             likewise, of everything
//                    host's blocks
//   broadcast        broadcast, where the    broadcast                likewise, on the other hosts
//                    root is
//   barrier          barrier                 barrier, in the first    barrier
//
// The blocks that belong to ranks of one host are split evenly among the K columns, whatever the
// placement of ranks; so each host sends the same bytes through each of its columns, and no host
// sends or receives more than once what another one needs.
#ifndef RINGZERO_COLLECTIVES_HIERARCHY_HIERARCHY_WORK_H_
#define RINGZERO_COLLECTIVES_HIERARCHY_HIERARCHY_WORK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "collectives/call.h"
#include "collectives/chunk_layout.h"
#include "collectives/hierarchy/host_map.h"
#include "collectives/kernels/reduce_kernel.h"
#include "collectives/plan.h"

namespace rz {

class HierarchyWork {
 public:
  // The map outlives the work. Without payload nothing is packed or copied.
  HierarchyWork(const HostMap* hosts, int rank, bool carries_payload);

  // The next call. The plan stays until the next Reset. Allocates nothing.
  void Reset(const Plan* plan, NumericMode mode, const std::byte* input, std::byte* output);

  int64_t slices() const { return plan_->lanes.lane_count(); }

  // Bytes of scratch that a slice needs, at most.
  size_t ScratchBytes() const;

  // The calls of a slice's stages, the first and the last of the host's part, the other of the
  // column's; none: nothing is to be done there, and all ranks of the part see that alike. Counts
  // are valid until the next of these calls. In packs what it sends.
  std::optional<Call> In(int64_t slice, std::byte* scratch);
  std::optional<Call> Across(int64_t slice, std::byte* scratch);
  std::optional<Call> Out(int64_t slice, std::byte* scratch);

  // After the last stage: copies to the output what is not there yet.
  void Finish(int64_t slice, const std::byte* scratch);

 private:
  using Position = LaneLayout::Position;

  // Where in scratch: the elements before each.
  struct Staging {
    int64_t whole = 0;   // all blocks, in order of (column, host)
    int64_t column = 0;  // this column's parts of all hosts
    int64_t part = 0;    // this column's part of this host
    int64_t host = 0;    // the blocks of this host
    int64_t end = 0;
  };
  Staging StagingOf(Position at) const;
  bool needs_scratch() const;

  size_t Bytes(int64_t elements) const { return static_cast<size_t>(elements) * element_bytes_; }
  Range BlockOf(Position at, int rank) const { return plan_->lanes.Block(at, rank); }
  int64_t HostElements(Position at, int host) const;
  // The part of a host's blocks that goes through a column.
  Range PartOf(Position at, int host, int column) const;
  // This rank's part of a slice that has one block.
  Range OwnPart(Range slice) const;
  bool in_column() const { return index_ < hosts_->columns(); }

  // f(range of the whole space, elements before it in the order of (column, host)) for each piece.
  template <typename F>
  void ForEachPiece(Position at, F f) const;
  // This rank's part of its host's blocks is its own block, and so for all ranks of the host.
  bool PartsAreBlocks(Position at) const;

  Call NewCall(Collective collective) const;
  // A call of the host's part over what its first ranks have of the columns.
  Call LocalCall(Collective collective);
  void SetPartCounts(Range slice);
  void SetColumnCounts(Position at);
  Call ReduceLocally(const std::byte* from, std::byte* to);
  Call GatherLocally(const std::byte* from, std::byte* to);
  // A sum over the columns is the last one: it divides, once.
  Call ReduceAcross(Collective collective) const;

  const HostMap* const hosts_;
  const int rank_;
  const int host_;
  const int index_;
  const bool carries_payload_;
  const Plan* plan_ = nullptr;
  NumericMode mode_ = NumericMode::kDeterministic;
  const std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  size_t element_bytes_ = 1;
  std::vector<int64_t> counts_;  // of the call that was made last
};

}  // namespace rz

#endif  // RINGZERO_COLLECTIVES_HIERARCHY_HIERARCHY_WORK_H_
