#include "runtime/rendezvous/endpoint.h"

#include "gmock/gmock.h"
#include "runtime/base/status_matchers.h"

namespace rz {
namespace {

using ::rz::testing::StatusIs;

TEST(EndpointTest, ReadsNamesAndAddresses) {
  ASSERT_OK_AND_ASSIGN(const Endpoint name, ParseEndpoint("localhost:0"));
  EXPECT_EQ(name.host, "localhost");
  EXPECT_EQ(name.port, 0);
  ASSERT_OK_AND_ASSIGN(const Endpoint v4, ParseEndpoint("10.0.0.1:65535"));
  EXPECT_EQ(v4.ToString(), "10.0.0.1:65535");
  ASSERT_OK_AND_ASSIGN(const Endpoint v6, ParseEndpoint("[::1]:80"));
  EXPECT_EQ(v6.host, "::1");
  EXPECT_EQ(v6.ToString(), "[::1]:80");
}

TEST(EndpointTest, ReadsSocketFiles) {
  const std::string longest = "unix:/" + std::string(106, 'a');
  for (const std::string& text : {std::string("unix:/tmp/ringzero-0/a_b.1"), longest}) {
    ASSERT_OK_AND_ASSIGN(const Endpoint file, ParseEndpoint(text));
    EXPECT_EQ(file.ToString(), text);
    EXPECT_EQ(file.host, "");
  }
  for (const std::string& text : {std::string("unix:"), std::string("unix:here"), longest + "a",
                                  std::string("unix:/a b"), std::string("unix:/a%41")}) {
    EXPECT_THAT(ParseEndpoint(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

TEST(EndpointTest, RefusesWhatIsNone) {
  for (const char* text :
       {"", "host", "host:", ":80", "host:65536", "host:-1", "host:+1", "host:8x", "::1:80",
        "[]:80", "a b:80", "dns:///x:1", "host: 80", "host:99999999999999999999"}) {
    EXPECT_THAT(ParseEndpoint(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

TEST(EndpointTest, KnowsWhatOnlyThisMachineCanReach) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1", "localhost"}) {
    ASSERT_OK_AND_ASSIGN(const bool loopback, IsLoopback(host));
    EXPECT_TRUE(loopback) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "::ffff:10.0.0.1"}) {
    ASSERT_OK_AND_ASSIGN(const bool loopback, IsLoopback(host));
    EXPECT_FALSE(loopback) << host;
  }
}

}  // namespace
}  // namespace rz
