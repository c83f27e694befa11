// Drives ApiService without sockets: a scripted model that says what a test wants, an exchange that
// collects the answer.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/parts.h"
#include "http/api/api_service.h"

namespace fathom::testing {

using Json = nlohmann::ordered_json;

// Says the script token by token, whatever the prompt is: the logit of the wanted token is high.
// One sequence at a time, or several that say the same.
class ScriptModel : public StepModel {
 public:
  explicit ScriptModel(int64_t vocab_size) : pool_(1) {
    config_.vocab_size = vocab_size;
    config_.max_position_embeddings = 1024;
    layout_.groups.push_back({"nothing", KvGrowth::kPerToken, 1, 0, sizeof(int64_t)});
  }
  const ModelConfig& config() const override { return config_; }
  const KvLayout& kv_layout() const override { return layout_; }
  uint64_t weight_bytes() const override { return 0; }
  uint64_t fingerprint() const override { return 0x5C819; }
  ThreadPool& pool() override { return pool_; }
  Status step(const StepPlan& plan, const std::vector<KvMemory>&, float* logits) override;

  void set_script(std::vector<int32_t> script, int32_t prompt_tokens);
  // Steps wait while closed.
  void set_open(bool open);
  bool fail = false;  // steps fail; set while no request runs

 private:
  ModelConfig config_;
  KvLayout layout_;
  ThreadPool pool_;
  std::mutex mutex_;
  std::condition_variable gate_;
  bool open_ = true;
  std::vector<int32_t> script_;
  int32_t prompt_tokens_ = 0;
};

// Collects one answer. The test's thread is the connection's.
class FakeExchange : public Exchange {
 public:
  explicit FakeExchange(HttpRequest request) : request_(std::move(request)) {}
  const HttpRequest& request() const override { return request_; }
  void post(std::function<void()> work) override;
  void respond(HttpResponse response) override;
  void begin_stream(HttpResponse head) override;
  void send(std::string chunk) override;
  void end_stream() override;
  void on_closed(std::function<void()> callback) override { on_closed_ = std::move(callback); }
  void charge(int64_t tokens) override { charged += tokens; }

  // Runs posted work until `done` says so; false after ten seconds without.
  bool run_until(const std::function<bool()>& done);
  void disconnect();  // the client goes

  HttpResponse response;
  bool streamed = false;
  int answers = 0;  // respond() and end_stream()
  std::string stream;
  std::vector<std::string> chunks;
  int64_t charged = 0;

 private:
  HttpRequest request_;
  std::function<void()> on_closed_;
  bool closed_ = false;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> work_;
};

struct CountingMetrics : ServiceMetrics {
  void request_started(const std::string&) override { ++started; }
  void first_token(const std::string&, double) override { ++first_tokens; }
  void inter_token(const std::string&, double) override { ++gaps; }
  void request_finished(const std::string&, const StreamEvent& terminal) override {
    ++finished;
    EXPECT_TRUE(terminal.finished);
  }
  std::atomic<int> started{0}, first_tokens{0}, gaps{0}, finished{0};
};

// What came back, read.
struct Answer {
  int status = 0;
  std::map<std::string, std::string> headers;
  std::string raw;                 // body or stream
  Json body;                       // of an answer that was not streamed
  std::vector<Json> events;        // data of a stream, without [DONE]
  std::vector<std::string> names;  // of its events, where given
  bool done = false;               // the stream ended with [DONE]

  const Json& choice(size_t i = 0) const { return body.at("choices").at(i); }
  std::string error() const { return body.at("error").at("message"); }
  Json param() const { return body.at("error").at("param"); }
  // A field of the deltas of one choice, joined.
  std::string joined(const std::string& field, size_t choice = 0) const;
  // The finish reasons of one choice: exactly one is right.
  std::vector<std::string> finish_reasons(size_t choice = 0) const;
};

class ApiTest : public ::testing::Test {
 protected:
  static inline const std::filesystem::path kSource = FATHOM_SOURCE_DIR;

  // A scripted model with nano's tokenizer. "" = nano's template, else a file of tests/data/chat.
  void open_script(const std::string& template_file = "", ApiOptions options = {});
  void open_nano(ApiOptions options = {});

  std::shared_ptr<FakeExchange> start(const std::string& path, const std::string& body,
                                      const std::string& id = "test");
  Answer finish(FakeExchange& exchange);
  Answer post(const std::string& path, const Json& body) { return post_text(path, body.dump()); }
  Answer post_text(const std::string& path, const std::string& body);
  Answer get(const std::string& path);
  // The model's next answer to this chat is `text` (special tokens by their names), then EOS.
  Answer chat_says(const std::string& text, Json body);
  Answer completion_says(const std::string& text, Json body);
  std::vector<int32_t> ids(const std::string& text) const;

  static Json user(const std::string& text) {
    return Json::array({{{"role", "user"}, {"content", text}}});
  }
  static Json weather_tools();

  EngineOptions engine_options_;  // of open_script()
  ScriptModel* script_ = nullptr;
  std::unique_ptr<Engine> engine_;
  CountingMetrics metrics_;
  std::unique_ptr<ApiService> service_;
  std::vector<Route> routes_;

 private:
  void serve(ApiOptions options);
  std::vector<int32_t> with_end(const std::string& text) const;
};

}  // namespace fathom::testing
