// Plain and TLS transports on Asio.
#include "http/transport.h"

#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <utility>

namespace fathom {
namespace {

using boost::asio::ip::tcp;
namespace ssl = boost::asio::ssl;

class PlainTransport final : public Transport, public std::enable_shared_from_this<PlainTransport> {
 public:
  explicit PlainTransport(tcp::socket socket) : socket_(std::move(socket)) {}

  void handshake(std::function<void(Error)> done) override {
    boost::asio::post(socket_.get_executor(), [done = std::move(done)] { done(Error()); });
  }
  void read_some(boost::asio::mutable_buffer into, Done done) override {
    socket_.async_read_some(into, [self = shared_from_this(), done = std::move(done)](
                                      Error ec, size_t count) { done(ec, count); });
  }
  void write_some(boost::asio::const_buffer from, Done done) override {
    socket_.async_write_some(from, [self = shared_from_this(), done = std::move(done)](
                                       Error ec, size_t count) { done(ec, count); });
  }
  void end_writing() override {
    Error ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
  }
  void close() override {
    Error ignored;
    socket_.close(ignored);
  }

 private:
  tcp::socket socket_;
};

class TlsTransport final : public Transport, public std::enable_shared_from_this<TlsTransport> {
 public:
  TlsTransport(tcp::socket socket, ssl::context& context) : stream_(std::move(socket), context) {}

  void handshake(std::function<void(Error)> done) override {
    stream_.async_handshake(
        ssl::stream_base::server,
        [self = shared_from_this(), done = std::move(done)](Error ec) { done(ec); });
  }
  void read_some(boost::asio::mutable_buffer into, Done done) override {
    stream_.async_read_some(into, [self = shared_from_this(), done = std::move(done)](
                                      Error ec, size_t count) { done(ec, count); });
  }
  void write_some(boost::asio::const_buffer from, Done done) override {
    stream_.async_write_some(from, [self = shared_from_this(), done = std::move(done)](
                                       Error ec, size_t count) { done(ec, count); });
  }
  void end_writing() override {
    stream_.async_shutdown([self = shared_from_this()](Error) {
      Error ignored;
      self->stream_.next_layer().shutdown(tcp::socket::shutdown_send, ignored);
    });
  }
  void close() override {
    Error ignored;
    stream_.next_layer().close(ignored);
  }

 private:
  ssl::stream<tcp::socket> stream_;
};

}  // namespace

std::shared_ptr<Transport> plain_transport(tcp::socket socket) {
  return std::make_shared<PlainTransport>(std::move(socket));
}

std::shared_ptr<Transport> tls_transport(tcp::socket socket, ssl::context& context) {
  return std::make_shared<TlsTransport>(std::move(socket), context);
}

}  // namespace fathom
