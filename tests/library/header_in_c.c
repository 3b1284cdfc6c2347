/* Compiling is the test. */
#include "ringzero.h"

static const rz_job_options_t kOptions = RZ_JOB_OPTIONS_INIT;
int rz_test_header_in_c(void);
int rz_test_header_in_c(void) { return kOptions.rank == RZ_RANK_ANY; }
