/* ringzero's C interface, part 2 of 3: communicators and what ranks do together.
 *
 * Every rank of a communicator calls the same collectives in the same order with the same counts,
 * types, operations, roots and options. Where they do not, all of them get an error that names two
 * ranks and both calls. After the first failure (other than RZ_ERROR_INVALID_ARGUMENT,
 * RZ_ERROR_INVALID_HANDLE and RZ_ERROR_WRONG_THREAD, which come before any traffic) a communicator
 * is failed for good, and all others of its job with it: every later call returns that first cause,
 * until rz_comm_rebuild makes a new one.
 *
 * Counts are elements, and may be 0. `count` means what NCCL means by it: of all_reduce, reduce
 * and broadcast the whole buffer; of reduce_scatter what each rank receives; of all_gather, gather,
 * scatter and all_to_all what one rank gives to, or gets from, one other. In the v variants every
 * rank's block has a count of its own; blocks stand packed in the order of ranks. Buffers need no
 * alignment. In the shapes below N is the number of ranks.
 *
 * In place, as NCCL has it: all_reduce and reduce where sendbuff == recvbuff; reduce_scatter and
 * scatter where recvbuff is the own block of sendbuff; all_gather and gather where sendbuff is the
 * own block of recvbuff; broadcast where they are equal. No other overlap.
 *
 * Where NCCL has a stream, ringzero has a request: the last argument of a call.
 *   NULL      the call blocks until it is done here, or for the communicator's timeout
 *   &request  the call only starts; request is waited for with rz_wait or rz_test, and the buffers
 *             belong to the library until then
 * Between rz_group_start and rz_group_end calls are only collected, and `request` is NULL.
 */
#ifndef RINGZERO_COLLECTIVES_C_API_C_API_H_
#define RINGZERO_COLLECTIVES_C_API_C_API_H_

#include <stddef.h>
#include <stdint.h>

#include "runtime/c_api/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Element types. 16-bit floats are bit patterns; 8-bit floats are OCP's E4M3 and E5M2. */
typedef int32_t rz_dtype_t;
enum {
  RZ_FLOAT32 = 0,
  RZ_FLOAT64 = 1,
  RZ_BFLOAT16 = 2,
  RZ_FLOAT16 = 3,
  RZ_INT32 = 4,
  RZ_INT64 = 5,
  RZ_INT8 = 6,
  RZ_UINT8 = 7,
  RZ_UINT32 = 8,
  RZ_UINT64 = 9,
  RZ_FLOAT8_E4M3 = 10,
  RZ_FLOAT8_E5M2 = 11
};

/* Bytes of one element; 0 where there is no such type. Any thread. */
RZ_API size_t rz_size_of(rz_dtype_t dtype);

/* What a reduction does. Sums of 16- and 8-bit floats are kept in float32 and rounded once; RZ_AVG
 * divides by the number of ranks and is of floats only; integers wrap. */
typedef int32_t rz_op_t;
enum { RZ_SUM = 0, RZ_MIN = 1, RZ_MAX = 2, RZ_AVG = 3, RZ_PROD = 4 };

/* How sums may round. Deterministic: the same bits over algorithm, transport and SIMD level, one
 * rounding. Fast: any algorithm; at most N - 1 roundings of 16- and 8-bit floats. */
enum { RZ_NUMERIC_DETERMINISTIC = 1, RZ_NUMERIC_FAST = 2 };

typedef struct rz_comm rz_comm_t;
typedef struct rz_request rz_request_t;

typedef struct rz_comm_options {
  size_t size;              /* sizeof(rz_comm_options_t) */
  int32_t numeric_mode;     /* RZ_NUMERIC_...; default deterministic */
  const char* algorithms;   /* "all_reduce:ring,...", as in RZ_ALGO, which is the default */
  double timeout;           /* of a blocking call, and of rz_wait without one; default 300 */
  const char* flight_dir;   /* where flight records go on failure (RZ_FLIGHT_DIR) */
  int32_t no_shared_memory; /* 1: ranks of one host send messages as others do */
  int32_t no_call_checks;   /* 1: calls are neither compared nor recorded; for measuring */
} rz_comm_options_t;
#define RZ_COMM_OPTIONS_INIT \
  { sizeof(rz_comm_options_t), 0, NULL, 0, NULL, 0, 0 }

/* Makes a communicator of all ranks of the job. Collective; all ranks give the same options. *comm
 * is ended by rz_comm_destroy.
 *   RZ_ERROR_INVALID_ARGUMENT     `comm` or an option cannot be
 *   RZ_ERROR_FAILED_PRECONDITION  the job has one: split that one
 *   RZ_ERROR_UNAVAILABLE          a rank has failed */
RZ_API rz_result_t rz_comm_create(rz_job_t* job, const rz_comm_options_t* options,
                                  rz_comm_t** comm);

#define RZ_SPLIT_NOCOLOR (-1)

/* Splits the ranks of `comm` into new communicators: one for each color >= 0, its ranks in the
 * order of (key, rank), with the options of `comm`. Collective. *new_comm is NULL with
 * RZ_SPLIT_NOCOLOR. The new one outlives `comm` if need be, and is ended by rz_comm_destroy. They
 * share one fate: when one fails, so do all others of the job.
 *   RZ_ERROR_INVALID_ARGUMENT  `new_comm` is NULL, or a color below -1
 *   RZ_ERROR_OUT_OF_MEMORY     256 communicators are there */
RZ_API rz_result_t rz_comm_split(rz_comm_t* comm, int32_t color, int32_t key, rz_comm_t** new_comm);

typedef struct rz_rebuild_options {
  size_t size;       /* sizeof(rz_rebuild_options_t) */
  int32_t min_ranks; /* fewer are an error; default 1. Alike on all ranks */
  double timeout;    /* seconds to wait for ranks that may be gone; default 30 */
} rz_rebuild_options_t;
#define RZ_REBUILD_OPTIONS_INIT \
  { sizeof(rz_rebuild_options_t), 0, 0 }

/* Goes on after a failure, with the ranks that are left: a new communicator of all ranks of the job
 * that call this, in the order of their old ranks, from 0, with the options of `failed`. Collective
 * among those. `failed` is any communicator of the job that has failed, of whatever cause: a rank
 * that died, a call that differed, a timeout, rz_comm_abort. Waits until each rank of the job has
 * called this, or is known to be gone (its launcher saw it end, or its connection to the rendezvous
 * broke), for `timeout` at most; a rank that comes later is refused. The job is then that of the
 * ranks that are left: rz_job_rank, rz_job_world_size and rz_finalize are about it. Nothing of
 * `failed` is taken over, and all communicators of before are still to be destroyed. Where another
 * rank dies meanwhile this fails too, on all ranks, and may be called again with `failed`. Under
 * rz_run a rank's death ends the others, unless --min-ranks says otherwise; where rank 0 serves the
 * rendezvous (docs/launching.md), its death leaves nothing to rebuild.
 *   RZ_ERROR_INVALID_ARGUMENT     `comm` is NULL, or an option cannot be
 *   RZ_ERROR_FAILED_PRECONDITION  `failed` has not failed, or has been rebuilt; the others have
 *                                 gone on without this rank; fewer than min_ranks are left
 *   RZ_ERROR_TIMEOUT              fewer than min_ranks came in time; the text says who did not
 *   RZ_ERROR_UNAVAILABLE          the rendezvous cannot be reached, or a rank has failed again */
RZ_API rz_result_t rz_comm_rebuild(rz_comm_t* failed, const rz_rebuild_options_t* options,
                                   rz_comm_t** comm);

/* Ends the handle and frees what it holds. Local, but for 2 s at most of telling neighbours.
 *   RZ_ERROR_FAILED_PRECONDITION  an operation is under way (wait for it, or rz_comm_abort), or
 *                                 buffers or optimizers of it are still there; nothing happened */
RZ_API rz_result_t rz_comm_destroy(rz_comm_t* comm);

/* Ends all operations of the job on all ranks: `comm` is failed with RZ_ERROR_ABORTED here and with
 * RZ_ERROR_UNAVAILABLE and the text of `cause` elsewhere. It is still to be destroyed. Any thread.
 *   RZ_ERROR_INVALID_ARGUMENT  `cause` is NULL */
RZ_API rz_result_t rz_comm_abort(rz_comm_t* comm, const char* cause);

/* Whether the communicator has failed: *result is RZ_OK or what it failed with, and the cause is
 * written into text[0, size), cut off where it is too long. `text` may be NULL. Any thread.
 *   RZ_ERROR_INVALID_ARGUMENT  `result` is NULL */
RZ_API rz_result_t rz_comm_get_error(rz_comm_t* comm, rz_result_t* result, char* text, size_t size);

/* This process's rank in the communicator and how many there are (any thread), and on how many
 * hosts as far as known (0: not known).
 *   RZ_ERROR_INVALID_ARGUMENT  the pointer is NULL */
RZ_API rz_result_t rz_comm_rank(rz_comm_t* comm, int32_t* rank);
RZ_API rz_result_t rz_comm_count(rz_comm_t* comm, int32_t* count);
RZ_API rz_result_t rz_comm_hosts(rz_comm_t* comm, int32_t* hosts);

/* Memory for buffers: `bytes` zero bytes, aligned to 4096. Where ranks of one host share memory
 * they reach it, and calls whose buffers all are such copy nothing in between. *ptr is NULL for 0
 * bytes. Not collective. Ended by rz_mem_free; a NULL there is RZ_OK. `ptr` first, as with NCCL.
 *   RZ_ERROR_INVALID_ARGUMENT  `ptr` is NULL; freeing what is no buffer of this communicator
 *   RZ_ERROR_OUT_OF_MEMORY     there is not so much */
RZ_API rz_result_t rz_mem_alloc(void** ptr, size_t bytes, rz_comm_t* comm);
RZ_API rz_result_t rz_mem_free(void* ptr, rz_comm_t* comm);

/* Makes an operation that multiplies every rank's input by *scalar, an element of `dtype`, and then
 * sums; of calls of that type on this communicator. 16- and 8-bit floats take their factor from a
 * float32. All ranks of a call give the same factor. Local. Ended by rz_op_destroy or with the
 * communicator; at most 64 at a time, those of rz_op_create among them.
 *   RZ_ERROR_INVALID_ARGUMENT  a null pointer, an unknown type
 *   RZ_ERROR_OUT_OF_MEMORY     64 are there */
RZ_API rz_result_t rz_op_create_premul_sum(rz_op_t* op, const void* scalar, rz_dtype_t dtype,
                                           rz_comm_t* comm);

/* A reduction of the caller's: result[i] = a[i] op b[i], i < count, elements of `dtype`. `result`
 * may be the same memory as a or b; otherwise it overlaps neither. They are aligned as the buffers
 * of the call are. `user` is what rz_op_create was given. Returns 0; with anything else it has
 * failed, and the call ends as if by rz_comm_abort, whose cause names rank and value. Called for
 * pieces of a call, of any length, on whichever thread moves operations (the one within a call, or
 * one of the library's while an optimizer overlaps its own), by one at a time. No timeout
 * interrupts it. It neither throws nor jumps; functions of ringzero that are not for any thread
 * return RZ_ERROR_WRONG_THREAD in it. */
typedef int32_t (*rz_reduce_function_t)(void* result, const void* a, const void* b, size_t count,
                                        rz_dtype_t dtype, void* user);

/* No order of combination changes a bit, as of xor or of the largest: any algorithm may be used. */
enum { RZ_OP_ANY_ORDER = 1 };

/* Makes an operation of a function, of calls of any type on this communicator. The n-th that is
 * made on a communicator is the same function, with the same flags, on all of its ranks: calls are
 * compared by that number. What it combines is stored as the call's type each time, of 16- and
 * 8-bit floats too. Its order: with RZ_NUMERIC_DETERMINISTIC and without RZ_OP_ANY_ORDER, the
 * elements of block r, as reduce_scatter has it (all_reduce and reduce cut their count into N such
 * blocks, the first ones larger by one), are ((x[r+1] op x[r+2]) op ...) op x[r], round to rank r,
 * whatever carries the call; otherwise any, and op is associative and commutative. Local. Ended by
 * rz_op_destroy or with the communicator.
 *   RZ_ERROR_INVALID_ARGUMENT  `op` or `function` is NULL, unknown flags
 *   RZ_ERROR_OUT_OF_MEMORY     64 operations are there */
RZ_API rz_result_t rz_op_create(rz_op_t* op, rz_reduce_function_t function, void* user,
                                uint32_t flags, rz_comm_t* comm);

/* Ends an operation that this communicator has made.
 *   RZ_ERROR_INVALID_ARGUMENT     there is no such one
 *   RZ_ERROR_FAILED_PRECONDITION  it is of a function, and requests are under way, or a call of an
 *                                 open group uses it; nothing happened */
RZ_API rz_result_t rz_op_destroy(rz_op_t op, rz_comm_t* comm);

/* The collectives. Of all of them:
 *   RZ_ERROR_INVALID_ARGUMENT     seen before any traffic: null buffer, overlap, unknown type or
 *                                 operation, counts whose bytes overflow, root or peer that is no
 *                                 rank. The communicator stays usable
 *   RZ_ERROR_FAILED_PRECONDITION  ranks made different calls
 *   RZ_ERROR_TIMEOUT              not done in time; the communicator has failed
 *   RZ_ERROR_UNAVAILABLE          a rank has failed; the text says which, and why as far as known
 *   RZ_ERROR_ABORTED              rz_comm_abort
 * A buffer may be NULL where nothing is read or written: count 0, or recvbuff on others than the
 * root. */

/* recvbuff[count] = op over all ranks of sendbuff[count]. */
RZ_API rz_result_t rz_all_reduce(const void* sendbuff, void* recvbuff, size_t count,
                                 rz_dtype_t dtype, rz_op_t op, rz_comm_t* comm,
                                 rz_request_t** request);

/* The same, on the root alone. */
RZ_API rz_result_t rz_reduce(const void* sendbuff, void* recvbuff, size_t count, rz_dtype_t dtype,
                             rz_op_t op, int32_t root, rz_comm_t* comm, rz_request_t** request);

/* recvbuff[recvcount] = block `rank` of op over all ranks of sendbuff[N * recvcount]. */
RZ_API rz_result_t rz_reduce_scatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                     rz_dtype_t dtype, rz_op_t op, rz_comm_t* comm,
                                     rz_request_t** request);

/* recvbuff[recvcounts[rank]], of sendbuff[sum of recvcounts]; recvcounts[N], alike on all ranks. */
RZ_API rz_result_t rz_reduce_scatter_v(const void* sendbuff, void* recvbuff,
                                       const size_t* recvcounts, rz_dtype_t dtype, rz_op_t op,
                                       rz_comm_t* comm, rz_request_t** request);

/* recvbuff[N * sendcount] = all ranks' sendbuff[sendcount]. */
RZ_API rz_result_t rz_all_gather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                 rz_dtype_t dtype, rz_comm_t* comm, rz_request_t** request);

/* recvbuff[sum of counts] = all ranks' sendbuff[counts[rank]]; counts[N], alike on all ranks. */
RZ_API rz_result_t rz_all_gather_v(const void* sendbuff, void* recvbuff, const size_t* counts,
                                   rz_dtype_t dtype, rz_comm_t* comm, rz_request_t** request);

/* recvbuff[N * sendcount] on the root = all ranks' sendbuff[sendcount]. */
RZ_API rz_result_t rz_gather(const void* sendbuff, void* recvbuff, size_t sendcount,
                             rz_dtype_t dtype, int32_t root, rz_comm_t* comm,
                             rz_request_t** request);

/* recvbuff[recvcount] = block `rank` of the root's sendbuff[N * recvcount]. */
RZ_API rz_result_t rz_scatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                              rz_dtype_t dtype, int32_t root, rz_comm_t* comm,
                              rz_request_t** request);

/* recvbuff[count] = the root's sendbuff[count], which is read during the call; other ranks'
 * sendbuff is not looked at. */
RZ_API rz_result_t rz_broadcast(const void* sendbuff, void* recvbuff, size_t count,
                                rz_dtype_t dtype, int32_t root, rz_comm_t* comm,
                                rz_request_t** request);

/* Block j of recvbuff[N * count] = block `rank` of rank j's sendbuff[N * count]. Never in place. */
RZ_API rz_result_t rz_all_to_all(const void* sendbuff, void* recvbuff, size_t count,
                                 rz_dtype_t dtype, rz_comm_t* comm, rz_request_t** request);

/* The same with sendcounts[j] elements to rank j and recvcounts[j] from it. */
RZ_API rz_result_t rz_all_to_all_v(const void* sendbuff, const size_t* sendcounts, void* recvbuff,
                                   const size_t* recvcounts, rz_dtype_t dtype, rz_comm_t* comm,
                                   rz_request_t** request);

/* Done when every rank has called it. */
RZ_API rz_result_t rz_barrier(rz_comm_t* comm, rz_request_t** request);

/* Messages between two ranks, outside the order of collectives: the n-th send of a rank to another
 * meets the n-th receive of that one from it. A rank may send to itself, but not with a blocking
 * call. Where count or type differ on the two sides, the receiver's communicator fails. */
RZ_API rz_result_t rz_send(const void* sendbuff, size_t count, rz_dtype_t dtype, int32_t peer,
                           rz_comm_t* comm, rz_request_t** request);
RZ_API rz_result_t rz_recv(void* recvbuff, size_t count, rz_dtype_t dtype, int32_t peer,
                           rz_comm_t* comm, rz_request_t** request);

/* Waits at most `timeout` seconds for a request (0: the communicator's timeout; at most 86400), and
 * ends it: *request is NULL afterwards. RZ_OK where *request is NULL.
 *   RZ_ERROR_INVALID_ARGUMENT  `request` is NULL, or a time that cannot be; the request goes on
 *   otherwise                  what the operation ended with, see the collectives */
RZ_API rz_result_t rz_wait(rz_request_t** request, double timeout);

/* Moves what can be moved, without blocking. *done is 1 where the request is done, which ends it as
 * rz_wait does, or is NULL; otherwise 0, with RZ_OK.
 *   RZ_ERROR_INVALID_ARGUMENT  a null pointer
 *   otherwise                  as rz_wait */
RZ_API rz_result_t rz_test(rz_request_t** request, int32_t* done);

/* Several calls as one. Between the two, collectives and messages of `comm` are checked and kept;
 * rz_group_end starts all of them, and its request is done when all are. Small all_reduces,
 * all_gathers and broadcasts of one type travel packed. Calls must not write what others of them
 * read or write. A kept call that is refused is not part of the group. Counts of v variants are
 * copied, buffers are not.
 *   RZ_ERROR_FAILED_PRECONDITION  a group is open, or none is */
RZ_API rz_result_t rz_group_start(rz_comm_t* comm);
RZ_API rz_result_t rz_group_end(rz_comm_t* comm, rz_request_t** request);

/* Bytes this rank has sent so far over this communicator. */
typedef struct rz_comm_metrics {
  size_t size; /* sizeof(rz_comm_metrics_t), set by the caller */
  int64_t all_reduce;
  int64_t reduce_scatter;
  int64_t all_gather;
  int64_t broadcast;
  int64_t reduce;
  int64_t all_to_all;
  int64_t gather;
  int64_t scatter;
  int64_t messages;      /* rz_send */
  int64_t control;       /* barriers, descriptors, headers */
  int64_t between_hosts; /* of all but control, what went to other hosts, where they are known */
} rz_comm_metrics_t;
#define RZ_COMM_METRICS_INIT \
  { sizeof(rz_comm_metrics_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Fills *metrics, as many fields as its size says. What ranks read from shared memory is sent by
 * nobody and not counted.
 *   RZ_ERROR_INVALID_ARGUMENT  NULL, or a size that cannot be */
RZ_API rz_result_t rz_comm_get_metrics(rz_comm_t* comm, rz_comm_metrics_t* metrics);

/* Writes the last 2,048 collective calls and where each stands to a file of `directory`, which is
 * made where it is missing; rz_flight reads the files of all ranks. Any thread.
 *   RZ_ERROR_INVALID_ARGUMENT  `directory` is NULL or empty
 *   otherwise                  it could not be written; the text has path and reason */
RZ_API rz_result_t rz_comm_dump_flight_record(rz_comm_t* comm, const char* directory);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RINGZERO_COLLECTIVES_C_API_C_API_H_ */
