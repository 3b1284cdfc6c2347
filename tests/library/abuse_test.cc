// Every function of ringzero.h, called as it must not be: with handles that are null, ended, of
// another kind or made up, and with null pointers. Errors come back, nothing else happens, and the
// library works afterwards. A function that has no case here fails the test.
#include <ringzero.h>

#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"

namespace {

using ::testing::UnorderedElementsAreArray;

constexpr char kConfig[] = R"({"train_batch_size": 1, "zero_optimization": {"stage": 1}})";

void Fill(void*, size_t, float* values, size_t count) {
  for (size_t i = 0; i < count; ++i) values[i] = 1;
}

int32_t Reduce(void*, const void*, const void*, size_t, rz_dtype_t, void*) { return 0; }

// What cases write into.
struct Scratch {
  int32_t number = 0;
  int64_t long_number = 0;
  double real = 0;
  char text[300] = "x";
  double values[4] = {};
  size_t counts[1] = {1};
  size_t size = 0;
  void* pointer = nullptr;
  const void* view = nullptr;
  rz_result_t result = RZ_OK;
  rz_comm_t* comm = nullptr;
  rz_zero_t* zero = nullptr;
  rz_comm_metrics_t metrics = RZ_COMM_METRICS_INIT;
  rz_memory_report_t memory = RZ_MEMORY_REPORT_INIT;
  rz_zero_options_t zero_options = {sizeof(rz_zero_options_t), kConfig, 0};
  rz_parameter_t parameter = {"w", nullptr, 0, 0};
};

// Any pointer as any handle.
struct Handle {
  void* value;
  operator rz_server_t*() const { return static_cast<rz_server_t*>(value); }  // NOLINT
  operator rz_job_t*() const { return static_cast<rz_job_t*>(value); }        // NOLINT
  operator rz_comm_t*() const { return static_cast<rz_comm_t*>(value); }      // NOLINT
  operator rz_zero_t*() const { return static_cast<rz_zero_t*>(value); }      // NOLINT
};

using OnHandle = std::function<rz_result_t(Handle bad, Scratch& s)>;

// A call of each function that takes a handle; all else in it is as it should be.
const std::map<std::string, OnHandle>& HandleCases() {
  static const auto* const cases = new std::map<std::string, OnHandle>{
      {"rz_server_address",
       [](Handle h, Scratch& s) { return rz_server_address(h, s.text, sizeof s.text); }},
      {"rz_server_stop", [](Handle h, Scratch&) { return rz_server_stop(h); }},
      {"rz_job_rank", [](Handle h, Scratch& s) { return rz_job_rank(h, &s.number); }},
      {"rz_job_world_size", [](Handle h, Scratch& s) { return rz_job_world_size(h, &s.number); }},
      {"rz_job_barrier", [](Handle h, Scratch&) { return rz_job_barrier(h, "id", 1); }},
      {"rz_job_fail", [](Handle h, Scratch&) { return rz_job_fail(h, "cause"); }},
      {"rz_finalize", [](Handle h, Scratch&) { return rz_finalize(h); }},
      {"rz_comm_create", [](Handle h, Scratch& s) { return rz_comm_create(h, nullptr, &s.comm); }},
      {"rz_comm_split", [](Handle h, Scratch& s) { return rz_comm_split(h, 0, 0, &s.comm); }},
      {"rz_comm_destroy", [](Handle h, Scratch&) { return rz_comm_destroy(h); }},
      {"rz_comm_abort", [](Handle h, Scratch&) { return rz_comm_abort(h, "cause"); }},
      {"rz_comm_get_error",
       [](Handle h, Scratch& s) {
         return rz_comm_get_error(h, &s.result, s.text, sizeof s.text);
       }},
      {"rz_comm_rank", [](Handle h, Scratch& s) { return rz_comm_rank(h, &s.number); }},
      {"rz_comm_count", [](Handle h, Scratch& s) { return rz_comm_count(h, &s.number); }},
      {"rz_comm_hosts", [](Handle h, Scratch& s) { return rz_comm_hosts(h, &s.number); }},
      {"rz_mem_alloc", [](Handle h, Scratch& s) { return rz_mem_alloc(&s.pointer, 64, h); }},
      {"rz_mem_free", [](Handle h, Scratch&) { return rz_mem_free(nullptr, h); }},
      {"rz_op_create_premul_sum",
       [](Handle h, Scratch& s) {
         return rz_op_create_premul_sum(&s.number, s.values, RZ_FLOAT64, h);
       }},
      {"rz_comm_rebuild",
       [](Handle h, Scratch& s) { return rz_comm_rebuild(h, nullptr, &s.comm); }},
      {"rz_op_create",
       [](Handle h, Scratch& s) {
         return rz_op_create(&s.number, Reduce, nullptr, 0, h);
       }},
      {"rz_op_destroy", [](Handle h, Scratch&) { return rz_op_destroy(0x11000, h); }},
      {"rz_all_reduce",
       [](Handle h, Scratch& s) {
         return rz_all_reduce(s.values, s.values, 1, RZ_FLOAT64, RZ_SUM, h, nullptr);
       }},
      {"rz_reduce",
       [](Handle h, Scratch& s) {
         return rz_reduce(s.values, s.values, 1, RZ_FLOAT64, RZ_SUM, 0, h, nullptr);
       }},
      {"rz_reduce_scatter",
       [](Handle h, Scratch& s) {
         return rz_reduce_scatter(s.values, s.values, 1, RZ_FLOAT64, RZ_SUM, h, nullptr);
       }},
      {"rz_reduce_scatter_v",
       [](Handle h, Scratch& s) {
         return rz_reduce_scatter_v(s.values, s.values, s.counts, RZ_FLOAT64, RZ_SUM, h, nullptr);
       }},
      {"rz_all_gather",
       [](Handle h, Scratch& s) {
         return rz_all_gather(s.values, s.values, 1, RZ_FLOAT64, h, nullptr);
       }},
      {"rz_all_gather_v",
       [](Handle h, Scratch& s) {
         return rz_all_gather_v(s.values, s.values, s.counts, RZ_FLOAT64, h, nullptr);
       }},
      {"rz_gather",
       [](Handle h, Scratch& s) {
         return rz_gather(s.values, s.values, 1, RZ_FLOAT64, 0, h, nullptr);
       }},
      {"rz_scatter",
       [](Handle h, Scratch& s) {
         return rz_scatter(s.values, s.values, 1, RZ_FLOAT64, 0, h, nullptr);
       }},
      {"rz_broadcast",
       [](Handle h, Scratch& s) {
         return rz_broadcast(s.values, s.values, 1, RZ_FLOAT64, 0, h, nullptr);
       }},
      {"rz_all_to_all",
       [](Handle h, Scratch& s) {
         return rz_all_to_all(s.values, s.values + 1, 1, RZ_FLOAT64, h, nullptr);
       }},
      {"rz_all_to_all_v",
       [](Handle h, Scratch& s) {
         return rz_all_to_all_v(s.values, s.counts, s.values + 1, s.counts, RZ_FLOAT64, h, nullptr);
       }},
      {"rz_barrier", [](Handle h, Scratch&) { return rz_barrier(h, nullptr); }},
      {"rz_send",
       [](Handle h, Scratch& s) { return rz_send(s.values, 1, RZ_FLOAT64, 0, h, nullptr); }},
      {"rz_recv",
       [](Handle h, Scratch& s) { return rz_recv(s.values, 1, RZ_FLOAT64, 0, h, nullptr); }},
      {"rz_group_start", [](Handle h, Scratch&) { return rz_group_start(h); }},
      {"rz_group_end", [](Handle h, Scratch&) { return rz_group_end(h, nullptr); }},
      {"rz_comm_get_metrics",
       [](Handle h, Scratch& s) { return rz_comm_get_metrics(h, &s.metrics); }},
      {"rz_comm_dump_flight_record",
       [](Handle h, Scratch&) { return rz_comm_dump_flight_record(h, "/tmp"); }},
      {"rz_zero_create",
       [](Handle h, Scratch& s) {
         return rz_zero_create(h, &s.parameter, 1, &s.zero_options, &s.zero);
       }},
      {"rz_zero_destroy", [](Handle h, Scratch&) { return rz_zero_destroy(h); }},
      {"rz_zero_initialize",
       [](Handle h, Scratch&) { return rz_zero_initialize(h, Fill, nullptr); }},
      {"rz_zero_dtype", [](Handle h, Scratch& s) { return rz_zero_dtype(h, &s.number); }},
      {"rz_zero_parameter",
       [](Handle h, Scratch& s) { return rz_zero_parameter(h, 0, &s.view, &s.size); }},
      {"rz_zero_gradient",
       [](Handle h, Scratch& s) { return rz_zero_gradient(h, 0, &s.pointer, &s.size); }},
      {"rz_zero_add_gradient",
       [](Handle h, Scratch& s) { return rz_zero_add_gradient(h, 0, s.values, 1, RZ_FLOAT32); }},
      {"rz_zero_end_micro_step", [](Handle h, Scratch&) { return rz_zero_end_micro_step(h); }},
      {"rz_zero_gather", [](Handle h, Scratch&) { return rz_zero_gather(h, 0, RZ_FORWARD); }},
      {"rz_zero_prefetch", [](Handle h, Scratch&) { return rz_zero_prefetch(h, 0, RZ_FORWARD); }},
      {"rz_zero_release", [](Handle h, Scratch&) { return rz_zero_release(h, 0, RZ_FORWARD); }},
      {"rz_zero_step", [](Handle h, Scratch&) { return rz_zero_step(h, -1, nullptr); }},
      {"rz_zero_step_groups",
       [](Handle h, Scratch& s) { return rz_zero_step_groups(h, &s.real, 1, nullptr); }},
      {"rz_zero_state",
       [](Handle h, Scratch& s) { return rz_zero_state(h, RZ_STATE_MASTER, &s.pointer, &s.size); }},
      {"rz_zero_resume", [](Handle h, Scratch&) { return rz_zero_resume(h, 0); }},
      {"rz_zero_steps_taken",
       [](Handle h, Scratch& s) { return rz_zero_steps_taken(h, &s.long_number); }},
      {"rz_zero_learning_rate",
       [](Handle h, Scratch& s) { return rz_zero_learning_rate(h, &s.real); }},
      {"rz_zero_gradient_scale",
       [](Handle h, Scratch& s) { return rz_zero_gradient_scale(h, 1, &s.real); }},
      {"rz_zero_memory", [](Handle h, Scratch& s) { return rz_zero_memory(h, &s.memory); }},
      // Requests are given by their place.
      {"rz_wait",
       [](Handle h, Scratch&) {
         auto* request = static_cast<rz_request_t*>(h.value);
         return h.value == nullptr ? RZ_ERROR_INVALID_HANDLE : rz_wait(&request, 1);
       }},
      {"rz_test",
       [](Handle h, Scratch& s) {
         auto* request = static_cast<rz_request_t*>(h.value);
         return h.value == nullptr ? RZ_ERROR_INVALID_HANDLE : rz_test(&request, &s.number);
       }},
  };
  return *cases;
}

// Live handles of every kind.
struct Live {
  Live() {
    EXPECT_EQ(rz_server_start(nullptr, &server), RZ_OK) << rz_last_error();
    EXPECT_EQ(rz_init(nullptr, &job), RZ_OK) << rz_last_error();
    EXPECT_EQ(rz_comm_create(job, nullptr, &comm), RZ_OK) << rz_last_error();
    Scratch s;
    EXPECT_EQ(rz_zero_create(comm, &s.parameter, 1, &s.zero_options, &zero), RZ_OK)
        << rz_last_error();
  }

  void End() {
    EXPECT_EQ(rz_zero_destroy(zero), RZ_OK) << rz_last_error();
    EXPECT_EQ(rz_comm_destroy(comm), RZ_OK) << rz_last_error();
    EXPECT_EQ(rz_finalize(job), RZ_OK) << rz_last_error();
    EXPECT_EQ(rz_server_stop(server), RZ_OK) << rz_last_error();
  }

  std::vector<void*> All() const { return {server, job, comm, zero}; }

  rz_server_t* server = nullptr;
  rz_job_t* job = nullptr;
  rz_comm_t* comm = nullptr;
  rz_zero_t* zero = nullptr;
};

// Which of the live handles a function is to be called with: none for requests.
void* Right(const std::string& function, const Live& live) {
  const auto begins = [&](const char* with) { return function.rfind(with, 0) == 0; };
  if (begins("rz_server_")) return live.server;
  if (begins("rz_job_") || function == "rz_finalize" || function == "rz_comm_create") {
    return live.job;
  }
  if (begins("rz_zero_") && function != "rz_zero_create") return live.zero;
  if (function == "rz_wait" || function == "rz_test") return nullptr;
  return live.comm;
}

// Functions that take no handle; NullTest has those of them that can fail.
const std::set<std::string> kWithoutHandle = {
    "rz_strerror",    "rz_last_error",   "rz_version", "rz_version_string", "rz_features",
    "rz_has_feature", "rz_server_start", "rz_init",    "rz_size_of",
};

TEST(AbuseTest, EveryFunctionHasACase) {
  std::ifstream file("library/function_names.txt");
  std::vector<std::string> functions;
  for (std::string line; std::getline(file, line);) functions.push_back(line);
  std::vector<std::string> cases(kWithoutHandle.begin(), kWithoutHandle.end());
  for (const auto& [function, body] : HandleCases()) cases.push_back(function);
  EXPECT_THAT(cases, UnorderedElementsAreArray(functions));
}

TEST(AbuseTest, BadHandlesAreErrorsEverywhere) {
  Live ended;
  ended.End();
  Live live;
  Scratch s;
  for (const auto& [function, call] : HandleCases()) {
    std::vector<void*> bad = ended.All();
    bad.push_back(nullptr);
    for (uintptr_t made_up : {uintptr_t{1}, uintptr_t{0x1001}, ~uintptr_t{0}}) {
      bad.push_back(reinterpret_cast<void*>(made_up));  // NOLINT
    }
    bad.push_back(&s);
    for (void* other : live.All()) {
      if (other != Right(function, live)) bad.push_back(other);
    }
    for (void* handle : bad) {
      EXPECT_EQ(call({handle}, s), RZ_ERROR_INVALID_HANDLE) << function << " " << handle;
    }
  }
  live.End();
}

TEST(AbuseTest, NullPointersAreErrorsEverywhere) {
  Live live;
  rz_comm_t* const c = live.comm;
  Scratch s;
  const std::vector<std::pair<std::string, std::function<rz_result_t()>>> calls = {
      {"server_start", [&] { return rz_server_start(nullptr, nullptr); }},
      {"server_address", [&] { return rz_server_address(live.server, nullptr, 300); }},
      {"init", [&] { return rz_init(nullptr, nullptr); }},
      {"job_rank", [&] { return rz_job_rank(live.job, nullptr); }},
      {"job_world_size", [&] { return rz_job_world_size(live.job, nullptr); }},
      {"job_barrier", [&] { return rz_job_barrier(live.job, nullptr, 1); }},
      {"job_fail", [&] { return rz_job_fail(live.job, nullptr); }},
      {"comm_create", [&] { return rz_comm_create(live.job, nullptr, nullptr); }},
      {"comm_split", [&] { return rz_comm_split(c, 0, 0, nullptr); }},
      {"comm_rebuild", [&] { return rz_comm_rebuild(c, nullptr, nullptr); }},
      {"comm_rebuild min",
       [&] {
         rz_rebuild_options_t options = RZ_REBUILD_OPTIONS_INIT;
         options.min_ranks = 2;
         return rz_comm_rebuild(c, &options, &s.comm);
       }},
      {"comm_abort", [&] { return rz_comm_abort(c, nullptr); }},
      {"comm_get_error", [&] { return rz_comm_get_error(c, nullptr, s.text, 1); }},
      {"comm_rank", [&] { return rz_comm_rank(c, nullptr); }},
      {"comm_count", [&] { return rz_comm_count(c, nullptr); }},
      {"comm_hosts", [&] { return rz_comm_hosts(c, nullptr); }},
      {"mem_alloc", [&] { return rz_mem_alloc(nullptr, 64, c); }},
      {"op", [&] { return rz_op_create(nullptr, Reduce, nullptr, 0, c); }},
      {"op function", [&] { return rz_op_create(&s.number, nullptr, nullptr, 0, c); }},
      {"op flags", [&] { return rz_op_create(&s.number, Reduce, nullptr, 0x80000001u, c); }},
      {"premul", [&] { return rz_op_create_premul_sum(nullptr, s.values, RZ_FLOAT64, c); }},
      {"premul scalar", [&] { return rz_op_create_premul_sum(&s.number, nullptr, RZ_FLOAT64, c); }},
      {"all_reduce send",
       [&] { return rz_all_reduce(nullptr, s.values, 1, RZ_FLOAT64, RZ_SUM, c, nullptr); }},
      {"all_reduce recv",
       [&] { return rz_all_reduce(s.values, nullptr, 1, RZ_FLOAT64, RZ_SUM, c, nullptr); }},
      {"reduce",
       [&] { return rz_reduce(nullptr, s.values, 1, RZ_FLOAT64, RZ_SUM, 0, c, nullptr); }},
      {"reduce_scatter",
       [&] { return rz_reduce_scatter(s.values, nullptr, 1, RZ_FLOAT64, RZ_SUM, c, nullptr); }},
      {"reduce_scatter_v",
       [&] {
         return rz_reduce_scatter_v(s.values, s.values, nullptr, RZ_FLOAT64, RZ_SUM, c, nullptr);
       }},
      {"all_gather", [&] { return rz_all_gather(nullptr, s.values, 1, RZ_FLOAT64, c, nullptr); }},
      {"all_gather_v",
       [&] { return rz_all_gather_v(s.values, s.values, nullptr, RZ_FLOAT64, c, nullptr); }},
      {"gather", [&] { return rz_gather(s.values, nullptr, 1, RZ_FLOAT64, 0, c, nullptr); }},
      {"scatter", [&] { return rz_scatter(nullptr, s.values, 1, RZ_FLOAT64, 0, c, nullptr); }},
      {"broadcast", [&] { return rz_broadcast(nullptr, s.values, 1, RZ_FLOAT64, 0, c, nullptr); }},
      {"all_to_all", [&] { return rz_all_to_all(nullptr, s.values, 1, RZ_FLOAT64, c, nullptr); }},
      {"all_to_all_v send",
       [&] {
         return rz_all_to_all_v(s.values, nullptr, s.values + 1, s.counts, RZ_FLOAT64, c, nullptr);
       }},
      {"all_to_all_v recv",
       [&] {
         return rz_all_to_all_v(s.values, s.counts, s.values + 1, nullptr, RZ_FLOAT64, c, nullptr);
       }},
      {"send", [&] { return rz_send(nullptr, 1, RZ_FLOAT64, 0, c, nullptr); }},
      {"recv", [&] { return rz_recv(nullptr, 1, RZ_FLOAT64, 0, c, nullptr); }},
      {"wait", [&] { return rz_wait(nullptr, 1); }},
      {"test", [&] { return rz_test(nullptr, &s.number); }},
      {"metrics", [&] { return rz_comm_get_metrics(c, nullptr); }},
      {"flight", [&] { return rz_comm_dump_flight_record(c, nullptr); }},
      {"zero_create", [&] { return rz_zero_create(c, nullptr, 1, &s.zero_options, &s.zero); }},
      {"zero_create options", [&] { return rz_zero_create(c, &s.parameter, 1, nullptr, &s.zero); }},
      {"zero_create zero",
       [&] { return rz_zero_create(c, &s.parameter, 1, &s.zero_options, nullptr); }},
      {"zero_initialize", [&] { return rz_zero_initialize(live.zero, nullptr, nullptr); }},
      {"zero_dtype", [&] { return rz_zero_dtype(live.zero, nullptr); }},
      {"zero_parameter", [&] { return rz_zero_parameter(live.zero, 0, nullptr, &s.size); }},
      {"zero_parameter count", [&] { return rz_zero_parameter(live.zero, 0, &s.view, nullptr); }},
      {"zero_gradient", [&] { return rz_zero_gradient(live.zero, 0, nullptr, &s.size); }},
      {"zero_gradient count", [&] { return rz_zero_gradient(live.zero, 0, &s.pointer, nullptr); }},
      {"zero_add_gradient",
       [&] { return rz_zero_add_gradient(live.zero, 0, nullptr, 1, RZ_FLOAT32); }},
      {"zero_steps_taken", [&] { return rz_zero_steps_taken(live.zero, nullptr); }},
      {"zero_learning_rate", [&] { return rz_zero_learning_rate(live.zero, nullptr); }},
      {"zero_gradient_scale", [&] { return rz_zero_gradient_scale(live.zero, 1, nullptr); }},
      {"zero_memory", [&] { return rz_zero_memory(live.zero, nullptr); }},
  };
  for (const auto& [name, call] : calls) {
    EXPECT_EQ(call(), RZ_ERROR_INVALID_ARGUMENT) << name << ": " << rz_last_error();
    EXPECT_STRNE(rz_last_error(), "") << name;
  }
  EXPECT_EQ(rz_has_feature(nullptr), 0);
  // All of it works still.
  EXPECT_EQ(rz_barrier(c, nullptr), RZ_OK) << rz_last_error();
  EXPECT_EQ(rz_zero_initialize(live.zero, Fill, nullptr), RZ_OK) << rz_last_error();
  live.End();
}

}  // namespace
