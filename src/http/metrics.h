// Metrics: what /metrics exports, in Prometheus' text form. docs/serving.md has the table of names.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/engine.h"
#include "http/service_metrics.h"

namespace fathom {

// Why an answer ended before it was complete.
enum class Abort { kClientGone, kSlowReader, kDrainTimeout, kShutdown };
const char* abort_name(Abort reason);  // "client_disconnected", ...

// Any thread.
class Metrics final : public ServiceMetrics {
 public:
  // `model`: the name under which the model is served.
  Metrics(const std::string& model, const std::string& version);
  ~Metrics() override;

  void request_started(const std::string& endpoint) override;
  void first_token(const std::string& endpoint, double seconds_since_submit) override;
  void inter_token(const std::string& endpoint, double seconds) override;
  void request_finished(const std::string& endpoint, const StreamEvent& terminal) override;

  void connection_opened();
  void connection_closed();
  struct Exchange {
    std::string method, route;
    int status = 0;
    double seconds = 0;
  };
  void exchange_started();
  void exchange_finished(const Exchange& exchange);
  void exchange_aborted(Abort reason);

  // Where the engine's numbers come from; an empty function (again) before the engine goes.
  void set_engine(std::function<EngineMetrics()> engine);

  std::string text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom
