// Decodes request targets.
#include "http/target.h"

#include <algorithm>
#include <optional>

namespace fathom {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> decode(std::string_view text, bool plus_is_space) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return std::nullopt;
    decoded += c;
  }
  return decoded;
}

tl::unexpected<Status> bad_target() {
  return error(Code::kInvalidArgument,
               "The request's address is not valid: expected /path or /path?query with only "
               "printable characters and complete %XX escapes.");
}

}  // namespace

Result<Target> parse_target(std::string_view target) {
  if (target == "*") return Target{"*", {}};
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (target.substr(0, scheme.size()) == scheme) {
      const size_t slash = target.find('/', scheme.size());
      target = slash == std::string_view::npos ? "/" : target.substr(slash);
      break;
    }
  }
  if (target.empty() || target[0] != '/') return bad_target();
  target = target.substr(0, target.find('#'));
  const size_t mark = target.find('?');
  const auto path = decode(target.substr(0, mark), false);
  if (!path) return bad_target();
  Target parsed{*path, {}};
  std::string_view rest =
      mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    rest = rest.substr(std::min(end + 1, rest.size()));
    if (pair.empty()) continue;
    const size_t equals = std::min(pair.find('='), pair.size());
    const auto key = decode(pair.substr(0, equals), true);
    const auto value = decode(pair.substr(std::min(equals + 1, pair.size())), true);
    if (!key || !value) return bad_target();
    parsed.query.emplace(*key, *value);
  }
  return parsed;
}

}  // namespace fathom
