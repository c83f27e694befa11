// Reads key files.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "http/api_keys.h"

namespace fathom {
namespace {

using Json = nlohmann::json;

tl::unexpected<Status> bad(const std::string& where, const std::string& what) {
  return error(Code::kInvalidArgument, fmt::format("The API key file {}: {}", where, what));
}

bool usable(const std::string& key) {
  if (key.empty()) return false;
  for (const char c : key) {
    if (c <= ' ' || c > '~') return false;  // could not be sent in a header
  }
  return true;
}

Result<std::vector<ApiKey>> parse_lines(const std::string& text, const std::string& where) {
  std::vector<ApiKey> keys;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    if (!usable(line)) {
      return bad(where, fmt::format("line {} is not a key: it must have printable characters only "
                                    "and no spaces.",
                                    number));
    }
    keys.push_back(make_api_key(fmt::format("line-{}", number), line));
  }
  return keys;
}

bool parse_hash(const std::string& hex, std::array<uint8_t, 32>& hash) {
  if (hex.size() != 2 * hash.size()) return false;
  if (hex.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) return false;
  for (size_t i = 0; i < hash.size(); ++i) {
    hash[i] = static_cast<uint8_t>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  return true;
}

// 0 <= value <= 1e12, whole if `whole`.
bool parse_limit(const Json& json, bool whole, double& value) {
  if (!json.is_number()) return false;
  value = json.get<double>();
  return value >= 0 && value <= 1e12 && (!whole || value == std::floor(value));
}

Result<ApiKey> parse_entry(const Json& entry, const std::string& at, const std::string& where) {
  if (!entry.is_object()) return bad(where, at + " must be an object with \"name\" and \"key\".");
  ApiKey key;
  bool has_key = false;
  for (const auto& [field, value] : entry.items()) {
    double number = 0;
    bool good = true;
    if (field == "name") {
      good = value.is_string() && usable(value.get<std::string>());
      if (good) key.name = value.get<std::string>();
    } else if (field == "key" && !has_key) {
      good = has_key = value.is_string() && usable(value.get<std::string>());
      if (good) key.sha256 = make_api_key("", value.get<std::string>()).sha256;
    } else if (field == "sha256" && !has_key) {
      good = has_key = value.is_string() && parse_hash(value.get<std::string>(), key.sha256);
    } else if (field == "requests_per_second") {
      good = parse_limit(value, false, key.limits.requests_per_second);
    } else if (field == "tokens_per_minute") {
      good = parse_limit(value, true, number);
      key.limits.tokens_per_minute = static_cast<int64_t>(number);
    } else if (field == "concurrency") {
      good = parse_limit(value, true, number) && number <= 1e9;
      if (good) key.limits.concurrency = static_cast<int>(number);
    } else {
      return bad(where, fmt::format("{} has the field \"{}\", which is not known or given twice. "
                                    "Known: name, key or sha256, requests_per_second, "
                                    "tokens_per_minute, concurrency.",
                                    at, field));
    }
    if (!good) return bad(where, fmt::format("{} has an unusable \"{}\".", at, field));
  }
  if (key.name.empty() || !has_key) return bad(where, at + " needs \"name\" and \"key\".");
  return key;
}

}  // namespace

Result<std::vector<ApiKey>> parse_api_keys(const std::string& text, const std::string& where) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool json = first != std::string::npos && (text[first] == '[' || text[first] == '{');
  std::vector<ApiKey> keys;
  if (!json) {
    FATHOM_ASSIGN(keys, parse_lines(text, where));
  } else {
    const Json root = Json::parse(text, nullptr, false);
    const bool wrapped = root.is_object() && root.size() == 1 && root.contains("keys");
    if (root.is_discarded() || !(root.is_array() || wrapped)) {
      return bad(where, "it must be valid JSON: an array of keys, or {\"keys\": array}.");
    }
    const Json& list = wrapped ? root["keys"] : root;
    if (!list.is_array()) return bad(where, "\"keys\" must be an array.");
    for (size_t i = 0; i < list.size(); ++i) {
      FATHOM_ASSIGN(ApiKey key, parse_entry(list[i], fmt::format("key {}", i + 1), where));
      keys.push_back(std::move(key));
    }
  }
  // An empty file must not open the server to everybody.
  if (keys.empty()) return bad(where, "it holds no key. Without keys leave the option out.");
  return keys;
}

}  // namespace fathom
