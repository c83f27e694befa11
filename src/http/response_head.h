// The status line and header of a response as bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "http/exchange.h"

namespace fathom {

struct ResponseFraming {
  bool keep_alive = true;
  bool http10 = false;
  bool chunked = false;                    // Transfer-Encoding: chunked
  std::optional<uint64_t> content_length;  // absent for streams
  std::string_view request_id;
  std::string_view allow_origin;  // "" = no CORS header
};

// Status line, header, empty line. Line ends inside header values become spaces.
std::string response_head(const HttpResponse& response, const ResponseFraming& framing);

// A chunk of a chunked body. `bytes` must not be empty: that would be the last chunk.
std::string framed_chunk(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace fathom
