// Collects what Beast's parser reports.
#include "http/request_parser.h"

#include <algorithm>
#include <limits>

namespace fathom {
namespace {

std::string lower_case(boost::beast::string_view text) {
  std::string lower(text.data(), text.size());
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

}  // namespace

RequestParser::RequestParser(uint32_t max_header_bytes, uint64_t max_body_bytes)
    : max_body_bytes_(max_body_bytes) {
  header_limit(max_header_bytes);
  // Counted here instead, so that the header can be answered first.
  body_limit(std::numeric_limits<uint64_t>::max());
}

void RequestParser::on_request_impl(verb, string_view method_text, string_view target_text,
                                    int http_version, error_code&) {
  request.method.assign(method_text.data(), method_text.size());
  target.assign(target_text.data(), target_text.size());
  version = http_version;
}

void RequestParser::on_field_impl(field, string_view name_text, string_view value, error_code& ec) {
  if (in_trailer_) return;
  const std::string name = lower_case(name_text);
  const auto [found, is_new] =
      request.headers.try_emplace(name, std::string(value.data(), value.size()));
  if (is_new) return;
  // A second one of these would let two readers of the request disagree about it.
  if (name == "host" || name == "authorization" || name == "x-api-key" || name == "content-type") {
    ec = boost::beast::http::error::bad_field;
    return;
  }
  found->second.append(", ").append(value.data(), value.size());
}

void RequestParser::on_body_init_impl(boost::optional<std::uint64_t> const& length,
                                      error_code& ec) {
  in_trailer_ = true;
  if (!length) return;
  if (*length > max_body_bytes_) {
    ec = boost::beast::http::error::body_limit;
    return;
  }
  // Memory for what was only announced is taken in small pieces.
  request.body.reserve(static_cast<size_t>(std::min<uint64_t>(*length, 64 << 10)));
}

std::size_t RequestParser::on_body_impl(string_view bytes, error_code& ec) {
  if (bytes.size() > max_body_bytes_ - request.body.size()) {
    ec = boost::beast::http::error::body_limit;
    return 0;
  }
  request.body.append(bytes.data(), bytes.size());
  return bytes.size();
}

std::size_t RequestParser::on_chunk_body_impl(std::uint64_t, string_view bytes, error_code& ec) {
  return on_body_impl(bytes, ec);
}

}  // namespace fathom
