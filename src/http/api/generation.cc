// Choices to the engine, events to the reply.
#include "http/api/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/clock.h"
#include "http/api/request_log.h"

namespace fathom::api {

namespace {

// Names in a header: printable ASCII, bounded.
std::string header_list(const std::vector<std::string>& names) {
  constexpr size_t kMost = 1000;
  std::string out;
  for (const std::string& name : names) {
    std::string clean;
    for (const char c : name) clean += c > ' ' && c < 0x7F && c != ',' ? c : '?';
    if (out.size() + clean.size() > kMost) return out + ", ...";
    if (!out.empty()) out += ", ";
    out += clean;
  }
  return out;
}

ApiError stream_failure(const StreamEvent& event) {
  if (event.finish_reason == FinishReason::kCancelled) {
    return {503, "The answer was ended: the server is stopping.", "", "cancelled"};
  }
  ApiError error = from_status(event.error);
  if (error.status == 400 || error.status == 404) error.status = 500;  // the request was accepted
  return error;
}

// The engine's messages begin with the parameter's name.
std::string parameter_named_in(const Status& status) {
  for (const Parameter& parameter : generation_parameters()) {
    if (status.message().starts_with(parameter.name + " ")) return parameter.name;
  }
  return "";
}

}  // namespace

ApiResult<void> check_room(const Service& service, const Job& job) {
  const int64_t context = service.engine().max_model_len();
  for (const auto& prompt : job.prompts) {
    const auto tokens = static_cast<int64_t>(prompt.size());
    if (tokens < context || (tokens == context && job.params.max_tokens == 0)) continue;
    ApiError error = bad_request(
        job.endpoint == "/v1/completions" ? "prompt" : "messages",
        fmt::format("The prompt has {} tokens, but the context holds {} and the answer needs at "
                    "least one; shorten the prompt.",
                    tokens, context));
    error.code = "context_length_exceeded";
    return api::fail(std::move(error));
  }
  return {};
}

Generation::Generation(std::shared_ptr<const Service> service, std::shared_ptr<Exchange> exchange,
                       Job job)
    : service_(std::move(service)), exchange_(std::move(exchange)), job_(std::move(job)) {
  created_ = service_->now();
}

void Generation::start(std::shared_ptr<const Service> service, std::shared_ptr<Exchange> exchange,
                       Job job) {
  if (ApiResult<void> fits = check_room(*service, job); !fits) {
    return exchange->respond(error_response(fits.error(), job.dialect));
  }
  if (!job.params.sampling.seed) job.params.sampling.seed = service->draw_seed();
  const Dialect dialect = job.dialect;
  const std::shared_ptr<Generation> self(
      new Generation(std::move(service), std::move(exchange), std::move(job)));
  if (ApiResult<void> accepted = self->submit(); !accepted) {
    self->answered_ = true;
    self->cancel_all();
    return self->exchange_->respond(error_response(accepted.error(), dialect));
  }
  self->job_.reply->set_headers(self->headers());
  self->job_.reply->begin(*self->exchange_, self->head());
  self->exchange_->on_closed([weak = std::weak_ptr<Generation>(self)] {
    if (const auto generation = weak.lock()) {
      generation->answered_ = true;
      generation->cancel_all();
    }
  });
}

ApiResult<Request> Generation::engine_request(const std::vector<int32_t>& prompt) {
  Request request;
  request.id = fmt::format("{}-{}", exchange_->request().id, service_->next_number());
  request.prompt = prompt;
  request.sampling = job_.params.sampling;
  const int64_t room = service_->engine().max_model_len() - static_cast<int64_t>(prompt.size());
  const int64_t most = std::min(job_.params.max_tokens.value_or(room), room);
  request.sampling.max_tokens = static_cast<int32_t>(std::min<int64_t>(most, INT32_MAX));
  request.sampling.min_tokens = std::min(request.sampling.min_tokens, request.sampling.max_tokens);
  request.prompt_logprobs = job_.params.prompt_logprobs;
  request.priority = job_.params.priority;
  request.cache_salt = job_.params.cache_salt;
  request.timeout_seconds = service_->options().request_timeout_seconds;
  if (job_.structure.grammar) {
    auto mask = job_.structure.grammar->make_mask(job_.structure.reasoning);
    if (!mask) return api::fail(from_status(mask.error()));
    request.token_mask = std::move(*mask);
  }
  request.on_event = [self = shared_from_this()] { self->wake(); };
  return request;
}

// What was submitted before a refusal is cancelled by the caller and still read to its end.
ApiResult<void> Generation::submit() {
  const int n = job_.params.n;
  choices_.reserve(job_.prompts.size() * static_cast<size_t>(n));
  for (const std::vector<int32_t>& prompt : job_.prompts) {
    const double now = now_seconds();
    FATHOM_API_ASSIGN(Request request, engine_request(prompt));
    auto streams = service_->engine().submit_many(std::move(request), n);
    if (!streams) {
      return api::fail(from_status(streams.error(), parameter_named_in(streams.error())));
    }
    for (std::shared_ptr<TokenStream>& stream : *streams) {
      Choice choice;
      choice.stream = std::move(stream);
      choice.submitted = now;
      choices_.push_back(std::move(choice));
      ++open_;
      service_->metrics().request_started(job_.endpoint);
    }
  }
  return {};
}

// The engine's thread.
void Generation::wake() {
  if (awake_.exchange(true)) return;
  exchange_->post([self = shared_from_this()] { self->drain(); });
}

void Generation::drain() {
  awake_ = false;
  for (size_t i = 0; i < choices_.size(); ++i) {
    const std::shared_ptr<TokenStream> stream = choices_[i].stream;
    if (!stream) continue;
    while (const std::optional<StreamEvent> event = stream->next(0)) handle(i, *event);
    // The stream's callback holds this object: letting go of it ends the circle.
    if (choices_[i].finished) choices_[i].stream.reset();
  }
}

void Generation::handle(size_t index, const StreamEvent& event) {
  Choice& choice = choices_[index];
  measure(index, event);
  charge(index, event);
  if (service_->options().request_log) record(&choice, event);
  if (event.finished) {
    choice.finished = true;
    choice.finish_reason = event.finish_reason;
    --open_;
  }
  if (answered_) return;
  if (event.finished && (event.finish_reason == FinishReason::kError ||
                         event.finish_reason == FinishReason::kCancelled)) {
    return fail(stream_failure(event));
  }
  job_.reply->event(*exchange_, index, event);
  if (open_ > 0) return;
  answered_ = true;
  job_.reply->end(*exchange_);
  if (service_->options().request_log) log_answer();
}

void Generation::measure(size_t index, const StreamEvent& event) {
  Choice* choice = &choices_[index];
  ServiceMetrics& metrics = service_->metrics();
  if (!event.token_ids.empty()) {
    const double now = now_seconds();
    if (choice->last_token < 0) {
      metrics.first_token(job_.endpoint, now - choice->submitted);
    } else {
      metrics.inter_token(job_.endpoint, now - choice->last_token);
    }
    choice->last_token = now;
  }
  if (event.finished) metrics.request_finished(job_.endpoint, event);
}

// As tokens come, so that a client that leaves has paid for what it got; the prompt once for all of
// its choices, as in usage.
void Generation::charge(size_t index, const StreamEvent& event) {
  const auto n = static_cast<size_t>(job_.params.n);
  Choice& first = choices_[index - index % n];
  Choice& choice = choices_[index];
  int64_t tokens = static_cast<int64_t>(event.token_ids.size());
  if (event.finished) tokens = event.usage.completion_tokens - choice.charged;
  choice.charged += tokens;
  const bool computed = !event.token_ids.empty() || !event.prompt_logprobs.empty();
  if (computed && !first.prompt_charged) {
    first.prompt_charged = true;
    tokens += static_cast<int64_t>(job_.prompts[index / n].size());
  }
  if (tokens != 0) exchange_->charge(tokens);
}

void Generation::record(Choice* choice, const StreamEvent& event) const {
  choice->token_ids.insert(choice->token_ids.end(), event.token_ids.begin(), event.token_ids.end());
  choice->text += event.text;
  choice->logprobs.insert(choice->logprobs.end(), event.logprobs.begin(), event.logprobs.end());
}

void Generation::fail(const ApiError& error) {
  answered_ = true;
  cancel_all();
  job_.reply->fail(*exchange_, error);
}

void Generation::cancel_all() {
  for (const Choice& choice : choices_) {
    if (choice.stream && !choice.finished) {
      service_->engine().cancel(choice.stream->request_id());
    }
  }
}

void Generation::log_answer() const {
  RequestLogEntry entry;
  entry.id = exchange_->request().id;
  entry.endpoint = job_.endpoint;
  entry.model = job_.model;
  entry.created = created_;
  entry.seed = *job_.params.sampling.seed;
  entry.fingerprint = service_->fingerprint();
  entry.body = &job_.body;
  for (size_t i = 0; i < choices_.size(); ++i) {
    const Choice& choice = choices_[i];
    entry.choices.push_back({choice.finish_reason, choice.text, &choice.token_ids, &choice.logprobs,
                             job_.reply->choice_hash(i)});
  }
  service_->options().request_log(request_log_line(entry));
}

AnswerHead Generation::head() const {
  return {exchange_->request().id, created_, job_.model, service_->fingerprint(),
          *job_.params.sampling.seed};
}

std::vector<std::pair<std::string, std::string>> Generation::headers() const {
  std::vector<std::pair<std::string, std::string>> out;
  out.emplace_back("X-Fathom-Seed", fmt::format("{}", *job_.params.sampling.seed));
  if (!job_.ignored_fields.empty()) {
    out.emplace_back("X-Fathom-Ignored-Fields", header_list(job_.ignored_fields));
  }
  return out;
}

}  // namespace fathom::api
