#include "collectives/testing/allocation_counter.h"

#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <new>

#include "absl/strings/str_cat.h"

namespace rz::testing {
namespace {

std::atomic<int64_t> news{0};
std::atomic<int64_t> mallocs{0};
std::atomic<int64_t> mappings{0};
std::atomic<int64_t> of_ucx{0};

struct CodeRange {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

// Written by BeginCountingAllocations, while nobody else allocates.
std::array<CodeRange, 64> ucx_code;
size_t ucx_code_size = 0;

bool IsUcx(const char* library) {
  const char* const slash = std::strrchr(library, '/');
  return std::strncmp(slash == nullptr ? library : slash + 1, "libuc", 5) == 0;
}

int AddLibrary(dl_phdr_info* info, size_t, void*) {
  if (!IsUcx(info->dlpi_name)) return 0;
  for (int i = 0; i < info->dlpi_phnum && ucx_code_size < ucx_code.size(); ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    ucx_code[ucx_code_size++] = {begin, begin + segment.p_memsz};
  }
  return 0;
}

void Count(std::atomic<int64_t>& counter, const void* caller) {
  const auto address = reinterpret_cast<uintptr_t>(caller);
  for (size_t i = 0; i < ucx_code_size; ++i) {
    if (address >= ucx_code[i].begin && address < ucx_code[i].end) {
      of_ucx.fetch_add(1, std::memory_order_relaxed);
      return;
    }
  }
  counter.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

std::string AllocationCounts::ToString() const {
  return absl::StrCat("operator new ", news, ", malloc ", mallocs, ", mmap ", mappings, "; by UCX ",
                      of_ucx);
}

void BeginCountingAllocations() {
  ucx_code_size = 0;
  dl_iterate_phdr(AddLibrary, nullptr);
  news = mallocs = mappings = of_ucx = 0;
}

AllocationCounts CountedAllocations() { return {news, mallocs, mappings, of_ucx}; }

}  // namespace rz::testing

#define RZ_COUNT(counter) rz::testing::Count(rz::testing::counter, __builtin_return_address(0))

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

void* operator new(size_t size) {
  RZ_COUNT(news);
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  std::abort();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

#else

extern "C" {

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* memory);

void* malloc(size_t size) noexcept {
  RZ_COUNT(mallocs);
  return __libc_malloc(size);
}

void* calloc(size_t count, size_t size) noexcept {
  RZ_COUNT(mallocs);
  return __libc_calloc(count, size);
}

void* realloc(void* memory, size_t size) noexcept {
  RZ_COUNT(mallocs);
  return __libc_realloc(memory, size);
}

void* memalign(size_t alignment, size_t size) noexcept {
  RZ_COUNT(mallocs);
  return __libc_memalign(alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) noexcept {
  RZ_COUNT(mallocs);
  return __libc_memalign(alignment, size);
}

int posix_memalign(void** memory, size_t alignment, size_t size) noexcept {
  RZ_COUNT(mallocs);
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}

void free(void* memory) noexcept { __libc_free(memory); }

void* mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset) noexcept {
  RZ_COUNT(mappings);
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, size, protection, flags, fd, offset));
}

void* mmap64(void* address, size_t size, int protection, int flags, int fd,
             off64_t offset) noexcept {
  RZ_COUNT(mappings);
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, size, protection, flags, fd, offset));
}

void* mremap(void* address, size_t old_size, size_t size, int flags, ...) noexcept {
  RZ_COUNT(mappings);
  va_list arguments;
  va_start(arguments, flags);
  void* const wanted = (flags & MREMAP_FIXED) != 0 ? va_arg(arguments, void*) : nullptr;
  va_end(arguments);
  return reinterpret_cast<void*>(syscall(SYS_mremap, address, old_size, size, flags, wanted));
}

void* __sbrk(intptr_t increment);

void* sbrk(intptr_t increment) noexcept {
  RZ_COUNT(mappings);
  return __sbrk(increment);
}

}  // extern "C"

void* operator new(size_t size) {
  RZ_COUNT(news);
  if (void* memory = __libc_malloc(size == 0 ? 1 : size)) return memory;
  std::abort();
}
void operator delete(void* memory) noexcept { __libc_free(memory); }
void operator delete(void* memory, size_t) noexcept { __libc_free(memory); }

#endif
