// GoogleTest matchers for absl::Status and absl::StatusOr:
//   ASSERT_THAT(Join(), IsOk());
//   EXPECT_THAT(Join(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("rank 3")));
//   ASSERT_OK_AND_ASSIGN(auto client, Connect());
#ifndef RINGZERO_RUNTIME_BASE_STATUS_MATCHERS_H_
#define RINGZERO_RUNTIME_BASE_STATUS_MATCHERS_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "runtime/base/status_macros.h"

namespace rz::testing {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& value) {
  return value.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}

MATCHER_P(StatusIs, code, "has status code " + absl::StatusCodeToString(code)) {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code;
}

MATCHER_P2(StatusIs, code, message,
           "has status code " + absl::StatusCodeToString(code) + " and a message that " +
               ::testing::DescribeMatcher<std::string>(message)) {
  const absl::Status& status = StatusOf(arg);
  *result_listener << status.ToString();
  return status.code() == code && ::testing::Matches(::testing::SafeMatcherCast<const std::string&>(
                                      message))(std::string(status.message()));
}

}  // namespace rz::testing

#define ASSERT_OK(expression) ASSERT_THAT((expression), ::rz::testing::IsOk())
#define EXPECT_OK(expression) EXPECT_THAT((expression), ::rz::testing::IsOk())
#define ASSERT_OK_AND_ASSIGN(lhs, expression) \
  RZ_ASSERT_OK_AND_ASSIGN_INNER(RZ_STATUS_CONCAT(rz_or_, __LINE__), lhs, expression)
#define RZ_ASSERT_OK_AND_ASSIGN_INNER(or_value, lhs, expression) \
  auto or_value = (expression);                                  \
  ASSERT_THAT(or_value, ::rz::testing::IsOk());                  \
  lhs = std::move(or_value).value()

#endif  // RINGZERO_RUNTIME_BASE_STATUS_MATCHERS_H_
