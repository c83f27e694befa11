// Replayer: asks the requests of a request log again, one at a time, and compares the answers.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "http/api/api_service.h"

namespace fathom {

struct ReplayOutcome {
  std::string id;                        // of the request
  std::vector<std::string> differences;  // sentences; empty: every byte came again
};

// Runs requests in process, without sockets. Used by one thread; the engine must outlive it.
class Replayer {
 public:
  // `options`: those of the server that wrote the log (template variables, thinking).
  Replayer(Engine& engine, ApiOptions options);
  ~Replayer();

  // One line of a request log. An error means that it is no such line, or that the request was
  // refused now.
  Result<ReplayOutcome> run(std::string_view line);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom
