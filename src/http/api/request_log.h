// The request log: one line of JSON per answer, enough for `fathom replay` to ask again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "http/api/json.h"
#include "stream/token_stream.h"

namespace fathom::api {

struct RequestLogEntry {
  struct Choice {
    FinishReason finish_reason;
    std::string text;  // as the engine said it: reasoning and markers included
    const std::vector<int32_t>* token_ids;
    const std::vector<TokenLogprobs>* logprobs;
    std::string bytes_hash;  // of the answer, those of this choice
  };
  std::string id, endpoint, model, fingerprint;
  int64_t created = 0;
  uint64_t seed = 0;
  const Json* body = nullptr;
  std::vector<Choice> choices;
};

std::string request_log_line(const RequestLogEntry& entry);

}  // namespace fathom::api
