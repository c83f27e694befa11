// A server on a free port with routes that tests steer.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "http/server.h"
#include "tests/unit/http/http_client.h"

namespace fathom {

// Waits for what another thread does; a test that waits in vain fails by its time limit.
inline bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

// Exchanges that wait for the test's answer.
class Held {
 public:
  void add(std::shared_ptr<Exchange> exchange) {
    const std::lock_guard lock(mutex_);
    exchanges_.push_back(std::move(exchange));
    changed_.notify_all();
  }
  std::shared_ptr<Exchange> take() {  // waits for one
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !exchanges_.empty(); });
    std::shared_ptr<Exchange> exchange = std::move(exchanges_.front());
    exchanges_.erase(exchanges_.begin());
    return exchange;
  }
  size_t size() {
    const std::lock_guard lock(mutex_);
    return exchanges_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Exchange>> exchanges_;
};

class TestServer {
 public:
  // Routes: POST /v1/echo answers with the body, POST /v1/hold waits for the test (both are work),
  // GET /open needs no key, GET /item needs one, POST /v1/messages answers "ok".
  explicit TestServer(ServerOptions options = {}, bool ready = true) {
    spdlog_off();
    options.port = 0;
    auto listening = HttpServer::listen(options, keys, metrics, "1.2.3");
    if (!listening) throw std::runtime_error(listening.error().message());
    server = std::move(*listening);
    if (ready) server->serve(routes());
  }

  HttpClient client() { return HttpClient(server->port()); }
  Reply ask(const std::string& request) {
    HttpClient one(server->port());
    return one.send(request).reply();
  }

  ApiKeys keys;
  Metrics metrics{"tiny", "1.2.3"};
  Held held;
  std::atomic<int> closed{0};  // on_closed() callbacks that ran
  std::unique_ptr<HttpServer> server;

  std::vector<Route> routes() {
    const auto text = [](std::shared_ptr<Exchange> exchange, std::string body) {
      HttpResponse response;
      response.body = std::move(body);
      exchange->respond(std::move(response));
    };
    return {
        {"POST", "/v1/echo",
         [text](std::shared_ptr<Exchange> exchange) { text(exchange, exchange->request().body); },
         true, true},
        {"POST", "/v1/hold",
         [this](std::shared_ptr<Exchange> exchange) {
           exchange->on_closed([this] { ++closed; });
           held.add(std::move(exchange));
         },
         true, true},
        {"POST", "/v1/drop", [](const std::shared_ptr<Exchange>&) {}, true, true},
        {"POST", "/v1/throw",
         [](const std::shared_ptr<Exchange>&) { throw std::runtime_error("a test's"); }, true,
         true},
        {"POST", "/v1/messages",
         [text](std::shared_ptr<Exchange> exchange) { text(std::move(exchange), "ok"); }, true,
         true},
        {"GET", "/item",
         [text](std::shared_ptr<Exchange> exchange) {
           const auto& request = exchange->request();
           text(exchange,
                request.id + " " + request.key + " " + std::string(request.header("x-test")));
         },
         true, false},
        {"GET", "/open",
         [text](std::shared_ptr<Exchange> exchange) { text(std::move(exchange), "open"); }, false,
         false}};
  }

 private:
  static void spdlog_off();
};

}  // namespace fathom
