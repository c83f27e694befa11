// The page at "/": its bytes and headers, and that it uses nothing from elsewhere.
#include "http/page/page.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "tests/unit/http/test_server.h"

namespace fathom {
namespace {

std::string source(std::string_view name) {
  std::ifstream file(std::string(FATHOM_SOURCE_DIR "/src/http/page/").append(name),
                     std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string path_of(std::string_view name) {
  return name == "index.html" ? "/" : "/page/" + std::string(name);
}

TEST(Page, ServesItsSourcesWithTheirTypes) {
  TestServer server;
  HttpClient client = server.client();
  EXPECT_GE(page_files().size(), 10u);
  for (const PageFile& file : page_files()) {
    const Reply reply = client.send(get(path_of(file.name))).reply();
    EXPECT_EQ(reply.status, 200) << file.name;
    EXPECT_TRUE(!reply.body.empty() && reply.body == source(file.name)) << file.name;
    const std::string suffix(file.name.substr(file.name.rfind('.')));
    const std::map<std::string, std::string> types = {{".html", "text/html; charset=utf-8"},
                                                      {".css", "text/css; charset=utf-8"},
                                                      {".js", "text/javascript; charset=utf-8"},
                                                      {".svg", "image/svg+xml"}};
    EXPECT_EQ(reply.header("Content-Type"), types.at(suffix)) << file.name;
    EXPECT_EQ(reply.header("X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(reply.header("Cache-Control"), "no-cache");
    const std::string policy = reply.header("Content-Security-Policy");
    EXPECT_NE(policy.find("default-src 'none'"), std::string::npos) << policy;
    EXPECT_NE(policy.find("frame-ancestors 'none'"), std::string::npos) << policy;
    EXPECT_EQ(policy.find("unsafe"), std::string::npos) << policy;
    EXPECT_EQ(policy.find("http"), std::string::npos) << policy;
  }
  EXPECT_EQ(client.send(get("/page/page.cc")).reply().status, 404);
  EXPECT_EQ(client.send(get("/page/")).reply().status, 404);
}

TEST(Page, AnswersAKnownVersionWith304AndKeepsTheConnection) {
  TestServer server;
  HttpClient client = server.client();
  std::set<std::string> etags;
  for (const PageFile& file : page_files()) {
    const std::string etag = client.send(get(path_of(file.name))).reply().header("ETag");
    EXPECT_TRUE(etags.insert(etag).second) << file.name;
    const std::string condition = "If-None-Match: \"x\", " + etag + "\r\n";
    const Reply known = client.send(get(path_of(file.name), condition)).reply();
    EXPECT_EQ(known.status, 304);
    EXPECT_EQ(known.body, "");
    EXPECT_EQ(known.header("ETag"), etag);
    EXPECT_EQ(known.header("Content-Length"), "");
    EXPECT_EQ(client.send(get(path_of(file.name), "If-None-Match: \"other\"\r\n")).reply().status,
              200);
  }
  EXPECT_EQ(server.server->open_connections(), 1);
}

TEST(Page, IsThereWithoutAKeyAndWhileTheModelLoads) {
  TestServer server({}, false);
  ASSERT_TRUE(server.keys.replace({make_api_key("one", "sk-1")}).ok());
  EXPECT_EQ(server.ask(get("/")).status, 200);
  EXPECT_EQ(server.ask(get("/page/app.js")).status, 200);
  server.server->serve(server.routes());
  EXPECT_EQ(server.ask(get("/")).status, 200);
  EXPECT_EQ(server.ask(get("/item")).status, 401);
}

TEST(Page, AnswersHeadWithoutABody) {
  TestServer server;
  HttpClient client = server.client();
  const Reply head = client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").reply(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("Content-Length"), std::to_string(source("index.html").size()));
  EXPECT_EQ(client.send(get("/health")).reply().status, 200);
}

// The policy forbids these too; here a mistake is found without a browser.
TEST(Page, RefersToItsOwnFilesOnlyAndMakesNoMarkupOfText) {
  std::set<std::string> names;
  for (const PageFile& file : page_files()) names.insert(std::string(file.name));
  const std::regex reference(R"re((?:src|href|from|import)\s*[=(]?\s*["']([^"'#]+)["'])re");
  const std::regex forbidden(
      R"(innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|url\(|@import|\bon\w+="|style=")");
  int references = 0;
  for (const PageFile& file : page_files()) {
    const std::string text(file.bytes);
    EXPECT_FALSE(std::regex_search(text, forbidden)) << file.name;
    for (std::sregex_iterator it(text.begin(), text.end(), reference), end; it != end; ++it) {
      std::string name = (*it)[1];
      if (name == "openapi.json") continue;
      name = name.substr(name.rfind('/') + 1);
      EXPECT_EQ(names.count(name), 1u) << file.name << " refers to " << (*it)[1];
      EXPECT_EQ((*it)[1].str().find(':'), std::string::npos) << (*it)[1];
      ++references;
    }
  }
  EXPECT_GT(references, 15);
}

}  // namespace
}  // namespace fathom
