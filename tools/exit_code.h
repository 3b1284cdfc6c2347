// What the programs' exit codes mean: the same for all.
#ifndef RINGZERO_TOOLS_EXIT_CODE_H_
#define RINGZERO_TOOLS_EXIT_CODE_H_

namespace rz {

inline constexpr int kExitOk = 0;
// The work failed; one line on standard error says why.
inline constexpr int kExitFailure = 1;
// The command line asks for what there is not; nothing was begun.
inline constexpr int kExitUsage = 2;

// What rz_run adds to these: the first failing rank's own code, or, as a shell has it:
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitCannotRun = 127;
inline constexpr int kExitSignal = 128;  // + the signal that ended it

}  // namespace rz

#endif  // RINGZERO_TOOLS_EXIT_CODE_H_
