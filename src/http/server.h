// HttpServer: listens, accepts connections and answers them through routes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "http/access_log.h"
#include "http/api_keys.h"
#include "http/exchange.h"
#include "http/metrics.h"

namespace fathom {

struct ServerOptions {
  std::string host = "127.0.0.1";  // address or name; IPv6 with or without brackets
  uint16_t port = 8000;            // 0 = any free one, see HttpServer::port()
  std::string tls_cert_file;       // "" = plain HTTP; PEM, chain included
  std::string tls_key_file;
  int threads = 1;  // network threads
  uint64_t max_body_bytes = 32ull << 20;
  uint32_t max_header_bytes = 64 << 10;
  int max_connections = 4096;                      // more are answered with 503
  size_t max_buffered_bytes = 4 << 20;             // of a stream whose reader is slow; more ends it
  std::chrono::milliseconds idle_timeout{75'000};  // between requests
  std::chrono::milliseconds header_timeout{15'000};  // first byte to the end of the header
  std::chrono::milliseconds body_timeout{120'000};   // from there to the end of the body
  std::chrono::milliseconds write_timeout{30'000};   // a reader that takes nothing for so long
  std::vector<std::string> cors_origins;             // exact origins, or "*"; empty = no CORS
  LogFormat log_format = LogFormat::kText;
};

// Owned by the application. Methods may be called from any thread but the network threads.
class HttpServer {
 public:
  // Binds and starts to answer, at first with 503 for everything but the built-in routes (/health,
  // /ready, /metrics, /version). `keys` and `metrics` must outlive the server.
  static Result<std::unique_ptr<HttpServer>> listen(const ServerOptions& options, ApiKeys& keys,
                                                    Metrics& metrics, const std::string& version);
  ~HttpServer();  // stop()
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;
  std::string url() const;  // "http://127.0.0.1:8000"
  bool loopback() const;    // only programs of this machine can connect
  int open_connections() const;

  // Adds the application's routes to the built-in ones and lets requests in.
  void serve(std::vector<Route> routes);

  // /ready and new work get 503 from now on; what runs goes on.
  void begin_drain();
  int running_work() const;  // exchanges of Route::is_work that are not over
  // Ends what runs: streams get a terminal error event, the others a 503. Callbacks of on_closed()
  // run. Returns at once.
  void abort_work();
  // Closes everything and returns when no handler runs any more.
  void stop();

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom
