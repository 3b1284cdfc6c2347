/* 1. The core lies beside libringzero.so, or in a folder `ringzero` there.
 * 2. What must be bound to the program's own libraries and variables is loaded before it: UCX, which
 *    reads `environ`, and the C++ library.
 * 3. It is loaded with RTLD_LOCAL, so that nobody else finds what is in it, and RTLD_DEEPBIND, so
 *    that it finds its own libraries before what the program has of the same names: another
 *    protobuf or gRPC. Sanitizers, which have to see everything, do not allow that.
 * 4. Its version must be this header's, and it must have every function.
 */
#define _GNU_SOURCE
#include "library/core.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ringzero.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define VERSION TEXT(RZ_VERSION_MAJOR) "." TEXT(RZ_VERSION_MINOR) "." TEXT(RZ_VERSION_PATCH)

static const char kName[] = "libringzero_core.so";

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char error[1024];

/* The folder of this library, with a slash, where links to it end; empty: not known. */
static void FindFolder(char folder[PATH_MAX]) {
  Dl_info self;
  if (dladdr((void*)&core_is_loaded, &self) == 0 || realpath(self.dli_fname, folder) == NULL) {
    folder[0] = '\0';
    return;
  }
  strrchr(folder, '/')[1] = '\0';
}

static int UnderSanitizer(void) {
  return dlsym(RTLD_DEFAULT, "__asan_init") != NULL || dlsym(RTLD_DEFAULT, "__tsan_init") != NULL;
}

static void* Open(void) {
  static const char* const kPlaces[] = {"", "ringzero/"};
  const int flags = RTLD_NOW | RTLD_LOCAL | (UnderSanitizer() ? 0 : RTLD_DEEPBIND);
  char folder[PATH_MAX];
  char path[PATH_MAX + 64];
  size_t used = 0;
  FindFolder(folder);
  for (size_t i = 0; i < sizeof kPlaces / sizeof kPlaces[0]; ++i) {
    snprintf(path, sizeof path, "%s%s%s", folder, kPlaces[i], kName);
    void* const core = dlopen(path, flags);
    if (core != NULL) return core;
    const int more = snprintf(error + used, sizeof error - used, "%s%s",
                              used > 0 ? "; " : "libringzero.so cannot load its other half: ",
                              dlerror());
    used = more < 0 || used + (size_t)more >= sizeof error ? sizeof error - 1 : used + (size_t)more;
  }
  snprintf(error + used, sizeof error - used,
           "; it has to lie at one of these, and what it needs (UCX, gRPC, Protocol Buffers, ISA-L)"
           " to be installed, as ringzero's .deb sees to");
  return NULL;
}

/* Where one is missing the core will say so. */
static void OpenShared(void) {
  static const char* const kShared[] = {"libstdc++.so.6", "libucp.so.0"};
  for (size_t i = 0; i < sizeof kShared / sizeof kShared[0]; ++i) {
    (void)dlopen(kShared[i], RTLD_NOW | RTLD_LOCAL);
  }
}

static void Load(void) {
  OpenShared();
  void* const core = Open();
  if (core == NULL) return;
  const char* (*const version)(void) = (const char* (*)(void))dlsym(core, "rz_version_string");
  if (version == NULL || strcmp(version(), VERSION) != 0) {
    snprintf(error, sizeof error, "libringzero.so has version %s and its other half, %s, %s",
             VERSION, kName, version == NULL ? "none" : version());
    return;
  }
  for (size_t i = 0; core_names[i] != NULL; ++i) {
    core_functions[i] = dlsym(core, core_names[i]);
    if (core_functions[i] == NULL) {
      snprintf(error, sizeof error, "%s has no %s", kName, core_names[i]);
      return;
    }
  }
  error[0] = '\0';
}

int core_is_loaded(void) {
  pthread_once(&once, Load);
  return error[0] == '\0';
}

const char* core_error(void) { return error; }
