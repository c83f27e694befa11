// ApiKeys: which keys are accepted and how much each may ask for.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/status.h"

namespace fathom {

struct KeyLimits {  // 0 = no limit
  double requests_per_second = 0;
  int64_t tokens_per_minute = 0;  // of prompts and answers
  int concurrency = 0;            // requests that are being answered
};

struct ApiKey {
  std::string name;                // shown in logs; never the key itself
  std::array<uint8_t, 32> sha256;  // of the key
  KeyLimits limits;
};

ApiKey make_api_key(std::string name, std::string_view key, KeyLimits limits = {});

// A key file: one key a line (empty lines and lines that start with # are skipped), or JSON: an
// array, or {"keys": array}, of {"name", "key" or "sha256" (hex), "requests_per_second",
// "tokens_per_minute", "concurrency"}. `where` names the file in messages.
Result<std::vector<ApiKey>> parse_api_keys(const std::string& text, const std::string& where);

// Any thread. Seconds come from `clock`, so that tests need no waiting.
class ApiKeys {
 public:
  explicit ApiKeys(std::function<double()> clock = now_seconds) : clock_(std::move(clock)) {}

  // Replaces all keys; what a key of the same name has used already still counts. Refuses two keys
  // of one name and one key under two names, and keeps the old ones then.
  Status replace(std::vector<ApiKey> keys);
  bool required() const;  // false: there are no keys, everybody is let in
  size_t count() const;

  // The name of the key. Takes the same time whichever key it is or resembles.
  std::optional<std::string> find(std::string_view key) const;

  struct Grant {
    std::string refusal;         // "" = let in; else a sentence that names the limit
    double retry_after = 0;      // seconds
    std::shared_ptr<void> slot;  // hold it while the request is being answered
  };
  Grant admit(const std::string& name);
  void charge(const std::string& name, int64_t tokens);

 private:
  struct Usage;
  struct Entry {
    KeyLimits limits;
    std::shared_ptr<Usage> usage;
  };

  std::function<double()> clock_;
  mutable std::mutex mutex_;
  std::vector<ApiKey> keys_;
  std::map<std::string, Entry> entries_;
};

}  // namespace fathom
