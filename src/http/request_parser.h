// RequestParser: the bytes of one HTTP/1.x request, as they come, into an HttpRequest.
#pragma once

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <cstdint>
#include <string>

#include "http/exchange.h"

namespace fathom {

// One request; used by one thread. Feed put() until is_header_done(), look, then until is_done().
// The limits on header and body are errors http::error::header_limit and body_limit of put().
class RequestParser final : public boost::beast::http::basic_parser<true> {
 public:
  RequestParser(uint32_t max_header_bytes, uint64_t max_body_bytes);

  HttpRequest request;  // method, headers and body; path and query are the caller's to fill
  std::string target;   // as sent
  int version = 11;     // 10 or 11

 private:
  using verb = boost::beast::http::verb;
  using field = boost::beast::http::field;
  using string_view = boost::beast::string_view;
  using error_code = boost::beast::error_code;

  void on_request_impl(verb method, string_view method_text, string_view target_text,
                       int http_version, error_code& ec) override;
  void on_response_impl(int, string_view, int, error_code&) override {}
  void on_field_impl(field name, string_view name_text, string_view value, error_code& ec) override;
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(boost::optional<std::uint64_t> const& length, error_code& ec) override;
  std::size_t on_body_impl(string_view bytes, error_code& ec) override;
  void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t left, string_view bytes, error_code& ec) override;
  void on_finish_impl(error_code&) override {}

  uint64_t max_body_bytes_;
  bool in_trailer_ = false;  // fields after a chunked body say nothing that is used
};

}  // namespace fathom
