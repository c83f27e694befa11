// Runs logged requests through the API's own routes.
#include "http/api/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "http/api/json.h"

namespace fathom {

using api::Json;

namespace {

struct NoMetrics : ServiceMetrics {
  void request_started(const std::string&) override {}
  void first_token(const std::string&, double) override {}
  void inter_token(const std::string&, double) override {}
  void request_finished(const std::string&, const StreamEvent&) override {}
};

// The caller's thread is the connection's: it runs what is posted until the answer is complete.
class LocalExchange : public Exchange {
 public:
  explicit LocalExchange(HttpRequest request) : request_(std::move(request)) {}
  const HttpRequest& request() const override { return request_; }
  void post(std::function<void()> work) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      work_.push_back(std::move(work));
    }
    arrived_.notify_one();
  }
  void respond(HttpResponse response) override {
    response_ = std::move(response);
    done_ = true;
  }
  void begin_stream(HttpResponse head) override { response_ = std::move(head); }
  void send(std::string) override {}
  void end_stream() override { done_ = true; }
  void on_closed(std::function<void()>) override {}
  void charge(int64_t) override {}

  const HttpResponse& wait() {
    while (!done_) {
      std::function<void()> work;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        arrived_.wait(lock, [this] { return !work_.empty(); });
        work = std::move(work_.front());
        work_.pop_front();
      }
      work();
    }
    return response_;
  }

 private:
  HttpRequest request_;
  HttpResponse response_;
  bool done_ = false;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> work_;
};

// Where two lists differ first; nullopt-like SIZE_MAX if they are equal.
size_t first_difference(const Json& a, const Json& b) {
  const size_t both = std::min(a.size(), b.size());
  for (size_t i = 0; i < both; ++i) {
    if (a[i] != b[i]) return i;
  }
  return a.size() == b.size() ? SIZE_MAX : both;
}

void compare_choice(const Json& logged, const Json& now, size_t index,
                    std::vector<std::string>* out) {
  const auto add = [&](const std::string& what) {
    out->push_back(fmt::format("Choice {}: {}.", index, what));
  };
  for (const char* name : {"token_ids", "logprobs"}) {
    const Json& a = logged.at(name);
    const Json& b = now.at(name);
    const size_t at = first_difference(a, b);
    if (at == SIZE_MAX) continue;
    const auto shown = [at](const Json& list) {
      return at < list.size() ? api::dump(list[at]) : "nothing";
    };
    add(fmt::format("{} differ first at token {}: {} was logged, {} came now", name, at, shown(a),
                    shown(b)));
  }
  for (const char* name : {"text", "finish_reason", "bytes_xxh64"}) {
    if (logged.at(name) == now.at(name)) continue;
    add(fmt::format("{} was {} and is {} now", name, api::dump(logged.at(name)),
                    api::dump(now.at(name))));
  }
}

}  // namespace

struct Replayer::Impl {
  Engine& engine;
  ApiOptions options;
  NoMetrics metrics;
};

Replayer::Replayer(Engine& engine, ApiOptions options)
    : impl_(new Impl{engine, std::move(options), {}}) {}
Replayer::~Replayer() = default;

Result<ReplayOutcome> Replayer::run(std::string_view line) {
  FATHOM_ASSIGN(const Json entry, api::parse_json(line));
  ReplayOutcome outcome;
  try {
    outcome.id = entry.at("id").get<std::string>();
    Json body = entry.at("request");
    body["seed"] = entry.at("seed");
    ApiOptions options = impl_->options;
    options.served_model_names = {entry.at("model").get<std::string>()};
    options.unix_time = [time = entry.at("time").get<int64_t>()] { return time; };
    std::string written;
    options.request_log = [&written](std::string_view answered) { written = answered; };

    HttpRequest request;
    request.id = outcome.id;
    request.method = "POST";
    request.path = entry.at("endpoint").get<std::string>();
    request.body = api::dump(body);
    const std::vector<Route> routes =
        ApiService(impl_->engine, std::move(options), impl_->metrics).routes();
    const auto route = std::find_if(routes.begin(), routes.end(), [&](const Route& candidate) {
      return candidate.method == "POST" && candidate.path == request.path;
    });
    if (route == routes.end()) {
      return error(Code::kInvalidArgument,
                   fmt::format("The endpoint {} does not exist.", request.path));
    }
    const auto exchange = std::make_shared<LocalExchange>(std::move(request));
    route->handler(exchange);
    const HttpResponse& response = exchange->wait();
    if (written.empty()) {
      return error(Code::kInvalidArgument,
                   fmt::format("The request {} was answered with status {} now: {}", outcome.id,
                               response.status, response.body));
    }
    const Json now = Json::parse(written);
    if (entry.at("fingerprint") != now.at("fingerprint")) {
      outcome.differences.push_back(
          fmt::format("The fingerprint was {} and is {} now: another model, version or backend.",
                      api::dump(entry.at("fingerprint")), api::dump(now.at("fingerprint"))));
    }
    const Json& logged = entry.at("choices");
    if (logged.size() != now.at("choices").size()) {
      outcome.differences.push_back("The number of choices differs.");
      return outcome;
    }
    for (size_t i = 0; i < logged.size(); ++i) {
      compare_choice(logged[i], now.at("choices")[i], i, &outcome.differences);
    }
    return outcome;
  } catch (const Json::exception& e) {
    return error(Code::kInvalidArgument,
                 fmt::format("The line is no entry of a request log: {}.", e.what()));
  }
}

}  // namespace fathom
