/* ringzero's C interface, part 1 of 3: results, errors, versions, the rendezvous server, and jobs.
 *
 * Results. Every function that can fail returns an rz_result_t; nothing aborts, exits or throws,
 * whatever it is called with. RZ_OK is 0. rz_last_error() says in words what went wrong in this
 * thread last.
 *
 * Handles. rz_job_t and the others are opaque: a handle is no address, is never read through, and a
 * null, stale, foreign or made-up one is RZ_ERROR_INVALID_HANDLE. What makes a handle says what
 * ends it. Functions that make one set it to NULL when they fail.
 *
 * Threads. A job and everything made of it (communicators, requests, buffers, optimizers) is used
 * by one thread at a time: it may change from call to call, but a call that comes while another
 * thread is within one is refused with RZ_ERROR_WRONG_THREAD, and nothing has happened. Functions
 * that may be called at any time from any thread say so. Operations move only while somebody is
 * within a call of their job; there is no thread for them but where an optimizer has asked for one
 * (ringzero.progress_thread of its configuration), which moves those of its communicator, and so
 * reads and writes their buffers, between calls too.
 *
 * Forks. A child that was forked after anything was made cannot use the library: RZ_ERROR_FORKED.
 * It may exec.
 *
 * Options. A struct of options begins with its own size, from which the library knows which fields
 * the caller was compiled with: start from its RZ_..._INIT. NULL, 0 and an empty text stand for the
 * default, NULL instead of the struct for all defaults. Text is NUL-terminated UTF-8, read during
 * the call only. Times are in seconds.
 */
#ifndef RINGZERO_RUNTIME_C_API_C_API_H_
#define RINGZERO_RUNTIME_C_API_C_API_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define RZ_API __attribute__((visibility("default")))
#else
#define RZ_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header. Within a major version programs run with any newer library; until
 * 1.0 the same holds within a minor one. */
#define RZ_VERSION_MAJOR 0
#define RZ_VERSION_MINOR 1
#define RZ_VERSION_PATCH 0

typedef int32_t rz_result_t;
enum {
  RZ_OK = 0,
  /* A value that cannot be: null, negative, unknown, of the wrong size, overlapping. Nothing has
   * happened; what it was called on stays usable. */
  RZ_ERROR_INVALID_ARGUMENT = 1,
  /* A handle that is null, was destroyed, or is of another kind. */
  RZ_ERROR_INVALID_HANDLE = 2,
  /* Another thread is within a call of this job, or this is a callback within one. */
  RZ_ERROR_WRONG_THREAD = 3,
  /* This process was forked from one that used the library. */
  RZ_ERROR_FORKED = 4,
  /* Not in this state: out of order, twice, or while something else still needs it; or the ranks
   * made calls that do not belong together. */
  RZ_ERROR_FAILED_PRECONDITION = 5,
  /* Not done in time; the text says what was waited for. */
  RZ_ERROR_TIMEOUT = 6,
  /* A rank has failed, or a rank or the rendezvous cannot be reached. */
  RZ_ERROR_UNAVAILABLE = 7,
  /* Ended by rz_comm_abort. */
  RZ_ERROR_ABORTED = 8,
  /* Not enough memory, shared memory, or communicator numbers. */
  RZ_ERROR_OUT_OF_MEMORY = 9,
  /* Known, but not done by this library or this machine. */
  RZ_ERROR_UNSUPPORTED = 10,
  /* The rendezvous asks for a token, or for another one. */
  RZ_ERROR_PERMISSION_DENIED = 11,
  /* Another live process has this rank. */
  RZ_ERROR_ALREADY_EXISTS = 12,
  /* Gradients that are not finite have ended a training run. */
  RZ_ERROR_OUT_OF_RANGE = 13,
  /* The library itself cannot be used: a part of it is missing or of another version. */
  RZ_ERROR_LIBRARY = 14,
  /* A defect of ringzero. */
  RZ_ERROR_INTERNAL = 15
};

/* The name of a result in words, e.g. "invalid argument"; "unknown result" for any other number.
 * Never NULL; for ever valid. Any thread, also after a fork. */
RZ_API const char* rz_strerror(rz_result_t result);

/* What the last call of this thread that failed had to say: expected, found, and what to do next.
 * "" where none has. Never NULL; valid until the thread's next call that fails. Any thread, also
 * after a fork. */
RZ_API const char* rz_last_error(void);

/* The library's version, major * 1000000 + minor * 1000 + patch, and as text, "0.1.0". Any thread,
 * also after a fork. */
RZ_API int32_t rz_version(void);
RZ_API const char* rz_version_string(void);

/* What this library can do, in words separated by spaces: "host tcp shared_memory groups zero ...".
 * Valid for ever. Any thread, also after a fork. */
RZ_API const char* rz_features(void);

/* 1 where `name` is one of the words of rz_features(), else 0, also for NULL. Any thread. */
RZ_API int32_t rz_has_feature(const char* name);

/* A rendezvous server within this process: where the ranks of jobs meet. */
typedef struct rz_server rz_server_t;

typedef struct rz_server_options {
  size_t size;            /* sizeof(rz_server_options_t) */
  const char* listen;     /* HOST:PORT; port 0: any free one. Default "127.0.0.1:0" */
  const char* token_file; /* of at least 16 characters, readable by its owner alone; default none */
  int32_t insecure;       /* 1: also addresses that other machines reach, unencrypted */
} rz_server_options_t;
#define RZ_SERVER_OPTIONS_INIT \
  { sizeof(rz_server_options_t), NULL, NULL, 0 }

/* Starts a server, which serves from the return on in threads of its own. *server is ended by
 * rz_server_stop.
 *   RZ_ERROR_INVALID_ARGUMENT     `server` or an option cannot be
 *   RZ_ERROR_FAILED_PRECONDITION  an address beyond loopback without `insecure`
 *   RZ_ERROR_UNAVAILABLE          the port cannot be bound
 *   RZ_ERROR_PERMISSION_DENIED    others can read the token file */
RZ_API rz_result_t rz_server_start(const rz_server_options_t* options, rz_server_t** server);

/* Writes HOST:PORT, with the port that was bound, and a NUL into address[0, size). Any thread.
 *   RZ_ERROR_INVALID_ARGUMENT  `address` is NULL or too small; 262 bytes are always enough */
RZ_API rz_result_t rz_server_address(rz_server_t* server, char* address, size_t size);

/* Answers whoever waits, stops listening, and ends the handle. Jobs that have joined lose their
 * rendezvous. Any thread. */
RZ_API rz_result_t rz_server_stop(rz_server_t* server);

/* A job that this process is a rank of. */
typedef struct rz_job rz_job_t;

#define RZ_RANK_ANY (-1)

typedef struct rz_job_options {
  size_t size; /* sizeof(rz_job_options_t) */

  /* What is not given here comes from the environment variable beside it. Who this is and where the
   * others are comes from that of mpirun, srun or torchrun where neither says it, and where nobody
   * does this is a world of one (docs/launching.md). */
  const char* rendezvous; /* HOST:PORT (RZ_RENDEZVOUS) */
  const char* job;        /* RZ_JOB, default "default": which job of that server */
  int32_t world_size;     /* RZ_WORLD_SIZE; 1 .. 16384 */
  int32_t rank;           /* RZ_RANK; RZ_RANK_ANY in both: the rendezvous gives one */
  const char* token_file; /* RZ_TOKEN_FILE */
  double connect_timeout; /* RZ_CONNECT_TIMEOUT, default 60: how long the rendezvous is tried */
  double join_timeout;    /* RZ_JOIN_TIMEOUT, default 300: how long the others are waited for */

  /* "tcp": TCP alone; "shm": shared memory alone, all ranks on one host; default: what UCX finds */
  const char* transport;

  /* Of what all ranks must agree in; a rank with another number is refused. 0: nothing */
  uint64_t agreement;
} rz_job_options_t;
#define RZ_JOB_OPTIONS_INIT \
  { sizeof(rz_job_options_t), NULL, NULL, 0, RZ_RANK_ANY, NULL, 0, 0, NULL, 0 }

/* Joins a job: waits until all of its ranks have come, then connects to them. Collective. *job is
 * ended by rz_finalize. A process may join several jobs; it must join before it forks.
 *   RZ_ERROR_INVALID_ARGUMENT     `job`, an option or an environment variable cannot be
 *   RZ_ERROR_UNAVAILABLE          the rendezvous or a peer cannot be reached, or a rank has failed
 *   RZ_ERROR_TIMEOUT              not all ranks came; the text lists the missing ones
 *   RZ_ERROR_ALREADY_EXISTS       another live process has this rank
 *   RZ_ERROR_FAILED_PRECONDITION  world size, versions or `agreement` differ from the others'
 *   RZ_ERROR_PERMISSION_DENIED    token missing or wrong */
RZ_API rz_result_t rz_init(const rz_job_options_t* options, rz_job_t** job);

/* This process's rank in the job, and how many there are. Any thread.
 *   RZ_ERROR_INVALID_ARGUMENT  the pointer is NULL */
RZ_API rz_result_t rz_job_rank(rz_job_t* job, int32_t* rank);
RZ_API rz_result_t rz_job_world_size(rz_job_t* job, int32_t* world_size);

/* Waits until all ranks have called this with the same `id`, of 1 to 256 bytes, through the
 * rendezvous. 0 seconds: 300. At most 3600.
 *   RZ_ERROR_INVALID_ARGUMENT  a null or overlong id, a negative time, or the ranks disagree
 *   RZ_ERROR_TIMEOUT           not all came; the text lists the missing ones
 *   RZ_ERROR_UNAVAILABLE       a rank has failed */
RZ_API rz_result_t rz_job_barrier(rz_job_t* job, const char* id, double timeout);

/* Tells all ranks that this one has failed, and why: their calls end with RZ_ERROR_UNAVAILABLE and
 * that text. For programs that end because of an error of their own. Any thread.
 *   RZ_ERROR_INVALID_ARGUMENT  `cause` is NULL */
RZ_API rz_result_t rz_job_fail(rz_job_t* job, const char* cause);

/* Says that this rank is done, and ends the handle; the other ranks go on. Rank 0 of a launcher
 * that names no rendezvous serves it, and returns once all ranks are done or the job has failed, or
 * join_timeout is over.
 *   RZ_ERROR_FAILED_PRECONDITION  communicators of the job are still there; nothing has happened
 *   RZ_ERROR_UNAVAILABLE          the rendezvous could not be told; the handle has ended */
RZ_API rz_result_t rz_finalize(rz_job_t* job);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RINGZERO_RUNTIME_C_API_C_API_H_ */
