// Typed, range-checked access to one JSON object that remembers which keys were asked for.
//
// Problems are collected, not returned: a builder reads everything it needs with harmless fallbacks
// and the caller refuses the result once, with all of them. Private to src/model/config.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace fathom::config {

struct IntRange {
  int64_t min = 1;
  int64_t max = 1 << 20;
};
struct NumberRange {
  double min = 0;
  double max = 1e9;
};

// What reading a config brought to light.
struct Findings {
  std::vector<std::string> problems;  // any one refuses the config
  std::vector<std::string> ignored;   // keys without meaning here
};

class ConfigReader {
 public:
  // `object` must be a JSON object and outlive the reader; `prefix` precedes keys in messages
  // ("rope_scaling."). Nested readers share the findings of their parent.
  ConfigReader(const nlohmann::json& object, std::string prefix, Findings* findings)
      : object_(object), prefix_(std::move(prefix)), findings_(findings) {}

  // The value of a key that is present and not null; marks the key as known.
  const nlohmann::json* find(const char* key);
  bool has(const char* key) { return find(key) != nullptr; }

  int64_t integer(const char* key, IntRange range);  // required
  int64_t integer_or(const char* key, int64_t fallback, IntRange range);
  double number(const char* key, NumberRange range);  // required
  double number_or(const char* key, double fallback, NumberRange range);
  bool flag(const char* key);  // required
  bool flag_or(const char* key, bool fallback);
  std::string text_or(const char* key, const std::string& fallback);
  // The index of the key's text among `known`, 0 after a problem. Absent: `fallback`, or a problem
  // if that is negative.
  int choice(const char* key, std::initializer_list<const char*> known, int fallback = -1);
  // A nested object, or nullptr if absent (or not an object: a problem).
  const nlohmann::json* object(const char* key);
  std::vector<int32_t> token_ids(const char* key);  // an id, a list of ids, or absent

  // Keys that exist for other programs (training, generation defaults): known and without effect.
  void ignore(std::initializer_list<const char*> keys);
  // A problem unless the key is absent, null or equal to `only`.
  void require_default(const char* key, const nlohmann::json& only, const char* why);

  void problem(const std::string& text) { findings_->problems.push_back(text); }
  bool ok() const { return findings_->problems.empty(); }
  std::string name(const char* key) const { return prefix_ + key; }
  Findings* findings() const { return findings_; }
  std::vector<std::string> unknown_keys() const;
  void ignore_unknown_keys();  // once everything has been read

 private:
  void wrong(const char* key, const nlohmann::json& value, const std::string& expected);
  void missing(const char* key, const std::string& expected);

  const nlohmann::json& object_;
  std::string prefix_;
  Findings* findings_;
  std::set<std::string, std::less<>> known_;
};

std::string shown(const nlohmann::json& value);  // for messages: at most about 60 characters

}  // namespace fathom::config
