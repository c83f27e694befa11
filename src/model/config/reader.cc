// Typed, range-checked access to one JSON object that remembers which keys were asked for.
#include "model/config/reader.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace fathom::config {
namespace {

std::string range_text(IntRange range) {
  return fmt::format("an integer from {} to {}", range.min, range.max);
}

std::string range_text(NumberRange range) {
  return fmt::format("a number from {} to {}", range.min, range.max);
}

// JSON integers, and floats with an integral value (40.0).
bool as_integer(const nlohmann::json& value, int64_t* out) {
  if (value.is_number_unsigned()) {
    const uint64_t u = value.get<uint64_t>();
    if (u > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return false;
    *out = static_cast<int64_t>(u);
    return true;
  }
  if (value.is_number_integer()) {
    *out = value.get<int64_t>();
    return true;
  }
  if (!value.is_number_float()) return false;
  const double d = value.get<double>();
  if (!(std::abs(d) < 9e15) || d != std::floor(d)) return false;
  *out = static_cast<int64_t>(d);
  return true;
}

}  // namespace

std::string shown(const nlohmann::json& value) {
  std::string text = value.is_structured() && value.size() > 16
                         ? fmt::format("{} of {} elements", value.type_name(), value.size())
                         : value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

const nlohmann::json* ConfigReader::find(const char* key) {
  known_.insert(key);
  const auto it = object_.find(key);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

void ConfigReader::wrong(const char* key, const nlohmann::json& value,
                         const std::string& expected) {
  problem(fmt::format("{} is {}, but must be {}", name(key), shown(value), expected));
}

void ConfigReader::missing(const char* key, const std::string& expected) {
  problem(fmt::format("{} is missing; it must be {}", name(key), expected));
}

int64_t ConfigReader::integer(const char* key, IntRange range) {
  if (!has(key)) {
    missing(key, range_text(range));
    return range.min;
  }
  return integer_or(key, range.min, range);
}

int64_t ConfigReader::integer_or(const char* key, int64_t fallback, IntRange range) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return fallback;
  int64_t result = 0;
  if (!as_integer(*value, &result) || result < range.min || result > range.max) {
    wrong(key, *value, range_text(range));
    return range.min;
  }
  return result;
}

double ConfigReader::number(const char* key, NumberRange range) {
  if (!has(key)) {
    missing(key, range_text(range));
    return range.min;
  }
  return number_or(key, range.min, range);
}

double ConfigReader::number_or(const char* key, double fallback, NumberRange range) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return fallback;
  const double result =
      value->is_number() ? value->get<double>() : std::numeric_limits<double>::quiet_NaN();
  if (!(result >= range.min && result <= range.max)) {
    wrong(key, *value, range_text(range));
    return range.min;
  }
  return result;
}

bool ConfigReader::flag(const char* key) {
  if (!has(key)) missing(key, "true or false");
  return flag_or(key, false);
}

bool ConfigReader::flag_or(const char* key, bool fallback) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) {
    wrong(key, *value, "true or false");
    return fallback;
  }
  return value->get<bool>();
}

std::string ConfigReader::text_or(const char* key, const std::string& fallback) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_string()) {
    wrong(key, *value, "a string");
    return fallback;
  }
  return value->get<std::string>();
}

int ConfigReader::choice(const char* key, std::initializer_list<const char*> known, int fallback) {
  std::string list;
  for (const char* name : known) list += (list.empty() ? "\"" : ", \"") + std::string(name) + "\"";
  const std::string expected = known.size() == 1 ? list : "one of " + list;
  const nlohmann::json* value = find(key);
  if (value == nullptr) {
    if (fallback < 0) missing(key, expected);
    return std::max(fallback, 0);
  }
  int index = 0;
  for (const char* name : known) {
    if (value->is_string() && value->get_ref<const std::string&>() == name) return index;
    ++index;
  }
  problem(fmt::format("{} is {}, which is not supported; it must be {}", name(key), shown(*value),
                      expected));
  return 0;
}

const nlohmann::json* ConfigReader::object(const char* key) {
  const nlohmann::json* value = find(key);
  if (value != nullptr && !value->is_object()) {
    wrong(key, *value, "an object or null");
    return nullptr;
  }
  return value;
}

std::vector<int32_t> ConfigReader::token_ids(const char* key) {
  constexpr int64_t kMaxId = std::numeric_limits<int32_t>::max();
  std::vector<int32_t> ids;
  const nlohmann::json* value = find(key);
  if (value == nullptr) return ids;
  const auto add = [&](const nlohmann::json& element) {
    int64_t id = 0;
    const bool good = as_integer(element, &id) && id >= 0 && id <= kMaxId;
    if (good) ids.push_back(static_cast<int32_t>(id));
    return good;
  };
  bool good = true;
  if (value->is_array()) {
    good = value->size() <= 1024;
    for (size_t i = 0; good && i < value->size(); ++i) good = add((*value)[i]);
  } else {
    good = add(*value);
  }
  if (!good) wrong(key, *value, "a token id or a list of token ids");
  return ids;
}

void ConfigReader::ignore(std::initializer_list<const char*> keys) {
  for (const char* key : keys) known_.insert(key);
}

void ConfigReader::require_default(const char* key, const nlohmann::json& only, const char* why) {
  const nlohmann::json* value = find(key);
  if (value == nullptr || *value == only) return;
  problem(fmt::format("{} is {}, but only {} is supported: {}", name(key), shown(*value),
                      shown(only), why));
}

std::vector<std::string> ConfigReader::unknown_keys() const {
  std::vector<std::string> keys;
  for (const auto& item : object_.items()) {
    if (known_.find(item.key()) == known_.end()) keys.push_back(prefix_ + item.key());
  }
  return keys;
}

void ConfigReader::ignore_unknown_keys() {
  for (std::string& key : unknown_keys()) findings_->ignored.push_back(std::move(key));
}

}  // namespace fathom::config
