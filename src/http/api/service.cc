// Fills in the options' defaults; draws seeds.
#include "http/api/service.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace fathom::api {

namespace {

int64_t system_time() {
  using std::chrono::seconds;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<seconds>(now).count();
}

std::mt19937_64 seeded() {
  std::random_device device;
  return std::mt19937_64((uint64_t{device()} << 32) | device());
}

}  // namespace

Service::Service(Engine& engine, ApiOptions options, ServiceMetrics& metrics)
    : engine_(engine),
      options_(std::move(options)),
      metrics_(metrics),
      fingerprint_(engine.fingerprint()),
      entropy_(seeded()) {
  if (options_.served_model_names.empty()) options_.served_model_names.push_back(engine.name());
  if (!options_.unix_time) options_.unix_time = system_time;
  started_ = options_.unix_time();
}

bool Service::serves(const std::string& model) const {
  return std::find(model_names().begin(), model_names().end(), model) != model_names().end();
}

Result<GrammarCompiler*> Service::grammars() const {
  std::call_once(grammars_made_, [this] {
    const Tokenizer* tokenizer = engine_.tokenizer();
    grammars_ = tokenizer != nullptr
                    ? GrammarCompiler::create(*tokenizer, engine_.stop_ids())
                    : error(Code::kUnsupported,
                            "The model's folder has no tokenizer.json, which structured output "
                            "needs.");
  });
  if (!grammars_) return error(grammars_.error());
  return grammars_->get();
}

uint64_t Service::draw_seed() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return entropy_() >> 11;
}

}  // namespace fathom::api
