// Who is let in: keys, limits, CORS, methods, content types; errors in the client's form.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/http/test_server.h"

namespace fathom {
namespace {

using nlohmann::json;

TEST(HttpAccess, AsksForAKeyWhereOneIsNeeded) {
  TestServer server;
  ASSERT_TRUE(server.keys.replace({make_api_key("team", "sk-1")}).ok());
  const Reply missing = server.ask(get("/item"));
  EXPECT_EQ(missing.status, 401);
  EXPECT_EQ(missing.header("WWW-Authenticate"), "Bearer realm=\"fathom\"");
  EXPECT_EQ(json::parse(missing.body)["error"]["code"], "invalid_api_key");
  for (const char* wrong :
       {"Authorization: Bearer sk-2\r\n", "Authorization: sk-1\r\n",
        "Authorization: Basic sk-1\r\n", "x-api-key: sk-2\r\n", "Authorization: Bearer \r\n",
        "Authorization: Bearer sk-2\r\nx-api-key: sk-1\r\n"}) {
    EXPECT_EQ(server.ask(get("/item", wrong)).status, 401) << wrong;
  }
  for (const char* right : {"Authorization: Bearer sk-1\r\n", "authorization: bearer sk-1\r\n",
                            "Authorization: Bearer   sk-1\r\n", "X-Api-Key: sk-1\r\n"}) {
    const Reply reply = server.ask(get("/item", right));
    EXPECT_EQ(reply.status, 200) << right;
    EXPECT_NE(reply.body.find(" team "), std::string::npos);
  }
  for (const char* open : {"/open", "/health", "/ready", "/metrics", "/version"}) {
    EXPECT_EQ(server.ask(get(open)).status, 200) << open;
  }
}

TEST(HttpAccess, RefusesAKeylessBodyBeforeItIsSent) {
  TestServer server;
  ASSERT_TRUE(server.keys.replace({make_api_key("team", "sk-1")}).ok());
  const Reply reply = server.ask(
      "POST /v1/echo HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
      "Content-Length: 1000\r\n\r\n{");
  EXPECT_EQ(reply.status, 401);
}

TEST(HttpAccess, HoldsKeysToTheirLimits) {
  TestServer server;
  ASSERT_TRUE(
      server.keys
          .replace({make_api_key("a", "sk-1", {0, 0, 1}), make_api_key("b", "sk-2", {0, 10, 0})})
          .ok());
  const std::string json_type = "Content-Type: application/json\r\n";
  const std::string a = json_type + "Authorization: Bearer sk-1\r\n";
  HttpClient first = server.client();
  first.send(post("/v1/hold", "{}", a));
  auto held = server.held.take();
  const Reply refused = server.ask(post("/v1/echo", "{}", a));
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.header("Retry-After"), "1");
  EXPECT_EQ(json::parse(refused.body)["error"]["code"], "rate_limit_exceeded");
  held->post([held] { held->respond({200, "text/plain", {}, "x"}); });
  EXPECT_EQ(first.reply().body, "x");
  EXPECT_EQ(server.ask(post("/v1/echo", "{}", a)).status, 200);

  const std::string b = json_type + "x-api-key: sk-2\r\n";
  HttpClient second = server.client();
  second.send(post("/v1/hold", "{}", b));
  held = server.held.take();
  held->post([held] {
    held->charge(25);
    held->respond({200, "text/plain", {}, "x"});
  });
  EXPECT_EQ(second.reply().status, 200);
  const Reply spent = server.ask(post("/v1/echo", "{}", b));
  EXPECT_EQ(spent.status, 429);
  EXPECT_GT(std::stoi(spent.header("Retry-After")), 80);
}

TEST(HttpAccess, ADisconnectDoesNotSaveTokens) {
  TestServer server;
  ASSERT_TRUE(server.keys.replace({make_api_key("a", "sk-1", {0, 20, 0})}).ok());
  const std::string headers = "Content-Type: application/json\r\nx-api-key: sk-1\r\n";
  HttpClient client = server.client();
  client.send(post("/v1/hold", "{}", headers));
  const auto held = server.held.take();
  client.close();
  EXPECT_TRUE(eventually([&] { return server.closed == 1; }));
  held->post([held] { held->charge(25); });
  EXPECT_TRUE(
      eventually([&] { return server.ask(post("/v1/echo", "{}", headers)).status == 429; }));
}

TEST(HttpAccess, ADisconnectGivesTheSlotBack) {
  TestServer server;
  ASSERT_TRUE(server.keys.replace({make_api_key("a", "sk-1", {0, 0, 1})}).ok());
  const std::string headers = "Content-Type: application/json\r\nx-api-key: sk-1\r\n";
  HttpClient client = server.client();
  client.send(post("/v1/hold", "{}", headers));
  const auto held = server.held.take();
  client.close();
  EXPECT_TRUE(eventually([&] { return server.closed == 1; }));
  EXPECT_TRUE(
      eventually([&] { return server.ask(post("/v1/echo", "{}", headers)).status == 200; }));
}

TEST(HttpAccess, KnowsItsMethods) {
  TestServer server;
  const Reply wrong = server.ask(post("/open", "{}"));
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.header("Allow"), "OPTIONS, GET, HEAD");
  EXPECT_EQ(server.ask(get("/v1/echo")).status, 405);
  EXPECT_EQ(server.ask("BREW /open HTTP/1.1\r\nHost: a\r\n\r\n").status, 405);
  const Reply options = server.ask("OPTIONS /v1/echo HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.header("Allow"), "OPTIONS, POST");
  EXPECT_EQ(server.ask("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").status, 204);
  EXPECT_EQ(server.ask("OPTIONS /nothing HTTP/1.1\r\nHost: a\r\n\r\n").status, 404);
  EXPECT_EQ(server.ask(get("/nothing")).status, 404);
  EXPECT_EQ(server.ask(get("/open?a=b&c")).status, 200);
  EXPECT_EQ(server.ask(get("http://host/open?x=1")).status, 200);
  EXPECT_EQ(server.ask(get("/ope%6e")).status, 200);
}

TEST(HttpAccess, WantsJson) {
  TestServer server;
  const auto status = [&](const std::string& headers) {
    return server.ask(post("/v1/echo", "{}", headers)).status;
  };
  EXPECT_EQ(status("Content-Type: application/json; charset=utf-8\r\n"), 200);
  EXPECT_EQ(status("Content-Type: Application/JSON\r\n"), 200);
  EXPECT_EQ(status("Content-Type: application/vnd.api+json\r\n"), 200);
  EXPECT_EQ(status(""), 415);
  EXPECT_EQ(status("Content-Type: text/plain\r\n"), 415);
  EXPECT_EQ(status("Content-Type: application/x-www-form-urlencoded\r\n"), 415);
  EXPECT_EQ(status("Content-Type: application/json\r\nContent-Encoding: gzip\r\n"), 415);
}

TEST(HttpAccess, CorsIsOffByDefault) {
  TestServer server;
  const Reply reply = server.ask(get("/open", "Origin: https://a.example\r\n"));
  EXPECT_EQ(reply.header("Access-Control-Allow-Origin"), "");
  const Reply preflight = server.ask(
      "OPTIONS /v1/echo HTTP/1.1\r\nHost: a\r\nOrigin: https://a.example\r\n"
      "Access-Control-Request-Method: POST\r\n\r\n");
  EXPECT_EQ(preflight.header("Access-Control-Allow-Methods"), "");
  EXPECT_EQ(preflight.header("Access-Control-Allow-Origin"), "");
}

TEST(HttpAccess, CorsAllowsListedOrigins) {
  ServerOptions options;
  options.cors_origins = {"https://a.example", "http://localhost:3000"};
  TestServer server(options);
  ASSERT_TRUE(server.keys.replace({make_api_key("team", "sk-1")}).ok());
  const Reply preflight = server.ask(  // browsers send no key with it
      "OPTIONS /v1/echo HTTP/1.1\r\nHost: a\r\nOrigin: https://a.example\r\n"
      "Access-Control-Request-Method: POST\r\n"
      "Access-Control-Request-Headers: authorization, content-type\r\n\r\n");
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.header("Access-Control-Allow-Origin"), "https://a.example");
  EXPECT_EQ(preflight.header("Access-Control-Allow-Methods"), "OPTIONS, POST");
  EXPECT_EQ(preflight.header("Access-Control-Allow-Headers"), "authorization, content-type");
  EXPECT_EQ(preflight.header("Vary"), "Origin");
  const Reply other = server.ask(get("/open", "Origin: https://b.example\r\n"));
  EXPECT_EQ(other.header("Access-Control-Allow-Origin"), "");
  const Reply refused = server.ask(get("/item", "Origin: http://localhost:3000\r\n"));
  EXPECT_EQ(refused.status, 401);  // and the page may read why
  EXPECT_EQ(refused.header("Access-Control-Allow-Origin"), "http://localhost:3000");
}

TEST(HttpAccess, CorsStarAllowsAll) {
  ServerOptions options;
  options.cors_origins = {"*"};
  TestServer server(options);
  const Reply reply = server.ask(get("/open", "Origin: https://b.example\r\n"));
  EXPECT_EQ(reply.header("Access-Control-Allow-Origin"), "*");
}

TEST(HttpAccess, ErrorsHaveTheFormOfTheEndpoint) {
  TestServer server;
  ASSERT_TRUE(server.keys.replace({make_api_key("team", "sk-1")}).ok());
  const Reply openai = server.ask(post("/v1/echo", "{}"));
  const json error = json::parse(openai.body)["error"];
  EXPECT_TRUE(error["message"].is_string());
  EXPECT_EQ(error["type"], "authentication_error");
  EXPECT_TRUE(error["param"].is_null());
  const Reply anthropic = server.ask(post("/v1/messages", "{}"));
  const json other = json::parse(anthropic.body);
  EXPECT_EQ(anthropic.status, 401);
  EXPECT_EQ(other["type"], "error");
  EXPECT_EQ(other["error"]["type"], "authentication_error");
  EXPECT_EQ(other["request_id"], anthropic.header("X-Request-Id"));
  EXPECT_EQ(anthropic.header("request-id"), anthropic.header("X-Request-Id"));
}

}  // namespace
}  // namespace fathom
