// Compares keys and keeps count of what they use.
#include "http/api_keys.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>

namespace fathom {

// A bucket per limit: it holds what may be used now and fills up with time.
struct ApiKeys::Usage {
  double requests = 0;
  double tokens = 0;  // below 0: more was used than allowed
  double filled_at = 0;
  std::atomic<int> running{0};
};

namespace {

std::array<uint8_t, 32> sha256(std::string_view text) {
  std::array<uint8_t, 32> hash{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data());
  return hash;
}

double burst(const KeyLimits& limits) {
  return std::max(1.0, limits.requests_per_second);
}

}  // namespace

ApiKey make_api_key(std::string name, std::string_view key, KeyLimits limits) {
  return {std::move(name), sha256(key), limits};
}

Status ApiKeys::replace(std::vector<ApiKey> keys) {
  std::set<std::string> names;
  std::map<std::array<uint8_t, 32>, std::string> hashes;
  for (const ApiKey& key : keys) {
    if (!names.insert(key.name).second) {
      return {Code::kInvalidArgument,
              fmt::format("Two API keys have the name \"{}\"; give each its own.", key.name)};
    }
    const auto [other, is_new] = hashes.emplace(key.sha256, key.name);
    if (!is_new) {
      return {Code::kInvalidArgument,
              fmt::format("The API keys \"{}\" and \"{}\" are the same key; remove one of them.",
                          other->second, key.name)};
    }
  }
  const std::lock_guard lock(mutex_);
  std::map<std::string, Entry> entries;
  for (const ApiKey& key : keys) {
    const auto old = entries_.find(key.name);
    std::shared_ptr<Usage> usage = old == entries_.end() ? nullptr : old->second.usage;
    if (!usage) {
      usage = std::make_shared<Usage>();
      usage->requests = burst(key.limits);
      usage->tokens = static_cast<double>(key.limits.tokens_per_minute);
      usage->filled_at = clock_();
    }
    entries[key.name] = {key.limits, std::move(usage)};
  }
  keys_ = std::move(keys);
  entries_ = std::move(entries);
  return {};
}

bool ApiKeys::required() const {
  return count() > 0;
}

size_t ApiKeys::count() const {
  const std::lock_guard lock(mutex_);
  return keys_.size();
}

std::optional<std::string> ApiKeys::find(std::string_view key) const {
  const std::array<uint8_t, 32> hash = sha256(key);
  const std::lock_guard lock(mutex_);
  const ApiKey* found = nullptr;
  for (const ApiKey& candidate : keys_) {  // all of them, so that time tells nothing
    if (CRYPTO_memcmp(candidate.sha256.data(), hash.data(), hash.size()) == 0) found = &candidate;
  }
  if (found == nullptr) return std::nullopt;
  return found->name;
}

ApiKeys::Grant ApiKeys::admit(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) return {};
  const KeyLimits& limits = found->second.limits;
  const std::shared_ptr<Usage>& usage = found->second.usage;
  const double now = clock_();
  const double passed = std::max(0.0, now - usage->filled_at);
  const double token_rate = static_cast<double>(limits.tokens_per_minute) / 60;
  usage->filled_at = now;
  usage->requests = std::min(burst(limits), usage->requests + passed * limits.requests_per_second);
  usage->tokens =
      std::min(static_cast<double>(limits.tokens_per_minute), usage->tokens + passed * token_rate);
  if (limits.concurrency > 0 && usage->running >= limits.concurrency) {
    return {fmt::format("The API key \"{}\" has {} requests running, which is its limit; wait for "
                        "one to finish.",
                        name, limits.concurrency),
            1, nullptr};
  }
  if (limits.tokens_per_minute > 0 && usage->tokens <= 0) {
    return {fmt::format("The API key \"{}\" has used its {} tokens per minute; wait a little.",
                        name, limits.tokens_per_minute),
            (1 - usage->tokens) / token_rate, nullptr};
  }
  if (limits.requests_per_second > 0) {
    if (usage->requests < 1) {
      return {fmt::format("The API key \"{}\" may make {} requests per second; send fewer.", name,
                          limits.requests_per_second),
              (1 - usage->requests) / limits.requests_per_second, nullptr};
    }
    usage->requests -= 1;
  }
  ++usage->running;
  const auto release = [usage](void*) { --usage->running; };
  return {"", 0, std::shared_ptr<void>(usage.get(), release)};
}

void ApiKeys::charge(const std::string& name, int64_t tokens) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  if (found != entries_.end()) found->second.usage->tokens -= static_cast<double>(tokens);
}

}  // namespace fathom
