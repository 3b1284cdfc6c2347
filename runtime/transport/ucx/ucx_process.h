// What UCX does to the whole process by being linked, set right.
#ifndef RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_PROCESS_H_
#define RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_PROCESS_H_

namespace rz {

// Once a process, before UCX is used:
//  - SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGHUP go back to whoever had them before UCX was loaded.
//  - UCX's messages go to our log instead of standard output, at level info where they speak of
//    what our statuses say as well (warnings and errors), at level error where UCX ends the
//    process.
// Thread-safe.
void TameUcx();

}  // namespace rz

#endif  // RINGZERO_RUNTIME_TRANSPORT_UCX_UCX_PROCESS_H_
