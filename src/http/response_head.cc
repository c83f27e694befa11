// Writes response headers.
#include "http/response_head.h"

#include <fmt/format.h>

#include <boost/beast/http/status.hpp>
#include <ctime>

namespace fathom {
namespace {

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[utc.tm_wday], utc.tm_mday,
                     kMonths[utc.tm_mon], utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

void add(std::string& head, std::string_view name, std::string_view value) {
  head.append(name).append(": ");
  for (const char c : value) head += c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
  head.append("\r\n");
}

}  // namespace

std::string response_head(const HttpResponse& response, const ResponseFraming& framing) {
  namespace http = boost::beast::http;
  const auto reason =
      http::obsolete_reason(http::int_to_status(static_cast<unsigned>(response.status)));
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", response.status,
                                 std::string_view(reason.data(), reason.size()));
  add(head, "Date", http_date());
  const bool bodiless = response.status == 204 || response.status == 304;
  if (!response.content_type.empty() && !bodiless) {
    add(head, "Content-Type", response.content_type);
    if (response.content_type.rfind("text/event-stream", 0) == 0) {
      add(head, "Cache-Control", "no-cache");
      add(head, "X-Accel-Buffering", "no");  // nginx would hold events back
    }
  }
  if (framing.content_length && !bodiless) {
    add(head, "Content-Length", std::to_string(*framing.content_length));
  }
  if (framing.chunked) add(head, "Transfer-Encoding", "chunked");
  if (!framing.keep_alive) {
    add(head, "Connection", "close");
  } else if (framing.http10) {
    add(head, "Connection", "keep-alive");
  }
  if (!framing.request_id.empty()) add(head, "X-Request-Id", framing.request_id);
  if (!framing.allow_origin.empty()) {
    add(head, "Access-Control-Allow-Origin", framing.allow_origin);
    add(head, "Access-Control-Expose-Headers", "*");
    if (framing.allow_origin != "*") add(head, "Vary", "Origin");
  }
  for (const auto& [name, value] : response.headers) add(head, name, value);
  return head += "\r\n";
}

std::string framed_chunk(std::string_view bytes) {
  std::string chunk = fmt::format("{:x}\r\n", bytes.size());
  chunk.reserve(chunk.size() + bytes.size() + 2);
  return chunk.append(bytes).append("\r\n");
}

}  // namespace fathom
