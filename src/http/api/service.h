// Service: what the handlers of all routes share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>

#include "grammar/grammar.h"
#include "http/api/api_service.h"
#include "text/output_parser.h"

namespace fathom::api {

// Immutable but for its counters; any thread.
class Service {
 public:
  Service(Engine& engine, ApiOptions options, ServiceMetrics& metrics);

  Engine& engine() const { return engine_; }
  const ApiOptions& options() const { return options_; }
  ServiceMetrics& metrics() const { return metrics_; }

  const std::vector<std::string>& model_names() const { return options_.served_model_names; }
  bool serves(const std::string& model) const;
  int64_t now() const { return options_.unix_time(); }
  int64_t started() const { return started_; }  // unix time
  const std::string& fingerprint() const { return fingerprint_; }

  uint64_t next_number() const { return numbers_.fetch_add(1); }  // unique in this process
  // Made at the first call: it reads the whole vocabulary.
  Result<GrammarCompiler*> grammars() const;
  uint64_t draw_seed() const;  // 53 bits, which JSON readers keep exactly

 private:
  Engine& engine_;
  ApiOptions options_;
  ServiceMetrics& metrics_;
  std::string fingerprint_;
  int64_t started_;
  mutable std::atomic<uint64_t> numbers_{0};
  mutable std::mutex mutex_;
  mutable std::mt19937_64 entropy_;
  mutable std::once_flag grammars_made_;
  mutable Result<std::unique_ptr<GrammarCompiler>> grammars_ = nullptr;
};

}  // namespace fathom::api
