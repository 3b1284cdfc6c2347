/* Every rank gives its rank + 1, and all get the sum: rz_run -n 3 -- ./all_reduce */
#include <ringzero.h>
#include <stdio.h>
#include <stdlib.h>

static void Check(rz_result_t result) {
  if (result == RZ_OK) return;
  fprintf(stderr, "%s\n", rz_last_error());
  exit(1);
}

int main(void) {
  enum { kCount = 1000 };
  rz_job_t* job;
  rz_comm_t* comm;
  int32_t rank, ranks;
  Check(rz_init(NULL, &job)); /* who this is and where the others are: the environment */
  Check(rz_comm_create(job, NULL, &comm));
  Check(rz_comm_rank(comm, &rank));
  Check(rz_comm_count(comm, &ranks));

  void* memory; /* any memory will do; this is read by ranks of the same host without a copy */
  Check(rz_mem_alloc(&memory, kCount * sizeof(float), comm));
  float* values = memory;
  for (int i = 0; i < kCount; ++i) values[i] = (float)(rank + 1);

  rz_request_t* request; /* or NULL, and the call waits by itself */
  Check(rz_all_reduce(values, values, kCount, RZ_FLOAT32, RZ_SUM, comm, &request));
  Check(rz_wait(&request, 0));
  printf("rank %d of %d: sum %g\n", rank, ranks, values[kCount - 1]);

  Check(rz_mem_free(memory, comm));
  Check(rz_comm_destroy(comm));
  Check(rz_finalize(job));
  return 0;
}
