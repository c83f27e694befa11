// A blocking HTTP client for tests: sends raw bytes, reads whole responses.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <map>
#include <string>

namespace fathom {

struct Reply {
  int status = 0;                              // 0: the connection ended without a response
  std::map<std::string, std::string> headers;  // names as sent
  std::string body;
  bool complete = true;  // false: the body was cut

  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

// Reads one response from a stream of Asio; `head`: of a HEAD request, which has no body.
template <typename Stream>
Reply read_reply(Stream& stream, boost::beast::flat_buffer& buffer, bool head = false) {
  namespace http = boost::beast::http;
  http::response_parser<http::string_body> parser;
  parser.body_limit(1 << 30);
  parser.skip(head);
  boost::system::error_code ec;
  http::read(stream, buffer, parser, ec);
  Reply reply;
  if (!parser.is_header_done()) return reply;
  reply.complete = !ec;
  reply.status = static_cast<int>(parser.get().result_int());
  for (const auto& field : parser.get()) {
    reply.headers[std::string(field.name_string())] = std::string(field.value());
  }
  reply.body = parser.get().body();
  return reply;
}

class HttpClient {
 public:
  explicit HttpClient(uint16_t port, const std::string& host = "127.0.0.1") : socket_(context_) {
    socket_.connect({boost::asio::ip::make_address(host), port});
  }

  HttpClient& send(const std::string& bytes) {
    boost::system::error_code ignored;  // the server may have closed already
    boost::asio::write(socket_, boost::asio::buffer(bytes), ignored);
    return *this;
  }
  Reply reply(bool head = false) { return read_reply(socket_, buffer_, head); }
  // All bytes up to the end of the connection.
  std::string rest() {
    std::string bytes(static_cast<const char*>(buffer_.data().data()), buffer_.size());
    buffer_.consume(buffer_.size());
    boost::system::error_code ec;
    boost::asio::read(socket_, boost::asio::dynamic_buffer(bytes), ec);
    return bytes;
  }
  // At least some bytes.
  std::string some() {
    char bytes[65536];
    boost::system::error_code ec;
    return {bytes, socket_.read_some(boost::asio::buffer(bytes), ec)};
  }
  bool ended() { return rest().empty(); }
  void close() { socket_.close(); }
  boost::asio::ip::tcp::socket& socket() { return socket_; }

 private:
  boost::asio::io_context context_;
  boost::asio::ip::tcp::socket socket_;
  boost::beast::flat_buffer buffer_;
};

inline std::string get(const std::string& path, const std::string& headers = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: test\r\n" + headers + "\r\n";
}

inline std::string post(const std::string& path, const std::string& body,
                        const std::string& headers = "Content-Type: application/json\r\n") {
  return "POST " + path + " HTTP/1.1\r\nHost: test\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace fathom
