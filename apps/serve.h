// `fathom serve`: what its command line asks for, and the life of the server process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/options.h"
#include "core/status.h"
#include "http/server.h"

namespace fathom::apps {

struct ServeFlags {
  EngineFlags engine;
  int max_num_seqs = 64;
  int max_num_batched_tokens = 512;
  int max_queued_requests = 1024;
  bool prefix_caching = true;
  std::string dtype = "auto";
  std::string chat_template;
  std::optional<uint64_t> seed;
  double request_timeout = 0;                // seconds; 0 = none
  std::vector<std::string> template_kwargs;  // "key=value", of every chat
  std::optional<bool> thinking;
  std::string request_log;  // file; "" = none

  ServerOptions server;
  uint64_t max_body_bytes = 32ull << 20;
  uint64_t max_header_bytes = 64 << 10;
  std::vector<std::string> served_names;  // the first one is the name that is reported
  std::vector<std::string> api_keys;
  std::string api_key_file;
  std::string log_format = "text";
  double drain_timeout = 30;  // seconds
};

// Keys of the flags and of the key file together.
Result<std::vector<ApiKey>> read_api_keys(const ServeFlags& flags);

// Listens, loads the model, serves until a signal ends it; returns an exit code.
int run_server(const ServeFlags& flags);

}  // namespace fathom::apps
