// Lines of the request log and the file that they go to.
#include "http/api/request_log.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>

#include "http/api/api_service.h"

namespace fathom {

namespace {

struct LogFile {
  explicit LogFile(std::FILE* opened) : file(opened) {}
  ~LogFile() { std::fclose(file); }
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;
  std::mutex mutex;
  std::FILE* file;
};

}  // namespace

Result<RequestLogSink> open_request_log(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "ae");
  if (file == nullptr) {
    return error(Code::kInvalidArgument, fmt::format("The request log {} cannot be written: {}.",
                                                     path, std::strerror(errno)));
  }
  const auto log = std::make_shared<LogFile>(file);
  return RequestLogSink([log](std::string_view line) {
    const std::string whole = std::string(line) + "\n";
    const std::lock_guard<std::mutex> lock(log->mutex);
    std::fwrite(whole.data(), 1, whole.size(), log->file);
    std::fflush(log->file);
  });
}

}  // namespace fathom

namespace fathom::api {

std::string request_log_line(const RequestLogEntry& entry) {
  Json choices = Json::array();
  for (const RequestLogEntry::Choice& choice : entry.choices) {
    Json logprobs = Json::array();
    for (const TokenLogprobs& token : *choice.logprobs) {
      Json top = Json::array();
      for (const TokenLogprob& other : token.top) top.push_back({other.id, other.logprob});
      logprobs.push_back({{"logprob", token.logprob}, {"top", std::move(top)}});
    }
    choices.push_back({{"finish_reason", finish_reason_name(choice.finish_reason)},
                       {"text", choice.text},
                       {"token_ids", *choice.token_ids},
                       {"logprobs", std::move(logprobs)},
                       {"bytes_xxh64", choice.bytes_hash}});
  }
  const Json line = {{"time", entry.created},
                     {"id", entry.id},
                     {"endpoint", entry.endpoint},
                     {"model", entry.model},
                     {"fingerprint", entry.fingerprint},
                     {"seed", entry.seed},
                     {"request", *entry.body},
                     {"choices", std::move(choices)}};
  return dump(line);
}

}  // namespace fathom::api
