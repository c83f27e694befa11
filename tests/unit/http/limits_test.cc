// Limits and failing clients: sizes, times, slow readers, disconnects, malformed requests.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/http/test_server.h"

namespace fathom {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

std::string code_of(const Reply& reply) {
  const json body = json::parse(reply.body, nullptr, false);
  return body.is_object() && body.contains("error") && body["error"].contains("code") &&
                 body["error"]["code"].is_string()
             ? body["error"]["code"].get<std::string>()
             : "";
}

TEST(HttpLimits, RefusesBodiesThatAreTooLong) {
  ServerOptions options;
  options.max_body_bytes = 100;
  TestServer server(options);
  EXPECT_EQ(server.ask(post("/v1/echo", std::string(100, '1'))).status, 200);
  Reply reply = server.ask(post("/v1/echo", std::string(101, '1')));
  EXPECT_EQ(reply.status, 413);
  EXPECT_EQ(code_of(reply), "body_too_large");
  EXPECT_EQ(reply.header("Connection"), "close");
  // Announced only: refused without waiting for it.
  reply = server.ask(
      "POST /v1/echo HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
      "Content-Length: 99999999999999\r\n\r\n");
  EXPECT_EQ(reply.status, 413);
  reply = server.ask(
      "POST /v1/echo HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n40\r\n" +
      std::string(64, 'a') + "\r\n40\r\n" + std::string(64, 'a') + "\r\n0\r\n\r\n");
  EXPECT_EQ(reply.status, 413);
}

TEST(HttpLimits, ALargeRefusedBodyDoesNotLoseTheAnswer) {
  ServerOptions options;
  options.max_body_bytes = 1000;
  TestServer server(options);
  HttpClient client = server.client();
  client.send(post("/v1/echo", std::string(5 << 20, '1')));
  EXPECT_EQ(client.reply().status, 413);
}

TEST(HttpLimits, RefusesHeadersThatAreTooLong) {
  ServerOptions options;
  options.max_header_bytes = 2000;
  TestServer server(options);
  EXPECT_EQ(server.ask(get("/open", "X: " + std::string(1500, 'a') + "\r\n")).status, 200);
  const Reply reply = server.ask(get("/open", "X: " + std::string(4000, 'a') + "\r\n"));
  EXPECT_EQ(reply.status, 431);
  EXPECT_EQ(server.ask(get("/" + std::string(4000, 'a'))).status, 431);
}

TEST(HttpLimits, RefusesTooManyConnections) {
  ServerOptions options;
  options.max_connections = 2;
  TestServer server(options);
  HttpClient one = server.client(), two = server.client();
  EXPECT_EQ(one.send(get("/open")).reply().status, 200);
  EXPECT_EQ(two.send(get("/open")).reply().status, 200);
  HttpClient three = server.client();
  const Reply reply = three.reply();
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(code_of(reply), "too_many_connections");
  three.close();
  one.close();
  EXPECT_TRUE(eventually([&] { return server.server->open_connections() == 1; }));
  EXPECT_EQ(server.ask(get("/open")).status, 200);
}

TEST(HttpLimits, EndsRequestsThatDoNotArrive) {
  ServerOptions options;
  options.header_timeout = milliseconds(50);
  options.body_timeout = milliseconds(50);
  TestServer server(options);
  HttpClient header = server.client();
  EXPECT_EQ(header.send("GET /open HTTP/1.1\r\nHost:").reply().status, 408);
  EXPECT_TRUE(header.ended());
  HttpClient body = server.client();
  body.send(
      "POST /v1/echo HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
      "Content-Length: 10\r\n\r\n{");
  EXPECT_EQ(body.reply().status, 408);
}

TEST(HttpLimits, ClosesIdleConnections) {
  ServerOptions options;
  options.idle_timeout = milliseconds(50);
  TestServer server(options);
  HttpClient silent = server.client();
  EXPECT_TRUE(silent.ended());
  HttpClient once = server.client();
  EXPECT_EQ(once.send(get("/open")).reply().status, 200);
  EXPECT_TRUE(once.ended());
}

TEST(HttpLimits, AnExchangeMayTakeLongerThanTheIdleTimeout) {
  ServerOptions options;
  options.idle_timeout = options.header_timeout = options.body_timeout = options.write_timeout =
      milliseconds(20);
  TestServer server(options);
  HttpClient client = server.client();
  client.send(post("/v1/hold", "{}"));
  const auto held = server.held.take();
  std::this_thread::sleep_for(milliseconds(100));
  held->post([held] { held->respond({200, "text/plain", {}, "late"}); });
  EXPECT_EQ(client.reply().body, "late");
}

TEST(HttpLimits, ASlowReaderLosesItsStreamAndNobodyElseIsHurt) {
  ServerOptions options;
  options.max_buffered_bytes = 1 << 20;
  TestServer server(options);
  HttpClient slow = server.client();
  slow.send(post("/v1/hold", "{}"));
  const auto held = server.held.take();
  held->post([held] { held->begin_stream({200, "text/event-stream", {}, ""}); });
  const std::string chunk(256 << 10, 'x');
  for (int i = 0; i < 200 && server.closed == 0; ++i) {
    held->post([held, &chunk] { held->send(chunk); });
    ASSERT_EQ(server.ask(get("/open")).body, "open");  // also: the posted work has run
  }
  EXPECT_TRUE(eventually([&] { return server.closed == 1; }));
  EXPECT_EQ(server.server->running_work(), 0);
  EXPECT_NE(server.metrics.text().find("fathom:requests_aborted_total{reason=\"slow_reader\"} 1"),
            std::string::npos);
  held->post([held] { held->send("ignored"); });
  EXPECT_EQ(server.ask(get("/open")).body, "open");
}

TEST(HttpLimits, AReaderThatTakesNothingIsClosedInTime) {
  ServerOptions options;
  options.write_timeout = milliseconds(50);
  TestServer server(options);
  HttpClient slow = server.client();
  slow.send(post("/v1/hold", "{}"));
  const auto held = server.held.take();
  const HttpResponse large{200, "text/plain", {}, std::string(64 << 20, 'x')};
  held->post([held, large] { held->respond(large); });
  EXPECT_TRUE(eventually([&] { return server.server->open_connections() == 0; }));
}

TEST(HttpLimits, ADisconnectEndsTheExchange) {
  TestServer server;
  for (const bool streamed : {false, true}) {
    server.closed = 0;
    HttpClient client = server.client();
    client.send(post("/v1/hold", "{}"));
    const auto held = server.held.take();
    if (streamed) {
      held->post([held] { held->begin_stream({200, "text/event-stream", {}, ""}); });
      EXPECT_NE(client.some(), "");
    }
    client.close();
    EXPECT_TRUE(eventually([&] { return server.closed == 1; }));
    EXPECT_TRUE(eventually([&] { return server.server->running_work() == 0; }));
    // Late words go nowhere; a late callback runs at once.
    std::atomic<bool> ran{false};
    held->post([held, &ran] {
      held->respond({200, "text/plain", {}, "late"});
      held->send("late");
      held->end_stream();
      held->on_closed([&ran] { ran = true; });
    });
    EXPECT_TRUE(eventually([&] { return ran.load(); }));
  }
}

TEST(HttpLimits, ACompletedAnswerRunsNoCallback) {
  TestServer server;
  HttpClient client = server.client();
  client.send(post("/v1/hold", "{}"));
  const auto held = server.held.take();
  held->post([held] { held->respond({200, "text/plain", {}, "done"}); });
  EXPECT_EQ(client.reply().body, "done");
  client.close();
  EXPECT_TRUE(eventually([&] { return server.server->open_connections() == 0; }));
  EXPECT_EQ(server.closed, 0);
}

TEST(HttpLimits, AnExchangeMayOutliveTheServer) {
  std::shared_ptr<Exchange> held;
  {
    TestServer server;
    HttpClient client = server.client();
    client.send(post("/v1/hold", "{}"));
    held = server.held.take();
    server.server->stop();
    EXPECT_EQ(server.closed, 1);
  }
  bool ran = false;
  held->post([&ran] { ran = true; });
  held.reset();
  EXPECT_FALSE(ran);
}

TEST(HttpLimits, MalformedRequestsGetAnErrorAndCostNothingElse) {
  TestServer server;
  HttpClient neighbour = server.client();
  const std::vector<std::pair<std::string, int>> cases = {
      {"BLA\r\n\r\n", 400},
      {"GET\r\n\r\n", 400},
      {"GET /open\r\n\r\n", 400},
      {"GET /open HTTP/9.9\r\n\r\n", 505},
      {"GET /open HTTP/2.0\r\n\r\n", 505},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"GET /open HTTP/1.1\r\n\r\n", 400},  // no Host
      {"GET /open HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
      {"GET /open HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", 400},
      {"GET /open HTTP/1.1\r\nHost: a\r\nBad Name: x\r\n\r\n", 400},
      {"GET /open HTTP/1.1\r\nHost: a\r\nX: a\x01z\r\n\r\n", 400},
      {"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET open HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET /../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n", 404},
      {"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"POST /v1/echo HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\r\n", 411},
      {"POST /v1/echo HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400},
      {"POST /v1/echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1x\r\n\r\n", 400},
      {"POST /v1/echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
      {"POST /v1/echo HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n", 400},
      {"POST /v1/echo HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
       "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       400},
      {"POST /v1/echo HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
       "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
       501},
      {"POST /v1/echo HTTP/1.0\r\nHost: a\r\nContent-Type: application/json\r\n"
       "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       400},
      {"POST /v1/echo HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
       "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
       400},
      {"POST /v1/echo HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
       "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
       400},
      {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + "\r\n\r\n", 400},
      {std::string(100, '\0') + "\r\n\r\n", 400},
  };
  for (const auto& [bytes, status] : cases) {
    HttpClient client = server.client();
    const Reply reply = client.send(bytes).reply();
    EXPECT_EQ(reply.status, status) << bytes;
    EXPECT_TRUE(json::accept(reply.body)) << bytes << reply.body;
  }
  EXPECT_EQ(neighbour.send(get("/open")).reply().body, "open");
}

}  // namespace
}  // namespace fathom
