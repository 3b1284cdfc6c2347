// malloc and its family for the core's own code: the program's.
//
// The core is loaded such that it finds its own libraries first, and so would find the C library's
// malloc where the program has another one (jemalloc, tcmalloc, a sanitizer). What the C library
// allocates for its callers (strdup, open_memstream) is the program's malloc's all the same, and
// freed by the wrong one. Hidden: of the core alone.
#include <dlfcn.h>
#include <errno.h>

#include <cstddef>
#include <cstdlib>

namespace {

struct Allocator {
  void* (*malloc)(size_t);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  void* (*aligned_alloc)(size_t, size_t);
  int (*posix_memalign)(void**, size_t, size_t);
  void (*free)(void*);
};

template <typename Function>
void Find(void* program, const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(dlsym(program, name));
  if (*function == nullptr) abort();  // no program is without
}

// As the program itself finds them, with what is preloaded.
const Allocator& ProgramAllocator() {
  static const Allocator allocator = [] {
    void* const program = dlopen(nullptr, RTLD_LAZY);
    Allocator found;
    Find(program, "malloc", &found.malloc);
    Find(program, "calloc", &found.calloc);
    Find(program, "realloc", &found.realloc);
    Find(program, "aligned_alloc", &found.aligned_alloc);
    Find(program, "posix_memalign", &found.posix_memalign);
    Find(program, "free", &found.free);
    return found;
  }();
  return allocator;
}

}  // namespace

#define HIDDEN __attribute__((visibility("hidden")))

extern "C" {

HIDDEN void* malloc(size_t size) noexcept { return ProgramAllocator().malloc(size); }

HIDDEN void* calloc(size_t count, size_t size) noexcept {
  return ProgramAllocator().calloc(count, size);
}

HIDDEN void* realloc(void* memory, size_t size) noexcept {
  return ProgramAllocator().realloc(memory, size);
}

HIDDEN void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return ProgramAllocator().aligned_alloc(alignment, size);
}

HIDDEN int posix_memalign(void** memory, size_t alignment, size_t size) noexcept {
  return ProgramAllocator().posix_memalign(memory, alignment, size);
}

HIDDEN void free(void* memory) noexcept { ProgramAllocator().free(memory); }

}  // extern "C"
