/* Fits a linear model, y = W x, with ZeRO-3: every rank holds a shard of W, of its gradient and of
 * AdamW's states.   rz_run -n 3 -- ./zero */
#include <ringzero.h>
#include <stdio.h>
#include <stdlib.h>

enum { kInputs = 24, kOutputs = 5, kSamples = 32, kSteps = 200 };

static void Check(rz_result_t result) {
  if (result == RZ_OK) return;
  fprintf(stderr, "%s\n", rz_last_error());
  exit(1);
}

/* The same numbers within -1 .. 1 on every machine. */
static float Noise(uint32_t* state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 8) / (float)(1u << 23) - 1.0f;
}

/* Rank 0 says what the model begins with. */
static void Zeros(void* context, size_t index, float* values, size_t count) {
  (void)context;
  (void)index;
  for (size_t i = 0; i < count; ++i) values[i] = 0;
}

/* Forward and backward of this rank's samples: half the sum of squared errors, and the gradient of
 * it, times `scale`, into gradient[kOutputs][kInputs]. */
static double Learn(const float* weights, uint32_t seed, double scale, float* gradient) {
  uint32_t noise = seed, truth_seed = 7;
  float truth[kOutputs * kInputs];
  double loss = 0;
  for (int i = 0; i < kOutputs * kInputs; ++i) {
    truth[i] = Noise(&truth_seed);
    gradient[i] = 0;
  }
  for (int sample = 0; sample < kSamples; ++sample) {
    float inputs[kInputs];
    for (int i = 0; i < kInputs; ++i) inputs[i] = Noise(&noise);
    for (int o = 0; o < kOutputs; ++o) {
      float error = 0;
      for (int i = 0; i < kInputs; ++i) {
        error += (weights[o * kInputs + i] - truth[o * kInputs + i]) * inputs[i];
      }
      loss += error * error / 2;
      for (int i = 0; i < kInputs; ++i) {
        gradient[o * kInputs + i] += (float)(scale * error * inputs[i]);
      }
    }
  }
  return loss;
}

int main(void) {
  rz_job_t* job;
  rz_comm_t* comm;
  int32_t rank, ranks;
  Check(rz_init(NULL, &job));
  Check(rz_comm_create(job, NULL, &comm));
  Check(rz_comm_rank(comm, &rank));
  Check(rz_comm_count(comm, &ranks));

  char config[256]; /* DeepSpeed's keys: docs/configuration.md */
  snprintf(config, sizeof config,
           "{\"train_batch_size\": %d, \"zero_optimization\": {\"stage\": 3},"
           " \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 0.05, \"weight_decay\": 0}}}",
           kSamples * ranks);
  rz_zero_options_t options = RZ_ZERO_OPTIONS_INIT;
  options.config = config;
  const int64_t shape[] = {kOutputs, kInputs};
  const rz_parameter_t parameter = {"weight", shape, 2, 0};
  rz_zero_t* zero;
  Check(rz_zero_create(comm, &parameter, 1, &options, &zero));
  Check(rz_zero_initialize(zero, Zeros, NULL));

  for (int step = 1; step <= kSteps; ++step) {
    const void* weights; /* of the whole model, from gather to release */
    size_t count;
    double scale;
    float gradient[kOutputs * kInputs];
    Check(rz_zero_gradient_scale(zero, (int64_t)kSamples * ranks, &scale));
    Check(rz_zero_gather(zero, 0, RZ_BACKWARD)); /* forward and backward in one */
    Check(rz_zero_parameter(zero, 0, &weights, &count));
    double loss = Learn(weights, (uint32_t)(step * ranks + rank), scale, gradient);
    Check(rz_zero_add_gradient(zero, 0, gradient, count, RZ_FLOAT32));
    Check(rz_zero_release(zero, 0, RZ_BACKWARD));
    rz_step_report_t report = RZ_STEP_REPORT_INIT;
    Check(rz_zero_step(zero, -1, &report));
    Check(rz_all_reduce(&loss, &loss, 1, RZ_FLOAT64, RZ_SUM, comm, NULL));
    if (rank == 0 && (step == 1 || step % 50 == 0)) {
      printf("step %lld loss %.6f norm %.4f\n", (long long)report.step,
             loss / (kSamples * ranks), report.norm);
    }
  }
  rz_memory_report_t memory = RZ_MEMORY_REPORT_INIT;
  Check(rz_zero_memory(zero, &memory));
  printf("rank %d of %d holds %lld bytes of model states\n", rank, ranks, (long long)memory.total);

  Check(rz_zero_destroy(zero));
  Check(rz_comm_destroy(comm));
  Check(rz_finalize(job));
  return 0;
}
