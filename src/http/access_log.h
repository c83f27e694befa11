// The server's log: one line a request, as text or JSON, beside the other messages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace spdlog {
class logger;
}

namespace fathom {

// What is known of a request when its answer is over. Never prompts, answers or keys.
struct AccessEntry {
  std::string id, client, method, path;
  std::string key;  // the name of the API key
  int status = 0;
  uint64_t bytes = 0;   // of the answer's body
  double seconds = 0;   // first byte of the request to the last of the answer
  int64_t tokens = 0;   // prompt and answer; 0 = no generation
  std::string outcome;  // "ok", or why the answer is not complete
  bool probe = false;   // of /health, /metrics and the like: logged at level debug only
};

enum class LogFormat { kText, kJson };

// Sends all log messages to standard error in this format from now on.
void set_log_format(LogFormat format);

// Any thread.
class AccessLog {
 public:
  explicit AccessLog(LogFormat format);
  void write(const AccessEntry& entry);

 private:
  LogFormat format_;
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace fathom
