// libFuzzer: any bytes as an HTTP request, whole and in pieces; both must give the same request.
#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

#include "http/request_parser.h"
#include "http/target.h"

namespace {

constexpr uint32_t kMaxHeader = 4096;
constexpr uint64_t kMaxBody = 1024;

void require(bool condition) {
  if (!condition) __builtin_trap();
}

struct Outcome {
  bool done = false;
  bool failed = false;
  std::string target, body;
  std::map<std::string, std::string> headers;
  bool operator==(const Outcome&) const = default;
};

// Feeds `bytes` in pieces of `step`, as a connection does.
Outcome parse(const std::string& bytes, size_t step) {
  fathom::RequestParser parser(kMaxHeader, kMaxBody);
  Outcome outcome;
  size_t begin = 0, end = 0;  // of what has arrived and is not used
  while (!parser.is_done() && !outcome.failed) {
    if (end == bytes.size()) break;
    end = std::min(bytes.size(), end + step);
    bool hungry = false;
    while (!hungry && !parser.is_done() && !outcome.failed && begin < end) {
      boost::system::error_code ec;
      const size_t used = parser.put(boost::asio::buffer(bytes.data() + begin, end - begin), ec);
      require(used <= end - begin);
      begin += used;
      hungry = ec == boost::beast::http::error::need_more;
      outcome.failed = ec && !hungry;
    }
    require(parser.request.body.size() <= kMaxBody);
  }
  outcome.done = parser.is_done();
  if (outcome.done) {
    outcome.target = parser.target;
    outcome.body = parser.request.body;
    outcome.headers = parser.request.headers;
  }
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Outcome whole = parse(bytes, bytes.size());
  if (whole.done) {
    // Pieces change neither what a good request says nor whether it is one. Near the limit of the
    // header they may: Beast counts whole lines as they come.
    if (bytes.size() <= kMaxHeader) require(parse(bytes, 1 + data[0] % 16) == whole);
    if (const auto target = fathom::parse_target(whole.target)) {
      require(target->path.find('\0') == std::string::npos);
    }
  }
  return 0;
}
