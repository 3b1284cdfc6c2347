/* Ranks that go on after failures: steps of all_reduce, in which some die, abort or differ, as the
 * arguments say, and the others rebuild.
 *   rebuild_ranks TRANSPORT MIN_RANKS EVENT:PROCESS:WHEN...
 * EVENT is die, abort or differ at step WHEN, or drop: dies instead of its WHEN-th rebuild. PROCESS
 * is the rank that it began with. At the end each says who it is then. */
#include <ringzero.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kSteps = 6, kCount = 3000, kMostTries = 10 };

static char** events;
static int event_count;
static int process; /* the rank that this began with */

static int ends_at_error;

/* Who ends at an error leaves the library's threads and memory to the system; the leak sanitizer's
 * look at such threads crashes. */
const char* __tsan_default_options(void);
const char* __tsan_default_options(void) { return "report_thread_leaks=0"; }
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return ends_at_error; }

static void Check(rz_result_t result) {
  if (result == RZ_OK) return;
  fprintf(stderr, "process %d: %s: %s\n", process, rz_strerror(result), rz_last_error());
  ends_at_error = 1;
  exit(3);
}

/* Whether `event` is to happen to this process now; once. */
static int Happens(const char* event, int when) {
  char wanted[64];
  snprintf(wanted, sizeof wanted, "%s:%d:%d", event, process, when);
  for (int i = 0; i < event_count; ++i) {
    if (strcmp(events[i], wanted) != 0) continue;
    events[i] = "";
    return 1;
  }
  return 0;
}

static void Die(void) { raise(SIGKILL); }

static rz_result_t Step(rz_comm_t* comm, int step) {
  static float values[kCount + 1];
  int32_t ranks = 0;
  Check(rz_comm_count(comm, &ranks));
  for (int i = 0; i < kCount; ++i) values[i] = 1;
  const size_t count = Happens("differ", step) ? kCount - 1 : kCount;
  const rz_result_t result =
      rz_all_reduce(values, values, count, RZ_FLOAT32, RZ_SUM, comm, NULL);
  for (int i = 0; i < kCount && result == RZ_OK; ++i) {
    if (values[i] == (float)ranks) continue;
    fprintf(stderr, "process %d: step %d has %g of %d ranks\n", process, step, values[i], ranks);
    exit(4);
  }
  return result;
}

/* Another communicator in the place of *comm, whose ranks all go on from one step. */
static void Rebuild(rz_comm_t** comm, const rz_rebuild_options_t* options, int rebuilds,
                    int* step) {
  for (int tries = 0; tries < kMostTries; ++tries) {
    if (Happens("drop", rebuilds)) Die();
    rz_comm_t* next = NULL;
    const rz_result_t result = rz_comm_rebuild(*comm, options, &next);
    if (result == RZ_ERROR_UNAVAILABLE) continue; /* another one has died meanwhile */
    Check(result);
    Check(rz_comm_destroy(*comm));
    *comm = next;
    int32_t agreed = *step;
    if (rz_all_reduce(&agreed, &agreed, 1, RZ_INT32, RZ_MIN, next, NULL) == RZ_OK) {
      *step = agreed;
      return;
    }
  }
  fprintf(stderr, "process %d: no end of failures: %s\n", process, rz_last_error());
  exit(5);
}

int main(int argc, char** argv) {
  rz_job_options_t job_options = RZ_JOB_OPTIONS_INIT;
  rz_comm_options_t comm_options = RZ_COMM_OPTIONS_INIT;
  rz_rebuild_options_t options = RZ_REBUILD_OPTIONS_INIT;
  rz_job_t* job = NULL;
  rz_comm_t* comm = NULL;
  int32_t rank = 0, ranks = 0;
  if (argc < 3) return 2;
  if (strcmp(argv[1], "any") != 0) job_options.transport = argv[1];
  options.min_ranks = atoi(argv[2]);
  options.timeout = 120;
  events = argv + 3;
  event_count = argc - 3;
  comm_options.timeout = 60;
  Check(rz_init(&job_options, &job));
  Check(rz_job_rank(job, &process));
  Check(rz_comm_create(job, &comm_options, &comm));
  int rebuilds = 0;
  for (int step = 0; step < kSteps;) {
    if (Happens("die", step)) Die();
    if (Happens("abort", step)) Check(rz_comm_abort(comm, "as it was told"));
    if (Step(comm, step) == RZ_OK) {
      ++step;
    } else {
      Rebuild(&comm, &options, rebuilds++, &step);
    }
  }
  Check(rz_comm_rank(comm, &rank));
  Check(rz_comm_count(comm, &ranks));
  Check(rz_job_world_size(job, &ranks));
  printf("process %d is rank %d of %d\n", process, rank, ranks);
  Check(rz_comm_destroy(comm));
  Check(rz_finalize(job));
  return 0;
}
