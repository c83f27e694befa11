// The life of `fathom serve`: listen, load, serve, drain, end.
#include <fmt/format.h>
#include <sys/resource.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "apps/commands.h"
#include "apps/console.h"
#include "apps/demo.h"
#include "apps/generate.h"
#include "apps/serve.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/log.h"
#include "http/api/api_service.h"

namespace fathom::apps {
namespace {

constexpr uint64_t kMaxKeyFile = 4 << 20;
constexpr auto kDrainPoll = std::chrono::milliseconds(20);
constexpr double kAbortSeconds = 3;  // for the last bytes of answers that were cut

EngineOptions serve_engine_options(const ServeFlags& flags) {
  EngineOptions options = engine_options(flags.engine);
  options.max_num_seqs = flags.max_num_seqs;
  options.max_num_batched_tokens = flags.max_num_batched_tokens;
  options.max_queued_requests = flags.max_queued_requests;
  options.prefix_caching = flags.prefix_caching;
  options.request_timeout_seconds = flags.request_timeout;
  options.chat_template_file = flags.chat_template;
  options.default_seed = flags.seed;
  return options;
}

ServerOptions server_options(const ServeFlags& flags) {
  ServerOptions options = flags.server;
  options.max_body_bytes = flags.max_body_bytes;
  options.max_header_bytes = static_cast<uint32_t>(flags.max_header_bytes);
  options.log_format = flags.log_format == "json" ? LogFormat::kJson : LogFormat::kText;
  return options;
}

std::vector<std::string> served_names(const ServeFlags& flags) {
  if (!flags.served_names.empty()) return flags.served_names;
  std::string name = flags.engine.model.model;
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  return {name};
}

// Every connection is a descriptor; the usual soft limit of 1024 is soon reached.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

Status check_dtype(const ServeFlags& flags, const Engine& engine) {
  const DType stored = engine.config().torch_dtype;
  const bool wants_f32 = flags.dtype == "float32" || flags.dtype == "float";
  if (flags.dtype == "auto" || (wants_f32 && stored == DType::kF32) ||
      (flags.dtype == "bfloat16" && stored == DType::kBF16)) {
    return {};
  }
  return {Code::kUnsupported,
          fmt::format("--dtype {} would convert this model's weights, which are stored as {}; "
                      "fathom runs weights as they are stored and adds up in float32. Use --dtype "
                      "auto.",
                      flags.dtype, dtype_name(stored))};
}

// Owned by the main thread, which runs its io_context.
class ServerProcess {
 public:
  explicit ServerProcess(const ServeFlags& flags)
      : flags_(flags),
        names_(served_names(flags)),
        metrics_(names_.front(), FATHOM_VERSION),
        signals_(control_),
        timer_(control_) {}

  int run();

 private:
  Status start();
  void load();
  void on_loaded(Result<std::unique_ptr<Engine>> engine);
  Result<ApiOptions> api_options() const;
  void wait_for_signal();
  void on_signal(int number);
  void reload_keys();
  void drain();
  void poll_drain();
  void finish(int code);
  void print_summary() const;

  const ServeFlags& flags_;
  std::vector<std::string> names_;
  ApiKeys keys_;
  Metrics metrics_;
  boost::asio::io_context control_{1};
  boost::asio::signal_set signals_;
  boost::asio::steady_timer timer_;
  // The engine outlives the server, whose routes refer to it.
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<HttpServer> server_;
  std::thread loader_;
  bool loading_ = true;
  bool draining_ = false;
  bool aborted_ = false;
  double drain_end_ = 0;
  int exit_code_ = kExitOk;
};

Status ServerProcess::start() {
  FATHOM_ASSIGN_OR_STATUS(std::vector<ApiKey> keys, read_api_keys(flags_));
  FATHOM_RETURN_IF_ERROR(keys_.replace(std::move(keys)));
  FATHOM_ASSIGN_OR_STATUS(
      server_, HttpServer::listen(server_options(flags_), keys_, metrics_, FATHOM_VERSION));
  return {};
}

int ServerProcess::run() {
  std::signal(SIGPIPE, SIG_IGN);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) signals_.add(number);
  const Status started = start();
  if (!started.ok()) return fail(started);
  print(
      fmt::format("Listening on {}; loading {} ...\n", server_->url(), flags_.engine.model.model));
  flush_output();
  if (!server_->loopback() && !keys_.required()) {
    log::warn(
        "ANYBODY who can reach this machine may use the model: the server listens on {} and asks "
        "for no API key. Give --api-key-file, or listen on 127.0.0.1.",
        server_->url());
  }
  wait_for_signal();
  loader_ = std::thread([this] { load(); });
  control_.run();
  server_->stop();
  if (loading_) {
    // Loading cannot be interrupted, and nothing that matters is lost by leaving in its middle.
    close_output();
    std::_Exit(exit_code_);
  }
  loader_.join();
  metrics_.set_engine({});
  server_.reset();
  engine_.reset();
  return exit_code_;
}

void ServerProcess::load() {
  Result<std::unique_ptr<Engine>> engine = error(Code::kInternal, "The model was not loaded.");
  try {
    engine = open_engine(flags_.engine.model.model, serve_engine_options(flags_));
  } catch (const std::exception& e) {
    engine = error(Code::kInternal, fmt::format("Loading the model failed: {}.", e.what()));
  }
  auto shared = std::make_shared<Result<std::unique_ptr<Engine>>>(std::move(engine));
  boost::asio::post(control_, [this, shared] { on_loaded(std::move(*shared)); });
}

void ServerProcess::on_loaded(Result<std::unique_ptr<Engine>> engine) {
  loading_ = false;
  if (!engine) {
    finish(fail(engine.error()));
    return;
  }
  engine_ = std::move(*engine);
  const Status dtype = check_dtype(flags_, *engine_);
  if (!dtype.ok()) {
    finish(fail(dtype));
    return;
  }
  metrics_.set_engine([this] { return engine_->metrics(); });
  Result<ApiOptions> api = api_options();
  if (!api) {
    finish(fail(api.error()));
    return;
  }
  server_->serve(ApiService(*engine_, std::move(*api), metrics_).routes());
  print_summary();
}

Result<ApiOptions> ServerProcess::api_options() const {
  ApiOptions options;
  options.served_model_names = names_;
  options.chat_template_kwargs = template_kwargs_object(flags_.template_kwargs);
  options.thinking = flags_.thinking;
  options.version = FATHOM_VERSION;
  options.request_timeout_seconds = flags_.request_timeout;
  if (!flags_.request_log.empty()) {
    FATHOM_ASSIGN(options.request_log, open_request_log(flags_.request_log));
  }
  return options;
}

void ServerProcess::wait_for_signal() {
  signals_.async_wait([this](boost::system::error_code ec, int number) {
    if (ec) return;
    on_signal(number);
    wait_for_signal();
  });
}

void ServerProcess::on_signal(int number) {
  if (number == SIGHUP) {
    reload_keys();
  } else if (loading_) {
    finish(kExitOk);
  } else if (draining_) {
    log::warn("Second signal: the server stops now.");
    finish(kExitInterrupted);
  } else {
    drain();
  }
}

void ServerProcess::reload_keys() {
  Result<std::vector<ApiKey>> keys = read_api_keys(flags_);
  const Status replaced = keys ? keys_.replace(std::move(*keys)) : keys.error();
  if (replaced.ok()) {
    log::info("API keys were read again: {} are accepted.", keys_.count());
  } else {
    log::error("{} The old API keys stay in force.", replaced.message());
  }
}

void ServerProcess::drain() {
  draining_ = true;
  drain_end_ = now_seconds() + flags_.drain_timeout;
  server_->begin_drain();
  log::info("The server shuts down; {} running requests have {} s to finish.",
            server_->running_work(), flags_.drain_timeout);
  poll_drain();
}

void ServerProcess::poll_drain() {
  if (server_->running_work() == 0) {
    finish(kExitOk);
    return;
  }
  if (now_seconds() >= drain_end_) {
    if (aborted_) {
      finish(kExitOk);
      return;
    }
    log::warn("{} requests did not finish in time and are cancelled.", server_->running_work());
    aborted_ = true;
    drain_end_ = now_seconds() + kAbortSeconds;
    server_->abort_work();
  }
  timer_.expires_after(kDrainPoll);
  timer_.async_wait([this](boost::system::error_code ec) {
    if (!ec) poll_drain();
  });
}

void ServerProcess::finish(int code) {
  exit_code_ = code;
  control_.stop();
}

void ServerProcess::print_summary() const {
  const EngineOptions& options = engine_->options();
  const EngineMetrics now = engine_->metrics();
  std::string names = names_.front();
  for (size_t i = 1; i < names_.size(); ++i) names += ", " + names_[i];
  const auto row = [](const char* what, const std::string& value) {
    print(fmt::format("  {:<11}{}\n", what, value));
  };
  print(fmt::format("fathom {} is ready.\n", FATHOM_VERSION));
  row("address", server_->url() + (server_->loopback() ? " (this machine only)" : ""));
  row("model", fmt::format("{} as {}, {}", engine_->name(), names, engine_->fingerprint()));
  row("weights", human_bytes(now.weight_bytes));
  row("KV cache",
      fmt::format("{} in {} pages of {} tokens; prefix cache {}", human_bytes(now.kv_memory_bytes),
                  now.kv_pages_total, options.block_size, options.prefix_caching ? "on" : "off"));
  row("context", fmt::format("{} tokens", engine_->max_model_len()));
  row("batch", fmt::format("{} sequences, {} rows a step", options.max_num_seqs,
                           options.max_num_batched_tokens));
  row("API keys", keys_.required() ? std::to_string(keys_.count()) : "none asked for");
  flush_output();
}

}  // namespace

Result<std::vector<ApiKey>> read_api_keys(const ServeFlags& flags) {
  std::vector<ApiKey> keys;
  for (size_t i = 0; i < flags.api_keys.size(); ++i) {
    keys.push_back(make_api_key(fmt::format("flag-{}", i + 1), flags.api_keys[i]));
  }
  if (flags.api_key_file.empty()) return keys;
  FATHOM_ASSIGN(const std::string text, read_text_file(flags.api_key_file, kMaxKeyFile));
  FATHOM_ASSIGN(std::vector<ApiKey> more, parse_api_keys(text, flags.api_key_file));
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

int run_server(const ServeFlags& flags) {
  set_log_format(flags.log_format == "json" ? LogFormat::kJson : LogFormat::kText);
  raise_descriptor_limit();
  return ServerProcess(flags).run();
}

}  // namespace fathom::apps
