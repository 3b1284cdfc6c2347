/* A malloc of its own, to be preloaded: it never gives memory back, and ends the program where
 * something is freed that it has not given. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kHeader = 16 };
static const size_t kArena = (size_t)64 << 30; /* of addresses; memory comes as it is touched */
static _Atomic(char*) arena;
static atomic_size_t used;

static char* Arena(void) {
  char* begin = arena;
  if (begin != NULL) return begin;
  begin = mmap(NULL, kArena, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
               -1, 0);
  if (begin == MAP_FAILED) abort();
  char* none = NULL;
  if (!atomic_compare_exchange_strong(&arena, &none, begin)) {
    munmap(begin, kArena);
    begin = none;
  }
  return begin;
}

static void Foreign(void) {
  static const char kText[] = "other_malloc: memory of another malloc\n";
  (void)!write(2, kText, sizeof kText - 1);
  abort();
}

static int IsOwn(const void* memory) {
  const char* const begin = arena;
  return begin != NULL && (const char*)memory >= begin && (const char*)memory < begin + kArena;
}

static size_t* SizeOf(void* memory) {
  if (!IsOwn(memory)) Foreign();
  return (size_t*)((char*)memory - kHeader);
}

void* aligned_alloc(size_t alignment, size_t size) {
  if (alignment < kHeader) alignment = kHeader;
  if (size > kArena / 2) return NULL;
  const size_t at = atomic_fetch_add(&used, (size + alignment + kHeader + 15) & ~(size_t)15);
  if (at + size + alignment + kHeader > kArena) return NULL;
  uintptr_t memory = (uintptr_t)Arena() + at + kHeader;
  memory = (memory + alignment - 1) & ~(uintptr_t)(alignment - 1);
  *(size_t*)(memory - kHeader) = size;
  return (void*)memory;
}

void* malloc(size_t size) { return aligned_alloc(kHeader, size); }
void* memalign(size_t alignment, size_t size) { return aligned_alloc(alignment, size); }
void* valloc(size_t size) { return aligned_alloc(4096, size); }
void* calloc(size_t count, size_t size) {
  size_t bytes;
  return __builtin_mul_overflow(count, size, &bytes) ? NULL : malloc(bytes); /* never used before */
}

int posix_memalign(void** memory, size_t alignment, size_t size) {
  void* const made = aligned_alloc(alignment, size);
  if (made == NULL) return ENOMEM;
  *memory = made;
  return 0;
}

void* realloc(void* memory, size_t size) {
  if (memory == NULL) return malloc(size);
  const size_t before = *SizeOf(memory);
  void* const made = malloc(size);
  if (made != NULL) memcpy(made, memory, before < size ? before : size);
  return made;
}

size_t malloc_usable_size(void* memory) { return memory == NULL ? 0 : *SizeOf(memory); }

void free(void* memory) {
  if (memory != NULL) (void)SizeOf(memory);
}
