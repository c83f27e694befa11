// Serves the files of the page, with a policy that keeps everything foreign out of it.
#include "http/page/page.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <string>
#include <utility>

namespace fathom {
namespace {

// Scripts and styles from this server only, nothing inline, no text that becomes markup, no frames.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

const char* content_type(std::string_view name) {
  if (ends_with(name, ".html")) return "text/html; charset=utf-8";
  if (ends_with(name, ".css")) return "text/css; charset=utf-8";
  if (ends_with(name, ".js")) return "text/javascript; charset=utf-8";
  return "image/svg+xml";
}

// True if a conditional request names this version: a list of tags, or "*".
bool is_known(std::string_view if_none_match, const std::string& etag) {
  return if_none_match == "*" || if_none_match.find(etag) != std::string_view::npos;
}

HttpResponse file_response(const PageFile& file, const std::string& etag,
                           const HttpRequest& request) {
  HttpResponse response;
  // Kept, but asked for each time: an update of the server must not meet old scripts.
  response.headers = {{"ETag", etag}, {"Cache-Control", "no-cache"}};
  if (is_known(request.header("if-none-match"), etag)) {
    response.status = 304;
    return response;
  }
  response.content_type = content_type(file.name);
  response.headers.insert(response.headers.end(),
                          {{"Content-Security-Policy", kPolicy},
                           {"X-Content-Type-Options", "nosniff"},
                           {"Referrer-Policy", "no-referrer"},
                           {"Cross-Origin-Opener-Policy", "same-origin"},
                           {"Cross-Origin-Resource-Policy", "same-origin"}});
  response.body = file.bytes;
  return response;
}

}  // namespace

std::vector<Route> page_routes() {
  std::vector<Route> routes;
  for (const PageFile& file : page_files()) {
    Route route;
    route.method = "GET";
    route.path = file.name == "index.html" ? "/" : fmt::format("/page/{}", file.name);
    route.needs_key = false;
    const std::string etag =
        fmt::format("\"{:016x}\"", XXH3_64bits(file.bytes.data(), file.bytes.size()));
    route.handler = [file, etag](const std::shared_ptr<Exchange>& exchange) {
      exchange->respond(file_response(file, etag, exchange->request()));
    };
    routes.push_back(std::move(route));
  }
  return routes;
}

}  // namespace fathom
