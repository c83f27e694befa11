// Formats log lines.
#include "http/access_log.h"

#include <fmt/format.h>
#include <spdlog/formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <chrono>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "core/log.h"

namespace fathom {
namespace {

using Json = nlohmann::ordered_json;

std::string timestamp(std::chrono::system_clock::time_point time) {
  const std::time_t whole = std::chrono::system_clock::to_time_t(time);
  std::tm utc{};
  gmtime_r(&whole, &utc);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch());
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                     ms.count() % 1000);
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Other messages as JSON lines.
class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& to) override {
    const spdlog::string_view_t level = spdlog::level::to_string_view(message.level);
    const Json line = {{"time", timestamp(message.time)},
                       {"level", std::string(level.data(), level.size())},
                       {"event", "message"},
                       {"message", std::string(message.payload.data(), message.payload.size())}};
    const std::string text = dump(line) + "\n";
    to.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

std::string as_json(const AccessEntry& entry) {
  Json line = {{"time", timestamp(std::chrono::system_clock::now())},
               {"level", entry.probe ? "debug" : "info"},
               {"event", "request"},
               {"id", entry.id},
               {"client", entry.client},
               {"method", entry.method},
               {"path", entry.path},
               {"status", entry.status},
               {"bytes", entry.bytes},
               {"ms", std::round(entry.seconds * 1e6) / 1e3},
               {"tokens", entry.tokens},
               {"outcome", entry.outcome}};
  if (!entry.key.empty()) line["key"] = entry.key;
  return dump(line);
}

// A path may hold anything that was sent; quoting keeps a line one line.
std::string as_text(const AccessEntry& entry) {
  return fmt::format("{} {} {} {} {} {}B {:.1f}ms tokens={}{}{}", entry.id, entry.client,
                     entry.method, dump(entry.path), entry.status, entry.bytes, entry.seconds * 1e3,
                     entry.tokens, entry.key.empty() ? "" : " key=" + entry.key,
                     entry.outcome == "ok" ? "" : " " + entry.outcome);
}

}  // namespace

void set_log_format(LogFormat format) {
  auto logger = std::make_shared<spdlog::logger>("fathom-serve",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_level(spdlog::get_level());
  if (format == LogFormat::kJson) {
    logger->set_formatter(std::make_unique<JsonFormatter>());
  } else {
    logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
  }
  spdlog::set_default_logger(logger);
}

AccessLog::AccessLog(LogFormat format)
    : format_(format),
      logger_(std::make_shared<spdlog::logger>("fathom-access",
                                               std::make_shared<spdlog::sinks::stderr_sink_mt>())) {
  logger_->set_level(spdlog::get_level());
  logger_->set_pattern(format == LogFormat::kJson ? "%v" : "%Y-%m-%d %H:%M:%S.%e %l %v");
}

void AccessLog::write(const AccessEntry& entry) {
  const auto level = entry.probe ? spdlog::level::debug : spdlog::level::info;
  if (!logger_->should_log(level)) return;
  logger_->log(level, "{}", format_ == LogFormat::kJson ? as_json(entry) : as_text(entry));
}

}  // namespace fathom
