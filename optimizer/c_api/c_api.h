/* ringzero's C interface, part 3 of 3: the ZeRO optimizer.
 *
 * It owns the model states of one rank (working parameters, gradients, float32 master weights,
 * moments), sharded as its stage says, and steps them together with all ranks of a communicator.
 * All stages give the same bits for the same number of ranks.
 *
 * The order of calls: rz_zero_create; rz_zero_initialize; then for each step
 *
 *   forward    for each unit: rz_zero_gather, compute, rz_zero_release(RZ_FORWARD)
 *   backward   for each unit from the last: rz_zero_gather, compute and rz_zero_add_gradient,
 *              rz_zero_release(RZ_BACKWARD)
 *   rz_zero_end_micro_step between micro-steps; rz_zero_step
 *
 * In all stages but 3 gather and release move nothing and may be left out. With gradient_views
 * gradients are written into rz_zero_gradient's views instead of being added.
 *
 * Gradients are scaled such that their average over ranks is the mean over all samples: the sum
 * over this rank's samples, times rz_zero_gradient_scale, which has the loss scale in it.
 *
 * All functions but those marked local are collective: every rank makes the same calls in the same
 * order. A failure that other ranks see too fails the communicator for good.
 */
#ifndef RINGZERO_OPTIMIZER_C_API_C_API_H_
#define RINGZERO_OPTIMIZER_C_API_C_API_H_

#include <stddef.h>
#include <stdint.h>

#include "collectives/c_api/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rz_zero rz_zero_t;

#define RZ_MAX_DIMENSIONS 64

/* A parameter of a model, in the order of declaration. Parameters that are used together (a
 * layer's) have the same unit; units count from 0 without gaps. This struct does not grow. */
typedef struct rz_parameter {
  const char* name;     /* not empty, no other's */
  const int64_t* shape; /* [dimensions]; a dimension may be 0 */
  int32_t dimensions;   /* 0: a scalar; at most RZ_MAX_DIMENSIONS */
  int32_t unit;
} rz_parameter_t;

/* What parameters are gathered and released for. Evaluation: passes without backward, between
 * steps. */
enum { RZ_FORWARD = 0, RZ_BACKWARD = 1, RZ_EVALUATION = 2 };

typedef struct rz_zero_options {
  size_t size; /* sizeof(rz_zero_options_t) */

  /* A configuration in DeepSpeed's JSON (docs/configuration.md has the keys), e.g.
   *   {"train_batch_size": 32, "zero_optimization": {"stage": 1}, "bf16": {"enabled": true},
   *    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}}
   * At most 1 MiB. Must be given. */
  const char* config;

  /* 1: gradients are written into views. Stages 0 and 1, without micro-steps, and without a
   * communication_data_type other than the parameters' */
  int32_t gradient_views;
} rz_zero_options_t;
#define RZ_ZERO_OPTIONS_INIT \
  { sizeof(rz_zero_options_t), NULL, 0 }

/* Makes an optimizer on `comm` for parameters[count], by the options, alike on all ranks. Local;
 * with a shard_group_size that makes several groups of ranks, collective. All text is copied. *zero
 * is ended by rz_zero_destroy, before its communicator.
 *   RZ_ERROR_INVALID_ARGUMENT  a parameter or a key that cannot be; the text names it
 *   RZ_ERROR_UNSUPPORTED       a key that is known and not honoured
 *   RZ_ERROR_OUT_OF_MEMORY     the text says for what */
RZ_API rz_result_t rz_zero_create(rz_comm_t* comm, const rz_parameter_t* parameters, size_t count,
                                  const rz_zero_options_t* options, rz_zero_t** zero);

/* Frees what this rank holds, and ends the handle. Local. */
RZ_API rz_result_t rz_zero_destroy(rz_zero_t* zero);

/* Writes the initial values of parameter `index` into values[count]. Makes no calls of its job. */
typedef void (*rz_zero_initializer_t)(void* context, size_t index, float* values, size_t count);

/* Sets all parameters, on every rank, to what rank 0's `initializer` says (the others' is not
 * called and may be NULL), and all states to zero.
 *   RZ_ERROR_INVALID_ARGUMENT     `initializer` is NULL on rank 0
 *   RZ_ERROR_FAILED_PRECONDITION  ranks have other parameters or configurations; within a step */
RZ_API rz_result_t rz_zero_initialize(rz_zero_t* zero, rz_zero_initializer_t initializer,
                                      void* context);

/* The type of working parameters and gradients: RZ_FLOAT32, RZ_BFLOAT16 or RZ_FLOAT16. Local. */
RZ_API rz_result_t rz_zero_dtype(rz_zero_t* zero, rz_dtype_t* dtype);

/* Views: *view is the first of *count elements of rz_zero_dtype, row-major. They stay the
 * library's, until rz_zero_destroy, or in stage 3 until the unit's release. Working parameters are
 * to be read; gradients to be written, all of them before every step. Local.
 *   RZ_ERROR_INVALID_ARGUMENT     a null pointer, or no such parameter
 *   RZ_ERROR_FAILED_PRECONDITION  the parameter's unit is not gathered; gradients without
 *                                 gradient_views, or of a frozen parameter */
RZ_API rz_result_t rz_zero_parameter(rz_zero_t* zero, size_t index, const void** view,
                                     size_t* count);
RZ_API rz_result_t rz_zero_gradient(rz_zero_t* zero, size_t index, void** view, size_t* count);

/* Adds values[count], of RZ_FLOAT32 or rz_zero_dtype, as the gradient of parameter `index` in this
 * micro-step; they are read during the call. What is not added counts as zeros. Any order, as long
 * as it is the same on all ranks. Where ranks leave out different ones, the call may wait for
 * others until they are in rz_zero_step: before that no rank may wait for another in any other way.
 *   RZ_ERROR_INVALID_ARGUMENT     no such parameter, another number of elements or type, NULL
 *   RZ_ERROR_FAILED_PRECONDITION  added twice, or after its unit's release; before
 *                                 rz_zero_initialize; with gradient_views */
RZ_API rz_result_t rz_zero_add_gradient(rz_zero_t* zero, size_t index, const void* values,
                                        size_t count, rz_dtype_t dtype);

/* Ends a micro-step that is not the step's last.
 *   RZ_ERROR_FAILED_PRECONDITION  all but the last have ended */
RZ_API rz_result_t rz_zero_end_micro_step(rz_zero_t* zero);

/* Brings the parameters of a unit here; rz_zero_prefetch begins that ahead of use, without waiting.
 *   RZ_ERROR_INVALID_ARGUMENT     no such unit or pass
 *   RZ_ERROR_FAILED_PRECONDITION  before rz_zero_initialize; an evaluation within a step; too many
 *                                 elements at once (stage3_max_live_parameters) */
RZ_API rz_result_t rz_zero_gather(rz_zero_t* zero, size_t unit, int32_t pass);
RZ_API rz_result_t rz_zero_prefetch(rz_zero_t* zero, size_t unit, int32_t pass);

/* The unit has been used. From RZ_BACKWARD: its gradients that were not added are zero.
 *   RZ_ERROR_INVALID_ARGUMENT     no such unit or pass
 *   RZ_ERROR_FAILED_PRECONDITION  it is still being gathered */
RZ_API rz_result_t rz_zero_release(rz_zero_t* zero, size_t unit, int32_t pass);

typedef struct rz_step_report {
  size_t size;              /* sizeof(rz_step_report_t), set by the caller */
  int64_t step;             /* steps taken so far */
  int32_t skipped;          /* 1: a gradient was not finite, and nothing has changed anywhere */
  int64_t non_finite_count; /* such elements of the mean gradient */
  double norm;              /* L2 of the mean gradient before clipping, */
  double clipped_norm;      /* and after */
  double learning_rate;     /* what the step was taken with */
  double loss_scale;
  double step_seconds;      /* wall time since its first call, the program's own included: */
  double optimizer_seconds; /* the optimizer's computing, */
  double exposed_seconds;   /* communication that nothing hid, */
  double hidden_seconds;    /* and that behind something else */
  int64_t payload_bytes;    /* sent by this rank: gradients and parameters, */
  int64_t control_bytes;    /* and the agreement about the step */
} rz_step_report_t;
#define RZ_STEP_REPORT_INIT \
  { sizeof(rz_step_report_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Takes a step with `learning_rate`, or with what the configuration's schedule says where it is
 * negative. `report` may be NULL; as many fields are filled as its size says.
 *   RZ_ERROR_INVALID_ARGUMENT     a rate that is not finite; a report of a size that cannot be
 *   RZ_ERROR_FAILED_PRECONDITION  before rz_zero_initialize; ranks disagree about the step
 *   RZ_ERROR_OUT_OF_RANGE         steps were skipped too often; the text has the parameter */
RZ_API rz_result_t rz_zero_step(rz_zero_t* zero, double learning_rate, rz_step_report_t* report);

/* The same with a rate for each of parameter groups[count]: first of those that match none of
 * ringzero.parameter_groups in the configuration, then of each group there. No lr_scale is applied.
 *   RZ_ERROR_INVALID_ARGUMENT  another number of groups; otherwise as rz_zero_step */
RZ_API rz_result_t rz_zero_step_groups(rz_zero_t* zero, const double* learning_rates, size_t count,
                                       rz_step_report_t* report);

/* What this rank owns, to be saved and loaded: float32 master weights (none with float32
 * parameters, which are their own) and moments, and in stage 3 its shard of the working parameters.
 * Their order follows from parameters, configuration and number of ranks. */
enum { RZ_STATE_MASTER = 0, RZ_STATE_MOMENT1 = 1, RZ_STATE_MOMENT2 = 2, RZ_STATE_PARAMETERS = 3 };

/* *view is the first of *bytes bytes of a state, NULL and 0 where there is none; the library's,
 * until rz_zero_destroy. It may be written between steps, on all ranks, with what another optimizer
 * of the same parameters, configuration and number of ranks had; then rz_zero_resume. Local.
 *   RZ_ERROR_INVALID_ARGUMENT  a null pointer, or no such state */
RZ_API rz_result_t rz_zero_state(rz_zero_t* zero, int32_t state, void** view, size_t* bytes);

/* Goes on after `steps` steps with states that were written. In all stages but 3 working parameters
 * (rz_zero_parameter) may be written too, whole and alike on all ranks. A dynamic loss scale starts
 * anew. Local; ranks that disagree find out in the next step.
 *   RZ_ERROR_INVALID_ARGUMENT     steps < 0
 *   RZ_ERROR_FAILED_PRECONDITION  before rz_zero_initialize; within a step */
RZ_API rz_result_t rz_zero_resume(rz_zero_t* zero, int64_t steps);

/* Steps taken; what the schedule says of the next one; and what the sum over this rank's samples is
 * to be multiplied by, where all ranks together have `samples` in all micro-steps: N / samples
 * times the loss scale. Local.
 *   RZ_ERROR_INVALID_ARGUMENT  the pointer is NULL, or samples < 1 */
RZ_API rz_result_t rz_zero_steps_taken(rz_zero_t* zero, int64_t* steps);
RZ_API rz_result_t rz_zero_learning_rate(rz_zero_t* zero, double* learning_rate);
RZ_API rz_result_t rz_zero_gradient_scale(rz_zero_t* zero, int64_t samples, double* scale);

/* Bytes of model states this rank holds, and the closed formula's: measured = formula + padding, to
 * the byte, where the process has one optimizer. The last ones are outside of the formula. */
typedef struct rz_memory_report {
  size_t size; /* sizeof(rz_memory_report_t), set by the caller */
  int64_t parameters;
  int64_t gradients;
  int64_t master;
  int64_t moment1;
  int64_t moment2;
  int64_t total;
  double total_by_formula;
  double total_padding;
  int64_t other;      /* buckets, accumulators, gathered units, scratch; now */
  int64_t other_peak; /* at most, each at its own time */
} rz_memory_report_t;
#define RZ_MEMORY_REPORT_INIT \
  { sizeof(rz_memory_report_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Fills *report, as many fields as its size says. Local.
 *   RZ_ERROR_INVALID_ARGUMENT  NULL, or a size that cannot be */
RZ_API rz_result_t rz_zero_memory(rz_zero_t* zero, rz_memory_report_t* report);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RINGZERO_OPTIMIZER_C_API_C_API_H_ */
