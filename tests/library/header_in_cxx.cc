// Compiling is the test.
#include "ringzero.h"

int HeaderInCxx() {
  const rz_job_options_t job = RZ_JOB_OPTIONS_INIT;
  const rz_comm_options_t comm = RZ_COMM_OPTIONS_INIT;
  const rz_zero_options_t zero = RZ_ZERO_OPTIONS_INIT;
  return job.rank + comm.numeric_mode + zero.gradient_views;
}
