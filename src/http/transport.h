// Transport: the bytes of one connection, plain or inside TLS.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/system/error_code.hpp>
#include <functional>
#include <memory>

namespace fathom {

// Used by the thread of its loop only. At most one read and one write at a time. Handlers never run
// inside the call and keep the transport alive; all of them run before it is gone.
class Transport {
 public:
  using Error = boost::system::error_code;
  using Done = std::function<void(Error, size_t)>;

  virtual ~Transport() = default;
  virtual void handshake(std::function<void(Error)> done) = 0;
  virtual void read_some(boost::asio::mutable_buffer into, Done done) = 0;
  virtual void write_some(boost::asio::const_buffer from, Done done) = 0;
  // Tells the peer that nothing more will be sent; reading goes on.
  virtual void end_writing() = 0;
  virtual void close() = 0;
};

std::shared_ptr<Transport> plain_transport(boost::asio::ip::tcp::socket socket);
// `context` must outlive it.
std::shared_ptr<Transport> tls_transport(boost::asio::ip::tcp::socket socket,
                                         boost::asio::ssl::context& context);

}  // namespace fathom
