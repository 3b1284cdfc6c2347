/* ringzero: collective communication and sharding.
 *
 *   #include <ringzero.h>
 *
 *   rz_job_t* job;
 *   rz_comm_t* comm;
 *   rz_init(NULL, &job);                      joins the job that the environment names
 *   rz_comm_create(job, NULL, &comm);
 *   rz_all_reduce(send, recv, count, RZ_FLOAT32, RZ_SUM, comm, NULL);
 *   rz_comm_destroy(comm);
 *   rz_finalize(job);
 *
 * Link with -lringzero. docs/api.md is the introduction, docs/coming_from_nccl.md is for those who
 * know NCCL, examples/ has whole programs. C11 and C++. The parts below are the whole reference; an
 * installed ringzero.h has them all in one file.
 */
#ifndef RINGZERO_RINGZERO_H_
#define RINGZERO_RINGZERO_H_

#include "runtime/c_api/c_api.h"

#include "collectives/c_api/c_api.h"

#include "optimizer/c_api/c_api.h"

#endif /* RINGZERO_RINGZERO_H_ */
