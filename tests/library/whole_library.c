/* A rank that uses what ringzero stands on: the rendezvous (gRPC), the transport (UCX), JSON in and
 * out (Protocol Buffers). Tests run it in programs that have other libraries of the same names. */
#include <ringzero.h>
#include <stdio.h>
#include <stdlib.h>

static void Check(rz_result_t result) {
  if (result == RZ_OK) return;
  fprintf(stderr, "%s\n", rz_last_error());
  exit(1);
}

static void Zeros(void* context, size_t index, float* values, size_t count) {
  (void)context;
  (void)index;
  for (size_t i = 0; i < count; ++i) values[i] = 0;
}

int main(int argc, char** argv) {
  rz_job_t* job;
  rz_comm_t* comm;
  rz_server_t* server;
  rz_zero_t* zero;
  Check(rz_server_start(NULL, &server));
  Check(rz_init(NULL, &job));
  Check(rz_comm_create(job, NULL, &comm));

  double values[3] = {1, 2, 3};
  Check(rz_all_reduce(values, values, 3, RZ_FLOAT64, RZ_SUM, comm, NULL));
  const rz_parameter_t scalar = {"scalar", NULL, 0, 0};
  rz_zero_options_t options = RZ_ZERO_OPTIONS_INIT;
  options.config = "{\"train_batch_size\": 12, \"zero_optimization\": {\"stage\": 2}}";
  Check(rz_zero_create(comm, &scalar, 1, &options, &zero));
  Check(rz_zero_initialize(zero, Zeros, NULL));
  const float gradient = 1;
  Check(rz_zero_add_gradient(zero, 0, &gradient, 1, RZ_FLOAT32));
  rz_step_report_t report = RZ_STEP_REPORT_INIT;
  Check(rz_zero_step(zero, -1, &report));
  if (argc > 1) Check(rz_comm_dump_flight_record(comm, argv[1]));
  printf("sum %g norm %g\n", values[2], report.norm);

  Check(rz_zero_destroy(zero));
  Check(rz_comm_destroy(comm));
  Check(rz_finalize(job));
  Check(rz_server_stop(server));
  return 0;
}
