// HTTP/1.x over real sockets: what well-behaved and odd clients get.
#include "http/server.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/http/test_server.h"

namespace fathom {
namespace {

using nlohmann::json;

TEST(HttpServer, KeepsTheConnectionForSeveralRequests) {
  TestServer server;
  HttpClient client = server.client();
  for (int i = 0; i < 3; ++i) {
    const std::string body = "{\"n\": " + std::to_string(i) + "}";
    const Reply reply = client.send(post("/v1/echo", body)).reply();
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, body);
    EXPECT_EQ(reply.header("Connection"), "");
  }
  EXPECT_EQ(server.server->open_connections(), 1);
}

TEST(HttpServer, ClosesWhenTheClientAsksForIt) {
  TestServer server;
  HttpClient client = server.client();
  const Reply reply = client.send(get("/open", "Connection: close\r\n")).reply();
  EXPECT_EQ(reply.header("Connection"), "close");
  EXPECT_TRUE(client.ended());
  client.close();
  EXPECT_TRUE(eventually([&] { return server.server->open_connections() == 0; }));
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  TestServer server;
  HttpClient client = server.client();
  std::string requests;
  for (int i = 0; i < 500; ++i) requests += post("/v1/echo", std::to_string(i));
  client.send(requests);
  for (int i = 0; i < 500; ++i) ASSERT_EQ(client.reply().body, std::to_string(i));
}

TEST(HttpServer, StartsAPipelinedRequestOnlyAfterTheAnswerBefore) {
  TestServer server;
  HttpClient client = server.client();
  client.send(post("/v1/hold", "1") + post("/v1/hold", "2"));
  const auto first = server.held.take();
  EXPECT_EQ(first->request().body, "1");
  EXPECT_EQ(server.server->running_work(), 1);
  EXPECT_EQ(server.held.size(), 0u);
  first->post([first] { first->respond({200, "text/plain", {}, "one"}); });
  EXPECT_EQ(client.reply().body, "one");
  const auto second = server.held.take();
  second->post([second] { second->respond({200, "text/plain", {}, "two"}); });
  EXPECT_EQ(client.reply().body, "two");
}

TEST(HttpServer, TakesARequestByteByByte) {
  TestServer server;
  HttpClient client = server.client();
  for (const char c : post("/v1/echo", "{\"a\": 1}")) client.send(std::string(1, c));
  EXPECT_EQ(client.reply().body, "{\"a\": 1}");
}

TEST(HttpServer, TakesChunkedBodies) {
  TestServer server;
  HttpClient client = server.client();
  client.send(
      "POST /v1/echo HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n3;ext=1\r\n{\"a\r\n5\r\n\": 1}\r\n0\r\nX-Late: 1\r\n\r\n");
  EXPECT_EQ(client.reply().body, "{\"a\": 1}");
  EXPECT_EQ(client.send(get("/open")).reply().body, "open");
}

TEST(HttpServer, AsksForTheBodyOfAnExpectingClient) {
  TestServer server;
  HttpClient client = server.client();
  client.send(
      "POST /v1/echo HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
      "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.some(), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(client.send("{}").reply().body, "{}");
  client.send(get("/open", "Expect: something\r\n"));
  EXPECT_EQ(client.reply().status, 417);
}

TEST(HttpServer, RefusesBeforeTheBodyIsSent) {
  TestServer server;
  HttpClient client = server.client();
  client.send(
      "POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
      "Expect: 100-continue\r\nContent-Length: 1000\r\n\r\n");
  const Reply reply = client.reply();
  EXPECT_EQ(reply.status, 404);
  EXPECT_EQ(reply.header("Connection"), "close");
}

TEST(HttpServer, ServesHttp10) {
  TestServer server;
  HttpClient plain = server.client();
  Reply reply = plain.send("GET /open HTTP/1.0\r\n\r\n").reply();
  EXPECT_EQ(reply.body, "open");
  EXPECT_TRUE(plain.ended());
  HttpClient keeping = server.client();
  for (int i = 0; i < 2; ++i) {
    reply = keeping.send("GET /open HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").reply();
    EXPECT_EQ(reply.body, "open");
    EXPECT_EQ(reply.header("Connection"), "keep-alive");
  }
}

TEST(HttpServer, StreamsToHttp10WithoutChunks) {
  TestServer server;
  HttpClient client = server.client();
  client.send(
      "POST /v1/hold HTTP/1.0\r\nContent-Type: application/json\r\nConnection: keep-alive\r\n"
      "Content-Length: 2\r\n\r\n{}");
  const auto held = server.held.take();
  held->post([held] {
    held->begin_stream({200, "text/event-stream", {}, ""});
    held->send("data: 1\n\n");
    held->send("data: 2\n\n");
    held->end_stream();
  });
  const std::string all = client.rest();
  EXPECT_EQ(all.find("Transfer-Encoding"), std::string::npos);
  EXPECT_NE(all.find("Connection: close"), std::string::npos);
  EXPECT_EQ(all.substr(all.find("\r\n\r\n") + 4), "data: 1\n\ndata: 2\n\n");
}

TEST(HttpServer, StreamsEachChunkAtOnce) {
  TestServer server;
  HttpClient client = server.client();
  client.send(post("/v1/hold", "{}"));
  const auto held = server.held.take();
  held->post([held] { held->begin_stream({200, "text/event-stream", {{"X-More", "1"}}, ""}); });
  std::string seen = client.some();
  EXPECT_NE(seen.find("X-More: 1\r\n"), std::string::npos);
  EXPECT_NE(seen.find("Transfer-Encoding: chunked\r\n"), std::string::npos);
  for (const std::string text : {"data: a\n\n", "data: bc\n\n"}) {
    held->post([held, text] { held->send(text); });
    EXPECT_EQ(client.some(), (text.size() == 9 ? "9\r\n" : "a\r\n") + text + "\r\n");
  }
  held->post([held] { held->end_stream(); });
  EXPECT_EQ(client.some(), "0\r\n\r\n");
  EXPECT_EQ(client.send(get("/open")).reply().body, "open");  // the connection goes on
}

TEST(HttpServer, HeadHasTheHeaderOfGetOnly) {
  TestServer server;
  HttpClient client = server.client();
  const Reply head = client.send("HEAD /open HTTP/1.1\r\nHost: a\r\n\r\n").reply(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("Content-Length"), "4");
  EXPECT_EQ(client.send(get("/open")).reply().body, "open");
}

TEST(HttpServer, AnswersTheBuiltInRoutes) {
  TestServer server;
  EXPECT_EQ(json::parse(server.ask(get("/health")).body)["status"], "ok");
  EXPECT_EQ(json::parse(server.ask(get("/ready")).body)["status"], "ready");
  EXPECT_EQ(json::parse(server.ask(get("/version")).body)["version"], "1.2.3");
  const Reply metrics = server.ask(get("/metrics"));
  EXPECT_EQ(metrics.header("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_NE(metrics.body.find("process_resident_memory_bytes "), std::string::npos);
}

TEST(HttpServer, AnswersWhileTheModelLoads) {
  TestServer server({}, false);
  EXPECT_EQ(server.ask(get("/health")).status, 200);
  const Reply ready = server.ask(get("/ready"));
  EXPECT_EQ(ready.status, 503);
  EXPECT_EQ(json::parse(ready.body)["status"], "loading");
  const Reply work = server.ask(post("/v1/echo", "{}"));
  EXPECT_EQ(work.status, 503);
  EXPECT_NE(work.header("Retry-After"), "");
  server.server->serve(server.routes());
  EXPECT_EQ(server.ask(get("/ready")).status, 200);
  EXPECT_EQ(server.ask(post("/v1/echo", "{}")).status, 200);
}

TEST(HttpServer, TurnsADroppedExchangeIntoAnError) {
  TestServer server;
  for (const char* path : {"/v1/drop", "/v1/throw"}) {
    HttpClient client = server.client();
    const Reply reply = client.send(post(path, "{}")).reply();
    EXPECT_EQ(reply.status, 500);
    EXPECT_EQ(json::parse(reply.body)["error"]["code"], "internal_error");
    EXPECT_EQ(client.send(get("/open")).reply().body, "open");
  }
  HttpClient client = server.client();
  client.send(post("/v1/hold", "{}"));
  auto held = server.held.take();
  held->post([weak = std::weak_ptr(held)] {
    if (const auto exchange = weak.lock()) {
      exchange->begin_stream({200, "text/event-stream", {}, ""});
    }
  });
  EXPECT_NE(client.some(), "");
  held.reset();
  EXPECT_TRUE(client.ended());  // cut: no last chunk
}

TEST(HttpServer, TakesOrMakesRequestIds) {
  TestServer server;
  Reply reply = server.ask(get("/item", "X-Request-Id: my-id.1:2_3\r\n"));
  EXPECT_EQ(reply.header("X-Request-Id"), "my-id.1:2_3");
  EXPECT_EQ(reply.body.substr(0, 11), "my-id.1:2_3");
  for (const std::string bad : {"a b", "", "x\"y", "\xc3\xa9"}) {
    reply = server.ask(get("/item", "X-Request-Id: " + bad + "\r\n"));
    EXPECT_EQ(reply.header("X-Request-Id").substr(0, 4), "req_") << bad;
  }
  reply = server.ask(get("/item", "X-Request-Id: " + std::string(129, 'a') + "\r\n"));
  EXPECT_EQ(reply.header("X-Request-Id").size(), 36u);
  EXPECT_NE(server.ask(get("/nothing")).header("X-Request-Id"), "");
}

TEST(HttpServer, JoinsRepeatedHeaders) {
  TestServer server;
  const Reply reply = server.ask(get("/item", "X-Test: a\r\nx-TEST: b\r\n"));
  EXPECT_NE(reply.body.find(" a, b"), std::string::npos);
}

TEST(HttpServer, ListensOnIpv6) {
  ServerOptions options;
  options.host = "[::1]";
  std::unique_ptr<TestServer> server;
  try {
    server = std::make_unique<TestServer>(options);
  } catch (const std::runtime_error& e) {
    GTEST_SKIP() << "no IPv6 here: " << e.what();
  }
  EXPECT_TRUE(server->server->loopback());
  EXPECT_EQ(server->server->url(), "http://[::1]:" + std::to_string(server->server->port()));
  HttpClient client(server->server->port(), "::1");
  EXPECT_EQ(client.send(get("/open")).reply().body, "open");
}

TEST(HttpServer, ServesFromSeveralThreads) {
  ServerOptions options;
  options.threads = 3;
  TestServer server(options);
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 30; ++i) {
    clients.push_back(std::make_unique<HttpClient>(server.server->port()));
    clients.back()->send(post("/v1/echo", std::to_string(i)));
  }
  for (int i = 0; i < 30; ++i) EXPECT_EQ(clients[i]->reply().body, std::to_string(i));
}

TEST(HttpServer, SaysWhyItCannotListen) {
  TestServer first;
  ServerOptions options;
  options.port = first.server->port();
  ApiKeys keys;
  Metrics metrics("m", "v");
  const auto message = [&] {
    const auto failed = HttpServer::listen(options, keys, metrics, "v");
    return failed ? std::string() : failed.error().message();
  };
  EXPECT_NE(message().find("is in use"), std::string::npos);
  options.port = 0;
  for (const std::string host : {"no such host", "", "999.1.2.3", "192.0.2.1"}) {
    options.host = host;
    EXPECT_NE(message(), "") << host;
  }
}

}  // namespace
}  // namespace fathom
