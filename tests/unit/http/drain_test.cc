// Shutting down: what runs may finish, new work is refused, what is cut says so.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/http/test_server.h"

namespace fathom {
namespace {

using nlohmann::json;

TEST(HttpDrain, LetsRunningWorkFinish) {
  TestServer server;
  HttpClient idle = server.client();
  EXPECT_EQ(idle.send(get("/open")).reply().header("Connection"), "");
  HttpClient client = server.client();
  client.send(post("/v1/hold", "{}"));
  const auto held = server.held.take();
  held->post([held] { held->begin_stream({200, "text/event-stream", {}, ""}); });
  EXPECT_NE(client.some(), "");

  server.server->begin_drain();
  const Reply ready = server.ask(get("/ready"));
  EXPECT_EQ(ready.status, 503);
  EXPECT_EQ(json::parse(ready.body)["status"], "draining");
  EXPECT_EQ(server.ask(get("/health")).status, 200);
  const Reply refused = server.ask(post("/v1/echo", "{}"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_NE(refused.header("Retry-After"), "");
  EXPECT_EQ(refused.header("Connection"), "close");
  const Reply last = idle.send(get("/open")).reply();
  EXPECT_EQ(last.status, 200);
  EXPECT_EQ(last.header("Connection"), "close");
  EXPECT_TRUE(idle.ended());

  EXPECT_EQ(server.server->running_work(), 1);
  held->post([held] {
    held->send("data: end\n\n");
    held->end_stream();
  });
  EXPECT_EQ(client.rest(), "b\r\ndata: end\n\n\r\n0\r\n\r\n");
  EXPECT_TRUE(eventually([&] { return server.server->running_work() == 0; }));
  EXPECT_EQ(server.closed, 0);
}

TEST(HttpDrain, TellsClientsWhatIsCut) {
  TestServer server;
  HttpClient stream = server.client(), plain = server.client(), half = server.client();
  stream.send(post("/v1/hold", "{}"));
  const auto streamed = server.held.take();
  streamed->post([streamed] { streamed->begin_stream({200, "text/event-stream", {}, ""}); });
  EXPECT_NE(stream.some(), "");
  plain.send(post("/v1/hold", "{}"));
  const auto waiting = server.held.take();
  half.send("POST /v1/echo HTTP/1.1\r\n");

  server.server->begin_drain();
  server.server->abort_work();
  const std::string rest = stream.rest();
  EXPECT_NE(rest.find("data: {\"error\""), std::string::npos);
  EXPECT_EQ(rest.substr(rest.size() - 7), "\r\n0\r\n\r\n");  // a whole body all the same
  const Reply reply = plain.reply();
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(json::parse(reply.body)["error"]["code"], "shutting_down");
  EXPECT_TRUE(half.ended());
  EXPECT_TRUE(eventually([&] { return server.closed == 2; }));  // so that they are cancelled
  EXPECT_TRUE(eventually([&] { return server.server->running_work() == 0; }));
}

TEST(HttpDrain, StopClosesEverything) {
  TestServer server;
  HttpClient idle = server.client(), busy = server.client();
  EXPECT_EQ(idle.send(get("/open")).reply().status, 200);
  busy.send(post("/v1/hold", "{}"));
  const auto held = server.held.take();
  server.server->stop();
  EXPECT_TRUE(idle.ended());
  EXPECT_TRUE(busy.ended());
  EXPECT_EQ(server.closed, 1);
  EXPECT_EQ(server.server->open_connections(), 0);
  EXPECT_THROW(server.client(), boost::system::system_error);
}

}  // namespace
}  // namespace fathom
