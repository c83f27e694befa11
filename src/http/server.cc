// Binds the port, accepts connections and hands them to the network threads.
#include "http/server.h"

#include <fmt/format.h>

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>

#include "core/log.h"
#include "http/builtin_routes.h"
#include "http/connection.h"
#include "http/gate.h"
#include "http/loop.h"
#include "http/tls.h"
#include "http/transport.h"

namespace fathom {
namespace {

using boost::asio::ip::tcp;
using Error = boost::system::error_code;

std::string without_brackets(const std::string& host) {
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return bracketed ? host.substr(1, host.size() - 2) : host;
}

Result<tcp::endpoint> resolve(boost::asio::io_context& context, const ServerOptions& options) {
  const std::string host = without_brackets(options.host);
  tcp::resolver resolver(context);
  Error ec;
  const auto found = resolver.resolve(host, std::to_string(options.port),
                                      tcp::resolver::passive | tcp::resolver::numeric_service, ec);
  if (ec || found.empty() || host.empty()) {
    return error(Code::kInvalidArgument,
                 fmt::format("The host \"{}\" is no address of this machine ({}): give an address "
                             "such as 127.0.0.1, 0.0.0.0 or ::, or a name.",
                             options.host, ec ? ec.message() : "it has no address"));
  }
  for (const auto& entry : found) {
    if (entry.endpoint().address().is_v4()) return entry.endpoint();  // localhost means this one
  }
  return found.begin()->endpoint();
}

Result<tcp::acceptor> bind(boost::asio::io_context& context, const ServerOptions& options) {
  FATHOM_ASSIGN(const tcp::endpoint endpoint, resolve(context, options));
  tcp::acceptor acceptor(context);
  Error ec;
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec && endpoint.address().is_v6()) {
    acceptor.set_option(boost::asio::ip::v6_only(false), ec);  // :: takes IPv4 too
  }
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(boost::asio::socket_base::max_listen_connections, ec);
  if (!ec) return acceptor;
  if (ec == boost::asio::error::address_in_use) {
    return error(Code::kInvalidArgument,
                 fmt::format("Port {} of {} is in use by another program: stop that, or choose "
                             "another port with --port (0 = any free one).",
                             options.port, options.host));
  }
  if (ec == boost::asio::error::access_denied) {
    return error(Code::kInvalidArgument,
                 fmt::format("Port {} may not be used by this user ({}): choose one above 1023.",
                             options.port, ec.message()));
  }
  return error(Code::kInvalidArgument, fmt::format("Cannot listen on port {} of {}: {}.",
                                                   options.port, options.host, ec.message()));
}

std::string text_of(const tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return endpoint.address().is_v6() ? fmt::format("[{}]:{}", address, endpoint.port())
                                    : fmt::format("{}:{}", address, endpoint.port());
}

}  // namespace

struct HttpServer::Impl {
  ServerOptions options;
  ConnectionLimits limits;
  Metrics& metrics;
  Gate gate;
  AccessLog log;
  std::string version;
  std::unique_ptr<boost::asio::ssl::context> tls;
  std::atomic<int> open_connections{0};
  std::atomic<int> running_work{0};
  std::vector<std::shared_ptr<ConnectionHost>> hosts;  // one per network thread
  std::optional<tcp::acceptor> acceptor;               // of the first thread
  std::optional<boost::asio::steady_timer> accept_pause;
  tcp::endpoint address;
  size_t next_host = 0;
  std::atomic<bool> stopping{false};

  Impl(const ServerOptions& server_options, ApiKeys& keys, Metrics& server_metrics)
      : options(server_options),
        metrics(server_metrics),
        gate({server_options.max_body_bytes, server_options.cors_origins}, keys),
        log(server_options.log_format) {
    limits.max_header_bytes = options.max_header_bytes;
    limits.max_buffered_bytes = options.max_buffered_bytes;
    limits.idle_timeout = options.idle_timeout;
    limits.header_timeout = options.header_timeout;
    limits.body_timeout = options.body_timeout;
    limits.write_timeout = options.write_timeout;
  }

  Status start() {
    for (int i = 0; i < options.threads; ++i) {
      hosts.push_back(std::make_shared<ConnectionHost>(ConnectionHost{
          std::make_shared<Loop>(), gate, metrics, log, limits, open_connections, running_work}));
    }
    boost::asio::io_context& context = hosts.front()->loop->context();
    Result<tcp::acceptor> bound = bind(context, options);
    if (!bound) return bound.error();
    acceptor.emplace(std::move(*bound));
    accept_pause.emplace(context);
    address = acceptor->local_endpoint();
    accept();
    for (const auto& host : hosts) host->loop->start();
    return {};
  }

  void accept() {
    const std::shared_ptr<ConnectionHost> host = hosts[next_host++ % hosts.size()];
    acceptor->async_accept(host->loop->context(), [this, host](Error ec, tcp::socket socket) {
      if (stopping) return;
      if (!ec) {
        // The socket belongs to the other thread from here on.
        auto shared = std::make_shared<tcp::socket>(std::move(socket));
        host->loop->post([this, host, shared] { welcome(*host, std::move(*shared)); });
        accept();
        return;
      }
      // Out of descriptors, most likely; trying again at once would only burn processor time.
      log::warn("A connection could not be accepted: {}.", ec.message());
      accept_pause->expires_after(std::chrono::milliseconds(100));
      accept_pause->async_wait([this](Error wait_error) {
        if (!wait_error && !stopping) accept();
      });
    });
  }

  void welcome(ConnectionHost& host, tcp::socket socket) {
    if (stopping) return;
    Error ec;
    const tcp::endpoint peer = socket.remote_endpoint(ec);
    if (ec) return;  // gone already
    socket.set_option(tcp::no_delay(true), ec);
    const bool full = open_connections >= options.max_connections;
    if (full && tls) return;  // no word without a handshake
    auto connection = std::make_shared<Connection>(
        host, tls ? tls_transport(std::move(socket), *tls) : plain_transport(std::move(socket)),
        text_of(peer));
    if (full) {
      connection->refuse();
    } else {
      connection->start();
    }
  }

  void for_each_connection(const std::function<void(Connection&)>& visit) {
    for (const auto& host : hosts) {
      host->loop->post([host, visit] {
        const auto connections = host->connections;  // visiting may close them
        for (const auto& connection : connections) visit(*connection);
      });
    }
  }

  void stop() {
    if (hosts.empty() || stopping.exchange(true)) return;
    hosts.front()->loop->post([this] {
      acceptor.reset();
      accept_pause.reset();
    });
    for_each_connection([](Connection& connection) { connection.close(Abort::kShutdown); });
    // In this order: the first thread may still hand a socket to another one.
    for (const auto& host : hosts) host->loop->finish();
  }
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() {
  impl_->stop();
}

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const ServerOptions& options, ApiKeys& keys,
                                                       Metrics& metrics,
                                                       const std::string& version) {
  auto impl = std::make_unique<Impl>(options, keys, metrics);
  impl->version = version;
  if (options.tls_cert_file.empty() != options.tls_key_file.empty()) {
    return error(Code::kInvalidArgument,
                 "TLS needs both --tls-cert and --tls-key; only one of them was given.");
  }
  if (!options.tls_cert_file.empty()) {
    FATHOM_ASSIGN(impl->tls, make_tls_context(options.tls_cert_file, options.tls_key_file));
  }
  impl->gate.set_routes(builtin_routes(impl->gate, metrics, version));
  FATHOM_TRY(impl->start());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

uint16_t HttpServer::port() const {
  return impl_->address.port();
}

std::string HttpServer::url() const {
  return (impl_->tls ? "https://" : "http://") + text_of(impl_->address);
}

bool HttpServer::loopback() const {
  return impl_->address.address().is_loopback();
}
int HttpServer::open_connections() const {
  return impl_->open_connections;
}

void HttpServer::serve(std::vector<Route> routes) {
  for (Route& route : builtin_routes(impl_->gate, impl_->metrics, impl_->version)) {
    routes.push_back(std::move(route));
  }
  impl_->gate.set_routes(std::move(routes));
  impl_->gate.set_phase(ServerPhase::kReady);
}

void HttpServer::begin_drain() {
  impl_->gate.set_phase(ServerPhase::kDraining);
}

int HttpServer::running_work() const {
  return impl_->running_work;
}

void HttpServer::abort_work() {
  impl_->for_each_connection([](Connection& connection) { connection.abort_work(); });
}

void HttpServer::stop() {
  impl_->stop();
}

}  // namespace fathom
