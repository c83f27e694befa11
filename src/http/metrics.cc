// Collects numbers with prometheus-cpp.
#include "http/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <map>
#include <mutex>

#include "http/metric_snapshots.h"

namespace fathom {
namespace {

using prometheus::Labels;
using Buckets = prometheus::Histogram::BucketBoundaries;
using HistogramFamily = prometheus::Family<prometheus::Histogram>;
using CounterFamily = prometheus::Family<prometheus::Counter>;

// The boundaries that the OpenTelemetry conventions advise.
const Buckets kFirstToken = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                             0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10};
const Buckets kPerToken = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,
                           0.15,  0.2,    0.3,   0.4,  0.5,   0.75, 1,     2.5};
const Buckets kDuration = {0.01, 0.02, 0.04,  0.08,  0.16,  0.32,  0.64, 1.28,
                           2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 300};
const Buckets kHttp = {0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10};
const Buckets kTokens = {1,    4,    16,   64,    128,   256,   512,    1024,
                         2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144};

// The series of one endpoint.
struct Endpoint {
  prometheus::Histogram& first_token;
  prometheus::Histogram& per_token;
  prometheus::Histogram& inter_token;
  prometheus::Histogram& duration;
  prometheus::Histogram& queue;
  prometheus::Histogram& prefill;
  prometheus::Histogram& decode;
  prometheus::Histogram& prompt_tokens;
  prometheus::Histogram& generation_tokens;
};

std::string operation_name(const std::string& endpoint) {
  return endpoint == "/v1/completions" ? "text_completion" : "chat";
}

}  // namespace

const char* abort_name(Abort reason) {
  switch (reason) {
    case Abort::kClientGone:
      return "client_disconnected";
    case Abort::kSlowReader:
      return "slow_reader";
    case Abort::kDrainTimeout:
      return "drain_timeout";
    case Abort::kShutdown:
      return "shutdown";
  }
  return "unknown";
}

struct Metrics::Impl {
  prometheus::Registry registry;
  std::string model;
  mutable std::mutex mutex;  // over what follows
  std::map<std::string, Endpoint> endpoints;
  std::function<EngineMetrics()> engine;

  HistogramFamily& histogram(const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
  }
  CounterFamily& counter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }
  prometheus::Family<prometheus::Gauge>& gauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
  }

  HistogramFamily& first_token =
      histogram("gen_ai_server_time_to_first_token_seconds", "Time from submit to the first token");
  HistogramFamily& per_token =
      histogram("gen_ai_server_time_per_output_token_seconds",
                "Mean time per token after the first, one observation a request");
  HistogramFamily& duration =
      histogram("gen_ai_server_request_duration_seconds", "Time from submit to the last token");
  HistogramFamily& inter_token =
      histogram("fathom:inter_token_latency_seconds", "Time between tokens of one answer");
  HistogramFamily& queue =
      histogram("fathom:request_queue_time_seconds", "Time from submit to the first step");
  HistogramFamily& prefill = histogram("fathom:request_prefill_time_seconds",
                                       "Time from the first step to the first token");
  HistogramFamily& decode =
      histogram("fathom:request_decode_time_seconds", "Time from the first token to the last");
  HistogramFamily& prompt_tokens =
      histogram("fathom:request_prompt_tokens", "Tokens of a request's prompt");
  HistogramFamily& generation_tokens =
      histogram("fathom:request_generation_tokens", "Tokens of a request's answer");
  CounterFamily& finished =
      counter("fathom:requests_finished_total", "Finished generation requests by reason");
  CounterFamily& aborted = counter("fathom:requests_aborted_total",
                                   "HTTP answers that ended before they were complete, by reason");
  HistogramFamily& http = histogram("http_server_request_duration_seconds",
                                    "Time from a request's first byte to its answer's last");
  prometheus::Gauge& active =
      gauge("http_server_active_requests", "HTTP requests being answered").Add({});
  prometheus::Gauge& connections =
      gauge("fathom:http_open_connections", "Open client connections").Add({});

  Endpoint& endpoint(const std::string& path) {
    const std::lock_guard lock(mutex);
    const auto found = endpoints.find(path);
    if (found != endpoints.end()) return found->second;
    const Labels labels = {{"gen_ai_operation_name", operation_name(path)},
                           {"gen_ai_request_model", model}};
    return endpoints
        .try_emplace(
            path, Endpoint{first_token.Add(labels, kFirstToken), per_token.Add(labels, kPerToken),
                           inter_token.Add(labels, kPerToken), duration.Add(labels, kDuration),
                           queue.Add(labels, kDuration), prefill.Add(labels, kDuration),
                           decode.Add(labels, kDuration), prompt_tokens.Add(labels, kTokens),
                           generation_tokens.Add(labels, kTokens)})
        .first->second;
  }
};

Metrics::Metrics(const std::string& model, const std::string& version)
    : impl_(std::make_unique<Impl>()) {
  impl_->model = model;
  impl_->gauge("fathom:build_info", "Always 1; the labels say what is running")
      .Add({{"version", version}, {"model_name", model}})
      .Set(1);
  // Series that exist from the start: a rate over them needs their zero.
  for (const char* endpoint : {"/v1/chat/completions", "/v1/completions"}) {
    impl_->endpoint(endpoint);
  }
  for (const FinishReason reason : {FinishReason::kStop, FinishReason::kLength,
                                    FinishReason::kCancelled, FinishReason::kError}) {
    impl_->finished.Add({{"finished_reason", finish_reason_name(reason)}});
  }
  for (const Abort reason :
       {Abort::kClientGone, Abort::kSlowReader, Abort::kDrainTimeout, Abort::kShutdown}) {
    impl_->aborted.Add({{"reason", abort_name(reason)}});
  }
}

Metrics::~Metrics() = default;

void Metrics::request_started(const std::string& endpoint) {
  impl_->endpoint(endpoint);
}

void Metrics::first_token(const std::string& endpoint, double seconds_since_submit) {
  impl_->endpoint(endpoint).first_token.Observe(seconds_since_submit);
}

void Metrics::inter_token(const std::string& endpoint, double seconds) {
  impl_->endpoint(endpoint).inter_token.Observe(seconds);
}

void Metrics::request_finished(const std::string& endpoint, const StreamEvent& terminal) {
  Endpoint& series = impl_->endpoint(endpoint);
  const Usage& usage = terminal.usage;
  impl_->finished.Add({{"finished_reason", finish_reason_name(terminal.finish_reason)}})
      .Increment();
  series.queue.Observe(usage.queue_seconds);
  series.duration.Observe(usage.queue_seconds + usage.prefill_seconds + usage.decode_seconds);
  series.prompt_tokens.Observe(usage.prompt_tokens);
  series.generation_tokens.Observe(usage.completion_tokens);
  if (usage.completion_tokens == 0) return;
  series.prefill.Observe(usage.prefill_seconds);
  series.decode.Observe(usage.decode_seconds);
  if (usage.completion_tokens > 1) {
    series.per_token.Observe(usage.decode_seconds / (usage.completion_tokens - 1));
  }
}

void Metrics::connection_opened() {
  impl_->connections.Increment();
}
void Metrics::connection_closed() {
  impl_->connections.Decrement();
}
void Metrics::exchange_started() {
  impl_->active.Increment();
}

void Metrics::exchange_finished(const Exchange& exchange) {
  impl_->active.Decrement();
  const Labels labels = {{"http_request_method", exchange.method},
                         {"http_route", exchange.route},
                         {"http_response_status_code", std::to_string(exchange.status)}};
  impl_->http.Add(labels, kHttp).Observe(exchange.seconds);
}

void Metrics::exchange_aborted(Abort reason) {
  impl_->aborted.Add({{"reason", abort_name(reason)}}).Increment();
}

void Metrics::set_engine(std::function<EngineMetrics()> engine) {
  const std::lock_guard lock(impl_->mutex);
  impl_->engine = std::move(engine);
}

std::string Metrics::text() const {
  std::vector<prometheus::MetricFamily> families = impl_->registry.Collect();
  {
    const std::lock_guard lock(impl_->mutex);  // so that the engine stays while it is asked
    if (impl_->engine) append_engine_metrics(impl_->engine(), families);
  }
  append_process_metrics(families);
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace fathom
