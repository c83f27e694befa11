// The scripted model, the fake exchange and the fixture.
#include "tests/unit/http_api/api_fixture.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace fathom::testing {

Status ScriptModel::step(const StepPlan& plan, const std::vector<KvMemory>&, float* logits) {
  std::unique_lock<std::mutex> lock(mutex_);
  gate_.wait(lock, [this] { return open_; });
  if (fail) return Status(Code::kInternal, "The script failed.");
  for (size_t i = 0; i < plan.logit_rows.size(); ++i) {
    float* out = logits + static_cast<int64_t>(i) * config_.vocab_size;
    for (int64_t id = 0; id < config_.vocab_size; ++id) out[id] = 0.001f * static_cast<float>(id);
    const int32_t at = plan.positions[plan.logit_rows[i]] - (prompt_tokens_ - 1);
    if (at >= 0 && at < static_cast<int32_t>(script_.size())) out[script_[at]] = 50;
  }
  return Status();
}

void ScriptModel::set_script(std::vector<int32_t> script, int32_t prompt_tokens) {
  const std::lock_guard<std::mutex> lock(mutex_);
  script_ = std::move(script);
  prompt_tokens_ = prompt_tokens;
}

void ScriptModel::set_open(bool open) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = open;
  }
  gate_.notify_all();
}

void FakeExchange::post(std::function<void()> work) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    work_.push_back(std::move(work));
  }
  arrived_.notify_all();
}
void FakeExchange::respond(HttpResponse answer) {
  if (closed_) return;
  EXPECT_EQ(answers, 0);
  EXPECT_FALSE(streamed);
  response = std::move(answer);
  ++answers;
}
void FakeExchange::begin_stream(HttpResponse head) {
  if (closed_) return;
  EXPECT_FALSE(streamed);
  EXPECT_EQ(answers, 0);
  response = std::move(head);
  streamed = true;
}
void FakeExchange::send(std::string chunk) {
  if (closed_) return;
  EXPECT_TRUE(streamed);
  EXPECT_EQ(answers, 0);
  stream += chunk;
  chunks.push_back(std::move(chunk));
}
void FakeExchange::end_stream() {
  if (closed_) return;
  EXPECT_TRUE(streamed);
  EXPECT_EQ(answers, 0);
  ++answers;
}
void FakeExchange::disconnect() {
  closed_ = true;
  if (on_closed_) std::exchange(on_closed_, nullptr)();
}

bool FakeExchange::run_until(const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!done()) {
    std::function<void()> work;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (!arrived_.wait_until(lock, end, [this] { return !work_.empty(); })) return false;
      work = std::move(work_.front());
      work_.pop_front();
    }
    work();
  }
  return true;
}

std::string Answer::joined(const std::string& field, size_t choice) const {
  std::string out;
  for (const Json& event : events) {
    for (const Json& part : event.value("choices", Json::array())) {
      if (part.at("index") != choice) continue;
      const Json& holder = part.contains("delta") ? part.at("delta") : part;
      if (holder.contains(field)) out += holder.at(field).get<std::string>();
    }
  }
  return out;
}

std::vector<std::string> Answer::finish_reasons(size_t choice) const {
  std::vector<std::string> out;
  for (const Json& event : events) {
    for (const Json& part : event.value("choices", Json::array())) {
      if (part.at("index") == choice && !part.at("finish_reason").is_null()) {
        out.push_back(part.at("finish_reason"));
      }
    }
  }
  return out;
}

void ApiTest::serve(ApiOptions options) {
  if (options.served_model_names.empty()) options.served_model_names = {"tiny", "other"};
  if (!options.unix_time) options.unix_time = [] { return int64_t{1700000000}; };
  service_ = std::make_unique<ApiService>(*engine_, std::move(options), metrics_);
  routes_ = service_->routes();
}

void ApiTest::open_script(const std::string& template_file, ApiOptions options) {
  EngineParts parts;
  parts.name = "script";
  auto tokenizer = Tokenizer::load(kSource / "models" / "nano");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  parts.tokenizer = std::move(*tokenizer);
  if (template_file.empty()) {
    auto loaded = ChatTemplate::load(kSource / "models" / "nano");
    ASSERT_TRUE(loaded) << loaded.error().message();
    parts.chat_template.emplace(std::move(*loaded));
  } else {
    std::ifstream file(kSource / "tests" / "data" / "chat" / "templates" / template_file);
    std::stringstream source;
    source << file.rdbuf();
    auto tokens = ChatTemplate::load_special_tokens(kSource / "models" / "nano");
    auto loaded = ChatTemplate::from_source(source.str(), *tokens);
    ASSERT_TRUE(loaded) << loaded.error().message();
    parts.chat_template.emplace(std::move(*loaded));
  }
  auto model = std::make_unique<ScriptModel>(512);
  script_ = model.get();
  parts.model = std::move(model);
  parts.generation.eos_token_ids = {1};
  EngineOptions engine_options = engine_options_;
  engine_options.kv_memory_bytes = 1 << 20;
  auto engine = Engine::assemble(std::move(parts), engine_options);
  ASSERT_TRUE(engine) << engine.error().message();
  engine_ = std::move(*engine);
  serve(std::move(options));
}

void ApiTest::open_nano(ApiOptions options) {
  EngineOptions engine_options;
  engine_options.kv_memory_bytes = 64 << 20;
  engine_options.model.threads = 1;
  auto engine = Engine::open((kSource / "models" / "nano").string(), engine_options);
  ASSERT_TRUE(engine) << engine.error().message();
  engine_ = std::move(*engine);
  serve(std::move(options));
}

std::shared_ptr<FakeExchange> ApiTest::start(const std::string& path, const std::string& body,
                                             const std::string& id) {
  HttpRequest request;
  request.id = id;
  request.method = body.empty() ? "GET" : "POST";
  request.path = path;
  request.body = body;
  auto exchange = std::make_shared<FakeExchange>(std::move(request));
  const auto route = std::find_if(routes_.begin(), routes_.end(), [&](const Route& candidate) {
    return candidate.path == path && candidate.method == exchange->request().method;
  });
  if (route == routes_.end()) throw std::runtime_error("no route " + path);
  route->handler(exchange);
  return exchange;
}

Answer ApiTest::finish(FakeExchange& exchange) {
  EXPECT_TRUE(exchange.run_until([&] { return exchange.answers > 0; })) << "no answer";
  Answer answer;
  answer.status = exchange.response.status;
  for (const auto& [name, value] : exchange.response.headers) answer.headers[name] = value;
  if (!exchange.streamed) {
    answer.raw = exchange.response.body;
    answer.body = Json::parse(answer.raw);
    return answer;
  }
  answer.raw = exchange.stream;
  EXPECT_EQ(exchange.response.content_type, "text/event-stream");
  std::stringstream lines(answer.raw);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    if (line.starts_with("event: ")) {
      answer.names.push_back(line.substr(7));
    } else if (line == "data: [DONE]") {
      answer.done = true;
    } else {
      EXPECT_TRUE(line.starts_with("data: ")) << line;
      EXPECT_FALSE(answer.done) << "something after [DONE]: " << line;
      answer.events.push_back(Json::parse(line.substr(6)));
    }
  }
  return answer;
}

Answer ApiTest::post_text(const std::string& path, const std::string& body) {
  return finish(*start(path, body.empty() ? " " : body));
}
Answer ApiTest::get(const std::string& path) {
  return finish(*start(path, ""));
}

std::vector<int32_t> ApiTest::ids(const std::string& text) const {
  return *engine_->tokenizer()->encode(text, {false, true});
}
std::vector<int32_t> ApiTest::with_end(const std::string& text) const {
  std::vector<int32_t> out = ids(text);
  out.push_back(1);
  return out;
}

Answer ApiTest::chat_says(const std::string& text, Json body) {
  Json render;
  for (const char* name : {"messages", "tools", "chat_template_kwargs", "continue_final_message"}) {
    if (body.contains(name)) render[name] = body[name];
  }
  if (body.value("tool_choice", Json()) == "none") render.erase("tools");
  const Answer prompt = post("/tokenize", render);
  EXPECT_EQ(prompt.status, 200) << prompt.raw;
  script_->set_script(with_end(text), prompt.body.value("count", 0));
  return post("/v1/chat/completions", body);
}

Answer ApiTest::completion_says(const std::string& text, Json body) {
  const Answer prompt = post("/tokenize", {{"prompt", body["prompt"]}});
  EXPECT_EQ(prompt.status, 200) << prompt.raw;
  script_->set_script(with_end(text), prompt.body.value("count", 0));
  return post("/v1/completions", body);
}

Json ApiTest::weather_tools() {
  return Json::parse(R"([{"type": "function", "function": {"name": "weather",
      "description": "Weather of a city", "parameters": {"type": "object",
      "properties": {"city": {"type": "string"}}, "required": ["city"]}}},
      {"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}}])");
}

}  // namespace fathom::testing
