// Counts what a test's program allocates: operator new, malloc and its kin, mmap, mremap and sbrk,
// of all threads. Linking it replaces them, so it counts from the start of the program.
//
// Whose an allocation is, its direct caller says: code of UCX's libraries, or anybody else, which
// is us and what we use. Under sanitizers that bring an allocator of their own, only operator new
// is counted.
#ifndef RINGZERO_COLLECTIVES_TESTING_ALLOCATION_COUNTER_H_
#define RINGZERO_COLLECTIVES_TESTING_ALLOCATION_COUNTER_H_

#include <cstdint>
#include <string>

namespace rz::testing {

struct AllocationCounts {
  int64_t news = 0;      // operator new
  int64_t mallocs = 0;   // malloc, calloc, realloc, aligned_alloc, ...; not those of operator new
  int64_t mappings = 0;  // mmap, mremap, sbrk
  int64_t of_ucx = 0;    // any of these, called by UCX

  int64_t ours() const { return news + mallocs + mappings; }
  std::string ToString() const;

  friend bool operator==(const AllocationCounts&, const AllocationCounts&) = default;
};

// From here on allocations of the libraries of UCX that are loaded now are told apart.
void BeginCountingAllocations();

// Since the last BeginCountingAllocations.
AllocationCounts CountedAllocations();

}  // namespace rz::testing

#endif  // RINGZERO_COLLECTIVES_TESTING_ALLOCATION_COUNTER_H_
