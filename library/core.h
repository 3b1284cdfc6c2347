/* The core: the library that has ringzero's code and what it stands on. libringzero.so itself only
 * finds it and calls it (docs/decisions, "two shared libraries"). */
#ifndef RINGZERO_LIBRARY_CORE_H_
#define RINGZERO_LIBRARY_CORE_H_

/* The functions of ringzero.h by name, ended by null, and where they are in the core; both are
 * written by forward.awk. */
extern const char* const core_names[];
extern void* core_functions[];

/* Loads the core at its first call. 0: it cannot be used, and core_error says why. */
int core_is_loaded(void);

/* Why the core cannot be used; "" where it can. */
const char* core_error(void);

#endif /* RINGZERO_LIBRARY_CORE_H_ */
